package frontier

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

func stepNames(steps []*schedulerv1.UrlStep) string {
	var names []string
	for _, s := range steps {
		names = append(names, strings.ToLower(strings.TrimPrefix(s.Kind.String(), "URL_STEP_KIND_")))
	}
	return strings.Join(names, " ")
}

// Every step of a URL's life is told, with its time and reason, also after a
// restart.
func TestHistoryTellsEveryStep(t *testing.T) {
	s := store.NewMemory()
	r := newRig(t, s)
	r.job("j", testSpec(obey, func(s *jobv1.Spec) { s.Politeness.MaxTries = 2 }), "http://a.test/")
	o := outcomeOf(r.mustLease("http://a.test/robots.txt"), 200)
	o.RobotsBody = []byte("User-agent: *\nDisallow: /no\nAllow: /x\n")
	r.commit(o)
	l := r.mustLease("http://a.test/")
	found := r.clock.Now()
	r.commit(outcomeOf(l, 200), candidates(1, "http://a.test/x", "http://a.test/no")...)
	r.work()
	if e := r.explain("j", "http://a.test/x"); stepNames(e.Steps) != "found queued robots waits" || e.Steps[1].At.AsTime().Sub(found.UTC()).Abs() > time.Second {
		t.Errorf("steps %v", e.Steps)
	}
	l = r.mustLease("http://a.test/x")
	leased := r.clock.Now()
	if e := r.explain("j", "http://a.test/x"); stepNames(e.Steps) != "found queued robots leased" || e.Steps[3].Downloader != "d1" {
		t.Errorf("steps %v", e.Steps)
	}
	r.clock.advance(time.Second)
	o = failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_TIMEOUT)
	o.Fetch.Error = "timeout-first-byte: nothing came"
	o.Fetch.Timings = &crawlv1.Timings{Connect: durationpb.New(7 * time.Millisecond), Total: durationpb.New(time.Second)}
	r.commit(o)
	if err := r.f.Close(); err != nil {
		t.Fatal(err)
	}
	r.open(s.Reopen())
	r.commit(outcomeOf(r.mustLease("http://a.test/x"), 200))
	e := r.explain("j", "http://a.test/x")
	if stepNames(e.Steps) != "found queued robots tried tried" {
		t.Fatalf("steps %v", e.Steps)
	}
	if s := e.Steps[2]; s.Reason != "http://a.test/robots.txt: HTTP 200" || s.Attempt != 1 || s.Fetch.GetStatus() != 200 {
		t.Errorf("robots.txt: %v", s)
	}
	first, last := e.Steps[3], e.Steps[4]
	if first.Attempt != 1 || first.Fetch.GetError() != o.Fetch.Error || first.Fetch.GetTimings().GetConnect().AsDuration() != 7*time.Millisecond ||
		first.NextAt == nil || !first.LeasedAt.AsTime().Equal(leased.UTC()) || first.Robots != "line 3: Allow: /x" || first.Downloader != "d1" {
		t.Errorf("first try %v", first)
	}
	if last.Attempt != 2 || last.Reason != "done: HTTP 200" || last.NextAt != nil || last.Fetch.GetStatus() != 200 {
		t.Errorf("last try %v", last)
	}
	r.clock.advance(time.Hour)
	r.work()
	r.lease(1)
	e = r.explain("j", "http://a.test/no")
	if stepNames(e.Steps) != "found queued robots ended" || e.Steps[3].Reason != "excluded: robots: line 2: Disallow: /no" {
		t.Errorf("steps %v", e.Steps)
	}
	r.wantEnd("j", "empty")
}

func TestHistoryTellsLostLeases(t *testing.T) {
	s := store.NewMemory()
	r := newRig(t, s)
	r.job("j", testSpec(open24), "http://a.test/")
	r.mustLease("http://a.test/")
	if err := r.f.Close(); err != nil {
		t.Fatal(err)
	}
	r.open(s.Reopen())
	e := r.explain("j", "http://a.test/")
	if stepNames(e.Steps) != "found queued returned waits" || !strings.Contains(e.Steps[2].Reason, "the process ended") {
		t.Errorf("steps %v", e.Steps)
	}
}

// The history keeps to its bytes and its time, and can be switched off.
func TestHistoryIsBounded(t *testing.T) {
	size := func(r *rig) (steps int, bytes int64) {
		prefix := []byte{kindStep}
		_ = r.f.st.Scan(prefix, after(prefix), func(k, v []byte) bool {
			steps++
			bytes += int64(len(k) + len(v))
			return true
		})
		return steps, bytes
	}
	run := func(h *jobv1.History, n int) *rig {
		r := newRig(t, store.NewMemory())
		var urls []string
		for i := range n {
			urls = append(urls, fmt.Sprintf("http://a.test/%d", i))
		}
		r.job("j", testSpec(open24, func(s *jobv1.Spec) { s.History = h }), urls...)
		for range n {
			r.commit(outcomeOf(r.wait(time.Hour), 200))
		}
		return r
	}
	const limit = 16 << 10
	r := run(&jobv1.History{MaxBytes: limit}, 600)
	steps, bytes := size(r)
	if bytes > limit || steps < 50 {
		t.Errorf("%d steps of %d bytes, at most %d wanted", steps, bytes, limit)
	}
	if e := r.explain("j", "http://a.test/599"); stepNames(e.Steps) != "found queued tried" {
		t.Errorf("the last steps are kept: %v", e.Steps)
	}
	if e := r.explain("j", "http://a.test/1"); stepNames(e.Steps) != "found ended" {
		t.Errorf("what the record says is told without the history: %v", e.Steps)
	}
	r.audit()
	if steps, _ := size(run(&jobv1.History{Off: true}, 5)); steps != 0 {
		t.Errorf("%d steps of a history that is off", steps)
	}
	r = newRig(t, store.NewMemory())
	r.job("j", testSpec(open24, func(s *jobv1.Spec) { s.History = &jobv1.History{Keep: durationpb.New(time.Hour)} }), "http://a.test/1", "http://a.test/2")
	r.commit(outcomeOf(r.wait(time.Hour), 200))
	r.clock.advance(2 * time.Hour)
	r.work()
	r.commit(outcomeOf(r.wait(time.Hour), 200))
	r.clock.advance(2 * time.Hour)
	r.work()
	if e := r.explain("j", "http://a.test/1"); stepNames(e.Steps) != "found ended" {
		t.Errorf("steps older than keep: %v", e.Steps)
	}
}

func BenchmarkHistoryStep(b *testing.B) {
	s, err := store.OpenPebble(b.TempDir(), store.PebbleOptions{})
	if err != nil {
		b.Fatal(err)
	}
	r := newRig(b, s)
	r.job("j", testSpec(open24), "http://a.test/")
	j := r.f.jobs["j"]
	res := &crawlv1.FetchResult{Class: crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP, Status: 200, Address: []byte{10, 0, 0, 1}, ReceivedBytes: 20000,
		Timings: &crawlv1.Timings{FirstByte: durationpb.New(30 * time.Millisecond), Body: durationpb.New(time.Millisecond), Total: durationpb.New(31 * time.Millisecond)}}
	now := r.clock.Now()
	b.ReportAllocs()
	for i := 0; b.Loop(); i += 64 {
		r.f.mu.Lock()
		batch := r.f.newBatch()
		for k := range 64 {
			r.f.record(batch, j, uint64(i+k)*0x9e3779b97f4a7c15, &step{kind: schedulerv1.UrlStepKind_URL_STEP_KIND_TRIED, seq: uint64(i), state: stateDone,
				reason: "HTTP 200", lease: uint64(i), leased: now.UnixNano(), attempt: 1, member: "d1", robots: "robots.txt: no rule applies", fetch: res}, now)
		}
		_, err := r.f.apply(batch, false)
		r.f.mu.Unlock()
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/step")
	_ = r.f.Close()
}

// The tries of the origin's robots.txt are told with each of its URLs, up to
// the URL's end: what failed, where it redirected, and why the URL ended.
func TestHistoryTellsTriesOfRobots(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(obey, func(s *jobv1.Spec) { s.Politeness.MaxTries = 2 }), "http://a.test/1", "http://b.test/1")
	for l := r.wait(time.Hour); l != nil; l = r.wait(time.Hour) {
		o := outcomeOf(l, 200)
		switch l.Url {
		case "http://a.test/robots.txt":
			o = failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_TIMEOUT)
			o.Fetch.Error = "timeout-connect: nobody"
		case "http://b.test/robots.txt":
			o = outcomeOf(l, 301)
			o.RedirectUrl = "http://c.test/robots.txt"
		case "http://c.test/robots.txt":
			o = outcomeOf(l, 404)
		}
		r.commit(o)
	}
	e := r.explain("j", "http://a.test/1")
	if stepNames(e.Steps) != "found queued robots robots ended" || e.Steps[3].Attempt != 2 ||
		e.Steps[3].Reason != "http://a.test/robots.txt: timeout-connect: nobody" || !strings.HasPrefix(e.Steps[4].Reason, "excluded: robots-unreachable: ") {
		t.Errorf("steps %v", e.Steps)
	}
	e = r.explain("j", "http://b.test/1")
	if stepNames(e.Steps) != "found queued robots robots tried" || e.Steps[2].Reason != "http://b.test/robots.txt: HTTP 301 to http://c.test/robots.txt" ||
		e.Steps[3].Reason != "http://c.test/robots.txt: HTTP 404" || e.Steps[4].Robots != "robots.txt: HTTP 404 allows all" {
		t.Errorf("steps %v", e.Steps)
	}
}
