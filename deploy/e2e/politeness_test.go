package e2e

import (
	"os"
	"testing"
	"time"

	"lycosa.dev/internal/testweb"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// politeDelay is short, so that the tests are, and long beside what a machine
// under load does to a timer. The law has no tolerance: the server notes the
// end of a response before the client can have it all, and the start of a
// request after the client has sent it.
const politeDelay = 200 * time.Millisecond

// politeSite has hosts with few pages that take a moment.
func politeSite(t testing.TB, hosts ...string) *site {
	t.Helper()
	return newSite(t, hosts, testweb.Graph{Pages: 14, Links: 8, BodyBytes: 2000, Delay: 10 * time.Millisecond})
}

// TestPoliteOneProcess: no two requests of a host are closer than the delay,
// robots.txt among them, across a stop and a kill and the starts after them.
func TestPoliteOneProcess(t *testing.T) {
	t.Parallel()
	s := politeSite(t, "a.test", "b.test", "c.test")
	dir := t.TempDir()
	args := polite(dir, "--scope", "any", "--min-delay", politeDelay.String(), "--max-delay", politeDelay.String(), s.seed)
	for _, end := range []os.Signal{os.Interrupt, os.Kill} {
		before := len(s.web.Requests())
		p := startProcess(t, nil, binary(t, "lycosa"), args...)
		eventually(t, 20*time.Second, "the crawl goes on", func() bool { return len(s.web.Requests()) > before+6 || !p.running() })
		p.signal(end)
		if code := p.exitsWithin(20 * time.Second); end == os.Interrupt && code != 130 {
			t.Errorf("interrupted: exit code %d, want 130\n%s", code, ends(p.err.String()))
		}
	}
	mustLycosa(t, time.Minute, args...)
	s.web.CheckSpacing(t, testweb.ByHost, politeDelay)
	got := byURL(pages(s.web.Requests()))
	sameSet(t, "requests", got, s.want)
}

// TestPoliteDelayFactor: the wait grows with the length of the fetch.
func TestPoliteDelayFactor(t *testing.T) {
	t.Parallel()
	web := testweb.Start(t)
	h := web.Host("slow.test")
	slow := func(p *testweb.Page) { p.Delay = 100 * time.Millisecond }
	h.Page("/", testweb.HTML("/1", "/2", "/3").With(slow))
	for _, p := range []string{"/1", "/2", "/3"} {
		h.Page(p, testweb.HTML("/").With(slow))
	}
	mustLycosa(t, time.Minute, polite(t.TempDir(), "--delay-factor", "4", "--max-delay", "10s", h.URL("/"))...)
	gaps := 0
	for _, g := range testweb.Gaps(web.Requests(), testweb.ByHost) {
		// The client's fetch takes at least as long as the server's.
		took := g.First.End.Sub(g.First.Start)
		if g.Wait < 4*took {
			t.Errorf("%s: the fetch took %s, the wait must be at least four times that", g, took)
		}
		gaps++
	}
	if gaps < 4 {
		t.Errorf("%d gaps, want 4 or more", gaps)
	}
}

// TestPoliteCrawlDelay: robots.txt asks for more than the job.
func TestPoliteCrawlDelay(t *testing.T) {
	t.Parallel()
	web := testweb.Start(t)
	h := web.Host("wish.test").Robots("User-agent: *\nCrawl-delay: 0.5\n")
	h.Page("/", testweb.HTML("/1", "/2", "/3"))
	for _, p := range []string{"/1", "/2", "/3"} {
		h.Page(p, testweb.HTML("/"))
	}
	mustLycosa(t, time.Minute, polite(t.TempDir(), h.URL("/"))...)
	// Between robots.txt and the first page the wish is known already, but
	// obeying it from the next fetch on is enough.
	web.CheckSpacing(t, testweb.ByHost, 0)
	for _, g := range testweb.Gaps(web.Requests(), testweb.ByHost) {
		if g.First.Path != "/robots.txt" && g.Wait < 500*time.Millisecond {
			t.Errorf("too close: %s, robots.txt wishes for 500ms", g)
		}
	}
}

// TestPoliteTwoJobs: two jobs on the same hosts share the hosts' clocks, with
// three downloaders, while the number of downloaders changes and the scheduler
// is killed.
func TestPoliteTwoJobs(t *testing.T) {
	t.Parallel()
	s := politeSite(t, "a.test", "b.test", "c.test", "d.test")
	r := startRing(t, 3)
	for _, name := range []string{"one", "two"} {
		r.create(spec(name, politeDelay, s.seed))
	}
	grown := func(n int) func() bool {
		before := len(s.web.Requests())
		return func() bool { return len(s.web.Requests()) >= before+n }
	}
	eventually(t, 30*time.Second, "requests with three downloaders", grown(10))
	r.procs["downloader-2"].signal(os.Interrupt)
	r.procs["downloader-2"].exitsWithin(20 * time.Second)
	eventually(t, 30*time.Second, "requests with two downloaders", grown(10))
	r.procs["scheduler"].kill()
	r.start("scheduler")
	eventually(t, 30*time.Second, "requests after the scheduler's restart", grown(10))
	r.start("downloader-2")
	eventually(t, 30*time.Second, "requests with three again", grown(10))
	for _, name := range []string{"one", "two"} {
		r.waitFinished(name, 60*time.Second)
	}
	s.web.CheckSpacing(t, testweb.ByHost, politeDelay)
	got := byURL(pages(s.web.Requests()))
	sameSet(t, "requests", got, s.want)
	for u, n := range got {
		if n < 2 {
			t.Errorf("%s was fetched %d times by two jobs", u, n)
		}
	}
	for _, name := range []string{"one", "two"} {
		if j := r.job(name); j.GetState() != schedulerv1.JobState_JOB_STATE_FINISHED {
			t.Errorf("job %s: %v", name, j.GetState())
		}
	}
}

// TestRetryAfter: a host that says when to come back is left alone until then.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	web := testweb.Start(t)
	h := web.Host("busy.test")
	h.Page("/", testweb.HTML("/1", "/2", "/3"))
	h.Page("/1", testweb.Unavailable(503, "2").With(func(p *testweb.Page) { p.Then = []testweb.Page{testweb.HTML()} }))
	h.Page("/2", testweb.HTML())
	h.Page("/3", testweb.HTML())
	mustLycosa(t, time.Minute, polite(t.TempDir(), h.URL("/"))...)
	if n := web.Counts("busy.test")["/1"]; n != 2 {
		t.Errorf("/1 was asked for %d times, want 2: once refused and once again", n)
	}
	for _, g := range testweb.Gaps(web.Requests(), testweb.ByHost) {
		if g.First.Status == 503 && g.Wait < 2*time.Second {
			t.Errorf("too close: %s, the host asked for 2s", g)
		}
	}
}
