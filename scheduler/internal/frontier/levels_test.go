package frontier

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	downloaderv1 "lycosa.dev/proto/gen/lycosa/downloader/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// level is a clock with two hosts that are both under it.
type level struct {
	name  string
	hosts []string
	set   func(*jobv1.Politeness, *jobv1.ClockLimit)
}

func levels() []level {
	return []level{
		{"host", []string{"a.test", "a.test"}, func(p *jobv1.Politeness, l *jobv1.ClockLimit) { p.HostLimit = l }},
		{"domain", []string{"x.a.test", "y.a.test"}, func(p *jobv1.Politeness, l *jobv1.ClockLimit) { p.DomainLimit = l }},
		{"address", []string{"shared1.test", "shared2.test"}, func(p *jobv1.Politeness, l *jobv1.ClockLimit) { p.AddressLimit = l }},
		{"group", []string{"a.test", "b.test"}, func(p *jobv1.Politeness, l *jobv1.ClockLimit) {
			p.Groups = []*jobv1.ClockGroup{{Name: "g", Hosts: []string{"a.test", "b.test"}, Limit: l}}
		}},
		{"job", []string{"a.test", "b.test"}, func(p *jobv1.Politeness, l *jobv1.ClockLimit) { p.JobLimit = l }},
	}
}

// rig makes a job of which one level has a limit, with n URLs.
func (l level) rig(t *testing.T, s store.Store, limit *jobv1.ClockLimit, n int) *rig {
	r := newRig(t, s)
	var seeds []string
	for i := range n {
		seeds = append(seeds, fmt.Sprintf("http://%s/%d", l.hosts[i%2], i))
	}
	r.job("j", testSpec(open24, func(s *jobv1.Spec) {
		s.Politeness.PerHost = 100
		l.set(s.Politeness, limit)
	}), seeds...)
	return r
}

func (r *rig) unused(l *crawlv1.Lease) {
	r.t.Helper()
	if err := r.f.Release(r.ctx, l.Id, &downloaderv1.FetchAnswer{Answer: &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_RETRY_LATER}}); err != nil {
		r.t.Fatal(err)
	}
	r.work()
}

// Pages a day hold at every level, over restarts: as many leases are out as
// pages are left, what is not used is given back the same day, what fails
// without a status is not a page, and the next day begins at midnight.
func TestPagesADayAtEveryLevel(t *testing.T) {
	for _, lv := range levels() {
		t.Run(lv.name, func(t *testing.T) {
			const day, all = 4, 10
			mem := store.NewMemory()
			r := lv.rig(t, mem, &jobv1.ClockLimit{PagesPerDay: day}, all)
			out := r.lease(all)
			if len(out) != day {
				t.Fatalf("%d leases out at once, %d pages are left", len(out), day)
			}
			for _, l := range out {
				r.unused(l)
			}
			out = r.lease(all)
			if len(out) != day {
				t.Fatalf("%d leases after %d were given back", len(out), day)
			}
			r.unused(out[0])
			for _, l := range out[1:] {
				r.commit(outcomeOf(l, 200))
			}
			out = r.lease(all)
			if len(out) != 1 {
				t.Fatalf("%d leases with a page left", len(out))
			}
			r.commit(failureOf(out[0], crawlv1.OutcomeClass_OUTCOME_CLASS_CONTENT)) // no page
			if out = r.lease(all); len(out) != 1 {
				t.Fatalf("%d leases after one that was no page", len(out))
			}
			_ = r.f.Close() // it is lost, and may have been a page
			mem = mem.Reopen()
			r.open(mem)
			begun := r.clock.Now()
			pages := map[int64]int{}
			for {
				l := r.wait(30 * time.Hour)
				if l == nil {
					break
				}
				pages[r.f.day(r.clock.Now())-r.f.day(begun)]++
				r.commit(outcomeOf(l, 200))
			}
			if pages[0] > 1 || pages[1] != day {
				t.Errorf("pages by days after the restart: %v", pages)
			}
			r.wantEnd("j", reasonEmpty)
			r.audit()
		})
	}
}

// Bytes a second hold at every level, over restarts; what was not used is not
// paid for.
func TestBytesASecondAtEveryLevel(t *testing.T) {
	for _, lv := range levels() {
		t.Run(lv.name, func(t *testing.T) {
			const rate, size, all = 1000, 6000, 8
			mem := store.NewMemory()
			r := lv.rig(t, mem, &jobv1.ClockLimit{RateBytes: rate, Concurrency: 1}, all)
			l := r.wait(time.Second)
			r.unused(l)
			begun := r.clock.Now()
			n := 0
			for ; n < all; n++ {
				if n == 4 {
					_ = r.f.Close()
					mem = mem.Reopen()
					r.open(mem)
				}
				l := r.wait(time.Minute)
				if l == nil {
					t.Fatalf("no lease after %d", n)
				}
				took := r.clock.Now().Sub(begun)
				if least := time.Duration(n*size/rate) * time.Second; took < least {
					t.Errorf("fetch %d begins after %s, %d bytes take %s", n, took, n*size, least)
				}
				o := outcomeOf(l, 200)
				o.Fetch.ReceivedBytes = size
				r.commit(o)
			}
			if took, most := r.clock.Now().Sub(begun), time.Duration(all*size/rate+10)*time.Second; took > most {
				t.Errorf("it took %s, %s are enough: what was given back was paid for", took, most)
			}
		})
	}
}

// Places and delays hold at every level, and a place that is not used is given
// back at once, without its delay.
func TestPlacesAtEveryLevel(t *testing.T) {
	for _, lv := range levels() {
		t.Run(lv.name, func(t *testing.T) {
			r := lv.rig(t, store.NewMemory(), &jobv1.ClockLimit{Concurrency: 3}, 9)
			out := r.lease(9)
			if len(out) != 3 {
				t.Fatalf("%d leases at a time, want 3", len(out))
			}
			r.unused(out[0])
			if again := r.lease(9); len(again) != 1 {
				t.Errorf("%d leases after one was given back", len(again))
			}

			r = lv.rig(t, store.NewMemory(), &jobv1.ClockLimit{MinDelay: durationpb.New(20 * time.Second)}, 4)
			l := r.wait(time.Second)
			r.unused(l)
			given := r.clock.Now()
			if l = r.wait(time.Second); l == nil {
				t.Fatalf("no lease within a second after one that was not used")
			}
			r.commit(outcomeOf(l, 200))
			end := r.clock.Now()
			if end.Sub(given) > time.Second {
				t.Errorf("what was not used cost %s", end.Sub(given))
			}
			if l = r.wait(time.Minute); r.clock.Now().Sub(end) < 20*time.Second {
				t.Errorf("%s after %s", l.Url, r.clock.Now().Sub(end))
			}
		})
	}
}

// Limits nest: each fetch is under the clocks of all levels at once, reserves
// under all of them or none, and gives all back.
func TestLevelsNest(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24, func(s *jobv1.Spec) {
		s.Politeness.PerHost = 100
		for _, lv := range levels() {
			lv.set(s.Politeness, &jobv1.ClockLimit{Concurrency: 10, PagesPerDay: 100, RateBytes: 1 << 30})
		}
		s.Politeness.Groups[0].Hosts = []string{"*.a.test"}
		s.Politeness.DomainLimit.Concurrency = 2
	}), "http://x.a.test/1", "http://x.a.test/2", "http://y.a.test/3")
	out := r.lease(5)
	if len(out) != 2 {
		t.Fatalf("%d leases, the tightest level allows 2", len(out))
	}
	var names []string
	for _, h := range r.f.leases[out[0].Id].holds {
		name, _, _ := strings.Cut(h.l.name, " ")
		names = append(names, name)
	}
	if want := []string{"address", "domain", "group", "host", "job"}; !slices.Equal(names, want) {
		t.Errorf("reserved under %v, in the order %v", names, want)
	}
	for _, l := range out {
		r.unused(l)
	}
	for name, l := range r.f.limiters {
		if l.out != 0 || l.promised != 0 || l.pages != 0 {
			t.Errorf("%s keeps %d places, %d promised, %d pages", name, l.out, l.promised, l.pages)
		}
	}
	if got := r.crawlAll(nil); got["x.a.test"]+got["y.a.test"] != 3 {
		t.Errorf("fetched %v", got)
	}
	for name, l := range r.f.limiters {
		if l.out != 0 || l.promised != 0 || l.pages > 3 {
			t.Errorf("%s keeps %d places, %d promised, %d pages", name, l.out, l.promised, l.pages)
		}
	}
}
