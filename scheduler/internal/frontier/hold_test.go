package frontier

import (
	"errors"
	"fmt"
	"testing"
	"time"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

const (
	actBlock   = schedulerv1.QueueAction_QUEUE_ACTION_BLOCK
	actRetire  = schedulerv1.QueueAction_QUEUE_ACTION_RETIRE
	actRelease = schedulerv1.QueueAction_QUEUE_ACTION_RELEASE
	actDelete  = schedulerv1.QueueAction_QUEUE_ACTION_DELETE
)

func (r *rig) queue(job, host string, act schedulerv1.QueueAction, until time.Time) (*schedulerv1.QueueStatus, uint64) {
	r.t.Helper()
	q, n, err := r.f.UpdateQueue(r.ctx, job, host, act, until, "a test")
	if err != nil {
		r.t.Fatal(err)
	}
	r.work()
	return q, n
}

func (r *rig) whyJob(job string) *schedulerv1.ExplainJobResponse {
	r.t.Helper()
	e, err := r.f.ExplainJob(r.ctx, job)
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

func TestBlockedQueueIsLeftAloneAcrossRestarts(t *testing.T) {
	s := store.NewMemory()
	r := newRig(t, s)
	r.job("j", testSpec(open24), "http://a.test/1", "http://a.test/2", "http://b.test/1")
	q, _ := r.queue("j", "a.test", actBlock, time.Time{})
	if q.State != queueBlocked || q.Queued != 2 || q.Hold.GetReason() != "a test" {
		t.Fatalf("queue %v", q)
	}
	r.commit(outcomeOf(r.mustLease("http://b.test/1"), 200), candidates(1, "http://a.test/3")...)
	if l := r.wait(time.Hour); l != nil {
		t.Fatalf("leased %s of a blocked queue", l.Url)
	}
	st := r.status("j")
	if st.State != jobRunning || st.Trouble != schedulerv1.Trouble_TROUBLE_BLOCKED {
		t.Errorf("job is %s, trouble %s", st.State, st.Trouble)
	}
	if e := r.whyJob("j"); len(e.Holding) != 1 || e.Holding[0].HostKey != "a.test" || e.Holding[0].Queued != 3 || e.NextAt != nil {
		t.Errorf("why: %v", e)
	}
	r.audit()
	if err := r.f.Close(); err != nil {
		t.Fatal(err)
	}
	r.open(s.Reopen())
	if l := r.wait(time.Hour); l != nil {
		t.Fatalf("leased %s of a blocked queue after a restart", l.Url)
	}
	r.queue("j", "a.test", actRelease, time.Time{})
	for i := range 3 {
		l := r.wait(time.Hour)
		if l == nil {
			t.Fatalf("no lease %d after the release", i)
		}
		r.commit(outcomeOf(l, 200))
	}
	r.wantEnd("j", "empty")
	if _, _, err := r.f.UpdateQueue(r.ctx, "j", "a.test", actRelease, time.Time{}, ""); !errors.Is(err, ErrState) {
		t.Errorf("releasing what is not held: %v", err)
	}
}

func TestBlockUntil(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24), "http://a.test/1")
	start := r.clock.Now()
	r.queue("j", "a.test", actBlock, start.Add(3*time.Hour))
	if e := r.explain("j", "http://a.test/1"); e.NextAt.AsTime().Sub(start.UTC()).Round(time.Second) != 3*time.Hour {
		t.Errorf("next %v", e.NextAt.AsTime())
	}
	l := r.wait(4 * time.Hour)
	if l == nil {
		t.Fatal("the block has not ended")
	}
	if waited := r.clock.Now().Sub(start); waited < 3*time.Hour || waited > 3*time.Hour+2*time.Second {
		t.Errorf("leased after %s, want 3h", waited)
	}
	if _, _, err := r.f.UpdateQueue(r.ctx, "j", "a.test", actBlock, start, ""); !errors.Is(err, ErrState) {
		t.Errorf("a block until the past: %v", err)
	}
	r.commit(outcomeOf(l, 200))
	r.wantEnd("j", "empty")
}

// What is in flight ends, and does not come out again.
func TestBlockWithALeaseOut(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24), "http://a.test/1", "http://a.test/2")
	l := r.mustLease("http://a.test/1")
	r.queue("j", "a.test", actBlock, time.Time{})
	r.commit(failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_TIMEOUT))
	if l := r.wait(time.Hour); l != nil {
		t.Fatalf("leased %s", l.Url)
	}
	if st := r.status("j"); st.Counters.Queued != 2 {
		t.Errorf("counters %v", st.Counters)
	}
	r.audit()
}

func TestRetiredQueuesDoNotHoldTheJob(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24), "http://a.test/1", "http://b.test/1")
	r.queue("j", "a.test", actRetire, time.Time{})
	r.commit(outcomeOf(r.mustLease("http://b.test/1"), 200))
	r.clock.advance(2 * time.Second)
	st := r.wantEnd("j", "retired")
	if st.Counters.Queued != 1 {
		t.Errorf("counters %v", st.Counters)
	}
	r.queue("j", "a.test", actRelease, time.Time{})
	r.start("j")
	r.commit(outcomeOf(r.mustLease("http://a.test/1"), 200))
	r.wantEnd("j", "empty")
}

func TestDeleteQueue(t *testing.T) {
	r := newRig(t, store.NewMemory())
	var urls []string
	for i := range 2*byHandChunk + 7 {
		urls = append(urls, fmt.Sprintf("http://a.test/%d", i))
	}
	r.job("j", testSpec(open24), append(urls, "http://b.test/1")...)
	first := r.lease(2)
	q, n := r.queue("j", "a.test", actDelete, time.Time{})
	if n != uint64(len(urls)-1) || q.Queued != 0 {
		t.Fatalf("dropped %d of %d, %d left", n, len(urls)-1, q.Queued)
	}
	r.audit()
	for _, l := range first {
		r.commit(outcomeOf(l, 200), candidates(1, "http://a.test/5", "http://a.test/new")...)
	}
	r.commit(outcomeOf(r.mustLease("http://a.test/new"), 200))
	st := r.wantEnd("j", "empty")
	if st.Counters.Done != 3 || st.Counters.Excluded != n {
		t.Errorf("counters %v", st.Counters)
	}
	if e := r.explain("j", "http://a.test/5"); e.Reason != deletedReason {
		t.Errorf("why %q", e.Reason)
	}
}

// A held queue takes no slot that another could use.
func TestHeldQueuesTakeNoSlots(t *testing.T) {
	r := newRig(t, store.NewMemory(), func(o *Options) { o.MaxActiveHosts = 2 })
	var urls []string
	for i := range 6 {
		urls = append(urls, fmt.Sprintf("http://h%d.test/", i))
	}
	r.job("j", testSpec(open24), urls...)
	for i := range 5 {
		r.queue("j", fmt.Sprintf("h%d.test", i), actBlock, time.Time{})
	}
	r.commit(outcomeOf(r.mustLease("http://h5.test/"), 200))
	for i := range 5 {
		r.queue("j", fmt.Sprintf("h%d.test", i), actRelease, time.Time{})
	}
	for range 5 {
		l := r.wait(time.Hour)
		if l == nil {
			t.Fatal("a released queue is not served")
		}
		r.commit(outcomeOf(l, 200))
	}
	r.wantEnd("j", "empty")
}

func TestShowQueueNamesEveryClock(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(obey), "http://a.test/1", "http://a.test/2")
	l := r.mustLease("http://a.test/robots.txt")
	held := func(name string) bool {
		t.Helper()
		s, err := r.f.ShowQueue(r.ctx, "j", "a.test")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range s.Clocks {
			if c.Name == name {
				return c.Holds
			}
		}
		t.Fatalf("no clock %q in %v", name, s.Clocks)
		return false
	}
	if !held("robots.txt (http)") || !held("lease") || held("delay") {
		t.Error("while robots.txt is fetched, it and the lease hold, not the delay")
	}
	r.commit(outcomeOf(l, 404))
	if held("robots.txt (http)") || !held("delay") {
		t.Error("after the fetch the delay holds")
	}
	s, _ := r.f.ShowQueue(r.ctx, "j", "a.test")
	if len(s.NextUrls) != 2 || s.NextUrls[0] != "http://a.test/1" {
		t.Errorf("next URLs %v", s.NextUrls)
	}
}
