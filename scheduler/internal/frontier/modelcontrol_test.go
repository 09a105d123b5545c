package frontier

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// What people do while the model's job runs, and what must hold for it.

// modelControl is what is in force.
type modelControl struct {
	held    map[string]time.Time // queues held by hand; zero: until they are released
	delay   time.Duration        // the job's
	rule    bool                 // modelRule is among its exclusions
	overlay modelOverlay
	deepest int    // max_depth; -1: none
	before  uint64 // pages fetched in earlier rounds

	seeds   map[string]bool
	links   map[string][]string // of each page, by its last outcome
	ever    map[string][]string // by any outcome
	dropped map[string]bool     // deleted with their queue
}

// modelOverlay is the overlay in force.
type modelOverlay int

const (
	overlayNone  modelOverlay = iota
	overlaySlow               // h0.test is slower
	overlayRules              // an exclusion for h1.test
)

const (
	modelRule   = "[37]$"
	modelRule1  = "[157]$" // the overlay's
	slowerBy    = 3 * time.Second
	modelHosts  = 6
	overlayName = "some"
)

var modelRuleRE, modelRule1RE = regexp.MustCompile(modelRule), regexp.MustCompile(modelRule1)

func newModelControl(t *rapid.T) modelControl {
	return modelControl{held: map[string]time.Time{}, delay: 2 * time.Second, deepest: rapid.SampledFrom([]int{-1, 1, 2}).Draw(t, "max_depth"),
		seeds: map[string]bool{}, links: map[string][]string{}, ever: map[string][]string{}, dropped: map[string]bool{}}
}

// settings puts what is in force into a spec; exclusions are changed by
// themselves.
func (c *modelControl) settings(s *jobv1.Spec) {
	s.Politeness.MinDelay, s.Politeness.MaxDelay = durationpb.New(c.delay), durationpb.New(c.delay)
	if c.deepest >= 0 {
		s.Limits.MaxDepth = proto.Uint32(uint32(c.deepest))
	}
	switch s.Overlays = nil; c.overlay {
	case overlaySlow:
		d := durationpb.New(c.delay + slowerBy)
		s.Overlays = []*jobv1.Overlay{{Name: overlayName, Hosts: []string{"h0.test"}, MinDelay: d, MaxDelay: d}}
	case overlayRules:
		s.Overlays = []*jobv1.Overlay{{Name: overlayName, Hosts: []string{"h1.test"}, Exclude: []string{modelRule1}}}
	}
}

func (c *modelControl) delayOf(host string) time.Duration {
	if c.overlay == overlaySlow && host == "h0.test" {
		return c.delay + slowerBy
	}
	return c.delay
}

// rules are the reasons for which exclusions keep a URL out.
func (c *modelControl) rules(url string) (list []string) {
	if c.rule && modelRuleRE.MatchString(url) {
		list = append(list, excludePrefix+modelRule)
	}
	if c.overlay == overlayRules && hostKeyFromURL(url) == "h1.test" && modelRule1RE.MatchString(url) {
		list = append(list, overlayReason(overlayName, modelRule1))
	}
	return list
}

// allows fails where what is in force forbids a lease.
func (c *modelControl) allows(t *rapid.T, l *crawlv1.Lease, now time.Time) {
	if until, ok := c.held[l.HostKey]; ok && (until.IsZero() || now.Before(until)) {
		t.Fatalf("%s is leased, its queue is held", l.Url)
	}
	if l.Purpose != crawlv1.Purpose_PURPOSE_PAGE {
		return
	}
	if why := c.rules(l.Url); len(why) > 0 && !l.Seed {
		t.Fatalf("%s is leased against %q", l.Url, why)
	}
	if c.deepest >= 0 && int(l.Depth) > c.deepest {
		t.Fatalf("%s is leased at depth %d, max_depth is %d", l.Url, l.Depth, c.deepest)
	}
}

// linked tells of the links of a page that was fetched.
func (c *modelControl) linked(url string, links []string) {
	c.ever[url], c.links[url] = append(c.ever[url], links...), links
}

// ways are the distances from the seeds over links.
func (c *modelControl) ways(links map[string][]string) map[string]int {
	dist := map[string]int{}
	var next []string
	for u := range c.seeds {
		dist[u], next = 0, append(next, u)
	}
	for len(next) > 0 {
		u := next[0]
		next = next[1:]
		for _, v := range links[u] {
			if _, ok := dist[v]; !ok {
				dist[v], next = dist[u]+1, append(next, v)
			}
		}
	}
	return dist
}

// keepsOut tells whether a reason holds for which a URL is excluded.
func (m *model) keepsOut(url, reason string) bool {
	c := &m.control
	for _, why := range c.rules(url) {
		if reason == why {
			return true
		}
	}
	if isMaxDepth(reason) {
		d, ok := c.ways(c.links)[url]
		return reason == fmt.Sprintf("max-depth %d", c.deepest) && (!ok || d > c.deepest)
	}
	return reason == deletedReason && c.dropped[url]
}

// reasons checks that no URL is kept out by a rule that is not in force.
func (m *model) reasons() {
	j := m.r.f.jobs["j"]
	if j.sweep != nil {
		return // a change is on its way
	}
	for u := range m.acked {
		rec := m.record(j, u)
		if rec == nil || !ruled(rec) {
			continue
		}
		why := m.control.rules(u)
		if m.control.deepest >= 0 {
			why = append(why, fmt.Sprintf("max-depth %d", m.control.deepest))
		}
		if !slices.Contains(why, rec.reason) {
			m.t.Fatalf("%s is kept out by %q; in force are %q", u, rec.reason, why)
		}
	}
}

// record is what the frontier knows of a URL; nil: it is pending.
func (m *model) record(j *job, url string) *urlRecord {
	key := urlKey(j.num, j.key(url))
	v, ok := m.r.f.get(key)
	if !ok {
		return nil
	}
	rec, err := decodeURL(key, v)
	if err != nil {
		m.t.Fatalf("%s: %v", url, err)
	}
	return rec
}

// depths checks that each URL's depth is that of the shortest way known.
func (m *model) depths() {
	if m.control.deepest < 0 {
		return
	}
	now, ever := m.control.ways(m.control.links), m.control.ways(m.control.ever)
	j := m.r.f.jobs["j"]
	for u := range m.acked {
		rec := m.record(j, u)
		if rec == nil {
			m.t.Fatalf("%s is not decided", u)
		}
		most, least := math.MaxInt, 0
		if d, ok := now[u]; ok {
			most = d
		}
		if d, ok := ever[u]; ok {
			least = d
		}
		if d := int(rec.depth); d < least || d > most {
			m.t.Errorf("%s (%s) has depth %d; the shortest way of all has %d, that of the pages as they are now %d", u, rec.state, d, least, most)
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
	host := m.host()
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
	held := m.control.held
	was, is := held[host]
	is = is && (was.IsZero() || was.After(m.r.clock.Now()))
	if action != schedulerv1.QueueAction_QUEUE_ACTION_RELEASE {
		held[host] = until
	} else {
		delete(held, host)
	}
	// A queue that is not held is released in error, but for a dead host's.
	if err != nil && (action != schedulerv1.QueueAction_QUEUE_ACTION_RELEASE || is) {
		m.t.Fatalf("%s of %s: %v", action, host, err)
	}
}

// deleteQueue ends what a queue holds.
func (m *model) deleteQueue() {
	if rapid.IntRange(0, 3).Draw(m.t, "delete") > 0 {
		return // now and then: nothing is left to crawl else
	}
	host := m.host()
	m.r.work() // what is pending is not in the queue yet
	_, n, err := m.r.f.UpdateQueue(m.r.ctx, "j", host, schedulerv1.QueueAction_QUEUE_ACTION_DELETE, time.Time{}, "by the model")
	if err != nil {
		m.t.Fatal(err)
	}
	dropped := uint64(0)
	for u := range m.acked {
		if hostKeyFromURL(u) != host || m.control.dropped[u] {
			continue
		}
		switch e := m.r.explain("j", u); {
		case e.State == stateQueued:
			m.t.Fatalf("%s is queued, its queue was deleted", u)
		case e.State == stateExcluded && e.Reason == deletedReason:
			m.control.dropped[u], m.ended[u] = true, true
			dropped++
		}
	}
	if dropped > n {
		m.t.Fatalf("%d URLs ended with the queue of %s, the answer was %d", dropped, host, n)
	}
	m.state()
}

func (m *model) host() string {
	return fmt.Sprintf("h%d.test", rapid.IntRange(0, modelHosts-1).Draw(m.t, "host of a queue"))
}

// exclude lets an exclusion come or go.
func (m *model) exclude() {
	var add, remove []string
	if m.control.rule = !m.control.rule; m.control.rule {
		add = []string{modelRule}
	} else {
		remove = []string{modelRule}
	}
	if _, err := m.r.f.ChangeExclusions(m.r.ctx, "j", add, remove, false); err != nil {
		m.t.Fatal(err)
	}
	m.changed()
}

// apply changes the running job's spec to what is in force.
func (m *model) apply() {
	spec := proto.CloneOf(m.status().Spec)
	m.control.settings(spec)
	spec.Limits.MaxPages = m.pages
	if _, _, err := m.r.f.ApplyJob(m.r.ctx, "j", spec, false); err != nil {
		m.t.Fatal(err)
	}
	m.changed()
}

// changed lets the frontier go on after a change, or not yet.
func (m *model) changed() {
	if rapid.Bool().Draw(m.t, "work") {
		m.r.work()
	}
	m.state()
}

// limits changes limits and delays.
func (m *model) limits() {
	if m.pages > 0 {
		m.pages += 3
	}
	m.control.delay = time.Duration(rapid.IntRange(1, 6).Draw(m.t, "delay")) * time.Second
	m.apply()
}

// overlay lays other settings over a host, or none.
func (m *model) overlay() {
	m.control.overlay = modelOverlay(rapid.IntRange(int(overlayNone), int(overlayRules)).Draw(m.t, "overlay"))
	m.apply()
}

// deeper raises max_depth.
func (m *model) deeper() {
	if m.control.deepest >= 0 {
		m.control.deepest++
		m.apply()
	}
}

// recrawl begins another round of a job that has finished.
func (m *model) recrawl() {
	if m.status().State != jobFinished {
		return
	}
	for u := range m.ended {
		if m.r.explain("j", u).State == stateDone {
			delete(m.ended, u)
		}
	}
	s, err := m.r.f.SetJobState(m.r.ctx, "j", schedulerv1.JobWish_JOB_WISH_RECRAWL)
	if err != nil {
		m.t.Fatal(err)
	}
	m.control.before = s.Counters.Pages
	switch rapid.IntRange(0, 3).Draw(m.t, "at once") {
	case 0:
		m.crash() // before a URL is queued again
		return
	case 1: // a page is fetched before a URL is queued again
		list := m.urls(rapid.IntRange(1, 3).Draw(m.t, "early"))
		m.r.seed("j", list...)
		for _, u := range list {
			m.acked[u], m.control.seeds[u] = true, true
		}
		m.leased(m.r.leaseBefore(1))
		m.commit()
	}
	m.r.work()
	m.state()
}

// seedByHand gives seeds that are queued again where they were tried in vain.
func (m *model) seedByHand(list []string) {
	for _, u := range list {
		if m.r.explain("j", u).State == stateFailed {
			delete(m.ended, u)
		}
	}
	if _, err := m.r.f.AddSeedsByHand(m.r.ctx, "j", candidates(0, list...)); err != nil {
		m.t.Fatal(err)
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
