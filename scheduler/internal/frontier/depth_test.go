package frontier

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"

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
			done[l.Url] = true
			var cands []*crawlv1.Candidate
			for _, to := range links[number[l.Url]] {
				cands = append(cands, candidates(l.Depth+1, url(to))...)
			}
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
