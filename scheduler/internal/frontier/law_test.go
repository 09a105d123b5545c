package frontier

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	downloaderv1 "lycosa.dev/proto/gen/lycosa/downloader/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
	"lycosa.dev/scheduler/internal/politeness"
)

// simSize is n in `make test`, and full with LYCOSA_SIM=full (make simulate):
// the simulations are then of a million fetches each, on 10,000 hosts.
func simSize(n, full int) int {
	if os.Getenv("LYCOSA_SIM") == "full" {
		return full
	}
	return n
}

// clockLaw watches one clock from the web's side.
type clockLaw struct {
	limit   politeness.Limit
	out     int
	lastEnd time.Time
	started time.Time
	days    map[int64]uint64
	rate    rateLaw
}

// simWeb is the web of a simulation, the law over every fetch of it.
type simWeb struct {
	mu       sync.Mutex
	clocks   map[string]*clockLaw
	under    func(host string, addr netip.Addr) map[string]politeness.Limit
	answer   func(l *crawlv1.Lease, n int) *crawlv1.Outcome // n: fetches of the URL before
	ledger   *ledger                                        // nil: there are no budgets
	turns    *turnLaw                                       // nil: nobody's turn is watched
	visited  map[string]int
	notUntil map[string]retryAfter // by host
	phase    int
	restarts map[string]int // by kind: waits after a Retry-After that were kept over one
	broken   []string
	fetches  int
	size     int64
}

// retryAfter is until when a host wants to be left alone.
type retryAfter struct {
	until time.Time
	phase int    // in which it said so
	over  string // the last restart since: "crash", "stop" or none
}

func newSimWeb(under func(string, netip.Addr) map[string]politeness.Limit) *simWeb {
	return &simWeb{clocks: map[string]*clockLaw{}, under: under, visited: map[string]int{}, notUntil: map[string]retryAfter{},
		restarts: map[string]int{}, size: 20000}
}

func (w *simWeb) breaks(format string, args ...any) {
	if len(w.broken) < 10 {
		w.broken = append(w.broken, fmt.Sprintf(format, args...))
	}
}

// begin checks every clock that a fetch is under.
func (w *simWeb) begin(l *crawlv1.Lease) (n int, laws []*clockLaw) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	addr, _ := netip.AddrFromSlice(l.Addresses[0])
	w.fetches++
	if r, ok := w.notUntil[l.HostKey]; ok {
		if now.Before(r.until) {
			w.breaks("%s was fetched %s before its host's Retry-After, which came in phase %d, in phase %d", l.Url, r.until.Sub(now), r.phase, w.phase)
		} else if r.over != "" {
			w.restarts[r.over]++
		}
		delete(w.notUntil, l.HostKey)
	}
	if w.turns != nil {
		w.turns.begin(w, l.HostKey, now)
	}
	for name, limit := range w.under(l.HostKey, addr) {
		c := w.clocks[name]
		if c == nil {
			c = &clockLaw{limit: limit, days: map[int64]uint64{}}
			w.clocks[name] = c
		}
		if gap := now.Sub(c.lastEnd); !c.lastEnd.IsZero() && gap < limit.Delay && !(limit.Concurrency > 1 && gap == 0) {
			w.breaks("%s: %s began %s after a fetch ended, the delay is %s", name, l.Url, gap, limit.Delay)
		}
		if gap := now.Sub(c.started); !c.started.IsZero() && gap < limit.Delay {
			w.breaks("%s: %s began %s after another began, the delay is %s", name, l.Url, gap, limit.Delay)
		}
		c.started = now
		if c.out++; limit.Concurrency > 0 && c.out > limit.Concurrency {
			w.breaks("%s: %d fetches out with %s, it allows %d", name, c.out, l.Url, limit.Concurrency)
		}
		if l.Purpose == crawlv1.Purpose_PURPOSE_PAGE {
			day := now.UnixNano() / int64(24*time.Hour)
			if c.days[day]++; limit.PagesPerDay > 0 && c.days[day] > limit.PagesPerDay {
				w.breaks("%s: page %d of the day with %s, it allows %d", name, c.days[day], l.Url, limit.PagesPerDay)
			}
		}
		if limit.Rate > 0 {
			if t, unknown := c.rate.until(now); t.Sub(now) > time.Microsecond {
				w.breaks("%s: %s began %s before the bytes received were paid for at %d a second", name, l.Url, t.Sub(now), limit.Rate)
			} else if limit.Concurrency > 0 && unknown >= limit.Concurrency {
				w.breaks("%s: %s began while the bytes of %d fetches were not known, it allows %d", name, l.Url, unknown, limit.Concurrency)
			}
			c.rate.begin(l.Id, now)
		}
		laws = append(laws, c)
	}
	n = w.visited[l.Url]
	w.visited[l.Url]++
	return n, laws
}

func (w *simWeb) end(laws []*clockLaw, o *crawlv1.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for _, c := range laws {
		c.out--
		c.lastEnd = now
	}
	if w.turns != nil {
		w.turns.end(o, now)
	}
	if ra := o.GetFetch().GetRetryAfter(); ra != nil {
		w.notUntil[o.HostKey] = retryAfter{until: now.Add(ra.AsDuration()), phase: w.phase}
	}
}

// telling books a fetch: the frontier is about to hear its outcome. It may lease
// the next before the web knows that it has taken this one.
func (w *simWeb) telling(l *crawlv1.Lease, laws []*clockLaw, o *crawlv1.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range laws {
		if c.limit.Rate > 0 {
			c.rate.telling(l.Id, o.GetFetch().GetReceivedBytes(), c.limit.Rate)
		}
	}
	if w.ledger != nil {
		w.ledger.telling(l, o)
	}
}

// told is the end of a fetch's lease: the frontier has taken its outcome, or
// its process has died before, and nobody knows what came of it.
func (w *simWeb) told(l *crawlv1.Lease, laws []*clockLaw, o *crawlv1.Outcome, taken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range laws {
		if c.limit.Rate > 0 {
			c.rate.told(l.Id, taken)
		}
	}
	if taken {
		return
	}
	delete(w.notUntil, o.HostKey)
	if w.ledger != nil {
		w.ledger.undo(l, o)
	}
}

// fetch is one fetch: begin, take time, end, and tell.
func (w *simWeb) fetch(ctx context.Context, f *Frontier, l *crawlv1.Lease, took, lag time.Duration, report bool) {
	n, laws := w.begin(l)
	o := outcomeOf(l, 200)
	o.Fetch.ReceivedBytes = w.size
	if w.answer != nil {
		o = w.answer(l, n)
	}
	if w.ledger != nil {
		w.ledger.begin(w, l)
	}
	alive := pause(ctx, took)
	o.Fetch.Timings.Total = durationpb.New(took)
	w.end(laws, o)
	// A downloader tells early that a fetch has ended only where the host is
	// not to be backed off.
	backsOff := o.Fetch.Class != crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP || o.Fetch.Status == 429 || o.Fetch.Status >= 500
	if alive && report && !backsOff {
		f.Renew(l.Id, downloaderv1.Stage_STAGE_FETCHED, &took)
		alive = pause(ctx, lag)
	}
	w.telling(l, laws, o)
	taken := alive && f.Commit(ctx, &schedulerv1.CommitRequest{Outcome: o}).GetVerdict() == crawlv1.Verdict_VERDICT_DONE
	w.told(l, laws, o, taken)
}

// lessee is a simulated downloader.
func (w *simWeb) lessee(ctx context.Context, f *Frontier, id string, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 11))
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		ready := f.Ready(id)
		ls, err := f.Lease(ctx, id, 16)
		if err != nil {
			return
		}
		for _, l := range ls {
			took, lag, report := time.Duration(rng.IntN(2000))*time.Millisecond, time.Duration(rng.IntN(3000))*time.Millisecond, rng.IntN(2) == 0
			wg.Go(func() { w.fetch(ctx, f, l, took, lag, report) })
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

// simLookup gives every host one of n addresses.
func simLookup(n uint32) LookupFunc {
	return func(ctx context.Context, host, job string, refresh bool) (*crawlv1.HostAddresses, error) {
		return &crawlv1.HostAddresses{Host: host, Status: crawlv1.HostStatus_HOST_STATUS_RESOLVED,
			Addresses: [][]byte{simAddress(host, n)}, ExpiresAt: timestamppb.New(time.Now().Add(365 * 24 * time.Hour))}, nil
	}
}

func simAddress(host string, n uint32) []byte {
	h := fnv.New32a()
	_, _ = h.Write([]byte(host))
	x := h.Sum32() % n
	return []byte{93, byte(x >> 16), byte(x >> 8), byte(x)}
}

// phase is the life of one process of a simulation.
type phase struct {
	lasts time.Duration
	crash bool // nothing more is written at its end, and nobody is told; else it stops
}

// simulate runs a frontier with three lessees until the job ends or the time is
// over, in phases of which each is a process of its own.
func (w *simWeb) simulate(t *testing.T, o Options, phases []phase, setup func(f *Frontier)) *schedulerv1.JobStatus {
	t.Helper()
	mem := store.NewMemory()
	var last *schedulerv1.JobStatus
	for i, ph := range phases {
		w.restarted(i, i > 0 && phases[i-1].crash)
		o.Store, o.DeadLeasesAtStart = mem, true
		f, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = f.Run(ctx) })
		if i == 0 {
			setup(f)
		}
		f.SetMembers(uint64(i+1), []string{"d1", "d2", "d3"})
		for n := range 3 {
			wg.Go(func() { w.lessee(ctx, f, fmt.Sprintf("d%d", n+1), uint64(10*i+n)) })
		}
		for end := time.Now().Add(ph.lasts); time.Now().Before(end); {
			pause(ctx, min(time.Minute, time.Until(end)))
			if last, err = f.Job(ctx, "j"); err != nil || last.State == jobFinished {
				break
			}
		}
		if ph.crash {
			_ = mem.Close() // what the process still does is not stored
		}
		cancel()
		wg.Wait()
		if err := f.Close(); err != nil && !ph.crash {
			t.Fatal(err)
		}
		mem = mem.Reopen()
	}
	for _, b := range w.broken {
		t.Error(b)
	}
	rep, err := AuditStore(mem)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range rep.Violations {
		t.Errorf("audit: %s: %s", v.Rule, v.Detail)
	}
	return last
}

// restarted begins a phase.
func (w *simWeb) restarted(n int, crash bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phase = n
	if n == 0 {
		return
	}
	kind := "stop"
	if crash {
		kind = "crash"
	}
	for host, r := range w.notUntil {
		if r.until.After(time.Now()) {
			r.over = kind
			w.notUntil[host] = r
		}
	}
	if w.turns != nil {
		w.turns.began = time.Now()
	}
}

// simHosts are hosts of domains: h<n>.d<n mod domains>.test.
func simHosts(hosts, domains int) []string {
	var list []string
	for h := range hosts {
		list = append(list, fmt.Sprintf("h%d.d%d.test", h, h%domains))
	}
	return list
}

func simSeeds(hosts []string, pages int) []string {
	var list []string
	for p := range pages {
		for _, h := range hosts {
			list = append(list, fmt.Sprintf("http://%s/%d", h, p))
		}
	}
	return list
}

// Two fetches under one clock are never closer than it allows, whichever clock
// it is: host, domain, address, group, job; over restarts; with three lessees.
func TestLawOfEveryClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := map[string]*jobv1.ClockLimit{
			"host":    {PagesPerDay: 12, RateBytes: 8000},
			"domain":  {MinDelay: durationpb.New(3 * time.Second), Concurrency: 2, PagesPerDay: 200},
			"address": {MinDelay: durationpb.New(500 * time.Millisecond), Concurrency: 3, PagesPerDay: 900},
			"group":   {MinDelay: durationpb.New(1500 * time.Millisecond), RateBytes: 30000},
			"job":     {Concurrency: 40},
		}
		spec := testSpec(func(s *jobv1.Spec) {
			p := s.Politeness
			p.HostLimit, p.DomainLimit, p.AddressLimit, p.JobLimit = limits["host"], limits["domain"], limits["address"], limits["job"]
			p.Groups = []*jobv1.ClockGroup{
				{Name: "names", Hosts: []string{"*.d1.test", "*.d2.test"}, Limit: limits["group"]},
				{Name: "net", Nets: []string{"93.0.0.0/30"}, Limit: limits["group"]},
			}
		})
		limit := func(name string) politeness.Limit {
			l := limits[name]
			out := politeness.Limit{Delay: l.GetMinDelay().AsDuration(), Concurrency: int(l.GetConcurrency()), Rate: l.GetRateBytes(), PagesPerDay: l.GetPagesPerDay()}
			if out.Delay > 0 && out.Concurrency == 0 {
				out.Concurrency = 1
			}
			return out
		}
		web := newSimWeb(func(host string, addr netip.Addr) map[string]politeness.Limit {
			domain := host[strings.IndexByte(host, '.')+1:]
			host1 := limit("host")
			host1.Delay, host1.Concurrency = time.Second, 1
			m := map[string]politeness.Limit{"host " + host: host1, "domain " + domain: limit("domain"), "address " + addr.String(): limit("address"), "job": limit("job")}
			if domain == "d1.test" || domain == "d2.test" {
				m["group names"] = limit("group")
			}
			if netip.MustParsePrefix("93.0.0.0/30").Contains(addr) {
				m["group net"] = limit("group")
			}
			return m
		})
		hosts, pages := simHosts(simSize(600, 10000), simSize(40, 660)), simSize(30, 100)
		s := web.simulate(t, Options{Lookup: simLookup(uint32(simSize(50, 830)))}, []phase{{10 * time.Minute, true}, {20 * time.Hour, false}, {30 * time.Hour, true}, {60 * 24 * time.Hour, false}}, func(f *Frontier) {
			startJob(t, f, "j", spec, simSeeds(hosts, pages))
		})
		if s.State != jobFinished || s.Reason != reasonEmpty || s.Counters.Done != uint64(len(hosts)*pages) {
			t.Errorf("the job is %s (%s) with %v", s.State, s.Reason, s.Counters)
		}
		t.Logf("%d fetches under %d clocks", web.fetches, len(web.clocks))
	})
}
