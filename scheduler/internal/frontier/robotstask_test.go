package frontier

import (
	"testing"
	"time"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// A robots.txt whose lease comes to nothing while its queue stops being served
// is asked for by whose turn it is next: nobody waits for it for ever.
func TestRobotsLeaseThatEndsInAStoppedQueue(t *testing.T) {
	for _, c := range []struct {
		name       string
		stop, goOn func(r *rig)
	}{
		{"paused", func(r *rig) { r.wish(schedulerv1.JobWish_JOB_WISH_PAUSE) }, func(r *rig) { r.wish(schedulerv1.JobWish_JOB_WISH_RESUME) }},
		{"stopped", func(r *rig) { r.wish(schedulerv1.JobWish_JOB_WISH_STOP) }, func(r *rig) { r.wish(schedulerv1.JobWish_JOB_WISH_START) }},
		{"blocked", func(r *rig) { r.hold(schedulerv1.QueueAction_QUEUE_ACTION_BLOCK) }, func(r *rig) { r.hold(schedulerv1.QueueAction_QUEUE_ACTION_RELEASE) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, store.NewMemory())
			r.job("j", testSpec(obey), "http://a.test/1")
			l := r.mustLease("http://a.test/robots.txt")
			c.stop(r)
			r.commit(failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_NOT_STARTED))
			c.goOn(r)
			r.commit(outcomeOf(r.mustLease("http://a.test/robots.txt"), 404))
			r.commit(outcomeOf(r.mustLease("http://a.test/1"), 200))
			r.wantEnd("j", reasonEmpty)
		})
	}
}

// A job does not wait for a robots.txt that another job's blocked queue was to
// ask for.
func TestRobotsOfABlockedQueueIsAskedForByAnotherJob(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(obey), "http://a.test/1")
	l := r.mustLease("http://a.test/robots.txt")
	r.job("other", testSpec(obey), "http://a.test/2")
	r.hold(schedulerv1.QueueAction_QUEUE_ACTION_BLOCK)
	r.commit(failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_NOT_STARTED))
	l = r.mustLease("http://a.test/robots.txt")
	if l.JobId != "other" {
		t.Errorf("it is asked for by job %q", l.JobId)
	}
	r.commit(outcomeOf(l, 404))
	r.commit(outcomeOf(r.mustLease("http://a.test/2"), 200))
	r.wantEnd("other", reasonEmpty)
}

// A queue that is retired while its robots.txt is out comes back whole.
func TestRobotsLeaseOfARetiredQueue(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(obey), "http://a.test/1")
	l := r.mustLease("http://a.test/robots.txt")
	f := r.f
	f.mu.Lock()
	b := f.newBatch()
	f.retireQueue(b, f.leases[l.Id].queue, budgetReason+"a test")
	_, _ = f.apply(b, false)
	f.mu.Unlock()
	r.commit(failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_NOT_STARTED))
	r.wantEnd("j", reasonEmpty)
	r.wish(schedulerv1.JobWish_JOB_WISH_START) // looks at what is retired
	r.commit(outcomeOf(r.mustLease("http://a.test/robots.txt"), 404))
	r.commit(outcomeOf(r.mustLease("http://a.test/1"), 200))
	r.wantEnd("j", reasonEmpty)
}

func (r *rig) wish(w schedulerv1.JobWish) {
	r.t.Helper()
	if _, err := r.f.SetJobState(r.ctx, "j", w); err != nil {
		r.t.Fatal(err)
	}
	r.work()
}

func (r *rig) hold(a schedulerv1.QueueAction) {
	r.t.Helper()
	if _, _, err := r.f.UpdateQueue(r.ctx, "j", "a.test", a, time.Time{}, "a test"); err != nil {
		r.t.Fatal(err)
	}
	r.work()
}
