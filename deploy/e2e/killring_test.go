package e2e

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lycosa.dev/internal/testweb"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// calmLimit is the longest that a ring whose processes all live again may leave
// its web alone while there is work. The longest pause of a stream that is
// opened again is 5 s, and a lease that nobody holds would wait for its deadline
// of 2 minutes.
const calmLimit = 30 * time.Second

// kill kills some processes of the ring, at times two at once, lets a moment
// pass and starts them again. While the scheduler is dead its frontier is
// audited. outstanding is how many leases the kills can have undone.
func (r *ring) kill(rng *rand.Rand, names []string) (killed []string, outstanding int) {
	r.t.Helper()
	rng.Shuffle(len(names), func(i, k int) { names[i], names[k] = names[k], names[i] })
	killed = slices.Clone(names[:1])
	if rng.IntN(4) == 0 {
		killed = slices.Clone(names[:2])
	}
	for _, name := range killed {
		r.procs[name].kill()
	}
	outstanding = len(killed) * killConcurrency
	if slices.Contains(killed, "scheduler") {
		leased := audit(r.t, r.data())
		if leased > killConcurrency {
			r.t.Errorf("%d leases are out, the job may have %d", leased, killConcurrency)
		}
		if len(killed) == 1 {
			outstanding = leased
		}
	}
	time.Sleep(time.Duration(rng.Int64N(int64(100 * time.Millisecond))))
	for _, name := range killed {
		r.start(name)
	}
	return killed, outstanding
}

// killWhile kills processes at random moments until that was done so often, or
// the job has finished. It fails the test if the job was too short.
func (r *ring) killWhile(rng *rand.Rand, job string, names []string, times int, between time.Duration) (killed, outstanding int) {
	r.t.Helper()
	for killed < times {
		time.Sleep(time.Duration(rng.Int64N(int64(between))))
		if j := r.job(job); j.GetState() == schedulerv1.JobState_JOB_STATE_FINISHED {
			break
		}
		at, n := r.kill(rng, names)
		killed += len(at)
		outstanding += n
	}
	if killed < times/2 {
		r.t.Errorf("only %d kills before the crawl's end: the test's site is too small", killed)
	}
	return killed, outstanding
}

// finishCalm waits for the end of a job after the last kill. How long that takes
// is the work that is left; what must not be is a wait for something that is
// lost.
func (s *site) finishCalm(r *ring, job string, limit time.Duration) {
	r.t.Helper()
	calm := time.Now()
	left := len(s.want) - len(byURL(pages(s.web.Requests())))
	r.waitFinished(job, limit)
	end := time.Now()
	silence, last := time.Duration(0), calm
	for _, q := range s.web.Requests() {
		if q.Start.After(last) {
			silence, last = max(silence, q.Start.Sub(last)), q.Start
		}
	}
	silence = max(silence, end.Sub(last))
	r.t.Logf("finished %s after the last of them, with %d of %d pages left then; the longest silence was %s",
		end.Sub(calm).Round(time.Millisecond), left, len(s.want), silence.Round(time.Millisecond))
	if silence > calmLimit {
		r.t.Errorf("the ring asked for nothing for %s with all its processes alive", silence)
	}
}

// TestKillAnyProcess: five processes and a second downloader; at random moments
// any one of them is killed and started again, at some moments two at once.
func TestKillAnyProcess(t *testing.T) {
	t.Parallel()
	rng := killRand(t)
	s := killSite(t)
	r := startRing(t, 2)
	job := spec("kills", 0, s.seed)
	job.Limits = limits(killConcurrency)
	job.Politeness.PerHost = 2
	r.create(job)
	want := kills(t)
	killed, outstanding := r.killWhile(rng, "kills", slices.Sorted(maps.Keys(r.procs)), want, 600*time.Millisecond)
	s.finishCalm(r, "kills", 90*time.Second+time.Duration(want)*time.Second)
	r.stopAll()
	s.checkAfterKills(t, r.data(), killed, outstanding)
	if left := audit(t, r.data()); left != 0 {
		t.Errorf("%d leases after the crawl's end", left)
	}
}

// TestKillRingPolite: whichever process of the ring is killed, and however often
// the hosts are dealt anew, no two requests of a host are closer than its delay
// by the server's clock, and none at once.
func TestKillRingPolite(t *testing.T) {
	t.Parallel()
	rng := killRand(t)
	times := max(4, kills(t)/3)
	s := newSite(t, []string{"a.test", "b.test", "c.test"}, testweb.Graph{Pages: 2*times + 8, Links: 8, BodyBytes: 2000, Delay: 10 * time.Millisecond})
	r := startRing(t, 2)
	job := spec("polite", politeDelay, s.seed)
	job.Limits = limits(killConcurrency)
	r.create(job)
	eventually(t, 30*time.Second, "all hosts are crawled", func() bool { return len(s.web.Requests()) > 12 })
	killed, outstanding := r.killWhile(rng, "polite", []string{"scheduler", "downloader-1", "downloader-2", "extractor", "dnser"}, times, time.Second)
	s.finishCalm(r, "polite", 2*time.Minute)
	r.stopAll()
	s.web.CheckSpacing(t, testweb.ByHost, politeDelay)
	s.checkAfterKills(t, r.data(), killed, outstanding)
	audit(t, r.data())
}
