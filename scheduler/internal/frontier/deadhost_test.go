package frontier

import (
	"fmt"
	"strings"
	"testing"
	"time"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// A dead host with many URLs does not keep a crawl open: it is given up after
// ten failures in a row, its URLs wait on disk, the job ends and says so. The
// job started again, or the queue released, gives it one more try.
func TestDeadHostIsGivenUp(t *testing.T) {
	mem := store.NewMemory()
	r := newRig(t, mem)
	const pages = 500
	var seeds []string
	for i := range pages {
		seeds = append(seeds, fmt.Sprintf("http://dead.test/%d", i))
	}
	r.job("j", testSpec(), append(seeds, "http://alive.test/")...)
	fetch := func(alive bool) (tries int) {
		t.Helper()
		for {
			l := r.wait(2 * 24 * time.Hour)
			switch {
			case l == nil:
				return tries
			case l.HostKey == "dead.test" && !alive:
				tries++
				r.commit(failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT))
			default:
				r.commit(outcomeOf(l, 200))
			}
		}
	}
	ended := func(queued uint64) {
		t.Helper()
		s := r.status("j")
		if s.State != schedulerv1.JobState_JOB_STATE_FINISHED || s.Reason != reasonEmpty || s.Counters.Queued != queued {
			t.Fatalf("the job is %s (%s): %v", s.State, s.Reason, s.Counters)
		}
		r.audit()
	}
	start := r.clock.Now()
	if n := fetch(false); n != 10 {
		t.Errorf("%d tries of the dead host, want 10", n)
	}
	ended(pages - 3) // three URLs had all their tries
	if took := r.clock.Now().Sub(start); took > 5*24*time.Hour {
		t.Errorf("the crawl took %s", took)
	}
	s := r.status("j")
	if len(s.Retired) != 1 || s.Retired[0].HostKey != "dead.test" || !strings.Contains(s.Retired[0].Reason, "failed 10 times in a row") {
		t.Errorf("retired: %v", s.Retired)
	}
	if e := r.explain("j", "http://dead.test/400"); !strings.Contains(e.String(), "failed 10 times in a row") {
		t.Errorf("why: %v", e)
	}

	// A restart alone is no reason to try again; a start by hand is one.
	r.f.Close()
	mem = mem.Reopen()
	r.open(mem)
	if l := r.wait(24 * time.Hour); l != nil {
		t.Errorf("%s was leased after a restart", l.Url)
	}
	if _, err := r.f.SetJobState(r.ctx, "j", schedulerv1.JobWish_JOB_WISH_START); err != nil {
		t.Fatal(err)
	}
	r.work()
	if n := fetch(false); n != 1 {
		t.Errorf("%d tries after a start, want 1", n)
	}
	ended(pages - 3)

	// Released by hand, and alive again.
	if _, _, err := r.f.UpdateQueue(r.ctx, "j", "dead.test", schedulerv1.QueueAction_QUEUE_ACTION_RELEASE, time.Time{}, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := r.f.SetJobState(r.ctx, "j", schedulerv1.JobWish_JOB_WISH_START); err != nil {
		t.Fatal(err)
	}
	r.work()
	fetch(true)
	ended(0)
	if s := r.status("j"); s.Counters.Done != pages-3+1 {
		t.Errorf("counters %v", s.Counters)
	}
}
