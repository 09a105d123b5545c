package e2e

import (
	"slices"
	"testing"
	"time"

	"lycosa.dev/internal/testweb"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// cutWhile cuts connections at random moments until that was done so often, or
// the job has finished, and returns the moments.
func (r *ring) cutWhile(job string, times int, cutters ...*cutter) (moments []time.Time) {
	r.t.Helper()
	rng := killRand(r.t)
	for len(moments) < times {
		time.Sleep(time.Duration(rng.Int64N(int64(300 * time.Millisecond))))
		if j := r.job(job); j.GetState() == schedulerv1.JobState_JOB_STATE_FINISHED {
			break
		}
		c := cutters[rng.IntN(len(cutters))]
		moments = append(moments, time.Now())
		if rng.IntN(3) > 0 {
			c.cut(false)
			continue
		}
		c.cut(true)
		time.Sleep(time.Duration(rng.Int64N(int64(200 * time.Millisecond))))
		c.up()
	}
	if len(moments) < times/2 {
		r.t.Errorf("only %d cuts before the crawl's end: the test's site is too small", len(moments))
	}
	return moments
}

// across is how many requests were worked on by the server at one of the
// moments.
func across(log []testweb.Request, moments []time.Time) int {
	n := 0
	for _, q := range log {
		if slices.ContainsFunc(moments, func(m time.Time) bool { return q.Start.Before(m) && q.End.After(m) }) {
			n++
		}
	}
	return n
}

// cutSite is big enough for so many cuts, and slow, so that each cut finds
// fetches under way.
func cutSite(t testing.TB, cuts int) *site {
	t.Helper()
	return newSite(t, []string{"a.test", "b.test", "c.test", "d.test"},
		testweb.Graph{Pages: 6 * cuts, Links: 10, BodyBytes: 2000, Delay: 60 * time.Millisecond})
}

// TestCutStreams: the connections between the scheduler and the downloader are
// cut again and again while both live. The leases that are out are asked for on
// the next stream: none is lost, and no page is fetched or stored twice.
func TestCutStreams(t *testing.T) {
	t.Parallel()
	times := kills(t)
	s := cutSite(t, times)
	r := newRing(t, t.TempDir(), 1)
	c := newCutter(t, r.addrs["downloader-1"])
	r.args["downloader-1"] = append(r.args["downloader-1"], "--advertise", c.addr)
	r.launch()
	job := spec("cuts", 0, s.seed)
	job.Limits = limits(killConcurrency)
	job.Politeness.PerHost = 2
	r.create(job)
	moments := r.cutWhile("cuts", times, c)
	s.finishCalm(r, "cuts", 90*time.Second)
	// A lease that was on its way at a cut never came, and counts as lost.
	lost := r.job("cuts").GetCounters().GetLostLeases()
	r.stopAll()
	open := across(pages(s.web.Requests()), moments)
	t.Logf("%d cuts of %d connections, with %d fetches open in all, %d leases on their way", len(moments), c.count(), open, lost)
	if c.count() < len(moments)/2 || open < len(moments) {
		t.Errorf("%d cuts found %d connections and %d open fetches: they test nothing", len(moments), c.count(), open)
	}
	s.checkExact(t, r.data())
	audit(t, r.data())
}

// TestCutEverything: as TestCutStreams, with every connection of the ring cut.
// What was on its way anywhere goes again to the end of its way, without asking
// the server again; a page whose storing was not heard of may be stored twice.
func TestCutEverything(t *testing.T) {
	t.Parallel()
	times := 2 * kills(t)
	s := cutSite(t, times)
	r := newRing(t, t.TempDir(), 2)
	var cutters []*cutter
	for name, addr := range r.addrs {
		if name == "gateway" {
			continue // the test's own connection
		}
		c := newCutter(t, addr)
		cutters = append(cutters, c)
		if name != "scheduler" {
			r.args[name] = append(r.args[name], "--advertise", c.addr)
			continue
		}
		for _, args := range r.args {
			if i := slices.Index(args, "--scheduler"); i >= 0 {
				args[i+1] = c.addr
			}
		}
	}
	r.launch()
	job := spec("cuts", 0, s.seed)
	job.Limits = limits(killConcurrency)
	job.Politeness.PerHost = 2
	r.create(job)
	moments := r.cutWhile("cuts", times, cutters...)
	s.finishCalm(r, "cuts", 2*time.Minute)
	lost := r.job("cuts").GetCounters().GetLostLeases()
	r.stopAll()
	cut := 0
	for _, c := range cutters {
		cut += c.count()
	}
	t.Logf("%d cuts of %d connections, %d leases on their way or not told of", len(moments), cut, lost)
	got := byURL(pages(s.web.Requests()))
	sameSet(t, "requests", got, s.want)
	onceEach(t, "requests", got)
	s.checkAfterKills(t, r.data(), len(moments), len(moments)*killConcurrency)
	audit(t, r.data())
}
