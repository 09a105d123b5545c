package frontier

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
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
	expires  map[uint64]time.Time // when those of out are lost
	hostEnd  map[string]time.Time // not before: a law of the host's clock
	asked    map[string]time.Time // not before: the host's own wish, Retry-After
	nextPath int
	control  modelControl
}

func newModel(t *rapid.T, tb testing.TB) *model {
	m := &model{t: t, fs: vfs.NewCrashableMem(), acked: map[string]bool{}, ended: map[string]bool{}, out: map[uint64]*crawlv1.Lease{},
		expires: map[uint64]time.Time{}, hostEnd: map[string]time.Time{}, asked: map[string]time.Time{}, control: newModelControl(t)}
	m.pages = uint64(rapid.SampledFrom([]int{0, 0, 7, 40}).Draw(t, "max_pages"))
	m.spec = testSpec(func(s *jobv1.Spec) {
		s.Politeness.AddressDelay = durationpb.New(time.Millisecond)
		s.Politeness.MaxTries = 2
		if rapid.Bool().Draw(t, "robots") {
			s.Politeness.Robots = jobv1.RobotsPolicy_ROBOTS_POLICY_OBEY
		}
		m.control.settings(s)
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
	more := s.Reason == reasonEmpty || s.Reason == reasonMore || s.Reason == reasonRetired || s.Reason == reasonMaxPages && s.Counters.Pages-m.control.before < m.pages
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
		if rapid.IntRange(0, 2).Draw(m.t, "known") == 0 && m.nextPath > 0 {
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
	list := m.urls(rapid.IntRange(1, 12).Draw(m.t, "seeds"))
	if byHand := rapid.Bool().Draw(m.t, "by hand"); byHand {
		m.seedByHand(list)
	} else {
		m.r.seed("j", list...)
	}
	for _, u := range list {
		m.acked[u] = true
		m.control.seeds[u] = true
	}
	m.state()
	m.r.work()
}

func (m *model) lease() {
	m.leased(m.r.lease(rapid.IntRange(1, 4).Draw(m.t, "max")))
}

// leased checks leases and takes them.
func (m *model) leased(list []*crawlv1.Lease) {
	now := m.r.clock.Now()
	for _, l := range list {
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
		if t := m.asked[l.HostKey]; now.Before(t) {
			m.t.Fatalf("%s is leased %s before its host's Retry-After", l.Url, t.Sub(now))
		}
		m.control.allows(m.t, l, now)
		for _, o := range m.out {
			if o.HostKey == l.HostKey {
				m.t.Fatalf("%s and %s are out together", o.Url, l.Url)
			}
		}
		m.out[l.Id], m.expires[l.Id] = l, now.Add(m.r.f.o.LeaseDeadline+m.r.f.o.LeaseGrace)
	}
}

// crawl goes on with the crawl for a while: without it few links are ever found.
func (m *model) crawl() {
	for range rapid.IntRange(1, 8).Draw(m.t, "pages") {
		if l := m.r.wait(20 * time.Second); l != nil {
			m.leased([]*crawlv1.Lease{l})
		}
		m.expire()
		m.commit()
	}
}

// outs are the leases that are out, in the same order in every run of a seed.
func (m *model) outs() []*crawlv1.Lease {
	return slices.SortedFunc(maps.Values(m.out), func(a, b *crawlv1.Lease) int { return strings.Compare(a.Url, b.Url) })
}

func (m *model) pick() *crawlv1.Lease {
	if list := m.outs(); len(list) > 0 {
		return list[0]
	}
	return nil
}

func (m *model) gone(l *crawlv1.Lease) {
	delete(m.out, l.Id)
	delete(m.expires, l.Id)
	m.fetched(l.HostKey)
}

// fetched tells that a fetch of a host may have ended now.
func (m *model) fetched(host string) {
	m.hostEnd[host] = m.r.clock.Now().Add(m.control.delayOf(host))
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
		m.asked[l.HostKey] = m.r.clock.Now().Add(time.Minute)
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
		// What failed brings no links, but where no depth is told by them.
		if ok := o.Fetch.Status == 200; ok || m.control.deepest < 0 {
			links := m.urls(rapid.IntRange(0, 4).Draw(m.t, "links"))
			req.Candidates = candidates(l.Depth+1, links...)
			if ok {
				m.control.linked(l.Url, links)
			}
		}
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
		m.control.linked(l.Url, nil)
		m.fetched(l.HostKey)
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
	m.expire()
}

// expire takes the leases for lost whose time has passed.
func (m *model) expire() {
	for _, l := range m.outs() {
		if !m.expires[l.Id].After(m.r.clock.Now()) {
			m.old = append(m.old, l)
			m.gone(l)
		}
	}
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
	for _, l := range m.outs() {
		m.old = append(m.old, l)
		m.gone(l)
	}
	m.open()
	m.state()
}

func (m *model) check() {
	m.r.audit()
	m.reasons()
	c := m.status().Counters
	if c.Known != c.Queued+c.Leased+c.Done+c.Excluded+c.Failed {
		m.t.Fatalf("conservation: %v", c)
	}
	if m.pages > 0 && c.Pages-m.control.before > m.pages {
		m.t.Fatalf("%d pages, the limit is %d", c.Pages-m.control.before, m.pages)
	}
}

// finish crawls to the end: every URL taken has ended.
func (m *model) finish() {
	if s := m.status(); s.State == jobPaused || s.State == jobPausing {
		m.pause()
	}
	for host := range m.control.held {
		m.holdAs(host, schedulerv1.QueueAction_QUEUE_ACTION_RELEASE, time.Time{})
	}
	for _, l := range m.outs() {
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
		if l.Purpose == crawlv1.Purpose_PURPOSE_PAGE {
			m.control.linked(l.Url, nil)
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
	if s.Reason == reasonMaxPages && s.Counters.Pages-m.control.before == m.pages {
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
		case e.State == stateExcluded && m.keepsOut(u, e.Reason):
		default:
			m.t.Errorf("%s was acknowledged and is %s (%s)", u, e.State, e.Reason)
		}
	}
	m.depths()
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		clear(pathHosts)
		m := newModel(rt, t)
		defer func() { _ = m.r.f.Close() }()
		op := func(f func()) func(*rapid.T) { return func(t *rapid.T) { m.t = t; f() } }
		rt.Repeat(map[string]func(*rapid.T){
			"seed": op(m.seed), "lease": op(m.lease), "lease again": op(m.lease), "commit": op(m.commit), "commit too": op(m.commit),
			"crawl": op(m.crawl), "crawl on": op(m.crawl), "and on": op(m.crawl),
			"same commit": op(m.again), "late": op(m.late), "release": op(m.release), "advance": op(m.advance),
			"pause": op(m.pause), "hold": op(m.hold), "delete queue": op(m.deleteQueue), "exclude": op(m.exclude), "limits": op(m.limits),
			"overlay": op(m.overlay), "deeper": op(m.deeper), "recrawl": op(m.recrawl), "crash": op(m.crash), "": op(m.check),
		})
		m.t = rt
		m.finish()
	})
}
