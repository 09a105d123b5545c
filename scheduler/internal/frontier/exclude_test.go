package frontier

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	"lycosa.dev/scheduler/internal/frontier/store"
)

func (r *rig) exclude(add, remove []string, dry bool) *ExclusionChange {
	r.t.Helper()
	c, err := r.f.ChangeExclusions(r.ctx, "j", add, remove, dry)
	if err != nil {
		r.t.Fatal(err)
	}
	r.work()
	return c
}

// linked makes a job with a done seed and n queued links, every other of which
// is of a calendar.
func linked(t *testing.T, s store.Store, n int) *rig {
	r := newRig(t, s)
	r.job("j", testSpec(open24, func(s *jobv1.Spec) { s.Limits.Concurrency = 4 }), "http://a.test/cal/seed")
	var urls []string
	for i := range n {
		kind := "page"
		if i%2 == 1 {
			kind = "cal"
		}
		urls = append(urls, fmt.Sprintf("http://a.test/%s/%d", kind, i))
	}
	r.commit(outcomeOf(r.mustLease("http://a.test/cal/seed"), 200), candidates(1, urls...)...)
	r.work()
	return r
}

func TestExclusionsPreviewApplyAndComeBack(t *testing.T) {
	const n = 2*sweepChunk + 50
	r := linked(t, store.NewMemory(), n)
	p := r.exclude([]string{"/cal/"}, nil, true)
	if p.Dropped != n/2 || len(p.Examples) != examplesShown || r.status("j").Counters.Excluded != 0 {
		t.Fatalf("preview %d of %d, %d examples; counters %v", p.Dropped, n/2, len(p.Examples), r.status("j").Counters)
	}
	version := r.status("j").SpecVersion
	c := r.exclude([]string{"/cal/"}, nil, false)
	st := r.status("j")
	if c.Dropped != p.Dropped || st.Counters.Excluded != n/2 || st.Counters.Queued != n/2 || st.SpecVersion <= version {
		t.Fatalf("dropped %d; counters %v, version %d", c.Dropped, st.Counters, st.SpecVersion)
	}
	r.audit()
	if e := r.explain("j", "http://a.test/cal/1"); e.Reason != "exclude /cal/" {
		t.Errorf("why %q", e.Reason)
	}
	// A link judged under the old spec is ended when its turn comes.
	l := r.mustLease("http://a.test/page/0")
	r.commit(outcomeOf(l, 200), candidates(1, "http://a.test/cal/late")...)
	for range n/2 - 1 {
		l := r.wait(1e12)
		if l == nil || strings.Contains(l.Url, "/cal/") {
			t.Fatalf("leased %v", l)
		}
		r.commit(outcomeOf(l, 200))
	}
	if l := r.wait(1e12); l != nil {
		t.Fatalf("leased %v", l)
	}
	r.wantEnd("j", "empty")
	p = r.exclude(nil, []string{"/cal/"}, true)
	c = r.exclude(nil, []string{"/cal/"}, false)
	if p.Revived != n/2+1 || c.Revived != p.Revived {
		t.Fatalf("revived %d, preview %d, want %d", c.Revived, p.Revived, n/2+1)
	}
	r.start("j")
	for range n/2 + 1 {
		l := r.wait(1e12)
		if l == nil {
			t.Fatal("what the exclusion had ended does not come back")
		}
		r.commit(outcomeOf(l, 200))
	}
	if st := r.wantEnd("j", "empty"); st.Counters.Excluded != 0 || st.Counters.Done != n+2 {
		t.Errorf("counters %v", st.Counters)
	}
}

func TestExclusionErrors(t *testing.T) {
	r := linked(t, store.NewMemory(), 4)
	for _, tc := range []struct{ add, remove []string }{{add: []string{"("}}, {remove: []string{"/x/"}}} {
		if _, err := r.f.ChangeExclusions(r.ctx, "j", tc.add, tc.remove, false); !errors.Is(err, ErrRule) && !errors.Is(err, ErrNoRule) {
			t.Errorf("%v: %v", tc, err)
		}
	}
	if _, err := r.f.ChangeExclusions(r.ctx, "none", []string{"x"}, nil, false); !errors.Is(err, ErrNoJob) {
		t.Error(err)
	}
}

// A sweep that a crash cuts goes on after the restart.
func TestExclusionSweepSurvivesARestart(t *testing.T) {
	const n = 3 * sweepChunk
	s := store.NewMemory()
	r := linked(t, s, n)
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	if _, err := r.f.ChangeExclusions(ctx, "j", []string{"/cal/"}, nil, false); err == nil {
		t.Log("the preview had ended before the context")
	}
	spec := r.status("j").Spec
	spec, err := withExclusions(spec, []string{"/cal/"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.f.ApplyJob(r.ctx, "j", spec, false); err != nil {
		t.Fatal(err)
	}
	r.f.mu.Lock()
	r.f.sweepStep(r.f.jobs["j"], r.f.now())
	under := r.f.jobs["j"].sweep != nil
	r.f.mu.Unlock()
	if !under || r.status("j").Counters.Excluded == n/2 {
		t.Fatal("the sweep is not under way")
	}
	if err := r.f.Close(); err != nil {
		t.Fatal(err)
	}
	r.open(s.Reopen())
	if st := r.status("j"); st.Counters.Excluded != n/2 {
		t.Errorf("counters %v", st.Counters)
	}
	r.audit()
}

// A higher max_depth brings back what the lower one had cut.
func TestRaisedDepthBringsBack(t *testing.T) {
	r := newRig(t, store.NewMemory())
	depth := func(n uint32) *jobv1.Spec {
		return testSpec(open24, func(s *jobv1.Spec) { s.Limits.MaxDepth = &n })
	}
	r.job("j", depth(0), "http://a.test/")
	r.commit(outcomeOf(r.mustLease("http://a.test/"), 200), candidates(1, "http://a.test/1")...)
	r.wantEnd("j", "empty")
	if _, _, err := r.f.ApplyJob(r.ctx, "j", depth(1), false); err != nil {
		t.Fatal(err)
	}
	r.work()
	r.start("j")
	r.commit(outcomeOf(r.mustLease("http://a.test/1"), 200))
	r.wantEnd("j", "empty")
}

// A live audit sees one instant, whatever goes on meanwhile.
func TestAuditOfALiveJob(t *testing.T) {
	for name, s := range map[string]store.Store{"memory": store.NewMemory(), "pebble": openPebble(t)} {
		t.Run(name, func(t *testing.T) {
			r := linked(t, s, 200)
			var wg sync.WaitGroup
			stop := make(chan struct{})
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					rep, err := r.f.AuditLive()
					if err != nil {
						t.Error(err)
						return
					}
					for _, v := range rep.Violations {
						t.Errorf("%s: %s", v.Rule, v.Detail)
					}
				}
			})
			for i := range 150 {
				l := r.wait(1e12)
				if l == nil {
					t.Fatal("no lease while an audit runs")
				}
				r.commit(outcomeOf(l, 200), candidates(1, fmt.Sprintf("http://b%d.test/", i))...)
			}
			close(stop)
			wg.Wait()
			if err := r.f.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func openPebble(t *testing.T) store.Store {
	t.Helper()
	s, err := store.OpenPebble(t.TempDir(), store.PebbleOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Queues that an exclusion has emptied give up their slots to those that wait.
func TestExclusionsFreeSlots(t *testing.T) {
	r := newRig(t, store.NewMemory(), func(o *Options) { o.MaxActiveHosts = 3 })
	r.job("j", testSpec(), "http://seed.test/")
	var urls []string
	for h := range 8 {
		kind := "cal"
		if h >= 3 {
			kind = "page"
		}
		for p := range 3 {
			urls = append(urls, fmt.Sprintf("http://h%d.test/%s/%d", h, kind, p))
		}
	}
	r.commit(outcomeOf(r.mustLease("http://seed.test/"), 200), candidates(1, urls...)...)
	done := map[string]bool{}
	for len(done) < 3 { // the calendars have the slots and wait their delay
		l := r.wait(time.Minute)
		if !strings.Contains(l.Url, "/cal/") || done[l.HostKey] {
			t.Fatalf("%s has a slot", l.Url)
		}
		done[l.HostKey] = true
		r.commit(outcomeOf(l, 200))
	}
	r.exclude([]string{"/cal/"}, nil, false)
	for range 5 * 3 {
		l := r.wait(2 * time.Minute)
		if l == nil {
			t.Fatalf("nothing is leased any more: %v", r.status("j").Counters)
		}
		r.commit(outcomeOf(l, 200))
	}
	r.wantEnd("j", reasonEmpty)
	r.audit()
}

// A URL that two exclusions match comes back when the last of them is gone, and
// until then names the one that is left, whatever order they came and go in.
func TestExclusionsThatOverlap(t *testing.T) {
	const url = "http://a.test/ab"
	for _, first := range []string{"a$|ab", "b$"} {
		t.Run("without "+first, func(t *testing.T) {
			r := newRig(t, store.NewMemory())
			r.job("j", testSpec(open24), "http://a.test/")
			r.commit(outcomeOf(r.mustLease("http://a.test/"), 200), candidates(1, url, "http://a.test/x")...)
			r.exclude([]string{"a$|ab"}, nil, false)
			r.exclude([]string{"b$"}, nil, false)
			left := map[string]string{"a$|ab": "b$", "b$": "a$|ab"}[first]
			if c := r.exclude(nil, []string{first}, true); c.Revived != 0 {
				t.Errorf("the preview revives %d", c.Revived)
			}
			if c := r.exclude(nil, []string{first}, false); c.Revived != 0 {
				t.Errorf("%d are revived", c.Revived)
			}
			if e := r.explain("j", url); e.State != stateExcluded || e.Reason != "exclude "+left {
				t.Fatalf("with %s left: %s (%s)", left, e.State, e.Reason)
			}
			r.audit()
			if c := r.exclude(nil, []string{left}, true); c.Revived != 1 {
				t.Errorf("the preview of the last revives %d", c.Revived)
			}
			if c := r.exclude(nil, []string{left}, false); c.Revived != 1 {
				t.Errorf("the last revives %d", c.Revived)
			}
			if e := r.explain("j", url); e.State != stateQueued {
				t.Errorf("with none left: %s (%s)", e.State, e.Reason)
			}
			r.audit()
		})
	}
}

// A URL that an exclusion and max_depth keep out comes back when both are gone,
// whichever goes first and whichever had ended it.
func TestExclusionAndDepthOverlap(t *testing.T) {
	const url = "http://a.test/ab"
	type rules struct {
		depth   uint32
		exclude []string
	}
	rule := []string{"b$"}
	for _, tc := range []struct {
		name  string
		steps []rules
		why   []string // after each step; empty: it is queued
	}{
		{"cut, rule, depth, no rule", []rules{{0, rule}, {1, rule}, {1, nil}}, []string{"max-depth 0", "exclude b$", ""}},
		{"cut, rule, no rule, depth", []rules{{0, rule}, {0, nil}, {1, nil}}, []string{"max-depth 0", "max-depth 0", ""}},
		{"cut, both at once", []rules{{0, rule}, {1, nil}}, []string{"max-depth 0", ""}},
		{"not cut, rule, too deep, no rule, depth", []rules{{1, rule}, {0, rule}, {0, nil}, {1, nil}}, []string{"exclude b$", "exclude b$", "max-depth 0", ""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, store.NewMemory())
			spec := func(s rules) *jobv1.Spec {
				return testSpec(open24, func(p *jobv1.Spec) { p.Limits.MaxDepth, p.Scope.Exclude = &s.depth, s.exclude })
			}
			r.job("j", spec(rules{depth: tc.steps[0].depth}), "http://a.test/", "http://a.test/z")
			r.commit(outcomeOf(r.mustLease("http://a.test/"), 200), candidates(1, url)...)
			for i, s := range tc.steps {
				if _, _, err := r.f.ApplyJob(r.ctx, "j", spec(s), false); err != nil {
					t.Fatal(err)
				}
				r.work()
				e := r.explain("j", url)
				if why := tc.why[i]; why == "" && e.State != stateQueued || why != "" && (e.State != stateExcluded || e.Reason != why) {
					t.Errorf("step %d: %s (%s), want %q", i, e.State, e.Reason, why)
				}
				r.audit()
			}
		})
	}
}

// A rule that is gone, and another change while its URLs come back: the sweep
// that begins again still brings them back, over a restart too.
func TestSweepThatBeginsAgainBringsBack(t *testing.T) {
	mem := store.NewMemory()
	r := linked(t, mem, 10)
	r.exclude([]string{"/cal/"}, nil, false)
	for _, ex := range [][]string{nil, {"/never/"}} {
		spec, err := withExclusions(r.status("j").Spec, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		spec.Scope.Exclude = ex
		if _, _, err := r.f.ApplyJob(r.ctx, "j", spec, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.f.Close(); err != nil {
		t.Fatal(err)
	}
	r.open(mem.Reopen())
	r.work()
	if st := r.status("j"); st.Counters.Excluded != 0 {
		t.Errorf("counters %v", st.Counters)
	}
	r.audit()
}
