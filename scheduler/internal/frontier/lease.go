package frontier

import (
	"container/heap"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// endedPerCall bounds the URLs that one call of Lease ends by rules, so that
// the mutex is not held long; the rest follows at once.
const endedPerCall = 1024

// lease is a lease that is out.
type lease struct {
	id        uint64
	job       *job
	queue     *queue
	url       string
	page      *entry      // nil: robots.txt
	task      *robotsTask // nil: a page
	member    string
	length    time.Duration
	expires   time.Time // deadline and grace, by the scheduler's clock
	latest    time.Time // renewals end here
	allowance int64
	addrs     []netip.Addr
	holds     []hold // its places under clocks
	robots    string // the line of robots.txt that decided
	tallies   []*tally
	issued    time.Time
	told      uint32 // the depth that the downloader knows
	fetched   bool   // the host's clock runs already
	solo      bool
	index     int
}

// leaseHeap orders leases by expiry.
type leaseHeap []*lease

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].expires.Before(h[j].expires) }
func (h leaseHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *leaseHeap) Push(x any) {
	x.(*lease).index = len(*h)
	*h = append(*h, x.(*lease))
}
func (h *leaseHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	x.index = -1
	return x
}

// Lease returns up to max leases for a downloader, jobs by turns. It does not
// wait for work (see Ready); the leases are durable when it returns.
func (f *Frontier) Lease(ctx context.Context, member string, max int) ([]*crawlv1.Lease, error) {
	f.mu.Lock()
	out, p, err := f.leaseMany(member, max)
	f.mu.Unlock()
	if err != nil || p == nil {
		return nil, err
	}
	if err := f.await(p); err != nil {
		return nil, err
	}
	f.met.leases.Add(float64(len(out)))
	return out, nil
}

func (f *Frontier) leaseMany(member string, max int) ([]*crawlv1.Lease, store.Pending, error) {
	if err := f.usable(); err != nil {
		return nil, nil, err
	}
	shard := f.members.Index(member)
	if shard < 0 || max <= 0 {
		return nil, nil, nil
	}
	now := f.now()
	f.wakeClocks(now)
	f.wake(now)
	b := f.newBatch()
	g := grant{f: f, b: b, now: now, shard: shard, member: member, budget: endedPerCall}
	if q := f.wantSolo; q != nil && !g.alone(q) {
		return nil, nil, nil
	}
	for progress := true; progress && len(g.out) < max && g.budget > 0 && f.wantSolo == nil && f.solo == nil; {
		progress = false
		for range len(f.order) {
			f.turn++
			j := f.order[f.turn%len(f.order)]
			if len(g.out) < max && f.mayLease(j, now) && g.next(j) {
				progress = true
			}
		}
	}
	for j := range g.touched {
		f.saveCounters(b, j)
		f.settle(b, j, now)
	}
	if len(g.out) < max {
		f.hungry = true
		f.notify(f.kickDecide)
	}
	if len(g.out) == max || g.budget <= 0 {
		for _, j := range f.order {
			if j.ready[shard].len() > 0 && f.mayLease(j, now) {
				f.signal(shard)
				break
			}
		}
	}
	p, err := f.apply(b, len(g.out) > 0)
	if err != nil {
		return nil, nil, err
	}
	if f.err != nil { // a read failed on the way
		if len(g.out) > 0 {
			return nil, p, f.err
		}
		return nil, nil, f.err
	}
	if len(g.out) == 0 {
		return nil, nil, nil
	}
	return g.out, p, nil
}

// mayLease tells whether a job may have one more lease.
func (f *Frontier) mayLease(j *job, now time.Time) bool {
	if j.state != jobRunning || j.leased >= j.capacity || f.solo != nil {
		return false
	}
	return f.hold.pass(now) && f.network.down.pass(now)
}

// grant is one call of Lease.
type grant struct {
	f          *Frontier
	b          *store.Batch
	now        time.Time
	shard      int
	member     string
	budget     int    // URLs that may still be ended by rules
	robotsLine string // what robots.txt said of the URL chosen last
	out        []*crawlv1.Lease
	touched    map[*job]struct{}
}

func (g *grant) touch(j *job) {
	if g.touched == nil {
		g.touched = map[*job]struct{}{}
	}
	g.touched[j] = struct{}{}
}

// alone serves a queue whose first URL is to run alone, once nothing else is
// out. It returns false while that is waited for.
func (g *grant) alone(q *queue) bool {
	f := g.f
	if q.job.queues[q.host.key] == q && q.job.state == jobRunning {
		if len(f.leases) > 0 || f.members.Of(q.host.hash) != g.shard {
			return false
		}
		if t, ok := q.at(g.now); ok && !t.After(g.now) && f.mayLease(q.job, g.now) {
			f.wantSolo = nil
			g.try(q)
			f.retireEmpty(g.b, q)
			f.place(q.host, g.now)
			return true
		}
	}
	f.wantSolo = nil
	return true
}

// next makes one lease of a job, if any of its queues is ready.
func (g *grant) next(j *job) bool {
	f := g.f
	for g.budget > 0 {
		q := j.ready[g.shard].pop()
		if q == nil {
			return false
		}
		if j.queues[q.host.key] != q || !q.inReady {
			continue
		}
		q.inReady = false
		h := q.host
		serve := q
		for _, o := range h.queues { // two jobs on one host take turns
			if o != q && o.served < serve.served && f.mayLease(o.job, g.now) {
				if t, ok := o.at(g.now); ok && !t.After(g.now) {
					serve = o
				}
			}
		}
		if t, ok := serve.at(g.now); !ok || t.After(g.now) {
			f.place(h, g.now)
			continue
		}
		g.budget--
		l := g.try(serve)
		f.retireEmpty(g.b, serve)
		f.place(h, g.now)
		if l != nil {
			return true
		}
		if f.wantSolo != nil {
			return false
		}
	}
	return false
}

// try makes a lease of a queue whose clock allows one. Where it cannot, the
// queue or its host is left in a state in which place does not find it ready,
// or some of its URLs have ended.
func (g *grant) try(q *queue) *lease {
	f, h, now := g.f, q.host, g.now
	if q.ending != nil {
		g.end(q)
		return nil
	}
	f.know(q)
	if !h.lastEnd.IsZero() { // this job's own delay may be the longer one
		inside := q.job.pol.Inside(h.addrs)
		wait := max(q.job.polAfter(h).Delay(h.lastTook, inside), h.crawlDelay(q.job))
		if t := h.lastEnd.Add(wait); t.After(now) {
			h.notBefore(t, wait)
			return nil
		}
	}
	if !f.resolve(q, now) {
		return nil
	}
	if h.out > 0 && h.out >= h.limit(q.job) {
		return nil
	}
	for _, t := range q.tasks {
		if !t.leased {
			return g.robots(q, t)
		}
	}
	e, task := g.choose(q)
	if task != nil {
		return g.robots(q, task)
	}
	if e == nil {
		return nil
	}
	return g.page(q, e)
}

// choose finds the first URL of a queue that may be fetched, ending those that
// robots.txt forbids; or the robots.txt that must be fetched first.
func (g *grant) choose(q *queue) (*entry, *robotsTask) {
	f, j := g.f, q.job
	retirable := q.leased == 0 && len(q.tasks) == 0 && q.stored // nothing of it is out
	if why := q.dead(); why != "" && retirable {
		f.retireQueue(g.b, q, why)
		return nil, nil
	}
	switch reason, waits := f.overBudget(q); {
	case reason != "" && retirable:
		f.retireQueue(g.b, q, reason)
		return nil, nil
	case reason != "" || waits:
		q.hold() // until what is out has come home
		return nil, nil
	}
	for g.budget > 0 {
		var best *entry
		for s := range q.subs {
			f.refill(q, uint8(s))
			sub := &q.subs[s]
			if len(sub.heads) == 0 {
				continue
			}
			o := q.host.origins[s]
			if !j.polOf(q.host.key).IgnoreRobots && (o.task != nil || o.retryAt.After(g.now)) {
				continue
			}
			if e := sub.heads[0]; best == nil || e.pos.less(best.pos) {
				best = e
			}
		}
		if best == nil {
			return nil, nil
		}
		if why := j.keepsOut(best, q.host.key); why != "" {
			g.exclude(q, best, stateExcluded, why)
			continue
		}
		if why := f.guessTrap(j, q.host.key, best); why != "" {
			g.exclude(q, best, stateExcluded, why)
			continue
		}
		o := q.host.origins[best.scheme()]
		says, why := f.judge(o, j, best.url, g.now)
		g.robotsLine = why
		if !j.polOf(q.host.key).IgnoreRobots && !q.told[o.scheme] && (says == robotsAllow || says == robotsForbid) {
			f.tellSitemaps(g.b, q, o)
		}
		switch says {
		case robotsForbid:
			g.exclude(q, best, stateExcluded, "robots: "+why)
			continue
		case robotsUnknown:
			return nil, f.ask(o, q)
		case robotsWait:
			return nil, nil
		case robotsEnd:
			q.endFor(o, why)
			g.end(q)
			return nil, nil
		}
		if !best.reserved && !j.pagesLeft() {
			q.hold()
			return nil, nil
		}
		return best, nil
	}
	return nil, nil
}

// tooDeep tells whether max_depth keeps a depth out.
func (j *job) tooDeep(depth uint32) bool { return j.maxDepth >= 0 && int64(depth) > j.maxDepth }

func maxDepthReason(j *job) string { return fmt.Sprintf("max-depth %d", j.maxDepth) }

// end ends URLs of a queue that has an ending.
func (g *grant) end(q *queue) {
	f := g.f
	for s := range q.subs {
		if !q.ending.schemes[s] {
			continue
		}
		for g.budget > 0 {
			f.refill(q, uint8(s))
			if len(q.subs[s].heads) == 0 {
				break
			}
			g.exclude(q, q.subs[s].heads[0], q.ending.state, q.ending.reason)
		}
		if !q.subs[s].empty() {
			return
		}
	}
	if q.ending.host {
		// Redirects of other hosts' robots.txt that lead here lead nowhere.
		for _, t := range slices.Clone(q.tasks) {
			if !t.leased {
				f.robotsFailed(g.b, t, q.ending.reason, g.now)
				f.place(t.origin.host, g.now)
			}
		}
	}
	q.ending = nil
}

// exclude ends the first URL of its scheme without a fetch.
func (g *grant) exclude(q *queue, e *entry, state schedulerv1.UrlState, reason string) {
	g.budget--
	q.subs[e.scheme()].pop()
	g.f.finish(g.b, q.job, q.host.key, e, stateQueued, state, reason, g.now)
	g.b.Delete(queuedKey(q.job.num, q.host.key, e.scheme(), e.pos, e.key))
	if q.ending != nil && q.ending.host {
		g.f.gaveUp(g.b, q.job, q.host.key, reason)
	}
	g.touch(q.job)
}

// page leases a URL.
func (g *grant) page(q *queue, e *entry) *lease {
	f, j := g.f, q.job
	solo := int(e.crashes) >= f.o.MaxCrashes
	if solo && len(f.leases) > 0 {
		f.wantSolo = q
		return nil
	}
	allowance, ok := j.allowance()
	if !ok {
		q.hold()
		return nil
	}
	allowance = f.budgetBytes(q, allowance)
	holds, addrs, ok := f.claim(q, true, g.now)
	if !ok {
		return nil
	}
	q.subs[e.scheme()].pop()
	l := &lease{url: e.url, page: e, told: e.depth, solo: solo, allowance: allowance, addrs: addrs, holds: holds, robots: g.robotsLine}
	g.b.Delete(queuedKey(j.num, q.host.key, e.scheme(), e.pos, e.key))
	j.cnt.queued--
	j.cnt.leased++
	if !e.reserved {
		e.reserved = true
		j.cnt.reserved++
	}
	if solo {
		f.solo = l
	}
	g.issue(q, l, allowance)
	key := urlKey(j.num, e.key)
	rec := urlRecord{state: stateLeased, depth: e.depth, host: q.host.key, lease: l.id}
	g.b.Set(key, rec.encode(key))
	p := g.out[len(g.out)-1]
	p.Purpose = crawlv1.Purpose_PURPOSE_PAGE
	p.Attempt = e.attempts + 1
	p.Depth, p.HopPath, p.Referrer = e.depth, e.hop, e.referrer
	p.FoundByTraceparent = e.foundBy
	p.Seed, p.Redirects = e.seed, e.redirects
	p.Validators = e.conditional()
	return l
}

// robots leases a robots.txt.
func (g *grant) robots(q *queue, t *robotsTask) *lease {
	f := g.f
	allowance := int64(robotsAllowance)
	if q.job.maxBytes > 0 {
		allowance = min(allowance, q.job.bytesLeft())
		if allowance <= 0 {
			f.closeTask(t)
			q.hold()
			return nil
		}
	}
	holds, addrs, ok := f.claim(q, false, g.now)
	if !ok {
		return nil
	}
	t.leased = true
	l := &lease{url: t.url, task: t, allowance: allowance, addrs: addrs, holds: holds}
	g.issue(q, l, allowance)
	p := g.out[len(g.out)-1]
	p.Purpose = crawlv1.Purpose_PURPOSE_ROBOTS
	p.Attempt = t.origin.tries + 1
	p.HopPath = "P"
	p.Redirects = uint32(len(t.visited))
	return l
}

// issue makes a lease of what is reserved for it.
func (g *grant) issue(q *queue, l *lease, allowance int64) {
	f, j, h := g.f, q.job, q.host
	for {
		l.id = f.newID()
		if f.leases[l.id] == nil {
			break
		}
	}
	l.job, l.queue, l.member, l.length, l.issued = j, q, g.member, f.o.LeaseDeadline, g.now
	l.expires = g.now.Add(l.length + f.o.LeaseGrace)
	l.latest = g.now.Add(max(f.o.MaxLease, l.length) + f.o.LeaseGrace)
	f.leases[l.id] = l
	f.promise(l)
	heap.Push(&f.expiry, l)
	f.dueAt(l.expires)
	limit, _ := j.polOf(h.key).Host(j.pol.Inside(h.addrs))
	if h.out == 0 || limit < h.outLimit {
		h.outLimit = limit
	}
	h.out++
	q.leased++
	q.since++
	f.served++
	q.served = f.served
	j.leased++
	if j.maxBytes > 0 {
		j.bytesOut += allowance
	}
	f.hold.passed(g.now, f.o.ProbeInterval)
	f.network.down.passed(g.now, f.o.ProbeInterval)
	f.saveLease(g.b, l, g.now)
	g.touch(j)
	raw := make([][]byte, len(l.addrs))
	for i, a := range l.addrs {
		raw[i] = a.AsSlice()
	}
	g.out = append(g.out, &crawlv1.Lease{
		Id: l.id, JobId: j.id, SpecVersion: j.version, FrontierEpoch: j.epoch,
		Url: l.url, HostKey: h.key, Addresses: raw, ByteAllowance: allowance, Deadline: durationpb.New(l.length),
		Overlay:         j.ofURL(h.key, l.url).request,
		MembershipEpoch: f.members.Epoch, Members: uint32(f.members.Len()), Shard: uint32(g.shard),
	})
}

// allowance is the bytes that a lease may take, of what the job has left. A
// sixteenth of it, so that a few leases can be out, but no less than
// leastAllowance; the last bytes go to one lease alone. It is never more than
// a page may have.
func (j *job) allowance() (int64, bool) {
	const leastAllowance = 4 << 20
	page := j.pageMax + 1<<20 // header block and framing come on top
	if j.maxBytes <= 0 {
		return page, true
	}
	left := j.bytesLeft()
	if left <= 0 || left < leastAllowance && j.bytesOut > 0 {
		return 0, false
	}
	return min(page, left, max(left/16, leastAllowance)), true
}

func (f *Frontier) saveLease(b *store.Batch, l *lease, now time.Time) {
	r := leaseRecord{job: l.job.num, host: l.queue.host.key, url: l.url, member: l.member,
		issued: now.UnixNano(), length: l.length, allowance: l.allowance, addrs: l.addrs, solo: l.solo, page: l.page, told: l.told}
	if l.task != nil {
		r.origin, r.scheme, r.visited = l.task.origin.host.key, l.task.origin.scheme, l.task.visited
	}
	key := leaseKey(l.id)
	b.Set(key, r.encode(key))
}
