package frontier

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	downloaderv1 "lycosa.dev/proto/gen/lycosa/downloader/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// model is what must hold, told by acknowledgements alone.
type model struct {
	t     *rapid.T
	r     *rig
	fs    *vfs.MemFS
	pages uint64
	spec  *jobv1.Spec

	acked    map[string]bool // URLs that the frontier has taken
	ended    map[string]bool // URLs whose last outcome was taken and final
	out      map[uint64]*crawlv1.Lease
	old      []*crawlv1.Lease // leases that ended without an outcome
	sent     []*schedulerv1.CommitRequest
	hostEnd  map[string]time.Time // not before: a law of the host's clock
	held     map[string]time.Time // queues held by hand; zero: until they are released
	delay    time.Duration        // the job's, now
	rule     bool                 // modelRule is in force
	nextPath int
}

// modelRule is an exclusion that comes and goes.
const modelRule = "[37]$"

var modelRuleRE = regexp.MustCompile(modelRule)

func newModel(t *rapid.T, tb testing.TB) *model {
	m := &model{t: t, fs: vfs.NewCrashableMem(), acked: map[string]bool{}, ended: map[string]bool{}, out: map[uint64]*crawlv1.Lease{},
		hostEnd: map[string]time.Time{}, held: map[string]time.Time{}, delay: 2 * time.Second}
	m.pages = uint64(rapid.SampledFrom([]int{0, 0, 7, 40}).Draw(t, "max_pages"))
	m.spec = testSpec(func(s *jobv1.Spec) {
		s.Politeness.MinDelay, s.Politeness.MaxDelay = durationpb.New(m.delay), durationpb.New(m.delay)
		s.Politeness.AddressDelay = durationpb.New(time.Millisecond)
		s.Politeness.MaxTries = 2
		if rapid.Bool().Draw(t, "robots") {
			s.Politeness.Robots = jobv1.RobotsPolicy_ROBOTS_POLICY_OBEY
		}
		s.Limits.MaxPages = m.pages
	})
	m.r = &rig{t: tb, clock: newManual(), ctx: tb.Context()}
	m.open()
	m.r.job("j", m.spec)
	m.state()
	return m
}

func (m *model) open() {
	s, err := store.OpenPebble("f", store.PebbleOptions{FS: m.fs, MemTableBytes: 1 << 20, CacheBytes: 1 << 20})
	if err != nil {
		m.t.Fatal(err)
	}
	m.r.open(s, func(o *Options) { o.MaxActiveHosts, o.SeenTable, o.SeenFilterBytes = 3, 8, 64 })
}

func (m *model) status() *schedulerv1.JobStatus { return m.r.status("j") }

// state keeps the job running where it may.
func (m *model) state() {
	s := m.status()
	more := s.Reason == reasonEmpty || s.Reason == reasonMore || s.Reason == reasonRetired || s.Reason == reasonMaxPages && s.Counters.Pages < m.pages
	if s.State == jobFinished && more || s.State == jobCreated {
		if _, err := m.r.f.SetJobState(m.r.ctx, "j", schedulerv1.JobWish_JOB_WISH_START); err != nil {
			m.t.Fatal(err)
		}
		m.r.work()
	}
}

func (m *model) urls(n int) []string {
	var list []string
	host := rapid.IntRange(0, 5).Draw(m.t, "host")
	for range n {
		if rapid.IntRange(0, 3).Draw(m.t, "known") == 0 && m.nextPath > 0 {
			p := rapid.IntRange(1, m.nextPath).Draw(m.t, "old")
			list = append(list, m.urlOf(p))
			continue
		}
		m.nextPath++
		scheme := "http"
		if m.nextPath%3 == 0 {
			scheme = "https"
		}
		pathHosts[m.nextPath] = fmt.Sprintf("%s://h%d.test/%d", scheme, host, m.nextPath)
		list = append(list, m.urlOf(m.nextPath))
	}
	return list
}

// pathHosts remembers generated URLs by number; numbers are dense in a run.
var pathHosts = map[int]string{}

func (m *model) urlOf(n int) string { return pathHosts[n] }

func (m *model) seed() {
	list := m.urls(rapid.IntRange(1, 50).Draw(m.t, "seeds"))
	m.r.seed("j", list...)
	for _, u := range list {
		m.acked[u] = true
	}
	m.state()
	m.r.work()
}

func (m *model) lease() {
	now := m.r.clock.Now()
	for _, l := range m.r.lease(rapid.IntRange(1, 4).Draw(m.t, "max")) {
		if m.ended[l.Url] {
			m.t.Fatalf("%s is leased again after its last outcome was taken", l.Url)
		}
		if l.Purpose == crawlv1.Purpose_PURPOSE_PAGE && !m.acked[l.Url] {
			// Not acknowledged, and yet known: a commit that was applied and
			// not answered. Allowed, never the other way.
			m.acked[l.Url] = true
		}
		if t := m.hostEnd[l.HostKey]; now.Before(t) {
			m.t.Fatalf("%s is leased %s too early", l.Url, t.Sub(now))
		}
		if until, ok := m.held[l.HostKey]; ok && (until.IsZero() || now.Before(until)) {
			m.t.Fatalf("%s is leased, its queue is held", l.Url)
		}
		if m.rule && l.Purpose == crawlv1.Purpose_PURPOSE_PAGE && !l.Seed && modelRuleRE.MatchString(l.Url) {
			m.t.Fatalf("%s is leased against an exclusion", l.Url)
		}
		for _, o := range m.out {
			if o.HostKey == l.HostKey {
				m.t.Fatalf("%s and %s are out together", o.Url, l.Url)
			}
		}
		m.out[l.Id] = l
	}
}

func (m *model) pick() *crawlv1.Lease {
	var list []*crawlv1.Lease
	for _, l := range m.out {
		list = append(list, l)
	}
	if len(list) == 0 {
		return nil
	}
	min := list[0]
	for _, l := range list { // any, but the same in every run of a seed
		if l.Url < min.Url {
			min = l
		}
	}
	return min
}

func (m *model) gone(l *crawlv1.Lease) {
	delete(m.out, l.Id)
	m.hostEnd[l.HostKey] = m.r.clock.Now().Add(m.delay)
}

func (m *model) commit() {
	l := m.pick()
	if l == nil {
		return
	}
	o := outcomeOf(l, 200)
	final := true
	switch rapid.IntRange(0, 7).Draw(m.t, "outcome") {
	case 0:
		o = outcomeOf(l, 503)
		o.Fetch.RetryAfter = durationpb.New(time.Minute)
		final = false
	case 1:
		o = failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_TIMEOUT)
		final = false
	case 2:
		o = failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_NOT_STARTED)
		final = false
	case 3:
		o = failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_CONTENT)
	}
	req := &schedulerv1.CommitRequest{Outcome: o}
	if l.Purpose == crawlv1.Purpose_PURPOSE_ROBOTS {
		o.RobotsBody = []byte("User-agent: *\nDisallow: /9")
		final = false
	} else {
		req.Candidates = candidates(l.Depth+1, m.urls(rapid.IntRange(0, 4).Draw(m.t, "links"))...)
	}
	m.send(req)
	m.gone(l)
	if final {
		m.ended[l.Url] = true
	}
	m.sent = append(m.sent, req)
}

func (m *model) send(req *schedulerv1.CommitRequest) {
	a := m.r.f.Commit(m.r.ctx, req)
	if a.Verdict != crawlv1.Verdict_VERDICT_DONE {
		m.t.Fatalf("commit: %v", a)
	}
	for _, c := range req.Candidates {
		m.acked[c.Url] = true
	}
	if rapid.Bool().Draw(m.t, "decide") {
		m.r.work()
	}
	m.state()
}

// again sends an acknowledged commit a second time: nothing may change but
// duplicates.
func (m *model) again() {
	if len(m.sent) == 0 {
		return
	}
	before := m.status().Counters
	req := m.sent[rapid.IntRange(0, len(m.sent)-1).Draw(m.t, "which")]
	if len(m.sent)-1 > 0 && req != m.sent[len(m.sent)-1] {
		req = m.sent[len(m.sent)-1] // the one that a broken stream repeats
	}
	m.send(req)
	m.r.work()
	after := m.status().Counters
	if before.Pages != after.Pages || before.Fetches != after.Fetches || before.Done != after.Done {
		m.t.Fatalf("a repeated commit counted: %v, then %v", before, after)
	}
}

// late sends an outcome of a lease that was lost.
func (m *model) late() {
	if len(m.old) == 0 {
		return
	}
	l := m.old[len(m.old)-1]
	m.old = m.old[:len(m.old)-1]
	if l.Purpose != crawlv1.Purpose_PURPOSE_PAGE {
		return
	}
	for _, o := range m.out {
		if o.Url == l.Url {
			return
		}
	}
	e := m.r.explain("j", l.Url)
	m.send(&schedulerv1.CommitRequest{Outcome: outcomeOf(l, 200)})
	if after := m.r.explain("j", l.Url); e.State == stateQueued && after.State == stateDone {
		m.ended[l.Url] = true
		m.hostEnd[l.HostKey] = m.r.clock.Now().Add(m.delay)
	}
}

func (m *model) release() {
	l := m.pick()
	if l == nil {
		return
	}
	ans := &downloaderv1.FetchAnswer{Answer: &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_RETRY_LATER}, Fetched: true}
	if rapid.Bool().Draw(m.t, "never") {
		ans.Answer.Verdict = crawlv1.Verdict_VERDICT_NEVER
		if l.Purpose == crawlv1.Purpose_PURPOSE_PAGE {
			m.ended[l.Url] = true
		}
	}
	if err := m.r.f.Release(m.r.ctx, l.Id, ans); err != nil {
		m.t.Fatal(err)
	}
	m.gone(l)
	m.r.work()
}

func (m *model) advance() {
	d := time.Duration(rapid.SampledFrom([]int{10, 500, 2000, 60_000, 400_000}).Draw(m.t, "ms")) * time.Millisecond
	m.r.clock.advance(d)
	m.r.work()
	if d > m.r.f.o.LeaseDeadline+m.r.f.o.LeaseGrace {
		for _, l := range m.out {
			m.old = append(m.old, l)
			m.gone(l)
		}
	}
}

func (m *model) pause() {
	s := m.status()
	wish := schedulerv1.JobWish_JOB_WISH_PAUSE
	if s.State == jobPaused || s.State == jobPausing {
		wish = schedulerv1.JobWish_JOB_WISH_RESUME
	} else if s.State != jobRunning {
		return
	}
	if _, err := m.r.f.SetJobState(m.r.ctx, "j", wish); err != nil {
		m.t.Fatal(err)
	}
	m.r.work()
	if wish == schedulerv1.JobWish_JOB_WISH_PAUSE && len(m.r.lease(5)) > 0 {
		m.t.Fatal("a pausing job gave a lease")
	}
}

// hold blocks, retires or releases a queue by hand.
func (m *model) hold() {
	host := fmt.Sprintf("h%d.test", rapid.IntRange(0, 5).Draw(m.t, "held host"))
	action, until := schedulerv1.QueueAction_QUEUE_ACTION_RELEASE, time.Time{}
	switch rapid.IntRange(0, 3).Draw(m.t, "action") {
	case 0:
		action, until = schedulerv1.QueueAction_QUEUE_ACTION_BLOCK, m.r.clock.Now().Add(time.Minute)
	case 1:
		action = schedulerv1.QueueAction_QUEUE_ACTION_BLOCK
	case 2:
		action = schedulerv1.QueueAction_QUEUE_ACTION_RETIRE
	}
	m.holdAs(host, action, until)
	m.r.work()
	m.state()
}

func (m *model) holdAs(host string, action schedulerv1.QueueAction, until time.Time) {
	_, _, err := m.r.f.UpdateQueue(m.r.ctx, "j", host, action, until, "by the model")
	was, held := m.held[host]
	held = held && (was.IsZero() || was.After(m.r.clock.Now()))
	if action != schedulerv1.QueueAction_QUEUE_ACTION_RELEASE {
		m.held[host] = until
	} else {
		delete(m.held, host)
	}
	// A queue that is not held is released in error, but for a dead host's.
	if err != nil && (action != schedulerv1.QueueAction_QUEUE_ACTION_RELEASE || held) {
		m.t.Fatalf("%s of %s: %v", action, host, err)
	}
}

// exclude lets an exclusion come or go.
func (m *model) exclude() {
	var add, remove []string
	if m.rule = !m.rule; m.rule {
		add = []string{modelRule}
	} else {
		remove = []string{modelRule}
	}
	if _, err := m.r.f.ChangeExclusions(m.r.ctx, "j", add, remove, false); err != nil {
		m.t.Fatal(err)
	}
	if rapid.Bool().Draw(m.t, "sweep") {
		m.r.work()
	}
	m.state()
}

// limits changes limits and delays of the running job.
func (m *model) limits() {
	spec := proto.CloneOf(m.status().Spec)
	if m.pages > 0 {
		m.pages += 3
		spec.Limits.MaxPages = m.pages
	}
	m.delay = time.Duration(rapid.IntRange(1, 6).Draw(m.t, "delay")) * time.Second
	spec.Politeness.MinDelay, spec.Politeness.MaxDelay = durationpb.New(m.delay), durationpb.New(m.delay)
	if _, _, err := m.r.f.ApplyJob(m.r.ctx, "j", spec, false); err != nil {
		m.t.Fatal(err)
	}
	m.r.work()
	m.state()
}

// crash loses what was not synced, or some of it.
func (m *model) crash() {
	clean := rapid.Bool().Draw(m.t, "clean")
	if clean {
		if err := m.r.f.Close(); err != nil {
			m.t.Fatal(err)
		}
	} else {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(m.t, "rng"), 1))
		crashed := m.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		_ = m.r.f.Close()
		m.fs = crashed
	}
	for _, l := range m.out {
		m.old = append(m.old, l)
		m.gone(l)
	}
	m.open()
	m.state()
}

func (m *model) check() {
	m.r.audit()
	c := m.status().Counters
	if c.Known != c.Queued+c.Leased+c.Done+c.Excluded+c.Failed {
		m.t.Fatalf("conservation: %v", c)
	}
	if m.pages > 0 && c.Pages > m.pages {
		m.t.Fatalf("%d pages, the limit is %d", c.Pages, m.pages)
	}
}

// finish crawls to the end: every URL taken has ended.
func (m *model) finish() {
	if s := m.status(); s.State == jobPaused || s.State == jobPausing {
		m.pause()
	}
	for host := range m.held {
		m.holdAs(host, schedulerv1.QueueAction_QUEUE_ACTION_RELEASE, time.Time{})
	}
	for _, l := range m.out {
		m.send(&schedulerv1.CommitRequest{Outcome: outcomeOf(l, 404)})
		m.gone(l)
	}
	m.r.work()
	m.state()
	for n := 0; ; n++ {
		l := m.r.wait(49 * time.Hour)
		if s := m.status(); l == nil && s.State == jobFinished && (s.Reason == reasonEmpty || s.Reason == reasonMore) && s.Counters.Queued > 0 {
			m.state() // a dead host's queue gets another try
			l = m.r.wait(49 * time.Hour)
		}
		if l == nil {
			break
		}
		if n > 20000 {
			m.t.Fatal("the crawl does not end")
		}
		if m.ended[l.Url] {
			m.t.Fatalf("%s is leased again after its last outcome was taken", l.Url)
		}
		o := outcomeOf(l, 200)
		o.RobotsBody = []byte("User-agent: *\nDisallow: /9")
		m.send(&schedulerv1.CommitRequest{Outcome: o})
	}
	m.r.work()
	m.check()
	s := m.status()
	if s.State != jobFinished {
		m.t.Fatalf("job is %s: %v; queues %v; %s", s.State, s.Counters, m.queues(), m.slots())
	}
	if s.Reason == reasonMaxPages && s.Counters.Pages == m.pages {
		return
	}
	if s.Reason != reasonEmpty {
		m.t.Fatalf("finished for %q: %v", s.Reason, s.Counters)
	}
	for u := range m.acked {
		e := m.r.explain("j", u)
		switch {
		case e.State == stateDone, e.State == stateFailed:
		case e.State == stateExcluded && strings.HasPrefix(e.Reason, "robots"):
		case e.State == stateExcluded && m.rule && e.Reason == excludePrefix+modelRule && modelRuleRE.MatchString(u):
		default:
			m.t.Errorf("%s was acknowledged and is %s (%s)", u, e.State, e.Reason)
		}
	}
}

// slots tells what keeps queues from getting a slot.
func (m *model) slots() string {
	f := m.r.f
	j := f.jobs["j"]
	text := fmt.Sprintf("%d of %d slots are taken; more on disk %t, next in %s:", f.active, f.o.MaxActiveHosts, j.moreInactive,
		time.Duration(j.nextDue-f.dueNow(f.now())))
	for name, q := range j.queues {
		text += fmt.Sprintf(" %s (empty %t, leased %d, tasks %d, stored %t, capped %t)", name, q.empty(), q.leased, len(q.tasks), q.stored, q.capped)
	}
	return text
}

func (m *model) queues() []string {
	l, _ := m.r.f.Queues(m.r.ctx, &schedulerv1.ListQueuesRequest{JobId: "j"})
	var list []string
	for _, q := range l.GetQueues() {
		list = append(list, fmt.Sprintf("%s: %s (%s) %d queued", q.HostKey, q.State, q.Reason, q.Queued))
	}
	return list
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		clear(pathHosts)
		m := newModel(rt, t)
		defer func() { _ = m.r.f.Close() }()
		op := func(f func()) func(*rapid.T) { return func(t *rapid.T) { m.t = t; f() } }
		rt.Repeat(map[string]func(*rapid.T){
			"seed": op(m.seed), "lease": op(m.lease), "lease again": op(m.lease), "commit": op(m.commit), "commit too": op(m.commit),
			"same commit": op(m.again), "late": op(m.late), "release": op(m.release), "advance": op(m.advance),
			"pause": op(m.pause), "hold": op(m.hold), "exclude": op(m.exclude), "limits": op(m.limits), "crash": op(m.crash), "": op(m.check),
		})
		m.t = rt
		m.finish()
	})
}
