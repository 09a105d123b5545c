package frontier

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

func (r *rig) give(job string, urls ...string) SeedsAdded {
	r.t.Helper()
	sum, err := r.f.AddSeedsByHand(r.ctx, job, candidates(0, urls...))
	if err != nil {
		r.t.Fatal(err)
	}
	r.work()
	return sum
}

func (r *rig) start(job string) {
	r.t.Helper()
	if _, err := r.f.SetJobState(r.ctx, job, schedulerv1.JobWish_JOB_WISH_START); err != nil {
		r.t.Fatal(err)
	}
	r.work()
}

// A seed whose address was refused is fetched once the network was opened and
// the seed given again.
func TestSeedAgainAfterAddressPolicy(t *testing.T) {
	forbidden := true
	s := store.NewMemory()
	var clock Clock
	r := newRig(t, s, func(o *Options) {
		clock = o.Clock
		o.Lookup = func(_ context.Context, host, _ string, _ bool) (*crawlv1.HostAddresses, error) {
			a := &crawlv1.HostAddresses{Host: host, ExpiresAt: timestamppb.New(clock.Now().Add(time.Hour))}
			if forbidden {
				a.Status, a.Error = crawlv1.HostStatus_HOST_STATUS_FORBIDDEN, "not allowed to connect to 127.0.0.1 (loopback)"
				return a, nil
			}
			a.Status, a.Addresses = crawlv1.HostStatus_HOST_STATUS_RESOLVED, [][]byte{{127, 0, 0, 1}}
			return a, nil
		}
	})
	r.job("j", testSpec(), "http://a.test/", "http://a.test/2")
	if l := r.wait(time.Hour); l != nil {
		t.Fatalf("leased %v", l)
	}
	r.wantEnd("j", "empty")
	if sum := r.give("j", "http://a.test/"); sum.Queued != 1 || sum.Known != 1 {
		t.Fatalf("%+v", sum)
	}
	r.start("j")
	if l := r.wait(time.Hour); l != nil {
		t.Fatalf("leased %v although the address is still refused", l)
	}
	r.wantEnd("j", "empty")
	forbidden = false
	if sum := r.give("j", "http://a.test/", "http://a.test/", "http://a.test/new"); sum.Queued != 1 || sum.Added != 1 {
		t.Fatalf("%+v", sum)
	}
	r.start("j")
	for range 2 {
		l := r.wait(time.Hour)
		if l == nil {
			t.Fatal("the seed was not queued again")
		}
		r.commit(outcomeOf(l, 200))
	}
	st := r.wantEnd("j", "empty")
	if st.Counters.Done != 2 || st.Counters.Excluded != 1 {
		t.Errorf("counters %v", st.Counters)
	}
	// What is done is not fetched again.
	if sum := r.give("j", "http://a.test/"); sum.Queued != 0 {
		t.Errorf("a done seed was queued again: %+v", sum)
	}
}

// Tries, the back-off and an unreachable robots.txt are forgotten; a server's
// own wish to be left alone is not.
func TestSeedAgainAfterFailures(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(obey), "http://a.test/")
	for range 3 {
		r.commit(failureOf(r.mustLease("http://a.test/robots.txt"), crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT))
	}
	if l := r.wait(time.Second); l != nil {
		t.Fatalf("leased %v", l)
	}
	r.clock.advance(24 * time.Hour)
	r.work()
	if l := r.lease(1); len(l) > 0 {
		t.Fatalf("leased %v", l)
	}
	st := r.wantEnd("j", "empty")
	if st.Counters.Excluded != 1 || !strings.HasPrefix(r.explain("j", "http://a.test/").Reason, "robots-unreachable") {
		t.Fatalf("%v: %s", st.Counters, r.explain("j", "http://a.test/").Reason)
	}
	if sum := r.give("j", "http://a.test/"); sum.Queued != 1 {
		t.Fatalf("%+v", sum)
	}
	r.start("j")
	r.commit(outcomeOf(r.mustLease("http://a.test/robots.txt"), 404))
	for range 3 {
		r.commit(failureOf(r.mustLease("http://a.test/"), crawlv1.OutcomeClass_OUTCOME_CLASS_TIMEOUT))
	}
	st = r.wantEnd("j", "empty")
	if st.Counters.Failed != 1 {
		t.Fatalf("counters %v", st.Counters)
	}
	before := r.clock.Now()
	if sum := r.give("j", "http://a.test/"); sum.Queued != 1 {
		t.Fatalf("%+v", sum)
	}
	r.start("j")
	l := r.mustLease("http://a.test/")
	if l.Attempt != 1 {
		t.Errorf("attempt %d, want all tries back", l.Attempt)
	}
	if waited := r.clock.Now().Sub(before); waited > time.Minute {
		t.Errorf("the seed given by hand waited %s for a back-off", waited)
	}
	r.commit(outcomeOf(l, 200))
	r.wantEnd("j", "empty")
}

// A job that has finished as empty and gets URLs by hand says so, and is whole:
// it has not finished as empty any more, and goes on when it is started.
func TestSeedsOfAFinishedJob(t *testing.T) {
	mem := store.NewMemory()
	r := newRig(t, mem)
	r.job("j", testSpec(open24), "http://a.test/", "http://bad.test/")
	r.commit(outcomeOf(r.mustLease("http://a.test/"), 200), candidates(1, "http://a.test/cal/1")...)
	more := func(what string, queued uint64) {
		t.Helper()
		st := r.status("j")
		if st.State != jobFinished || st.Reason != reasonMore || st.Counters.Queued != queued {
			t.Errorf("after %s: %s (%s), %d queued", what, st.State, st.Reason, st.Counters.Queued)
		}
		if e := r.whyJob("j"); !strings.Contains(e.Reason, "URLs were queued since") {
			t.Errorf("after %s: %s", what, e.Reason)
		}
		r.audit()
		_ = r.f.Close()
		mem = mem.Reopen()
		r.open(mem)
		if st := r.status("j"); st.Reason != reasonMore {
			t.Errorf("after %s and a restart: %s", what, st.Reason)
		}
		r.start("j")
	}
	for l := r.wait(time.Hour); l != nil; l = r.wait(time.Hour) {
		o := outcomeOf(l, 200)
		if l.HostKey == "bad.test" {
			o = failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_CONTENT)
		}
		r.commit(o)
	}
	r.wantEnd("j", reasonEmpty)
	if sum := r.give("j", "http://a.test/"); sum.Added+sum.Queued != 0 || r.status("j").Reason != reasonEmpty {
		t.Errorf("a seed that is done: %+v, %s", sum, r.status("j").Reason)
	}
	r.give("j", "http://a.test/new", "http://b.test/new")
	more("new seeds", 2)
	for range 2 {
		r.commit(outcomeOf(r.wait(time.Hour), 200))
	}
	r.wantEnd("j", reasonEmpty)
	r.give("j", "http://bad.test/")
	more("a seed again", 1)
	r.commit(outcomeOf(r.mustLease("http://bad.test/"), 200), candidates(1, "http://a.test/no/1")...)
	r.exclude([]string{"/no/"}, nil, false)
	r.wantEnd("j", reasonEmpty)
	r.exclude(nil, []string{"/no/"}, false)
	more("an exclusion that is gone", 1)
	r.commit(outcomeOf(r.mustLease("http://a.test/no/1"), 200))
	r.wantEnd("j", reasonEmpty)
	r.audit()
}

// A seed whose queue sorts before those that are looked at when it comes gets
// its slot all the same.
func TestSeedBesideAQueueThatWaits(t *testing.T) {
	r := newRig(t, store.NewMemory())
	slow := testSpec(func(s *jobv1.Spec) {
		s.Politeness.MinDelay, s.Politeness.MaxDelay = durationpb.New(30*time.Second), durationpb.New(30*time.Second)
	})
	r.job("j", slow, "http://h4.test/1", "http://h4.test/2")
	r.commit(outcomeOf(r.mustLease("http://h4.test/1"), 200))
	r.seed("j", "http://h3.test/1")
	r.work()
	until := r.clock.Now().Add(time.Minute)
	if _, _, err := r.f.UpdateQueue(r.ctx, "j", "h4.test", schedulerv1.QueueAction_QUEUE_ACTION_BLOCK, until, ""); err != nil {
		t.Fatal(err)
	}
	r.work()
	r.seed("j", "http://h1.test/1")
	r.work()
	leased := map[string]bool{}
	for range 2 {
		if l := r.wait(time.Second); l != nil {
			leased[l.Url] = true
		}
	}
	if !leased["http://h1.test/1"] || !leased["http://h3.test/1"] {
		t.Errorf("only %v are leased", leased)
	}
}

// A seed given again brings no fetch forward of what the server has asked for:
// the Retry-After that another URL of the host was given, or the Crawl-delay,
// also over a restart.
func TestSeedAgainKeepsWhatTheServerAsked(t *testing.T) {
	const other, given = "http://a.test/1", "http://a.test/2"
	crawlDelay := func(s *jobv1.Spec) { s.Politeness.MaxCrawlDelay = durationpb.New(5 * time.Minute) }
	for _, restart := range []bool{false, true} {
		for _, tc := range []struct {
			name string
			spec func(*jobv1.Spec)
			fail func(r *rig) // fails both; what the server asked for ends 2 minutes later, or more
		}{
			{"Retry-After first", open24, func(r *rig) {
				o := outcomeOf(r.mustLease(other), 503)
				o.Fetch.RetryAfter = durationpb.New(10 * time.Minute)
				l := r.lateLease(given)
				r.commit(o)
				r.commit(failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_TIMEOUT))
			}},
			{"Retry-After last", open24, func(r *rig) {
				l := r.mustLease(other)
				r.commit(failureOf(r.lateLease(given), crawlv1.OutcomeClass_OUTCOME_CLASS_TIMEOUT))
				o := outcomeOf(l, 429)
				o.Fetch.RetryAfter = durationpb.New(10 * time.Minute)
				r.commit(o)
			}},
			{"Crawl-delay", func(s *jobv1.Spec) { obey(s); crawlDelay(s) }, func(r *rig) {
				o := outcomeOf(r.mustLease("http://a.test/robots.txt"), 200)
				o.RobotsBody = []byte("User-agent: *\nCrawl-delay: 300\n")
				r.commit(o)
				r.commit(failureOf(r.mustLease(other), crawlv1.OutcomeClass_OUTCOME_CLASS_TIMEOUT))
				r.commit(failureOf(r.mustLease(given), crawlv1.OutcomeClass_OUTCOME_CLASS_TIMEOUT))
			}},
		} {
			t.Run(fmt.Sprintf("%s, restart %t", tc.name, restart), func(t *testing.T) {
				mem := store.NewMemory()
				r := newRig(t, mem)
				r.job("j", testSpec(tc.spec, func(s *jobv1.Spec) {
					s.Politeness.MaxTries, s.Politeness.PerHost = 1, 2
					s.Politeness.MinDelay, s.Politeness.MaxDelay = durationpb.New(0), durationpb.New(0)
				}), other, given)
				tc.fail(r)
				until := r.clock.Now().Add(4*time.Minute + 59*time.Second)
				if restart {
					if err := r.f.Close(); err != nil {
						t.Fatal(err)
					}
					r.open(mem.Reopen())
				}
				if sum := r.give("j", given); sum.Queued != 1 {
					t.Fatalf("%+v", sum)
				}
				if r.status("j").State == jobFinished {
					r.start("j")
				}
				if l := r.wait(time.Hour); l == nil || r.clock.Now().Before(until) {
					t.Errorf("leased %v before the server's time, at %s, want %s", l, r.clock.Now(), until)
				}
			})
		}
	}
}

// lateLease leases a URL of a host of which another is out.
func (r *rig) lateLease(want string) *crawlv1.Lease {
	r.t.Helper()
	l := r.mustLease(want)
	if len(r.f.leases) != 2 {
		r.t.Fatalf("%d are out", len(r.f.leases))
	}
	return l
}
