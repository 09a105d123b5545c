package frontier

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	downloaderv1 "lycosa.dev/proto/gen/lycosa/downloader/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// The pages within max_depth of the seeds, and the depth of each, are the same
// in whatever order pages are fetched and over restarts: as a breadth-first
// search finds them.
func TestDepthIsExact(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 60
	}
	for round := range rounds {
		rng := rand.New(rand.NewPCG(uint64(round), 3))
		pages := 5 + rng.IntN(60)
		limit := uint32(rng.IntN(6))
		url := func(n int) string { return fmt.Sprintf("http://h%d.test/%d", n%7, n) }
		number := map[string]int{}
		links := make([][]int, pages)
		for n := range pages {
			number[url(n)] = n
			if n+1 < pages && rng.IntN(10) < 8 {
				links[n] = append(links[n], n+1) // long ways
			}
			for range rng.IntN(4) {
				links[n] = append(links[n], rng.IntN(pages)) // and short cuts
			}
		}
		want := map[string]uint32{url(0): 0}
		for queue := []int{0}; len(queue) > 0; queue = queue[1:] {
			for _, to := range links[queue[0]] {
				if _, ok := want[url(to)]; !ok {
					want[url(to)] = want[url(queue[0])] + 1
					queue = append(queue, to)
				}
			}
		}
		mem := store.NewMemory()
		r := newRig(t, mem)
		strategy := jobv1.OrderStrategy(rng.IntN(4))
		r.job("j", testSpec(open24, func(s *jobv1.Spec) {
			s.Limits.MaxDepth = proto.Uint32(limit)
			s.Order = &jobv1.Order{Strategy: strategy}
		}), url(0))
		var out []*crawlv1.Lease
		done := map[string]bool{}
		for steps := 0; ; steps++ {
			if rng.IntN(3) > 0 || len(out) == 0 {
				out = append(out, r.lease(1+rng.IntN(3))...)
			}
			if len(out) == 0 {
				if l := r.wait(time.Hour); l != nil {
					out = append(out, l)
					continue
				}
				break
			}
			if rng.IntN(40) == 0 { // the process dies with what is out
				_ = r.f.Close()
				mem = mem.Reopen()
				r.open(mem)
				out = nil
				continue
			}
			i := rng.IntN(len(out))
			l := out[i]
			out = append(out[:i], out[i+1:]...)
			if done[l.Url] {
				t.Fatalf("round %d: %s was fetched twice", round, l.Url)
			}
			var cands []*crawlv1.Candidate
			for _, to := range links[number[l.Url]] {
				cands = append(cands, candidates(l.Depth+1, url(to))...)
			}
			// A page of very many links comes in parts, the outcome last; it may
			// come nearer, or its lease be lost, between them.
			part := uint32(0)
			for len(cands) > 0 && rng.IntN(3) > 0 {
				part++
				n := 1 + rng.IntN(len(cands))
				r.part(outcomeOf(l, 200), part, cands[:n]...)
				cands = cands[n:]
				for len(out) > 0 && rng.IntN(2) == 0 {
					o := out[0]
					out = out[1:]
					done[o.Url] = true
					var cands []*crawlv1.Candidate
					for _, to := range links[number[o.Url]] {
						cands = append(cands, candidates(o.Depth+1, url(to))...)
					}
					r.commit(outcomeOf(o, 200), cands...)
				}
			}
			if part > 0 && rng.IntN(10) == 0 {
				if err := r.f.Release(r.ctx, l.Id, &downloaderv1.FetchAnswer{Answer: &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_RETRY_LATER}}); err != nil {
					t.Fatal(err)
				}
				continue
			}
			done[l.Url] = true
			r.commit(outcomeOf(l, 200), cands...)
		}
		s := r.wantEnd("j", reasonEmpty)
		if s.Counters.Done != uint64(len(done)) {
			t.Errorf("round %d: counters %v, %d fetched", round, s.Counters, len(done))
		}
		for u, d := range want {
			if done[u] != (d <= limit) {
				t.Fatalf("round %d, %s, max_depth %d: %s at depth %d: fetched %v", round, strategy, limit, u, d, done[u])
			}
			if e := r.explain("j", u); d <= limit && e.Found.GetDepth() != d {
				t.Errorf("round %d: %s stands at depth %d, it is at %d", round, u, e.Found.GetDepth(), d)
			}
		}
	}
}

// part commits a part of a page's links, without its outcome.
func (r *rig) part(o *crawlv1.Outcome, part uint32, cands ...*crawlv1.Candidate) {
	r.t.Helper()
	if a := r.f.Commit(r.ctx, &schedulerv1.CommitRequest{Outcome: o, Part: part, Candidates: cands}); a.Verdict != crawlv1.Verdict_VERDICT_DONE {
		r.t.Fatalf("commit: %v", a)
	}
	r.work()
}

// A page with more links than a message holds, found on a long way first: when a
// shorter one is found the links of all parts come nearer, and what max_depth
// had cut is fetched, in whatever part it was.
func TestDepthOfAPageInParts(t *testing.T) {
	const parts, each = 4, 8000
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24, func(s *jobv1.Spec) {
		s.Limits.MaxDepth = proto.Uint32(3)
		s.Order = &jobv1.Order{Strategy: jobv1.OrderStrategy_ORDER_STRATEGY_DEPTH_FIRST}
	}), "http://a.test/seed")
	far := func(part, n int) string { return fmt.Sprintf("http://far.test/%d/%d", part, n) }
	r.commit(outcomeOf(r.mustLease("http://a.test/seed"), 200), candidates(1, "http://a.test/late", "http://a.test/1")...)
	r.commit(outcomeOf(r.mustLease("http://a.test/1"), 200), candidates(2, "http://a.test/2")...)
	r.commit(outcomeOf(r.mustLease("http://a.test/2"), 200), candidates(3, "http://b.test/big")...)
	// The page at depth 3: all of its links are too deep. The shorter way is out.
	var big, late *crawlv1.Lease
	for big == nil || late == nil {
		if l := r.wait(time.Hour); l.Url == "http://b.test/big" {
			big = l
		} else {
			late = l
		}
	}
	for part := parts - 1; part >= 0; part-- {
		var cands []*crawlv1.Candidate
		for n := range each {
			cands = append(cands, candidates(4, far(part, n))...)
		}
		if part > 0 {
			r.part(outcomeOf(big, 200), uint32(part), cands...)
		} else {
			r.commit(outcomeOf(big, 200), cands...)
		}
	}
	if s := r.status("j"); s.Counters.Excluded != parts*each {
		t.Fatalf("%d links are too deep, want %d", s.Counters.Excluded, parts*each)
	}
	r.commit(outcomeOf(late, 200), candidates(2, "http://b.test/big")...)
	s := r.status("j")
	if s.Counters.Excluded != 0 || s.Counters.Queued != parts*each {
		t.Fatalf("after a shorter way: %v", s.Counters)
	}
	for part := range parts {
		if e := r.explain("j", far(part, each-1)); e.State != stateQueued || e.Found.GetDepth() != 3 {
			t.Errorf("part %d: %s at depth %d", part, e.State, e.Found.GetDepth())
		}
	}
	r.audit()
}
