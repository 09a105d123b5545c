package frontier

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	downloaderv1 "lycosa.dev/proto/gen/lycosa/downloader/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// fetchLog is the web server's view: who was asked when, for how long.
type fetchLog struct {
	mu   sync.Mutex
	list []fetched
}

type fetched struct {
	host, url, job string
	addr           netip.Addr
	start, end     time.Time
}

func (l *fetchLog) add(f fetched) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, f)
}

// law checks the spacing of fetches under one clock: each begins no earlier
// than delay after the end of the one before.
func (l *fetchLog) law(t *testing.T, of func(fetched) string, concurrent int, delay func(before fetched) time.Duration) {
	t.Helper()
	by := map[string][]fetched{}
	for _, f := range l.list {
		by[of(f)] = append(by[of(f)], f)
	}
	checked := 0
	for clock, list := range by {
		slices.SortFunc(list, func(a, b fetched) int { return a.start.Compare(b.start) })
		for i, f := range list {
			out := 0
			for _, g := range list[:i] {
				if g.end.After(f.start) {
					out++
					continue
				}
				if concurrent > 1 && g.end.Equal(f.start) {
					continue // one ends in the instant in which another begins: nobody could know
				}
				if gap := f.start.Sub(g.end); gap < delay(g) {
					t.Errorf("%s: %s began %s after %s ended, the delay is %s", clock, f.url, gap, g.url, delay(g))
				}
				checked++
			}
			if out >= concurrent {
				t.Errorf("%s: %d fetches out beside %s", clock, out, f.url)
			}
		}
	}
	if checked == 0 {
		t.Error("the law was checked on nothing")
	}
}

// downloader is a simulated one: it takes leases, fetches for a while, commits
// later.
func downloader(ctx context.Context, f *Frontier, id string, log *fetchLog, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		ready := f.Ready(id)
		ls, err := f.Lease(ctx, id, 16)
		if err != nil {
			return
		}
		for _, l := range ls {
			took := time.Duration(rng.IntN(3000)) * time.Millisecond
			lag := time.Duration(rng.IntN(5000)) * time.Millisecond
			report := rng.IntN(2) == 0
			wg.Go(func() { fetchOne(ctx, f, l, took, lag, report, log) })
		}
		if len(ls) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-ready:
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func fetchOne(ctx context.Context, f *Frontier, l *crawlv1.Lease, took, lag time.Duration, report bool, log *fetchLog) {
	start := time.Now()
	alive := pause(ctx, took)
	addr, _ := netip.AddrFromSlice(l.Addresses[0])
	log.add(fetched{host: l.HostKey, url: l.Url, job: l.JobId, addr: addr, start: start, end: time.Now()})
	if !alive {
		return
	}
	if report {
		f.Renew(l.Id, downloaderv1.Stage_STAGE_FETCHED, &took)
		if !pause(ctx, lag) {
			return
		}
	}
	o := outcomeOf(l, 200)
	o.Fetch.Timings.Total = durationpb.New(took)
	if l.Purpose == crawlv1.Purpose_PURPOSE_ROBOTS && l.HostKey == "h3.test" {
		o.RobotsBody = []byte("User-agent: *\nCrawl-delay: 20\n")
	}
	f.Commit(ctx, &schedulerv1.CommitRequest{Outcome: o})
}

// runFor runs a frontier with downloaders for some simulated time.
func runFor(t *testing.T, s store.Store, d time.Duration, log *fetchLog, setup func(*Frontier), phases ...[]string) {
	t.Helper()
	f, err := Open(t.Context(), Options{Store: s, Lookup: testLookup(ClockFunc(time.Now)), DeadLeasesAtStart: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = f.Run(ctx) })
	if setup != nil {
		setup(f)
	}
	for i, ids := range phases {
		phase, stop := context.WithCancel(ctx)
		f.SetMembers(uint64(i+1), ids)
		var ds sync.WaitGroup
		for n, id := range ids {
			ds.Go(func() { downloader(phase, f, id, log, uint64(100*i+n)) })
		}
		if !pause(ctx, d/time.Duration(len(phases))) {
			t.Error("ended early")
		}
		stop() // fetches under way are cut: their leases are lost
		ds.Wait()
		for _, id := range ids {
			f.Adopt(id, nil)
		}
	}
	cancel()
	wg.Wait()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func startJob(t *testing.T, f *Frontier, id string, spec *jobv1.Spec, seeds []string) {
	t.Helper()
	if _, _, err := f.ApplyJob(t.Context(), id, spec, false); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.AddSeeds(t.Context(), id, candidates(0, seeds...)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.SetJobState(t.Context(), id, schedulerv1.JobWish_JOB_WISH_START); err != nil {
		t.Fatal(err)
	}
}

func seedsOf(hosts, pages int, name string) []string {
	var list []string
	for p := range pages {
		for h := range hosts {
			list = append(list, fmt.Sprintf("http://%s%d.test/%d", name, h, p))
		}
	}
	return list
}

// wanted is the least wait after a fetch: section 8 of the design. A fetch
// that was cut counts with the least delay, since its length is not known.
func wanted(f fetched) time.Duration {
	d := min(max(5*f.end.Sub(f.start), time.Second), 30*time.Second)
	if f.host == "h3.test" && f.url != "http://h3.test/robots.txt" {
		d = max(d, 20*time.Second)
	}
	return d
}

func TestSpacing(t *testing.T) {
	obeying := testSpec(obey)
	for _, c := range []struct {
		name   string
		phases [][]string
	}{
		{"one downloader", [][]string{{"d1"}}},
		{"three downloaders", [][]string{{"d1", "d2", "d3"}}},
		{"their number changes", [][]string{{"d1"}, {"d1", "d2", "d3"}, {"d2", "d3"}, {"d2", "d4"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &fetchLog{}
				runFor(t, store.NewMemory(), 40*time.Minute, log, func(f *Frontier) {
					startJob(t, f, "j", obeying, seedsOf(8, 60, "h"))
				}, c.phases...)
				log.law(t, func(f fetched) string { return f.host }, 1, wanted)
				if len(log.list) < 300 {
					t.Errorf("only %d fetches", len(log.list))
				}
			})
		})
	}
}

func TestSpacingOfTwoJobsOnOneHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fetchLog{}
		slow := testSpec(obey, func(s *jobv1.Spec) {
			s.Politeness.MinDelay, s.Politeness.MaxDelay = durationpb.New(10*time.Second), durationpb.New(60*time.Second)
		})
		runFor(t, store.NewMemory(), 20*time.Minute, log, func(f *Frontier) {
			startJob(t, f, "a", testSpec(obey), seedsOf(2, 100, "h"))
			startJob(t, f, "b", slow, seedsOf(2, 100, "h"))
		}, []string{"d1", "d2"})
		log.law(t, func(f fetched) string { return f.host }, 1, func(f fetched) time.Duration {
			return max(wanted(f), 10*time.Second)
		})
		served := map[string]int{}
		for _, f := range log.list {
			served[f.job]++
		}
		if a, b := served["a"], served["b"]; a < 20 || b < 20 || a > b+10 || b > a+10 {
			t.Errorf("turns: %v", served)
		}
	})
}

func TestSpacingAcrossRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fetchLog{}
		mem := store.NewMemory()
		setup := func(f *Frontier) { startJob(t, f, "j", testSpec(obey), seedsOf(8, 60, "h")) }
		for range 15 {
			runFor(t, mem, 30*time.Second, log, setup, []string{"d1"})
			mem, setup = mem.Reopen(), nil
		}
		log.law(t, func(f fetched) string { return f.host }, 1, wanted)
	})
}

func TestSpacingOfAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fetchLog{}
		spec := testSpec(func(s *jobv1.Spec) {
			s.Politeness.AddressDelay = durationpb.New(700 * time.Millisecond)
			s.Politeness.PerAddress = 3
		})
		runFor(t, store.NewMemory(), 10*time.Minute, log, func(f *Frontier) {
			startJob(t, f, "j", spec, seedsOf(200, 5, "shared"))
		}, []string{"d1", "d2"})
		log.law(t, func(f fetched) string { return f.addr.String() }, 3, func(fetched) time.Duration { return 700 * time.Millisecond })
		if len(log.list) < 200 {
			t.Errorf("only %d fetches: hosts on one address starve", len(log.list))
		}
	})
}

// A wall clock that is set back while the process is down makes no wait
// shorter; one that is set back while it runs changes nothing.
func TestClockSetBack(t *testing.T) {
	mem := store.NewMemory()
	r := newRig(t, mem)
	r.job("j", testSpec(), "http://a.test/1", "http://a.test/2")
	o := outcomeOf(r.mustLease("http://a.test/1"), 200)
	o.Fetch.Timings.Total = durationpb.New(4 * time.Second)
	r.commit(o) // 20s to wait
	r.clock.advance(5 * time.Second)
	_ = r.f.Close()
	r.clock.advance(-2 * time.Hour)
	r.open(mem.Reopen())
	at := r.clock.Now()
	r.mustLease("http://a.test/2")
	if d := r.clock.Now().Sub(at); d < 15*time.Second || d > 21*time.Second {
		t.Errorf("waited %s; 15s were left of 20s", d)
	}
}
