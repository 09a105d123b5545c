package frontier

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// manual is a clock that tests move.
type manual struct {
	mu  sync.Mutex
	now time.Time
}

func newManual() *manual { return &manual{now: time.Unix(1_800_000_000, 0)} }

func (m *manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

func (m *manual) advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
}

// testSpec is a job that ignores robots.txt and stores nothing.
func testSpec(change ...func(*jobv1.Spec)) *jobv1.Spec {
	s := &jobv1.Spec{
		Name:       "t",
		Identity:   &jobv1.Identity{UserAgent: "testbot/1", RobotsAgent: "testbot"},
		Scope:      &jobv1.Scope{Kind: jobv1.ScopeKind_SCOPE_KIND_ANY},
		Limits:     &jobv1.Limits{},
		Politeness: &jobv1.Politeness{Robots: jobv1.RobotsPolicy_ROBOTS_POLICY_IGNORE},
		Storage:    &jobv1.Storage{None: true},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

// open24 makes delays 0 and everything allowed inside 10.0.0.0/8.
func open24(s *jobv1.Spec) {
	s.Politeness.MinDelay, s.Politeness.MaxDelay = durationpb.New(0), durationpb.New(0)
	s.Politeness.DelayFactor = proto.Float64(0)
	s.Fetch = &jobv1.Fetch{AllowNet: []string{"10.0.0.0/8"}}
}

// addressFor is a test host's address: each host has its own, in 10/8, except
// those whose name begins with "shared".
func addressFor(host string) []byte {
	if strings.HasPrefix(host, "shared") {
		return []byte{10, 255, 0, 1}
	}
	h := uint32(2166136261)
	for _, c := range []byte(host) {
		h = (h ^ uint32(c)) * 16777619
	}
	return []byte{10, byte(h >> 16), byte(h >> 8), byte(h)}
}

func testLookup(clock Clock) LookupFunc {
	return func(ctx context.Context, host, job string, refresh bool) (*crawlv1.HostAddresses, error) {
		if strings.HasPrefix(host, "nx") {
			return &crawlv1.HostAddresses{Host: host, Status: crawlv1.HostStatus_HOST_STATUS_NOT_FOUND_CONFIRMED,
				ExpiresAt: timestamppb.New(clock.Now().Add(time.Hour))}, nil
		}
		return &crawlv1.HostAddresses{Host: host, Status: crawlv1.HostStatus_HOST_STATUS_RESOLVED,
			Addresses: [][]byte{addressFor(host)}, ExpiresAt: timestamppb.New(clock.Now().Add(365 * 24 * time.Hour))}, nil
	}
}

// rig drives a frontier by hand: no goroutine, a clock that tests move.
type rig struct {
	t     testing.TB
	f     *Frontier
	clock *manual
	ctx   context.Context
}

func newRig(t testing.TB, s store.Store, change ...func(*Options)) *rig {
	t.Helper()
	clock := newManual()
	r := &rig{t: t, clock: clock, ctx: context.Background()}
	r.open(s, change...)
	return r
}

func (r *rig) open(s store.Store, change ...func(*Options)) {
	r.t.Helper()
	o := Options{Store: s, Clock: r.clock, Lookup: testLookup(r.clock), DeadLeasesAtStart: true}
	for _, c := range change {
		c(&o)
	}
	f, err := Open(r.ctx, o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.f = f
	f.SetMembers(1, []string{"d1"})
	r.work()
}

// work does what Run's goroutines would, until nothing is left to do now.
func (r *rig) work() {
	for range 100 {
		r.f.decideMu.Lock()
		n, err := r.f.decide(decideBatch)
		r.f.decideMu.Unlock()
		if err != nil {
			r.t.Fatal(err)
		}
		for r.f.mergeSeen(r.ctx) {
		}
		looked := false
		for r.f.lookupOne(r.ctx) {
			looked = true
		}
		if d := r.f.tick(); n == 0 && !looked && d > 0 {
			return
		}
	}
	r.t.Fatal("the frontier does not come to rest")
}

func (r *rig) job(id string, spec *jobv1.Spec, seeds ...string) {
	r.t.Helper()
	if _, _, err := r.f.ApplyJob(r.ctx, id, spec, false); err != nil {
		r.t.Fatal(err)
	}
	if len(seeds) > 0 {
		r.seed(id, seeds...)
	}
	if _, err := r.f.SetJobState(r.ctx, id, schedulerv1.JobWish_JOB_WISH_START); err != nil {
		r.t.Fatal(err)
	}
	r.work()
}

func (r *rig) seed(id string, urls ...string) (added, known int) {
	r.t.Helper()
	added, known, err := r.f.AddSeeds(r.ctx, id, candidates(0, urls...))
	if err != nil {
		r.t.Fatal(err)
	}
	return added, known
}

func candidates(depth uint32, urls ...string) []*crawlv1.Candidate {
	var list []*crawlv1.Candidate
	for _, u := range urls {
		list = append(list, &crawlv1.Candidate{Url: u, HostKey: hostKeyFromURL(u), Depth: depth, Rule: "test"})
	}
	return list
}

func (r *rig) lease(max int) []*crawlv1.Lease { return r.leaseFor("d1", max) }

func (r *rig) leaseFor(member string, max int) []*crawlv1.Lease {
	r.t.Helper()
	var all []*crawlv1.Lease
	for range 2 { // the first time addresses may be missing
		ls, err := r.f.Lease(r.ctx, member, max-len(all))
		if err != nil {
			r.t.Fatal(err)
		}
		if all = append(all, ls...); len(all) == max {
			break
		}
		r.work()
	}
	return all
}

// wait moves the clock until a lease is there, at most for limit.
func (r *rig) wait(limit time.Duration) *crawlv1.Lease {
	r.t.Helper()
	for end := r.clock.Now().Add(limit); ; {
		if ls := r.lease(1); len(ls) > 0 {
			return ls[0]
		}
		if r.clock.Now().After(end) {
			return nil
		}
		r.clock.advance(max(r.f.tick(), time.Millisecond))
		r.work()
	}
}

func outcomeOf(l *crawlv1.Lease, status uint32) *crawlv1.Outcome {
	return &crawlv1.Outcome{LeaseId: l.Id, JobId: l.JobId, Url: l.Url, HostKey: l.HostKey, Purpose: l.Purpose,
		Fetch: &crawlv1.FetchResult{Class: crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP, Status: status, ReceivedBytes: 1000,
			Address: l.Addresses[0], Timings: &crawlv1.Timings{Total: durationpb.New(100 * time.Millisecond)}}}
}

func failureOf(l *crawlv1.Lease, class crawlv1.OutcomeClass) *crawlv1.Outcome {
	o := outcomeOf(l, 0)
	o.Fetch.Class, o.Fetch.ReceivedBytes, o.Fetch.Error = class, 0, "test: "+className(class)
	return o
}

func (r *rig) commit(o *crawlv1.Outcome, cands ...*crawlv1.Candidate) {
	r.t.Helper()
	if a := r.f.Commit(r.ctx, &schedulerv1.CommitRequest{Outcome: o, Candidates: cands}); a.Verdict != crawlv1.Verdict_VERDICT_DONE {
		r.t.Fatalf("commit: %v", a)
	}
	r.work()
}

func (r *rig) status(id string) *schedulerv1.JobStatus {
	r.t.Helper()
	s, err := r.f.Job(r.ctx, id)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) audit() {
	r.t.Helper()
	rep, err := AuditStore(r.f.st)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, v := range rep.Violations {
		r.t.Errorf("audit: %s: %s: %s", v.Rule, v.Job, v.Detail)
	}
	if r.t.Failed() {
		r.t.FailNow()
	}
}

func (r *rig) explain(job, url string) *schedulerv1.ExplainResponse {
	r.t.Helper()
	e, err := r.f.Explain(r.ctx, job, url)
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

func TestSmallCrawlEndsEmpty(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24), "http://a.test/")
	fetched := map[string]int{}
	for {
		l := r.wait(time.Minute)
		if l == nil {
			break
		}
		fetched[l.Url]++
		var cands []*crawlv1.Candidate
		if l.Depth < 2 {
			for i := range 3 {
				cands = append(cands, candidates(l.Depth+1, fmt.Sprintf("http://a.test/%d/%d", l.Depth, i), fmt.Sprintf("http://b%d.test/", i))...)
			}
		}
		r.commit(outcomeOf(l, 200), cands...)
	}
	s := r.status("j")
	if s.State != schedulerv1.JobState_JOB_STATE_FINISHED || s.Reason != "empty" {
		t.Fatalf("job is %s (%s): %v", s.State, s.Reason, s.Counters)
	}
	if len(fetched) != 10 {
		t.Fatalf("fetched %d URLs: %v", len(fetched), fetched)
	}
	for u, n := range fetched {
		if n != 1 {
			t.Errorf("%s was fetched %d times", u, n)
		}
	}
	if s.Counters.Done != 10 || s.Counters.Known != 10 || s.Counters.Pages != 10 {
		t.Errorf("counters %v", s.Counters)
	}
	r.audit()
}

// A downloader that asks for its channel before it is among the members is
// told of work on that channel, also when a change of the members that is older
// than it comes in between.
func TestReadyOutlivesOlderMembers(t *testing.T) {
	r := newRig(t, store.NewMemory())
	ready := r.f.Ready("late")
	r.f.SetMembers(7, nil)
	r.f.SetMembers(8, []string{"late"})
	r.job("j", testSpec(), "http://a.test/")
	r.f.signalAll()
	select {
	case <-ready:
	default:
		t.Error("the downloader was not told")
	}
}
