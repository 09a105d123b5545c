package frontier

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	"lycosa.dev/scheduler/internal/frontier/store"
)

// gap fetches twice of a host and returns the time between.
func (r *rig) gap(first, second string) time.Duration {
	r.t.Helper()
	r.commit(outcomeOf(r.mustLease(first), 200))
	end := r.clock.Now()
	l := r.mustLease(second)
	wait := r.clock.Now().Sub(end)
	r.commit(outcomeOf(l, 200))
	r.clock.advance(time.Hour)
	r.work()
	return wait.Round(100 * time.Millisecond)
}

func TestOverlaysTheMostSpecificWinsAndMayChangeLive(t *testing.T) {
	delay := func(d time.Duration) *durationpb.Duration { return durationpb.New(d) }
	spec := testSpec(func(s *jobv1.Spec) {
		s.Politeness.MinDelay, s.Politeness.MaxDelay = delay(2*time.Second), delay(2*time.Second)
		s.Overlays = []*jobv1.Overlay{
			{Name: "url", UrlPrefixes: []string{"http://www.a.test/slow/"}, MinDelay: delay(20 * time.Second), MaxDelay: delay(20 * time.Second)},
			{Name: "host", Hosts: []string{"www.a.test"}, MinDelay: delay(10 * time.Second), MaxDelay: delay(10 * time.Second)},
			{Name: "domain", Domains: []string{"a.test"}, MinDelay: delay(5 * time.Second), MaxDelay: delay(5 * time.Second)},
		}
	})
	r := newRig(t, store.NewMemory())
	r.job("j", spec, "http://b.test/keep")
	r.commit(outcomeOf(r.mustLease("http://b.test/keep"), 200),
		candidates(1, "http://b.test/1", "http://b.test/2")...)
	r.clock.advance(time.Hour)
	r.work()
	if got := r.gap("http://b.test/1", "http://b.test/2"); got != 2*time.Second {
		t.Errorf("no overlay: %s", got)
	}
	r.goOnWith(t, "http://x.a.test/1", "http://x.a.test/2")
	if got := r.gap("http://x.a.test/1", "http://x.a.test/2"); got != 5*time.Second {
		t.Errorf("domain: %s", got)
	}
	r.goOnWith(t, "http://www.a.test/1", "http://www.a.test/2")
	if got := r.gap("http://www.a.test/1", "http://www.a.test/2"); got != 10*time.Second {
		t.Errorf("host: %s", got)
	}
	r.goOnWith(t, "http://www.a.test/slow/1", "http://www.a.test/slow/2")
	if got := r.gap("http://www.a.test/slow/1", "http://www.a.test/slow/2"); got != 20*time.Second {
		t.Errorf("URL prefix: %s", got)
	}
	if e := r.explain("j", "http://www.a.test/slow/1"); len(e.Overlays) != 3 || e.Overlays[0] != "url" || e.Overlays[2] != "domain" {
		t.Errorf("overlays %v", e.Overlays)
	}
	spec = withOverlays(spec, nil)
	if _, _, err := r.f.ApplyJob(r.ctx, "j", spec, false); err != nil {
		t.Fatal(err)
	}
	r.goOnWith(t, "http://www.a.test/slow/3", "http://www.a.test/slow/4")
	if got := r.gap("http://www.a.test/slow/3", "http://www.a.test/slow/4"); got != 2*time.Second {
		t.Errorf("taken away: %s", got)
	}
}

// A host whose robots.txt is not obeyed, by an overlay, beside one whose is.
func TestOverlayOfRobots(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24, obey, func(s *jobv1.Spec) {
		s.Overlays = []*jobv1.Overlay{{Name: "own", Hosts: []string{"a.test"}, Robots: jobv1.RobotsPolicy_ROBOTS_POLICY_IGNORE}}
	}), "http://a.test/1", "http://b.test/1")
	urls := map[string]bool{}
	for _, l := range r.lease(4) {
		urls[l.Url] = true
		r.commit(outcomeOf(l, 404))
	}
	if !urls["http://a.test/1"] || !urls["http://b.test/robots.txt"] || len(urls) != 2 {
		t.Errorf("leased %v", urls)
	}
}

func withOverlays(s *jobv1.Spec, o []*jobv1.Overlay) *jobv1.Spec {
	n := testSpec()
	n.Politeness, n.Fetch, n.Limits, n.Overlays = s.Politeness, s.Fetch, s.Limits, o
	return n
}

func (r *rig) goOnWith(t *testing.T, urls ...string) {
	t.Helper()
	r.seed("j", urls...)
	r.start("j")
}
