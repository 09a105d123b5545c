package frontier

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	downloaderv1 "lycosa.dev/proto/gen/lycosa/downloader/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// Public complaints about crawlers that must not come true here, each with the
// issue in which it was told.

// crashed is a frontier on a disk that loses what was not synced; cut takes the
// power away and opens what is left.
type crashed struct {
	*rig
	fs *vfs.MemFS
}

func newCrashed(t *testing.T) *crashed {
	c := &crashed{rig: &rig{t: t, clock: newManual(), ctx: context.Background()}, fs: vfs.NewCrashableMem()}
	c.reopen()
	t.Cleanup(func() { _ = c.f.Close() })
	return c
}

func (c *crashed) reopen() {
	c.t.Helper()
	s, err := store.OpenPebble("frontier", store.PebbleOptions{FS: c.fs, CacheBytes: 1 << 20, MemTableBytes: 1 << 20})
	if err != nil {
		c.t.Fatal(err)
	}
	c.open(s)
}

func (c *crashed) cut() {
	c.t.Helper()
	after := c.fs.CrashClone(vfs.CrashCloneCfg{})
	_ = c.f.Close()
	c.fs = after
	c.reopen()
}

// heritrix3 #277: after a crash the crawl could not be recovered to where it
// was. Every acknowledged link is there after the power went, in its place.
func TestPainHeritrix277StateAfterACrash(t *testing.T) {
	c := newCrashed(t)
	c.job("j", testSpec(open24), "http://a.test/")
	var urls []string
	for i := range 300 {
		urls = append(urls, fmt.Sprintf("http://a.test/%03d", i))
	}
	c.commit(outcomeOf(c.mustLease("http://a.test/"), 200), candidates(1, urls...)...)
	c.cut()
	for i, u := range urls {
		if i%100 == 50 {
			c.cut()
		}
		c.commit(outcomeOf(c.mustLease(u), 200))
	}
	if st := c.wantEnd("j", "empty"); st.Counters.Done != 301 {
		t.Errorf("counters %v", st.Counters)
	}
}

// heritrix3 #278: a crash amid a change of control state left it half done.
// Pauses, blocks, limits and their counters are in the same log as the URLs.
func TestPainHeritrix278ControlStateAfterACrash(t *testing.T) {
	c := newCrashed(t)
	c.job("j", testSpec(open24), "http://a.test/1", "http://b.test/1", "http://c.test/1")
	c.queue("j", "a.test", actBlock, c.clock.Now().Add(2*time.Hour))
	c.queue("j", "c.test", actRetire, time.Time{})
	l := c.wait(time.Hour)
	c.commit(outcomeOf(l, 200))
	if _, err := c.f.SetJobState(c.ctx, "j", schedulerv1.JobWish_JOB_WISH_PAUSE); err != nil {
		t.Fatal(err)
	}
	c.cut()
	if st := c.status("j"); st.State != jobPaused || st.Counters.Done != 1 {
		t.Fatalf("%s, %v", st.State, st.Counters)
	}
	for host, want := range map[string]schedulerv1.QueueState{"a.test": queueBlocked, "c.test": queueRetired} {
		if s, err := c.f.ShowQueue(c.ctx, "j", host); err != nil || s.Queue.State != want || s.Queue.Hold.GetReason() != "a test" {
			t.Errorf("queue %s: %v %v", host, s.GetQueue(), err)
		}
	}
}

// heritrix3 #392: the frontier could not be opened any more after an unclean
// end. It opens after a crash at any moment, any number of times.
func TestPainHeritrix392OpensAfterEveryCrash(t *testing.T) {
	c := newCrashed(t)
	c.job("j", testSpec(open24), "http://a.test/0")
	for i := range 20 {
		l := c.mustLease(fmt.Sprintf("http://a.test/%d", i))
		next := candidates(1, fmt.Sprintf("http://a.test/%d", i+1))
		switch i % 3 {
		case 0: // while it is leased: it comes again
			c.cut()
			l = c.mustLease(l.Url)
			c.commit(outcomeOf(l, 200), next...)
		case 1: // right after the answer
			c.commit(outcomeOf(l, 200), next...)
			c.cut()
		default: // twice
			c.commit(outcomeOf(l, 200), next...)
			c.cut()
			c.cut()
		}
		c.audit()
	}
}

// heritrix3 #500: URLs were lost that were in flight at the crash. They are
// queued again and keep their tries.
func TestPainHeritrix500InFlightAtTheCrash(t *testing.T) {
	c := newCrashed(t)
	var urls []string
	for i := range 8 {
		urls = append(urls, fmt.Sprintf("http://h%d.test/", i))
	}
	c.job("j", testSpec(open24), urls...)
	if out := c.lease(8); len(out) != 8 {
		t.Fatalf("%d leases", len(out))
	}
	c.cut()
	if st := c.status("j"); st.Counters.Queued != 8 || st.Counters.Leased != 0 || st.Counters.LostLeases != 8 {
		t.Fatalf("counters %v", st.Counters)
	}
	for range urls {
		l := c.wait(time.Hour)
		if l == nil || l.Attempt != 1 {
			t.Fatalf("lease %v", l)
		}
		c.commit(outcomeOf(l, 200))
	}
	c.wantEnd("j", "empty")
}

// scrapy #3413: the request queue on disk was broken after a kill, and the
// crawl neither went on nor said so. A damaged record costs its URL alone, is
// reported, and the job ends.
func TestPainScrapy3413DamagedQueue(t *testing.T) {
	s := store.NewMemory()
	r := newRig(t, s)
	r.job("j", testSpec(open24), "http://a.test/1", "http://a.test/2", "http://a.test/3")
	if err := r.f.Close(); err != nil {
		t.Fatal(err)
	}
	n := s.Reopen()
	var key, value []byte
	_ = n.Scan([]byte{kindQueued}, after([]byte{kindQueued}), func(k, v []byte) bool {
		key, value = append([]byte(nil), k...), append([]byte(nil), v...)
		return false
	})
	value[len(value)/2] ^= 1
	var b store.Batch
	b.Set(key, value)
	if _, err := n.Apply(&b, false); err != nil {
		t.Fatal(err)
	}
	r.open(n)
	for range 2 {
		l := r.wait(time.Hour)
		if l == nil {
			t.Fatal("the queue stands still behind a damaged record")
		}
		r.commit(outcomeOf(l, 200))
	}
	r.work()
	st := r.status("j")
	if st.State != jobFinished || st.Counters.Done != 2 || st.Counters.Failed != 1 {
		t.Errorf("%s (%s), %v", st.State, st.Reason, st.Counters)
	}
}

// wantReason checks that a job which stands still says why and until when.
func (r *rig) wantReason(want string, next bool) *schedulerv1.ExplainJobResponse {
	r.t.Helper()
	e := r.whyJob("j")
	if !strings.Contains(e.Reason+" "+strings.Join(e.WaitsFor, " "), want) || (e.NextAt != nil) != next {
		r.t.Errorf("why: %q, waits for %q, next %v (%s); want %q in it", e.Reason, e.WaitsFor, e.NextAt.AsTime(), e.NextEvent, want)
	}
	return e
}

// heritrix3 #203: the crawl stood still with all threads idle and queues full.
// Whatever a queue waits for is named with its time.
func TestPainHeritrix203IdleWithQueuesFull(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(obey), "http://a.test/1")
	l := r.mustLease("http://a.test/robots.txt")
	if e := r.wantReason("1 leases are out", true); len(e.Leases) != 1 || e.Leases[0].Downloader != "d1" {
		t.Errorf("leases %v", e.Leases)
	}
	r.commit(failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT))
	e := r.wantReason("1 queues wait", true)
	if len(e.Holding) != 1 || e.Holding[0].NextAt == nil || e.Holding[0].Reason == "" {
		t.Errorf("holding %v", e.Holding)
	}
	r.mustLease("http://a.test/robots.txt") // and it goes on by itself
}

// heritrix3 #252: a paused or exhausted crawl could not be told from one that
// hangs.
func TestPainHeritrix252PausedOrDoneOrHanging(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24), "http://a.test/1")
	r.wantReason("ready and wait for a downloader", false)
	wish := func(w schedulerv1.JobWish) {
		t.Helper()
		if _, err := r.f.SetJobState(r.ctx, "j", w); err != nil {
			t.Fatal(err)
		}
		r.work()
	}
	wish(schedulerv1.JobWish_JOB_WISH_PAUSE)
	r.wantReason("paused by hand", false)
	wish(schedulerv1.JobWish_JOB_WISH_RESUME)
	r.commit(outcomeOf(r.mustLease("http://a.test/1"), 200))
	r.wantEnd("j", "empty")
	r.wantReason("nothing is left to be fetched", false)
}

// heritrix3 #420: the crawl did not go on after the disk had been full. It says
// so, tries by itself, and goes on.
func TestPainHeritrix420AfterAFullDisk(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24), "http://a.test/1")
	l := r.mustLease("http://a.test/1")
	err := r.f.Release(r.ctx, l.Id, &downloaderv1.FetchAnswer{Answer: &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_RETRY_LATER,
		Reason: "no space left on device", StorageUnavailable: true}})
	if err != nil {
		t.Fatal(err)
	}
	r.work()
	if st := r.status("j"); st.Trouble != schedulerv1.Trouble_TROUBLE_STORAGE {
		t.Errorf("trouble %s", st.Trouble)
	}
	r.wantReason("no space left on device", true)
	r.commit(outcomeOf(r.mustLease("http://a.test/1"), 200))
	if st := r.wantEnd("j", "empty"); st.Trouble != schedulerv1.Trouble_TROUBLE_UNSPECIFIED {
		t.Errorf("trouble %s", st.Trouble)
	}
}

// crawlee #505: the crawler hung at the end, with requests that were neither
// done nor queued. A lease whose downloader is gone runs out, and the job ends.
func TestPainCrawlee505NeverEnds(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24), "http://a.test/1")
	r.mustLease("http://a.test/1")
	r.f.MemberGone("d1")
	if e := r.wantReason("1 leases are out", true); !strings.Contains(e.NextEvent, "runs out") {
		t.Errorf("next event %q", e.NextEvent)
	}
	r.clock.advance(10 * time.Minute)
	r.work()
	r.commit(outcomeOf(r.mustLease("http://a.test/1"), 200))
	r.wantEnd("j", "empty")
}

// firecrawl #1347: a crawl stayed in "scraping" for ever with no reason given.
// Dead hosts end, and each URL says why.
func TestPainFirecrawl1347StuckInScraping(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24, func(s *jobv1.Spec) { s.Politeness.MaxTries = 3 }), "http://dead.test/", "http://a.test/")
	for range 10 {
		l := r.wait(25 * time.Hour)
		if l == nil {
			break
		}
		if l.HostKey == "dead.test" {
			r.commit(failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_TIMEOUT))
			continue
		}
		r.commit(outcomeOf(l, 200))
	}
	st := r.wantEnd("j", "empty")
	if st.Counters.Failed != 1 || st.Counters.Done != 1 {
		t.Errorf("counters %v", st.Counters)
	}
	if e := r.explain("j", "http://dead.test/"); e.Reason == "" || !strings.HasPrefix(stepNames(e.Steps), "found queued tried") {
		t.Errorf("why %q, %s", e.Reason, stepNames(e.Steps))
	}
}
