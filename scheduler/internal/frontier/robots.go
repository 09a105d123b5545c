package frontier

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"lycosa.dev/internal/robots"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
	"lycosa.dev/scheduler/internal/politeness"
)

const (
	// robotsTTL is how long a robots.txt is used (RFC 9309 section 2.4).
	robotsTTL = 24 * time.Hour
	// robotsRedirects is how many redirects of a robots.txt are followed (RFC
	// 9309 section 2.3.1.2).
	robotsRedirects = 5
	// robotsAllowance is the bytes a robots.txt may take on the wire.
	robotsAllowance = robots.MaxBytes + 64<<10
)

// robotsUnreachable begins the reason of URLs whose origin has no readable
// robots.txt.
const robotsUnreachable = "robots-unreachable: "

// origin is a scheme of a host and what its robots.txt says.
type origin struct {
	host   *host
	scheme uint8
	task   *robotsTask // under way: its URLs are parked

	loaded  bool // the disk was asked
	known   bool // rec is valid
	rec     robotsRecord
	rules   map[string]*robots.Rules // by robots agent
	tries   uint32
	retryAt time.Time // unreachable: not before
	until   time.Time // known: until then
}

// robotsTask is a robots.txt to be fetched for an origin, from its own host or
// from where a redirect led.
type robotsTask struct {
	origin  *origin
	queue   *queue // where it is leased: the target's host, the asking job
	url     string
	visited []string // URLs before this one
	leased  bool
}

// url is the address of the origin's own robots.txt.
func (o *origin) url() string {
	return schemeName(o.scheme) + "://" + o.host.key + robots.RobotsPath
}

// loadRobots reads what the disk knows of an origin, once.
func (f *Frontier) loadRobots(o *origin) {
	if o.loaded {
		return
	}
	o.loaded = true
	key := robotsKey(o.scheme, o.host.key)
	v, ok := f.get(key)
	if !ok {
		return
	}
	rec, err := decodeRobots(key, v)
	if err != nil {
		f.noteBad(key, v)
		return
	}
	now := f.now()
	left := min(time.Duration(rec.expires-now.UnixNano()), robotsTTL)
	if left <= 0 {
		return
	}
	o.known, o.rec, o.until = true, *rec, now.Add(left)
	o.compile()
	o.rec.body = nil
}

// know makes the rules of a queue's origins ready, so that their Crawl-delay
// is known before anything is leased.
func (f *Frontier) know(q *queue) {
	if q.job.polOf(q.host.key).IgnoreRobots {
		return
	}
	for s, o := range q.host.origins {
		if q.subs[s].empty() && len(q.tasks) == 0 {
			continue
		}
		f.loadRobots(o)
		if o.known && !o.rec.gaveUp && o.rec.status/100 == 2 {
			f.rulesFor(o, q.job.of(q.host.key).agent)
		}
	}
}

// compile makes the rules of the agents that ask; the body is dropped.
func (o *origin) compile() {
	o.rules = map[string]*robots.Rules{}
	if len(o.rec.body) == 0 {
		return
	}
	file := robots.Parse(o.rec.body)
	for _, q := range o.host.queues {
		if a := q.job.of(q.host.key).agent; o.rules[a] == nil {
			o.rules[a] = file.Agent(a)
		}
	}
}

// rulesFor returns the rules for a job's agent. The body is read from disk for
// an agent that has not asked before.
func (f *Frontier) rulesFor(o *origin, agent string) *robots.Rules {
	if r, ok := o.rules[agent]; ok {
		return r
	}
	body := o.rec.body
	if body == nil {
		key := robotsKey(o.scheme, o.host.key)
		if v, ok := f.get(key); ok {
			if rec, err := decodeRobots(key, v); err == nil {
				body = rec.body
			}
		}
	}
	r := robots.Parse(body).Agent(agent)
	if o.rules == nil {
		o.rules = map[string]*robots.Rules{}
	}
	o.rules[agent] = r
	return r
}

// robotsSays is what an origin's robots.txt makes of a URL.
type robotsSays int

const (
	robotsAllow robotsSays = iota
	robotsForbid
	robotsUnknown // it must be fetched first
	robotsWait    // it is unreachable for now
	robotsEnd     // it is unreachable for good, or its Crawl-delay is too long
)

// judge asks an origin's robots.txt about a URL.
func (f *Frontier) judge(o *origin, j *job, url string, now time.Time) (robotsSays, string) {
	if j.polOf(o.host.key).IgnoreRobots {
		return robotsAllow, "robots.txt is not asked"
	}
	f.loadRobots(o)
	if o.task != nil {
		return robotsWait, "robots.txt is being fetched"
	}
	if o.known && now.After(o.until) {
		o.known, o.rules, o.tries = false, nil, 0
	}
	if !o.known {
		if o.retryAt.After(now) {
			return robotsWait, "robots.txt is unreachable: " + o.rec.reason
		}
		return robotsUnknown, "robots.txt has not been fetched"
	}
	if o.rec.gaveUp {
		return robotsEnd, robotsUnreachable + o.rec.reason
	}
	if o.rec.status/100 != 2 {
		return robotsAllow, fmt.Sprintf("robots.txt: HTTP %d allows all", o.rec.status)
	}
	r := f.rulesFor(o, j.of(o.host.key).agent)
	if d, ok := r.CrawlDelay(); ok && d > j.polOf(o.host.key).MaxCrawlDelay {
		return robotsEnd, fmt.Sprintf("crawl-delay: robots.txt asks for %s, above max_crawl_delay %s", d, j.polOf(o.host.key).MaxCrawlDelay)
	}
	d := r.Test(pathOf(url))
	if d.Allowed {
		if d.Line == 0 {
			return robotsAllow, "robots.txt: no rule applies"
		}
		return robotsAllow, fmt.Sprintf("line %d: Allow: %s", d.Line, d.Rule)
	}
	return robotsForbid, fmt.Sprintf("line %d: Disallow: %s", d.Line, d.Rule)
}

// ask makes the task that fetches an origin's robots.txt; the origin's URLs
// are parked until it is done.
func (f *Frontier) ask(o *origin, q *queue) *robotsTask {
	t := &robotsTask{origin: o, queue: q, url: o.url()}
	o.task = t
	o.host.pins++
	q.tasks = append(q.tasks, t)
	return t
}

// closeTask ends a task, whatever came of it.
func (f *Frontier) closeTask(t *robotsTask) {
	t.queue.tasks = slices.DeleteFunc(t.queue.tasks, func(o *robotsTask) bool { return o == t })
	if t.origin.task == t {
		t.origin.task = nil
		t.origin.host.pins--
	}
}

// taskAgain lets a robots.txt be leased once more whose lease came to nothing.
// Where its queue is not served any more the origin is unknown again: whoever
// has a URL of it next asks, in this job or another.
func (f *Frontier) taskAgain(t *robotsTask, now time.Time) {
	t.leased = false
	q, j := t.queue, t.queue.job
	if j.state != jobRunning || j.queues[q.host.key] != q || j.held[q.host.key] != nil {
		f.closeTask(t)
		f.place(t.origin.host, now)
	}
}

// dropTasks gives up a queue's robots tasks that are not out: another job may
// ask for itself, and this one asks again when it runs.
func (f *Frontier) dropTasks(q *queue, now time.Time) {
	for _, t := range slices.Clone(q.tasks) {
		if !t.leased {
			f.closeTask(t)
			f.place(t.origin.host, now)
		}
	}
}

// robotsOutcome takes what came of a robots.txt.
func (f *Frontier) robotsOutcome(b *store.Batch, l *lease, out *crawlv1.Outcome, now time.Time) {
	t, o := l.task, l.task.origin
	res := out.GetFetch()
	status := res.GetStatus()
	if res.GetClass() == crawlv1.OutcomeClass_OUTCOME_CLASS_NOT_STARTED {
		f.taskAgain(t, now)
		return
	}
	reason := res.GetError()
	if res.GetClass() == crawlv1.OutcomeClass_OUTCOME_CLASS_POLICY && t.url == o.url() {
		// We refuse the origin ourselves, its port or its addresses: so do all
		// of its pages end in this job, as they would without a robots.txt.
		f.closeTask(t)
		t.queue.ending = &ending{state: stateFailed, reason: orElse(reason, "refused")}
		t.queue.ending.schemes[o.scheme] = true
		f.place(o.host, now)
		return
	}
	policy := robots.DisallowAll
	if res.GetClass() == crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP {
		o.toldByFetch(t.queue.job)
		policy = robots.StatusPolicy(int(status))
		reason = fmt.Sprintf("HTTP %d %s", status, http.StatusText(int(status)))
		if status == http.StatusTooManyRequests {
			policy = robots.DisallowAll
		}
	}
	switch policy {
	case robots.Redirect:
		f.redirectRobots(b, l, out, now)
		return
	case robots.UseBody, robots.AllowAll:
		f.closeTask(t)
		f.keepRobots(b, o, robotsRecord{status: status, body: robots.Bound(out.GetRobotsBody())}, now)
	default:
		f.robotsFailed(b, t, reason, now)
	}
	f.place(o.host, now)
}

// redirectRobots follows a redirect of a robots.txt: a new lease on the
// target's host, under that host's clocks.
func (f *Frontier) redirectRobots(b *store.Batch, l *lease, out *crawlv1.Outcome, now time.Time) {
	t := l.task
	target := out.GetRedirectUrl()
	visited := append(slices.Clone(t.visited), t.url)
	switch {
	case target == "":
		// A redirect to nowhere is an answer without a file: nothing forbids.
		f.closeTask(t)
		f.keepRobots(b, t.origin, robotsRecord{status: http.StatusNotFound, reason: "redirect without a target"}, now)
	case slices.Contains(visited, target), len(visited) > robotsRedirects:
		// RFC 9309 section 2.3.1.2: more than five may be taken as unavailable.
		f.closeTask(t)
		f.keepRobots(b, t.origin, robotsRecord{status: http.StatusNotFound, reason: "too many redirects"}, now)
	case l.job.state != jobRunning:
		f.closeTask(t)
	default:
		o := t.origin
		f.closeTask(t)
		key := hostKeyFromURL(target)
		q := l.job.queues[key]
		if q == nil {
			q = f.addQueue(l.job, key, now)
		}
		next := &robotsTask{origin: o, queue: q, url: target, visited: visited}
		o.task = next
		o.host.pins++
		q.tasks = append(q.tasks, next)
		f.place(q.host, now)
	}
	f.place(t.origin.host, now)
}

// keepRobots writes what an origin's robots.txt says.
func (f *Frontier) keepRobots(b *store.Batch, o *origin, rec robotsRecord, now time.Time) {
	rec.fetchedAt = now.UnixNano()
	rec.expires = now.Add(robotsTTL).UnixNano()
	o.rec, o.known, o.until, o.tries, o.retryAt = rec, true, now.Add(robotsTTL), 0, time.Time{}
	o.loaded = true
	o.compile()
	key := robotsKey(o.scheme, o.host.key)
	b.Set(key, rec.encode(key))
	o.rec.body = nil
	for _, q := range o.host.queues {
		if q.job.polOf(o.host.key).IgnoreRobots {
			continue
		}
		if says, why := f.judge(o, q.job, o.url(), now); says == robotsEnd {
			q.endFor(o, why)
			continue
		}
		// The Crawl-delay holds from the fetch that told it.
		if d := o.host.crawlDelay(q.job); d > 0 && !o.host.lastEnd.IsZero() {
			o.host.notBefore(o.host.lastEnd.Add(d), d)
		}
	}
	f.saveHost(b, o.host, now)
}

// endFor ends a queue's URLs of an origin that is unreachable, or all of them
// where its Crawl-delay is too long.
func (q *queue) endFor(o *origin, why string) {
	q.ending = &ending{state: stateExcluded, reason: why, schemes: [2]bool{true, true}}
	if o.rec.gaveUp {
		q.ending.schemes[1-o.scheme] = false
	}
}

// robotsFailed counts a try that reached no robots.txt: its origin allows
// nothing and is asked again later; when the tries are spent its URLs end.
func (f *Frontier) robotsFailed(b *store.Batch, t *robotsTask, reason string, now time.Time) {
	o, j := t.origin, t.queue.job
	f.closeTask(t)
	o.tries++
	o.rec.reason = reason
	if o.tries >= j.polOf(o.host.key).MaxTries {
		tries := o.tries
		f.keepRobots(b, o, robotsRecord{gaveUp: true, reason: fmt.Sprintf("%s (%d tries)", reason, tries)}, now)
		return
	}
	o.retryAt = now.Add(politeness.BackOffAfter(j.polOf(o.host.key).BackOff, o.tries, f.rng.Float64()))
	o.retryAt = latest(o.retryAt, o.host.next)
}
