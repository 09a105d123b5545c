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
// in whatever order pages are fetched and over restarts, also where exclusions
// come and go, max_depth is raised, or a seed joins a later round in which the
// pages have not changed: as a breadth-first search finds them.
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
		seeds := []int{0}
		mem := store.NewMemory()
		r := newRig(t, mem)
		strategy := jobv1.OrderStrategy(rng.IntN(4))
		now := limit - min(limit, uint32(rng.IntN(3))) // max_depth, raised later
		rule := ""
		spec := func() *jobv1.Spec {
			return testSpec(open24, func(s *jobv1.Spec) {
				s.Limits.MaxDepth = proto.Uint32(now)
				s.Order = &jobv1.Order{Strategy: strategy}
				if rule != "" {
					s.Scope.Exclude = []string{rule}
				}
			})
		}
		change := func(depth uint32, exclude string) {
			now, rule = depth, exclude
			if _, _, err := r.f.ApplyJob(r.ctx, "j", spec(), false); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(2) == 0 {
				r.work()
			}
		}
		r.job("j", spec(), url(0))
		var out []*crawlv1.Lease
		done, before := map[string]bool{}, map[string]bool{} // in this round, in an earlier one
		for steps := 0; ; steps++ {
			if rng.IntN(20) == 0 {
				change(min(limit, now+uint32(rng.IntN(2))), []string{"", "[1-4]$"}[rng.IntN(2)])
			}
			if rng.IntN(3) > 0 || len(out) == 0 {
				out = append(out, r.lease(1+rng.IntN(3))...)
			}
			if len(out) == 0 {
				if l := r.wait(time.Hour); l != nil {
					out = append(out, l)
					continue
				}
				if r.status("j").Reason == reasonMore { // a change brought something back
					r.start("j")
					continue
				}
				if now < limit || rule != "" { // it ends under the spec as it was meant
					change(limit, "")
					r.work()
					r.start("j")
					continue
				}
				if len(seeds) > 1 || rng.IntN(3) == 0 {
					break
				}
				// Another round, with another seed before or behind its start.
				seeds = append(seeds, rng.IntN(pages))
				first := rng.IntN(2) == 0
				if first {
					r.seed("j", url(seeds[1]))
				}
				if r.status("j").Reason == reasonMore {
					continue // the seed is new
				}
				r.wish(schedulerv1.JobWish_JOB_WISH_RECRAWL)
				before, done = done, map[string]bool{}
				if !first {
					r.seed("j", url(seeds[1]))
				}
				continue
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
			if before[l.Url] && rng.IntN(4) > 0 {
				done[l.Url] = true
				r.commit(outcomeOf(l, 304)) // and no links
				continue
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
		if len(before) > 0 && len(done) < len(before) {
			t.Errorf("round %d: %d pages in the second round, %d in the first", round, len(done), len(before))
		}
		if s.Counters.Done != uint64(len(done)) {
			t.Errorf("round %d: counters %v, %d fetched", round, s.Counters, len(done))
		}
		want := distances(seeds, links)
		for n, d := range want {
			u := url(n)
			if done[u] != (d <= limit) {
				t.Fatalf("round %d, %s, max_depth %d: %s at depth %d: fetched %v", round, strategy, limit, u, d, done[u])
			}
			if e := r.explain("j", u); d <= limit && e.Found.GetDepth() != d {
				t.Errorf("round %d: %s stands at depth %d, it is at %d", round, u, e.Found.GetDepth(), d)
			}
		}
	}
}

// distances are those from the seeds over links.
func distances(seeds []int, links [][]int) map[int]uint32 {
	dist := map[int]uint32{}
	var queue []int
	for _, n := range seeds {
		dist[n], queue = 0, append(queue, n)
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, to := range links[queue[0]] {
			if _, ok := dist[to]; !ok {
				dist[to], queue = dist[queue[0]]+1, append(queue, to)
			}
		}
	}
	return dist
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

// A shorter way to a URL that was tried in vain, or is kept out, counts when it
// comes back: its links are as deep as that way makes them.
func TestShorterWayToWhatHasEnded(t *testing.T) {
	const target, link = "http://b.test/x", "http://c.test/link"
	for _, tc := range []struct {
		name   string
		change func(*jobv1.Spec)
		meet   func(r *rig) // what ends the target, or keeps it out
		back   func(r *rig) // what brings it back
	}{
		{"failed, and visited again", recrawling(jobv1.RecrawlPolicy_RECRAWL_POLICY_FIXED),
			func(r *rig) {
				r.commit(failureOf(r.mustLease(target), crawlv1.OutcomeClass_OUTCOME_CLASS_CONTENT))
			},
			func(r *rig) { r.clock.advance(59 * time.Minute); r.work() }},
		{"excluded, and the rule is gone", nil,
			func(r *rig) { r.exclude([]string{"x$"}, nil, false) },
			func(r *rig) { r.exclude(nil, []string{"x$"}, false) }},
		{"cut by max_depth, which is raised", func(s *jobv1.Spec) { s.Limits.MaxDepth = proto.Uint32(0) }, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, store.NewMemory())
			spec := testSpec(open24, func(s *jobv1.Spec) {
				s.Limits.MaxDepth = proto.Uint32(2)
				if tc.change != nil {
					tc.change(s)
				}
			})
			r.job("j", spec, "http://a.test/1")
			r.commit(outcomeOf(r.mustLease("http://a.test/1"), 200), candidates(2, target)...)
			if tc.meet != nil {
				tc.meet(r)
			}
			r.seed("j", "http://a.test/2")
			r.start("j")
			r.commit(outcomeOf(r.mustLease("http://a.test/2"), 200), candidates(1, target)...)
			if e := r.explain("j", target); e.State == stateQueued || e.Found.GetDepth() != 1 {
				t.Errorf("after the shorter way it is %s at depth %d", e.State, e.Found.GetDepth())
			}
			if tc.back == nil {
				spec = proto.CloneOf(spec)
				spec.Limits.MaxDepth = proto.Uint32(1)
				if _, _, err := r.f.ApplyJob(r.ctx, "j", spec, false); err != nil {
					t.Fatal(err)
				}
				r.work()
				r.start("j")
			} else {
				tc.back(r)
				if r.status("j").State == jobFinished {
					r.start("j")
				}
			}
			var l *crawlv1.Lease
			for l = r.wait(2 * time.Hour); l != nil && l.Url != target; l = r.wait(2 * time.Hour) {
				r.commit(outcomeOf(l, 304))
			}
			if l.GetDepth() != 1 {
				t.Fatalf("it comes back as %v", l)
			}
			r.commit(outcomeOf(l, 200), candidates(l.Depth+1, link)...)
			if e := r.explain("j", link); e.Found.GetDepth() != 2 {
				t.Errorf("its link lies at depth %d", e.Found.GetDepth())
			}
			r.audit()
		})
	}
}

// A seed that failed on a long way and is given by hand is a seed: its links
// lie at depth 1.
func TestFailedURLGivenAsSeed(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24, func(s *jobv1.Spec) { s.Limits.MaxDepth = proto.Uint32(2) }), "http://a.test/")
	r.commit(outcomeOf(r.mustLease("http://a.test/"), 200), candidates(2, "http://b.test/x")...)
	r.commit(failureOf(r.mustLease("http://b.test/x"), crawlv1.OutcomeClass_OUTCOME_CLASS_CONTENT))
	if sum := r.give("j", "http://b.test/x"); sum.Queued != 1 {
		t.Fatalf("%+v", sum)
	}
	r.start("j")
	l := r.mustLease("http://b.test/x")
	if l.Depth != 0 {
		t.Errorf("it is leased at depth %d", l.Depth)
	}
	r.commit(outcomeOf(l, 200), candidates(l.Depth+1, "http://c.test/")...)
	r.commit(outcomeOf(r.mustLease("http://c.test/"), 200))
	r.wantEnd("j", reasonEmpty)
	r.audit()
}
