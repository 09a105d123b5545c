package frontier

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

func overlaying(list ...*jobv1.Overlay) func(*jobv1.Spec) {
	return func(s *jobv1.Spec) { s.Overlays = list }
}

// What overlays change in a request travels on the lease, the most specific
// winning setting by setting; what none changes is not there.
func TestOverlayOfRequests(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24, overlaying(
		&jobv1.Overlay{Name: "domain", Domains: []string{"a.test"}, UserAgent: "guest/2 (+https://x.test)", AcceptLanguage: "de", Headers: []string{"X-A: domain", "X-B: domain"}},
		&jobv1.Overlay{Name: "host", Hosts: []string{"www.a.test"}, UserAgent: "known/3", Headers: []string{"x-a: host"}},
		&jobv1.Overlay{Name: "url", UrlPrefixes: []string{"http://www.a.test/fr/"}, AcceptLanguage: "fr"},
	)), "http://www.a.test/fr/1", "http://www.a.test/2", "http://x.a.test/3", "http://b.test/4")
	want := map[string]*crawlv1.RequestOverlay{
		"http://www.a.test/fr/1": {UserAgent: "known/3", RobotsAgent: "known", AcceptLanguage: "fr", Headers: []string{"X-B: domain", "x-a: host"}},
		"http://www.a.test/2":    {UserAgent: "known/3", RobotsAgent: "known", AcceptLanguage: "de", Headers: []string{"X-B: domain", "x-a: host"}},
		"http://x.a.test/3":      {UserAgent: "guest/2 (+https://x.test)", RobotsAgent: "guest", AcceptLanguage: "de", Headers: []string{"X-A: domain", "X-B: domain"}},
		"http://b.test/4":        nil,
	}
	for range len(want) {
		l := r.wait(time.Hour)
		if l == nil {
			t.Fatal("no lease")
		}
		if !proto.Equal(l.GetOverlay(), want[l.Url]) {
			t.Errorf("%s: %v, want %v", l.Url, l.GetOverlay(), want[l.Url])
		}
		r.commit(outcomeOf(l, 200))
	}
}

// Under another name, robots.txt is asked by that name, for its rules and its
// Crawl-delay, and fetched by it.
func TestOverlayOfUserAgentAsksRobots(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24, obey, overlaying(&jobv1.Overlay{Name: "g", Hosts: []string{"a.test"}, UserAgent: "guest/2"})), "http://a.test/for-guests", "http://a.test/for-bots")
	l := r.mustLease("http://a.test/robots.txt")
	if l.GetOverlay().GetUserAgent() != "guest/2" {
		t.Errorf("robots.txt is fetched with %v", l.GetOverlay())
	}
	o := outcomeOf(l, 200)
	o.RobotsBody = []byte("User-agent: testbot\nDisallow: /for-guests\n\nUser-agent: guest\nDisallow: /for-bots\nCrawl-delay: 7\n")
	r.commit(o)
	end := r.clock.Now()
	l = r.mustLease("http://a.test/for-guests")
	if d := r.clock.Now().Sub(end); d < 7*time.Second {
		t.Errorf("waited %s, guests are asked to wait 7s", d)
	}
	r.commit(outcomeOf(l, 200))
	if l := r.wait(time.Hour); l != nil {
		t.Fatalf("leased %s", l.Url)
	}
	r.wantEnd("j", reasonEmpty)
	if e := r.explain("j", "http://a.test/for-bots"); e.State != stateExcluded || e.Reason != "robots: line 5: Disallow: /for-bots" {
		t.Errorf("%s %q", e.State, e.Reason)
	}
}

// Budgets of some hosts and domains, in place of the job's and where it has
// none; a change while the job runs brings queues back.
func TestOverlayOfBudgets(t *testing.T) {
	r := newRig(t, store.NewMemory())
	var seeds []string
	for _, h := range []string{"big.test", "a.dom.test", "b.dom.test", "plain.test"} {
		for i := range 9 {
			seeds = append(seeds, fmt.Sprintf("http://%s/%d", h, i))
		}
	}
	spec := func(host, domain uint64) *jobv1.Spec {
		return testSpec(open24, func(s *jobv1.Spec) { s.Limits.MaxHostPages = 6 }, overlaying(
			&jobv1.Overlay{Name: "host", Hosts: []string{"big.test"}, MaxHostPages: host},
			&jobv1.Overlay{Name: "dom", Domains: []string{"dom.test"}, MaxDomainPages: domain}))
	}
	r.job("j", spec(2, 5), seeds...)
	got := r.crawlAll(nil)
	if got["big.test"] != 2 || got["a.dom.test"]+got["b.dom.test"] != 5 || got["plain.test"] != 6 {
		t.Errorf("fetched %v", got)
	}
	s := r.wantEnd("j", reasonEmpty)
	reasons := map[string]string{}
	for _, q := range s.Retired {
		reasons[q.HostKey] = q.Reason
	}
	if reasons["big.test"] != "budget: max_host_pages 2" || reasons["a.dom.test"] != "budget: max_domain_pages 5" || reasons["plain.test"] != "budget: max_host_pages 6" {
		t.Errorf("retired %v", reasons)
	}
	r.job("j", spec(8, 0))
	got = r.crawlAll(nil)
	if got["big.test"] != 6 || got["a.dom.test"]+got["b.dom.test"] != 7 || got["plain.test"] != 0 {
		t.Errorf("after the change: %v", got)
	}
	r.audit()
}

// A budget in bytes, of one host.
func TestOverlayOfBytes(t *testing.T) {
	r := newRig(t, store.NewMemory())
	var seeds []string
	for i := range 9 {
		seeds = append(seeds, fmt.Sprintf("http://a.test/%d", i), fmt.Sprintf("http://b.test/%d", i))
	}
	r.job("j", testSpec(open24, overlaying(&jobv1.Overlay{Name: "h", Hosts: []string{"a.test"}, MaxHostBytes: 2500})), seeds...)
	got := r.crawlAll(func(l *crawlv1.Lease) *crawlv1.Outcome {
		if l.HostKey == "a.test" && l.ByteAllowance > 2500 {
			t.Errorf("%s may take %d bytes", l.Url, l.ByteAllowance)
		}
		o := outcomeOf(l, 200)
		o.Fetch.ReceivedBytes = 1000
		return o
	})
	if got["a.test"] != 3 || got["b.test"] != 9 {
		t.Errorf("fetched %v", got)
	}
}

// A host's limit by an overlay: fetches at a time and pages a day.
func TestOverlayOfHostLimit(t *testing.T) {
	r := newRig(t, store.NewMemory())
	var seeds []string
	for i := range 6 {
		seeds = append(seeds, fmt.Sprintf("http://a.test/%d", i), fmt.Sprintf("http://b.test/%d", i))
	}
	r.job("j", testSpec(open24, func(s *jobv1.Spec) {
		s.Politeness.PerHost = 6
		s.Politeness.HostLimit = &jobv1.ClockLimit{PagesPerDay: 100}
	}, overlaying(&jobv1.Overlay{Name: "h", Hosts: []string{"a.test"}, HostLimit: &jobv1.ClockLimit{Concurrency: 2, PagesPerDay: 4}})), seeds...)
	out := map[string]int{}
	leases := r.lease(20)
	for _, l := range leases {
		out[l.HostKey]++
	}
	if out["a.test"] != 2 || out["b.test"] != 6 {
		t.Errorf("out at a time: %v", out)
	}
	for _, l := range leases {
		r.commit(outcomeOf(l, 200))
	}
	today, begun := 2, r.clock.Now()
	for {
		l := r.wait(30 * time.Hour)
		if l == nil {
			break
		}
		if r.clock.Now().Sub(begun) < time.Hour {
			today++
		}
		r.commit(outcomeOf(l, 200))
	}
	if today != 4 {
		t.Errorf("%d pages in a day, 4 are allowed", today)
	}
	r.wantEnd("j", reasonEmpty)
}

// Precedence by an overlay, changed while the job runs.
func TestOverlayOfPrecedence(t *testing.T) {
	r := newRig(t, store.NewMemory())
	first := func(names ...string) *jobv1.Spec {
		return testSpec(open24, func(s *jobv1.Spec) { s.Limits.Concurrency = 1 },
			overlaying(&jobv1.Overlay{Name: "first", Hosts: names, Precedence: proto.Uint32(0)}))
	}
	var seeds []string
	for i := range 8 {
		for _, h := range []string{"a.test", "b.test", "c.test"} {
			seeds = append(seeds, fmt.Sprintf("http://%s/%d", h, i))
		}
	}
	r.job("j", first("b.test"), seeds...)
	count := func() map[string]int {
		got := map[string]int{}
		for range 4 {
			l := r.wait(time.Hour)
			got[l.HostKey]++
			r.commit(outcomeOf(l, 200))
		}
		return got
	}
	if got := count(); got["b.test"] != 3 {
		t.Errorf("of four, %v; three are of the host that goes first", got)
	}
	r.job("j", first("c.test"))
	count() // what was ready keeps its place once
	if got := count(); got["c.test"] < 3 {
		t.Errorf("of four after the change, %v", got)
	}
}

// Exclusions of an overlay end what is queued under it, and only that, with its
// name; what they ended comes back when the overlay goes, or reaches elsewhere.
func TestOverlayOfExclusions(t *testing.T) {
	const n = 40
	r := linked(t, store.NewMemory(), n)
	spec := func(o ...*jobv1.Overlay) *jobv1.Spec {
		return testSpec(open24, func(s *jobv1.Spec) { s.Limits.Concurrency = 4 }, overlaying(o...))
	}
	apply := func(s *jobv1.Spec) *schedulerv1.Counters {
		r.t.Helper()
		if _, _, err := r.f.ApplyJob(r.ctx, "j", s, false); err != nil {
			t.Fatal(err)
		}
		r.work()
		return r.status("j").Counters
	}
	elsewhere := &jobv1.Overlay{Name: "no", Hosts: []string{"b.test"}, Exclude: []string{"/cal/"}}
	if c := apply(spec(elsewhere)); c.Excluded != 0 || c.Queued != n {
		t.Fatalf("an overlay of another host ended some: %v", c)
	}
	here := &jobv1.Overlay{Name: "no", UrlPrefixes: []string{"http://a.test/cal/1", "http://a.test/cal/3"}, Exclude: []string{`/cal/\d`}}
	ended := 0
	for i := 1; i < n; i += 2 {
		if s := fmt.Sprint(i); s[0] == '1' || s[0] == '3' {
			ended++
		}
	}
	if c := apply(spec(here)); c.Excluded != uint64(ended) {
		t.Fatalf("excluded %d, want %d", c.Excluded, ended)
	}
	if e := r.explain("j", "http://a.test/cal/1"); e.Reason != `overlay no: exclude /cal/\d` {
		t.Errorf("why %q", e.Reason)
	}
	here = proto.CloneOf(here)
	here.UrlPrefixes = here.UrlPrefixes[:1]
	left := 0
	for i := 1; i < n; i += 2 {
		if fmt.Sprint(i)[0] == '1' {
			left++
		}
	}
	if c := apply(spec(here)); c.Excluded != uint64(left) {
		t.Fatalf("excluded %d, want %d", c.Excluded, left)
	}
	if c := apply(spec()); c.Excluded != 0 || c.Queued != n {
		t.Fatalf("without the overlay: %v", c)
	}
	r.audit()
}

// Delays by URL prefix hold beside an overlay of the host for all else.
func TestOverlaysOfOneHostJoin(t *testing.T) {
	spec := testSpec(overlaying(
		&jobv1.Overlay{Name: "tries", Hosts: []string{"a.test"}, MaxTries: 2, MinDelay: durationpb.New(3 * time.Second), MaxDelay: durationpb.New(3 * time.Second)},
		&jobv1.Overlay{Name: "slow", UrlPrefixes: []string{"http://a.test/slow"}, MinDelay: durationpb.New(9 * time.Second), MaxDelay: durationpb.New(9 * time.Second)}))
	j := &job{}
	j.init()
	j.setSpec(spec)
	slow := j.ofURL("a.test", "http://a.test/slow/x")
	if slow.pol.MinDelay != 9*time.Second || slow.pol.MaxTries != 2 || j.of("a.test").pol.MinDelay != 3*time.Second || j.of("b.test") != &j.settings {
		t.Errorf("slow %v, host %v", slow.pol, j.of("a.test").pol)
	}
	if again := j.ofURL("a.test", "http://a.test/slow/y"); again != slow {
		t.Error("settings are made again for each URL")
	}
	if !slices.Equal(overlayNames(spec.Overlays), []string{"tries", "slow"}) {
		t.Error("the spec was changed")
	}
}
