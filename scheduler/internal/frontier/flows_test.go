package frontier

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	downloaderv1 "lycosa.dev/proto/gen/lycosa/downloader/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

func obey(s *jobv1.Spec) { s.Politeness.Robots = jobv1.RobotsPolicy_ROBOTS_POLICY_OBEY }

func (r *rig) mustLease(want string) *crawlv1.Lease {
	r.t.Helper()
	l := r.wait(49 * time.Hour)
	if l == nil {
		r.t.Fatalf("no lease, want %s", want)
	}
	if l.Url != want {
		r.t.Fatalf("leased %s, want %s", l.Url, want)
	}
	return l
}

func (r *rig) wantEnd(job, reason string) *schedulerv1.JobStatus {
	r.t.Helper()
	r.work()
	s := r.status(job)
	if s.State != jobFinished || s.Reason != reason {
		r.t.Fatalf("job is %s (%s), want finished (%s): %v", s.State, s.Reason, reason, s.Counters)
	}
	r.audit()
	return s
}

func TestRobotsComeFirstAndForbid(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24, obey), "http://a.test/private/x", "http://a.test/open")
	l := r.mustLease("http://a.test/robots.txt")
	if l.Purpose != crawlv1.Purpose_PURPOSE_ROBOTS {
		t.Fatal("purpose")
	}
	if more := r.lease(5); len(more) > 0 {
		t.Fatalf("leased %s while robots.txt is being fetched", more[0].Url)
	}
	if e := r.explain("j", "http://a.test/open"); !strings.Contains(e.Reason, "robots.txt is being fetched") && !strings.Contains(e.Reason, "being fetched") {
		t.Errorf("why: %q", e.Reason)
	}
	o := outcomeOf(l, 200)
	o.RobotsBody = []byte("User-agent: *\nDisallow: /private/\n")
	r.commit(o)
	r.commit(outcomeOf(r.mustLease("http://a.test/open"), 200))
	s := r.wantEnd("j", "empty")
	if s.Counters.Pages != 1 || s.Counters.RobotsFetches != 1 || s.Counters.Excluded != 1 || s.Counters.Fetches != 2 {
		t.Errorf("counters %v", s.Counters)
	}
	e := r.explain("j", "http://a.test/private/x")
	if e.State != stateExcluded || e.Reason != "robots: line 2: Disallow: /private/" {
		t.Errorf("why: %s %q", e.State, e.Reason)
	}
	if e.RobotsVerdict != "line 2: Disallow: /private/" {
		t.Errorf("robots verdict %q", e.RobotsVerdict)
	}
}

func TestRobotsParkOnlyTheirOrigin(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24, obey, func(s *jobv1.Spec) { s.Politeness.PerHost = 4 }), "http://a.test/1", "https://a.test/2")
	first := r.lease(8)
	if len(first) != 2 || first[0].Url != "http://a.test/robots.txt" || first[1].Url != "https://a.test/robots.txt" {
		t.Fatalf("leases %v", first)
	}
	r.commit(outcomeOf(first[1], 404))
	r.mustLease("https://a.test/2")
	if e := r.explain("j", "http://a.test/1"); e.Reason != "robots.txt is being fetched" {
		t.Errorf("why %q", e.Reason)
	}
}

func TestRobotsRedirectRunsUnderTheTargetsClock(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(obey), "http://a.test/x", "http://b.test/y")
	ls := r.lease(2)
	if len(ls) != 2 {
		t.Fatal(ls)
	}
	a, b := ls[0], ls[1]
	if a.HostKey != "a.test" {
		a, b = b, a
	}
	r.commit(outcomeOf(b, 404)) // b's clock runs from now
	end := r.clock.Now()
	o := outcomeOf(a, 301)
	o.RedirectUrl = "http://b.test/robots.txt?for=a"
	r.commit(o)
	l := r.mustLease("http://b.test/robots.txt?for=a")
	if l.HostKey != "b.test" || l.Purpose != crawlv1.Purpose_PURPOSE_ROBOTS {
		t.Fatalf("lease %v", l)
	}
	if waited := r.clock.Now().Sub(end); waited < time.Second {
		t.Errorf("the target's host was fetched after %s", waited)
	}
	o = outcomeOf(l, 200)
	o.RobotsBody = []byte("User-agent: *\nDisallow: /x")
	r.commit(o)
	r.commit(outcomeOf(r.mustLease("http://b.test/y"), 200))
	r.wantEnd("j", "empty")
	if e := r.explain("j", "http://a.test/x"); e.State != stateExcluded {
		t.Errorf("a redirected robots.txt was not obeyed: %v", e.State)
	}
}

func TestRobotsRedirectsEnd(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24, obey), "http://a.test/x")
	l := r.mustLease("http://a.test/robots.txt")
	for n := 1; n <= robotsRedirects; n++ {
		o := outcomeOf(l, 302)
		o.RedirectUrl = fmt.Sprintf("http://c%d.test/robots.txt", n)
		r.commit(o)
		l = r.mustLease(o.RedirectUrl)
	}
	o := outcomeOf(l, 302)
	o.RedirectUrl = "http://one-too-many.test/robots.txt"
	r.commit(o)
	r.commit(outcomeOf(r.mustLease("http://a.test/x"), 200))
	s := r.wantEnd("j", "empty")
	if s.Counters.RobotsFetches != 6 {
		t.Errorf("robots fetches %d", s.Counters.RobotsFetches)
	}

	r.job("cycle", testSpec(open24, obey), "http://z.test/x")
	l = r.mustLease("http://z.test/robots.txt")
	o = outcomeOf(l, 302)
	o.RedirectUrl = l.Url
	r.commit(o)
	r.commit(outcomeOf(r.mustLease("http://z.test/x"), 200))
	r.wantEnd("cycle", "empty")
}

func TestRobotsUnreachableEndsTheOrigin(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(obey), "http://a.test/x", "https://a.test/y")
	asked := 0
	for l := r.wait(49 * time.Hour); l != nil; l = r.wait(49 * time.Hour) {
		switch l.Url {
		case "http://a.test/robots.txt":
			asked++
			r.commit(outcomeOf(l, 500))
		case "https://a.test/robots.txt":
			r.commit(outcomeOf(l, 404))
		case "https://a.test/y":
			r.commit(outcomeOf(l, 200))
		default:
			t.Fatalf("leased %s", l.Url)
		}
	}
	if asked != 3 {
		t.Errorf("robots.txt was asked for %d times", asked)
	}
	r.wantEnd("j", "empty")
	e := r.explain("j", "http://a.test/x")
	if e.State != stateExcluded || !strings.HasPrefix(e.Reason, "robots-unreachable") {
		t.Errorf("%s %q", e.State, e.Reason)
	}
	if e := r.explain("j", "https://a.test/y"); e.State != stateDone {
		t.Errorf("the other origin: %s", e.State)
	}
}

func TestCrawlDelayIsKeptAndTooLongRetires(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(obey), "http://slow.test/1", "http://slow.test/2")
	o := outcomeOf(r.mustLease("http://slow.test/robots.txt"), 200)
	o.RobotsBody = []byte("User-agent: *\nCrawl-delay: 50\n")
	r.commit(o)
	end := r.clock.Now()
	for _, u := range []string{"http://slow.test/1", "http://slow.test/2"} {
		l := r.mustLease(u)
		if d := r.clock.Now().Sub(end); d < 50*time.Second {
			t.Fatalf("%s after %s, Crawl-delay is 50s", u, d)
		}
		r.commit(outcomeOf(l, 200))
		end = r.clock.Now()
	}
	r.wantEnd("j", "empty")

	r.job("long", testSpec(obey), "http://glacier.test/1", "http://glacier.test/2")
	o = outcomeOf(r.mustLease("http://glacier.test/robots.txt"), 200)
	o.RobotsBody = []byte("User-agent: testbot\nCrawl-delay: 1000\n")
	r.commit(o)
	if l := r.wait(2 * time.Second); l != nil {
		t.Fatalf("leased %s", l.Url)
	}
	s := r.wantEnd("long", "empty")
	if s.Counters.Excluded != 2 {
		t.Errorf("counters %v", s.Counters)
	}
	if e := r.explain("long", "http://glacier.test/1"); !strings.HasPrefix(e.Reason, "crawl-delay") {
		t.Errorf("reason %q", e.Reason)
	}
}

func TestMaxPagesIsExact(t *testing.T) {
	r := newRig(t, store.NewMemory())
	var seeds []string
	for i := range 40 {
		seeds = append(seeds, fmt.Sprintf("http://h%d.test/", i))
	}
	r.job("j", testSpec(open24, func(s *jobv1.Spec) { s.Limits.MaxPages = 10 }), seeds...)
	pages, failed := 0, 0
	for round := 0; ; round++ {
		ls := r.lease(7)
		if len(ls) == 0 {
			l := r.wait(time.Hour)
			if l == nil {
				break
			}
			ls = []*crawlv1.Lease{l}
		}
		if pages+len(ls) > 10 {
			t.Fatalf("%d leases out with %d pages done", len(ls), pages)
		}
		for i, l := range ls {
			if (i+round)%3 == 0 && failed < 5 {
				failed++
				r.commit(failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_CONTENT))
				continue
			}
			pages++
			r.commit(outcomeOf(l, 200))
		}
	}
	s := r.wantEnd("j", "max-pages")
	if pages != 10 || s.Counters.Pages != 10 {
		t.Errorf("%d pages, the counter says %d", pages, s.Counters.Pages)
	}
	// A raised limit goes on where it was.
	if _, _, err := r.f.ApplyJob(r.ctx, "j", testSpec(open24, func(s *jobv1.Spec) { s.Limits.MaxPages = 12 }), false); err != nil {
		t.Fatal(err)
	}
	r.job("j", testSpec(open24, func(s *jobv1.Spec) { s.Limits.MaxPages = 12 }))
	ls := r.lease(50)
	if len(ls) != 2 {
		t.Fatalf("%d leases after the limit grew by 2", len(ls))
	}
}

func TestMaxPagesKeepsTheUnitThroughRetries(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24, func(s *jobv1.Spec) { s.Limits.MaxPages = 1 }), "http://a.test/1", "http://b.test/2")
	l := r.wait(time.Minute)
	r.commit(outcomeOf(l, 503))
	again := r.mustLease(l.Url)
	if again.Attempt != 2 {
		t.Errorf("attempt %d", again.Attempt)
	}
	r.commit(outcomeOf(again, 200))
	r.wantEnd("j", "max-pages")
}

func TestMaxBytesIsNeverPassed(t *testing.T) {
	r := newRig(t, store.NewMemory())
	var seeds []string
	for i := range 100 {
		seeds = append(seeds, fmt.Sprintf("http://h%d.test/", i))
	}
	const limit = 64 << 20
	r.job("j", testSpec(open24, func(s *jobv1.Spec) { s.Limits.MaxTotalBytes = limit }), seeds...)
	for {
		ls := r.lease(50)
		if len(ls) == 0 {
			break
		}
		var promised int64
		for _, l := range ls {
			promised += l.ByteAllowance
		}
		if got := r.status("j").Counters.ReceivedBytes; int64(got)+promised > limit {
			t.Fatalf("%d received and %d promised, the limit is %d", got, promised, limit)
		}
		if promised <= 0 {
			t.Fatal("a lease without bytes")
		}
		for _, l := range ls {
			o := outcomeOf(l, 200)
			o.Fetch.ReceivedBytes = l.ByteAllowance // the worst case
			r.commit(o)
		}
	}
	if s := r.wantEnd("j", "max-bytes"); s.Counters.ReceivedBytes != limit {
		t.Errorf("received %d of %d", s.Counters.ReceivedBytes, limit)
	}
}

func TestMaxDurationDrains(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(func(s *jobv1.Spec) { s.Limits.MaxDuration = durationpb.New(time.Minute) }), "http://a.test/", "http://b.test/", "http://a.test/2")
	ls := r.lease(5)
	r.clock.advance(30 * time.Second)
	pause := func(w schedulerv1.JobWish) {
		if _, err := r.f.SetJobState(r.ctx, "j", w); err != nil {
			t.Fatal(err)
		}
	}
	pause(schedulerv1.JobWish_JOB_WISH_PAUSE)
	r.commit(outcomeOf(ls[0], 200))
	r.clock.advance(2 * time.Minute) // a pause does not count
	pause(schedulerv1.JobWish_JOB_WISH_RESUME)
	r.work()
	if s := r.status("j"); s.State != jobRunning {
		t.Fatalf("job is %s", s.State)
	}
	r.clock.advance(31 * time.Second)
	r.work()
	if s := r.status("j"); s.State != jobStopping {
		t.Fatalf("job is %s", s.State)
	}
	if more := r.lease(5); len(more) != 0 {
		t.Fatal("leased while stopping")
	}
	r.clock.advance(29 * time.Second)
	r.work()
	if s := r.status("j"); s.State != jobStopping {
		t.Fatalf("job is %s before drain_timeout", s.State)
	}
	r.clock.advance(2 * time.Second)
	if s := r.wantEnd("j", "max-duration"); s.Counters.LostLeases != 1 || s.Counters.Done != 1 {
		t.Errorf("counters %v", s.Counters)
	}
}

func TestMaxDepthExcludesAndRevives(t *testing.T) {
	r := newRig(t, store.NewMemory())
	depth := uint32(1)
	r.job("j", testSpec(open24, func(s *jobv1.Spec) { s.Limits.MaxDepth = &depth }), "http://a.test/", "http://b.test/")
	ls := r.lease(2)
	r.commit(outcomeOf(ls[0], 200), candidates(2, "http://a.test/deep")...)
	if e := r.explain("j", "http://a.test/deep"); e.State != stateExcluded || e.Reason != "max-depth 1" {
		t.Fatalf("%s %q", e.State, e.Reason)
	}
	r.commit(outcomeOf(ls[1], 200), candidates(1, "http://a.test/deep")...)
	l := r.mustLease("http://a.test/deep")
	if l.Depth != 1 {
		t.Errorf("depth %d", l.Depth)
	}
	r.commit(outcomeOf(l, 200))
	r.wantEnd("j", "empty")
}

func TestDeadHostEnds(t *testing.T) {
	r := newRig(t, store.NewMemory())
	var seeds []string
	for i := range 3000 {
		seeds = append(seeds, fmt.Sprintf("http://nx.test/%d", i))
	}
	r.job("j", testSpec(), seeds...)
	if l := r.wait(time.Minute); l != nil {
		t.Fatalf("leased %s", l.Url)
	}
	s := r.wantEnd("j", "empty")
	if s.Counters.Failed != 3000 {
		t.Errorf("counters %v", s.Counters)
	}
	if e := r.explain("j", seeds[7]); !strings.HasPrefix(e.Reason, "dns-not-found") {
		t.Errorf("reason %q", e.Reason)
	}
}

func TestRetriesAndRetryAfter(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(), "http://a.test/")
	l := r.mustLease("http://a.test/")
	o := outcomeOf(l, 503)
	o.Fetch.RetryAfter = durationpb.New(10 * time.Minute)
	r.commit(o)
	at := r.clock.Now()
	l = r.mustLease("http://a.test/")
	if d := r.clock.Now().Sub(at); d < 10*time.Minute || d > 11*time.Minute {
		t.Errorf("tried again after %s, Retry-After was 10m", d)
	}
	r.commit(failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_NOT_STARTED)) // not a try
	l = r.mustLease("http://a.test/")
	at = r.clock.Now()
	r.commit(failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_TIMEOUT))
	l = r.mustLease("http://a.test/")
	if d := r.clock.Now().Sub(at); d < 2*time.Minute {
		t.Errorf("second failure in a row backs off %s", d)
	}
	if l.Attempt != 3 {
		t.Errorf("attempt %d", l.Attempt)
	}
	r.commit(failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_TIMEOUT))
	s := r.wantEnd("j", "empty")
	if s.Counters.Failed != 1 || s.Counters.Pages != 0 {
		t.Errorf("counters %v", s.Counters)
	}
}

func TestLostLeasesAreNoTries(t *testing.T) {
	mem := store.NewMemory()
	r := newRig(t, mem)
	r.job("j", testSpec(open24), "http://a.test/")
	for range 20 {
		l := r.mustLease("http://a.test/")
		if l.Attempt != 1 {
			t.Fatalf("attempt %d", l.Attempt)
		}
		if err := r.f.Release(r.ctx, l.Id, &downloaderv1.FetchAnswer{Answer: &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_RETRY_LATER}}); err != nil {
			t.Fatal(err)
		}
		r.work()
	}
	l := r.mustLease("http://a.test/")
	r.clock.advance(r.f.o.LeaseDeadline + r.f.o.LeaseGrace)
	r.work()
	again := r.mustLease("http://a.test/")
	// The late outcome of the lost lease does not count while it is out again.
	r.commit(outcomeOf(l, 200))
	if e := r.explain("j", l.Url); e.State != stateLeased {
		t.Fatalf("state %s", e.State)
	}
	r.commit(outcomeOf(again, 200))
	if s := r.wantEnd("j", "empty"); s.Counters.LostLeases != 21 || s.Counters.Done != 1 {
		t.Errorf("counters %v", s.Counters)
	}
}

func TestPoisonRunsAloneThenFails(t *testing.T) {
	mem := store.NewMemory()
	r := newRig(t, mem)
	reopen := func() {
		_ = r.f.Close()
		mem = mem.Reopen()
		r.open(mem)
	}
	r.job("j", testSpec(open24), "http://poison.test/", "http://fine.test/")
	for range 5 {
		ls := r.lease(5)
		for _, l := range ls {
			if l.HostKey == "fine.test" {
				r.commit(outcomeOf(l, 200))
			}
		}
		reopen()
	}
	r.seed("j", "http://fine.test/2")
	r.work()
	ls := r.lease(5)
	if len(ls) == 2 {
		t.Fatal("a suspect was leased beside another")
	}
	for len(ls) == 1 && ls[0].HostKey == "fine.test" {
		r.commit(outcomeOf(ls[0], 200))
		ls = r.lease(5)
	}
	if len(ls) != 1 || ls[0].HostKey != "poison.test" {
		t.Fatalf("leases %v", ls)
	}
	if more := r.lease(5); len(more) > 0 {
		t.Fatalf("%s beside a suspect", more[0].Url)
	}
	reopen()
	for l := r.wait(time.Minute); l != nil; l = r.wait(time.Minute) {
		r.commit(outcomeOf(l, 200))
	}
	s := r.wantEnd("j", "empty")
	if s.Counters.Failed != 1 || s.Counters.Done != 2 {
		t.Errorf("counters %v", s.Counters)
	}
	if e := r.explain("j", "http://poison.test/"); !strings.HasPrefix(e.Reason, "poison") {
		t.Errorf("reason %q", e.Reason)
	}
}

func TestAdoption(t *testing.T) {
	mem := store.NewMemory()
	cluster := func(o *Options) { o.DeadLeasesAtStart = false }
	r := newRig(t, mem, cluster)
	r.job("j", testSpec(), "http://a.test/", "http://b.test/")
	ls := r.lease(5)
	if len(ls) != 2 {
		t.Fatal(ls)
	}
	_ = r.f.Close()
	r.open(mem.Reopen(), cluster)
	if more := r.lease(5); len(more) > 0 {
		t.Fatalf("%s leased twice", more[0].Url)
	}
	r.f.Adopt("d1", []*schedulerv1.HeldLease{{LeaseId: ls[0].Id}})
	r.work()
	if e := r.explain("j", ls[1].Url); e.State != stateQueued {
		t.Errorf("a lease that nobody holds: %s", e.State)
	}
	at := r.clock.Now()
	l := r.wait(time.Hour)
	if l == nil || l.Url != ls[1].Url {
		t.Fatalf("lease %v", l)
	}
	if d := r.clock.Now().Sub(at); d < 30*time.Second {
		t.Errorf("a host is asked %s after a fetch of unknown length", d)
	}
	r.commit(outcomeOf(ls[0], 200))
	r.commit(outcomeOf(l, 200))
	if s := r.wantEnd("j", "empty"); s.Counters.Done != 2 || s.Counters.LostLeases != 1 {
		t.Errorf("counters %v", s.Counters)
	}
}

func TestSeedRedirectJoinsTheScope(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24, func(s *jobv1.Spec) { s.Scope.Kind = jobv1.ScopeKind_SCOPE_KIND_HOST }), "http://a.test/")
	version := r.status("j").SpecVersion
	o := outcomeOf(r.mustLease("http://a.test/"), 301)
	o.RedirectUrl = "https://www.a.test/"
	r.commit(o)
	specs := r.f.JobSpecs()
	if len(specs) != 1 || fmt.Sprint(specs[0].ScopeRoots) != "[http://a.test/ https://www.a.test/]" || specs[0].SpecVersion <= version {
		t.Errorf("specs %v", specs)
	}
	l := r.mustLease("https://www.a.test/")
	if !l.Seed || l.Redirects != 1 || l.HopPath != "S" || l.Depth != 0 {
		t.Errorf("lease %v", l)
	}
}

func TestRecrawlQueuesDonePagesAgain(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24), "http://a.test/", "http://b.test/")
	for round := 1; round <= 2; round++ {
		for range 2 {
			l := r.wait(time.Minute)
			if l == nil {
				t.Fatalf("round %d: no lease", round)
			}
			r.commit(outcomeOf(l, 200))
		}
		s := r.wantEnd("j", "empty")
		if s.Counters.Pages != uint64(2*round) || s.Counters.Known != 2 {
			t.Errorf("round %d: %v", round, s.Counters)
		}
		if round == 1 {
			if _, err := r.f.SetJobState(r.ctx, "j", schedulerv1.JobWish_JOB_WISH_RECRAWL); err != nil {
				t.Fatal(err)
			}
			r.work()
		}
	}
}

func TestNetworkDownIsNoTry(t *testing.T) {
	r := newRig(t, store.NewMemory())
	var seeds []string
	for i := range 120 {
		seeds = append(seeds, fmt.Sprintf("http://h%d.test/", i))
	}
	r.job("j", testSpec(func(s *jobv1.Spec) { s.Politeness.MaxTries = 1 }), seeds...)
	for range 60 {
		ls := r.lease(1)
		if len(ls) == 0 {
			break
		}
		r.commit(failureOf(ls[0], crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT))
	}
	s := r.status("j")
	if !strings.HasPrefix(s.Problem, "network down") {
		t.Fatalf("problem %q, %v", s.Problem, s.Counters)
	}
	if s.Counters.Failed >= networkFailed {
		t.Errorf("%d URLs failed", s.Counters.Failed)
	}
	for end := r.clock.Now().Add(2 * time.Minute); r.clock.Now().Before(end); r.clock.advance(time.Second) {
		r.work()
		if ls := r.lease(100); len(ls) > 1 {
			t.Fatalf("%d leases while the network is down", len(ls))
		} else if len(ls) == 1 {
			r.commit(failureOf(ls[0], crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT))
		}
	}
	failed := r.status("j").Counters.Failed
	r.commit(outcomeOf(r.wait(time.Minute), 200))
	if s := r.status("j"); s.Problem != "" || s.Counters.Failed != failed {
		t.Errorf("after the network came back: %q, failed %d then %d", s.Problem, failed, s.Counters.Failed)
	}
	if ls := r.lease(100); len(ls) < 10 {
		t.Errorf("%d leases after the network came back", len(ls))
	}
}

func TestStorageUnavailableStopsLeasing(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24), "http://a.test/", "http://b.test/", "http://c.test/")
	r.f.StorageUnavailable("disk full")
	if ls := r.lease(5); len(ls) != 0 {
		t.Fatal("leased")
	}
	if s := r.status("j"); !strings.Contains(s.Problem, "disk full") {
		t.Errorf("problem %q", s.Problem)
	}
	r.clock.advance(11 * time.Second)
	ls := r.lease(5)
	if len(ls) != 1 {
		t.Fatalf("%d probes", len(ls))
	}
	r.commit(outcomeOf(ls[0], 200))
	if ls := r.lease(5); len(ls) != 2 {
		t.Fatalf("%d leases after the probe was stored", len(ls))
	}
}

func TestErrorsOfControl(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(), "http://a.test/")
	if _, _, err := r.f.ApplyJob(r.ctx, "j", testSpec(), true); !errors.Is(err, ErrJobExists) {
		t.Errorf("create again: %v", err)
	}
	other := testSpec(func(s *jobv1.Spec) { s.Scope.Kind = jobv1.ScopeKind_SCOPE_KIND_PAGE })
	if _, _, err := r.f.ApplyJob(r.ctx, "j", other, false); !errors.Is(err, ErrConflict) {
		t.Errorf("another scope: %v", err)
	}
	if err := r.f.DeleteJob(r.ctx, "j"); !errors.Is(err, ErrState) {
		t.Errorf("delete a running job: %v", err)
	}
	if _, err := r.f.Job(r.ctx, "nobody"); !errors.Is(err, ErrNoJob) {
		t.Errorf("unknown job: %v", err)
	}
	l := r.mustLease("http://a.test/")
	if _, err := r.f.SetJobState(r.ctx, "j", schedulerv1.JobWish_JOB_WISH_STOP); err != nil {
		t.Fatal(err)
	}
	r.clock.advance(time.Minute)
	r.work()
	r.wantEnd("j", "stopped")
	if err := r.f.DeleteJob(r.ctx, "j"); err != nil {
		t.Fatal(err)
	}
	if a := r.f.Commit(r.ctx, &schedulerv1.CommitRequest{Outcome: outcomeOf(l, 200)}); a.Verdict != crawlv1.Verdict_VERDICT_NEVER {
		t.Errorf("a late commit of a deleted job: %v", a)
	}
	n := 0
	_ = r.f.st.Scan([]byte{kindURL}, []byte{kindURL + 1}, func(k, v []byte) bool { n++; return true })
	if n > 0 {
		t.Errorf("%d URL records of a deleted job", n)
	}
	r.audit()
}

func TestQueuesPageByPage(t *testing.T) {
	r := newRig(t, store.NewMemory(), func(o *Options) { o.MaxActiveHosts = 4 })
	var seeds []string
	for i := range 25 {
		seeds = append(seeds, fmt.Sprintf("http://h%02d.test/", i))
	}
	r.job("j", testSpec(), seeds...)
	seen := map[string]int{}
	token := ""
	for range 10 {
		p, err := r.f.Queues(r.ctx, &schedulerv1.ListQueuesRequest{JobId: "j", PageSize: 10, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range p.Queues {
			seen[q.HostKey]++
			if q.Queued != 1 || q.Reason == "" {
				t.Errorf("queue %v", q)
			}
		}
		if token = p.NextPageToken; token == "" {
			break
		}
	}
	if len(seen) != 25 {
		t.Errorf("listed %d queues", len(seen))
	}
}

// While a fetched robots.txt is on its way round the ring the host's clock may
// have run out; its queue is not ready, and nobody is told that it is.
func TestParkedQueueIsNotReady(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(obey), "http://a.test/")
	l := r.mustLease("http://a.test/robots.txt")
	took := 10 * time.Millisecond
	r.f.Renew(l.Id, downloaderv1.Stage_STAGE_FETCHED, &took)
	r.clock.advance(10 * time.Second)
	r.work()
	select {
	case <-r.f.Ready("d1"):
	default:
	}
	if ls := r.lease(1); len(ls) > 0 {
		t.Fatalf("leased %s", ls[0].Url)
	}
	select {
	case <-r.f.Ready("d1"):
		t.Error("a queue that waits for robots.txt was told to be ready")
	default:
	}
	r.commit(outcomeOf(l, 404))
	r.mustLease("http://a.test/")
}

// A robots.txt that redirects to a host without a name is out of reach: the
// origin's tries run out and the job ends.
func TestRobotsRedirectToNowhereEnds(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(obey), "http://a.test/x")
	asked := 0
	for l := r.wait(49 * time.Hour); l != nil && asked < 10; l = r.wait(49 * time.Hour) {
		if l.Url != "http://a.test/robots.txt" {
			t.Fatalf("leased %s", l.Url)
		}
		asked++
		o := outcomeOf(l, 302)
		o.RedirectUrl = "http://nx.test/robots.txt"
		r.commit(o)
	}
	if asked != 3 {
		t.Errorf("robots.txt was asked for %d times", asked)
	}
	r.wantEnd("j", "empty")
	if e := r.explain("j", "http://a.test/x"); e.State != stateExcluded || !strings.HasPrefix(e.Reason, "robots-unreachable") {
		t.Errorf("%s: %s", e.State, e.Reason)
	}
}

// A second job on a host shares its robots.txt, and is told of the sitemaps in
// it although it never fetches it.
func TestSecondJobIsToldSitemaps(t *testing.T) {
	r := newRig(t, store.NewMemory())
	withSitemaps := func(s *jobv1.Spec) {
		s.Links = &jobv1.Links{Sitemaps: new(true)}
		s.Scope = &jobv1.Scope{Kind: jobv1.ScopeKind_SCOPE_KIND_HOST}
	}
	r.job("one", testSpec(obey, withSitemaps), "http://a.test/")
	l := r.wait(time.Hour)
	if l.GetUrl() != "http://a.test/robots.txt" {
		t.Fatalf("leased %s", l.GetUrl())
	}
	o := outcomeOf(l, 200)
	o.RobotsBody = []byte("User-agent: *\nDisallow: /x\nSitemap: /maps/all.xml\nSitemap: http://other.test/s.xml\n")
	r.commit(o)
	r.commit(outcomeOf(r.wait(time.Hour), 200))
	r.wantEnd("one", "empty")

	r.job("two", testSpec(obey, withSitemaps), "http://a.test/")
	got := map[string]bool{}
	for l := r.wait(time.Hour); l != nil; l = r.wait(time.Hour) {
		got[l.GetUrl()] = true
		r.commit(outcomeOf(l, 200))
	}
	if len(got) != 2 || !got["http://a.test/"] || !got["http://a.test/maps/all.xml"] {
		t.Errorf("the second job fetched %v, want its seed and the sitemap in its scope", got)
	}
	r.wantEnd("two", "empty")
	if e := r.explain("two", "http://a.test/maps/all.xml"); e.GetFound().GetHopPath() != "PM" || e.GetFound().GetReferrer() != "http://a.test/robots.txt" {
		t.Errorf("found: %v", e.GetFound())
	}
}

// A frontier of another format is refused and not touched.
func TestOtherFormatIsRefused(t *testing.T) {
	st := store.NewMemory()
	r := newRig(t, st)
	r.job("j", testSpec(), "http://a.test/")
	key := []byte{kindMeta}
	w := newWriter()
	w.uint(storeFormat + 1)
	w.uint(1)
	var b store.Batch
	b.Set(key, w.seal(key))
	if _, err := st.Apply(&b, false); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Store: st}); !errors.Is(err, ErrFormat) {
		t.Errorf("got %v", err)
	}
}

// Tries that failed before the network was found down do not count either: what
// had failed by them is queued again, what has tries left has all of them.
func TestNetworkDownGivesTriesBack(t *testing.T) {
	for _, tries := range []uint32{1, 2} {
		r := newRig(t, store.NewMemory())
		var seeds []string
		for i := range 70 {
			seeds = append(seeds, fmt.Sprintf("http://h%d.test/", i))
		}
		r.job("j", testSpec(func(s *jobv1.Spec) { s.Politeness.MaxTries = tries }), seeds...)
		// Some answer; what failed before was the hosts' own fault.
		var before []string
		for range 3 {
			l := r.lease(1)[0]
			before = append(before, l.Url)
			r.commit(failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT))
		}
		r.commit(outcomeOf(r.lease(1)[0], 200))
		own := r.status("j").Counters.Failed
		out := r.lease(60)
		var tried []string
		for _, l := range out {
			tried = append(tried, l.Url)
			r.commit(failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT))
		}
		s := r.status("j")
		if s.Problem == "" || s.Counters.Failed != own {
			t.Fatalf("tries %d: problem %q, %d failed, %d of them by their own fault", tries, s.Problem, s.Counters.Failed, own)
		}
		for _, u := range tried {
			if e := r.explain("j", u); e.State != stateQueued || e.Attempts != 0 {
				t.Errorf("tries %d: %s is %s after %d tries", tries, u, e.State, e.Attempts)
			}
		}
		r.audit()
		// The network comes back: every one of them is fetched soon.
		got := map[string]bool{}
		end := r.clock.Now().Add(5 * time.Minute)
		for l := r.wait(time.Minute); l != nil && r.clock.Now().Before(end); l = r.wait(time.Minute) {
			got[l.Url] = true
			r.commit(outcomeOf(l, 200))
		}
		for _, u := range tried {
			if !got[u] {
				t.Errorf("tries %d: %s was not fetched in 5 minutes", tries, u)
			}
		}
		if e := r.explain("j", before[0]); tries == 1 && e.State != stateFailed {
			t.Errorf("%s is %s, it failed while the network worked", before[0], e.State)
		}
	}
}

// A network that is down gives tries back, not the wait that a server had asked
// for before.
func TestNetworkDownKeepsRetryAfter(t *testing.T) {
	r := newRig(t, store.NewMemory())
	seeds := []string{"http://slow.test/1", "http://slow.test/2"}
	for i := range 60 {
		seeds = append(seeds, fmt.Sprintf("http://h%d.test/", i))
	}
	r.job("j", testSpec(open24, func(s *jobv1.Spec) {
		s.Politeness.PerHost = 2
		s.Politeness.MinDelay, s.Politeness.MaxDelay = durationpb.New(0), durationpb.New(0)
	}), seeds...)
	out := r.lease(100)
	slices.SortFunc(out, func(a, b *crawlv1.Lease) int { return strings.Compare(b.Url, a.Url) })
	if n := len(out); n != len(seeds) || out[0].Url != seeds[1] || out[1].Url != seeds[0] {
		t.Fatalf("%d leases: %v", n, out)
	}
	until := r.clock.Now().Add(20 * time.Minute)
	o := outcomeOf(out[1], 503)
	o.Fetch.RetryAfter = durationpb.New(20 * time.Minute)
	r.commit(o)
	for _, l := range slices.Delete(out, 1, 2) {
		r.commit(failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT))
	}
	if e := r.explain("j", seeds[1]); r.status("j").Problem == "" || e.Attempts != 0 {
		t.Fatalf("problem %q; %d tries", r.status("j").Problem, e.Attempts)
	}
	found := false
	for l := r.wait(time.Hour); l != nil; l = r.wait(time.Hour) {
		if found = found || l.HostKey == "slow.test"; found && r.clock.Now().Before(until) {
			t.Fatalf("%s is leased %s early", l.Url, until.Sub(r.clock.Now()))
		}
		r.commit(outcomeOf(l, 200))
	}
	if !found {
		t.Error("its host was not fetched again")
	}
}

// Dead hosts alone look like a network that is down, once: their tries come back
// once, and the crawl ends.
func TestOnlyDeadHostsEnd(t *testing.T) {
	r := newRig(t, store.NewMemory())
	var seeds []string
	for i := range 120 {
		seeds = append(seeds, fmt.Sprintf("http://h%d.test/", i))
	}
	r.job("j", testSpec(func(s *jobv1.Spec) { s.Politeness.MaxTries = 2 }), seeds...)
	tries := 0
	for l := r.wait(24 * time.Hour); l != nil; l = r.wait(24 * time.Hour) {
		if tries++; tries > 5000 {
			t.Fatal("it goes on for ever")
		}
		r.commit(failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT))
	}
	if s := r.wantEnd("j", reasonEmpty); s.Counters.Failed != 120 {
		t.Errorf("counters %v", s.Counters)
	}
	r.audit()
}

// Nor do the tries of robots.txt count that were made while the network was
// down: its URLs are fetched once it is back.
func TestNetworkDownGivesRobotsTriesBack(t *testing.T) {
	r := newRig(t, store.NewMemory())
	var seeds []string
	for i := range 60 {
		seeds = append(seeds, fmt.Sprintf("http://h%d.test/", i))
	}
	r.job("j", testSpec(obey, func(s *jobv1.Spec) { s.Politeness.MaxTries = 2 }), seeds...)
	for _, l := range r.lease(60) {
		r.commit(failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT))
	}
	if s := r.status("j"); !strings.HasPrefix(s.Problem, "network down") {
		t.Fatalf("problem %q", s.Problem)
	}
	for range 3 { // probes, one of which fails
		if l := r.wait(time.Minute); l != nil {
			r.commit(failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT))
		}
	}
	for _, h := range r.f.hosts {
		for _, o := range h.origins {
			if o.tries > 0 || o.known {
				t.Fatalf("%s: %d tries, known %v", o.url(), o.tries, o.known)
			}
		}
	}
	end := r.clock.Now().Add(10 * time.Minute)
	for l := r.wait(time.Minute); l != nil && r.clock.Now().Before(end); l = r.wait(time.Minute) {
		r.commit(outcomeOf(l, 404))
	}
	if s := r.wantEnd("j", reasonEmpty); s.Counters.Done != 60 {
		t.Errorf("counters %v", s.Counters)
	}
	r.audit()
}

// An origin whose robots.txt we refuse to ask for ourselves, by its port, ends
// at once and with that reason: there is nothing to wait for.
func TestRobotsThatWeRefuseEndTheOrigin(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(obey), "http://a.test:9/1", "http://a.test:9/2", "http://b.test/")
	start := r.clock.Now()
	const refused = "port-refused: not allowed to connect to port 9"
	for {
		l := r.wait(10 * time.Minute)
		if l == nil {
			break
		}
		if l.HostKey == "a.test:9" {
			o := failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_POLICY)
			o.Fetch.Error = refused
			r.commit(o)
			continue
		}
		r.commit(outcomeOf(l, 200))
	}
	s := r.status("j")
	if s.State != jobFinished || s.Counters.Failed != 2 || s.Counters.Done != 1 || s.Counters.RobotsFetches != 2 {
		t.Errorf("the job is %s: %v", s.State, s.Counters)
	}
	if e := r.explain("j", "http://a.test:9/2"); e.State != stateFailed || e.Reason != refused {
		t.Errorf("%s (%s)", e.State, e.Reason)
	}
	if took := r.clock.Now().Sub(start); took > 12*time.Minute { // the last wait is in it
		t.Errorf("the crawl took %s", took)
	}
	r.audit()
}
