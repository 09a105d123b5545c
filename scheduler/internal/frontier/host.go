package frontier

import (
	"container/heap"
	"net/netip"
	"slices"
	"time"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
	"lycosa.dev/scheduler/internal/shard"
)

// host is a host key with its clock, which all jobs share. It is in memory
// while a queue of it is, or while its clock runs.
type host struct {
	key    string
	hash   uint64 // its shard modulo the members
	queues []*queue
	pins   int // robots tasks of its origins that are under way elsewhere

	out      int       // fetches that are out
	outLimit int       // the least per_host of those
	next     time.Time // no fetch before: delay, back-off
	firm     time.Time // never later than next: what a delay or the server asked for, no back-off of ours
	wait     time.Duration
	lastEnd  time.Time
	lastTook time.Duration
	lastURL  string // what was fetched last; not kept on disk
	saved    bool   // the disk has a record
	failures uint32
	failedAt time.Time // when the back-off in force began
	domain   string    // registrable domain; empty: not computed yet

	origins [2]*origin

	status     crawlv1.HostStatus
	addrs      []netip.Addr
	addrsUntil time.Time
	addrsError string
	lookupBusy bool
	refresh    bool
	lookupAt   time.Time // no lookup before
	lookups    uint32    // lookups without an answer, in a row

	at    time.Time // when it may be ready; zero: no clock leads there
	index int       // in the heap of waiting hosts; -1: not in it
}

// hostHeap orders waiting hosts by time.
type hostHeap []*host

func (h hostHeap) Len() int           { return len(h) }
func (h hostHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h hostHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *hostHeap) Push(x any) {
	x.(*host).index = len(*h)
	*h = append(*h, x.(*host))
}
func (h *hostHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	x.index = -1
	return x
}

// load brings a host into memory with what is known of it.
func (f *Frontier) load(key string, now time.Time) *host {
	if h := f.hosts[key]; h != nil {
		return h
	}
	h := &host{key: key, hash: shard.Hash(key), index: -1}
	h.origins[0], h.origins[1] = &origin{host: h, scheme: schemeHTTP}, &origin{host: h, scheme: schemeHTTPS}
	f.hosts[key] = h
	if k := hostKeyOf(key); true {
		if v, ok := f.get(k); ok {
			h.saved = true
			if r, err := decodeHost(k, v); err == nil {
				h.failures = r.failures
				h.lastTook = r.lastTook
				if left := r.remaining(r.next, now); left > 0 {
					h.next, h.wait = now.Add(left), r.wait
					h.firm = now.Add(r.remaining(r.firm, now))
					if h.failures > 0 {
						h.failedAt = now
					}
				}
				if since := now.UnixNano() - r.lastEnd; r.lastEnd != 0 {
					h.lastEnd = now.Add(-time.Duration(max(0, since)))
				}
			} else {
				f.noteBad(k, v)
			}
		}
	}
	if k := dnsKey(hostName(key)); true {
		if v, ok := f.get(k); ok {
			if a, err := decodeAddresses(k, v); err == nil {
				h.takeAddresses(a)
			} else {
				f.noteBad(k, v)
			}
		}
	}
	return h
}

// get reads a record; a store that cannot be read ends the frontier.
func (f *Frontier) get(key []byte) ([]byte, bool) {
	v, ok, err := f.st.Get(key)
	if err != nil {
		f.fail(err)
		return nil, false
	}
	return v, ok
}

func (f *Frontier) saveHost(b *store.Batch, h *host, now time.Time) {
	r := hostRecord{failures: h.failures, lastTook: h.lastTook}
	if !h.next.After(now) && h.failures == 0 && !h.saved {
		return // it waits for nothing, and the disk says nothing else
	}
	h.saved = true
	// The wall time of what the monotonic clock measures.
	if left := h.next.Sub(now); left > 0 {
		r.next, r.wait = now.UnixNano()+int64(left), max(h.wait, left)
		if firm := h.firm.Sub(now); firm > 0 {
			r.firm = now.UnixNano() + int64(firm)
		}
	}
	if !h.lastEnd.IsZero() {
		r.lastEnd = now.UnixNano() - int64(now.Sub(h.lastEnd))
	}
	key := hostKeyOf(h.key)
	b.Set(key, r.encode(key))
}

// ended starts the host's wait after a fetch. known is false where nobody can
// tell how long it took or when it ended.
func (f *Frontier) ended(h *host, j *job, url string, took time.Duration, known bool, now time.Time) {
	h.lastURL = url
	h.lastEnd, h.lastTook = now, took
	inside := j.pol.Inside(h.addrs)
	crawl := h.crawlDelay(j)
	wait := j.polAfter(h).Delay(took, inside)
	if !known {
		wait = j.polAfter(h).Longest(crawl, inside)
	}
	wait = max(wait, crawl)
	for _, q := range h.queues {
		if q.job != j {
			wait = max(wait, q.job.polAfter(h).Delay(took, q.job.pol.Inside(h.addrs)), h.crawlDelay(q.job))
		}
	}
	h.notBefore(now.Add(wait), wait)
}

// notBefore raises the host's clock to what a delay, the server or a downloader
// asks for.
func (h *host) notBefore(t time.Time, wait time.Duration) {
	h.firm = latest(h.firm, t)
	h.backOff(t, wait)
}

// backOff raises the host's clock by a back-off of ours, which may be forgiven.
func (h *host) backOff(t time.Time, wait time.Duration) {
	if t.After(h.next) {
		h.next, h.wait = t, wait
	}
}

// forgetBackOff takes back-offs off the host's clock.
func (h *host) forgetBackOff(now time.Time) {
	if h.next.After(h.firm) {
		h.next, h.wait = h.firm, max(0, h.firm.Sub(now))
	}
}

// crawlDelay is what the host's robots.txt asks of a job, up to the limit
// above which its queue is retired.
func (h *host) crawlDelay(j *job) time.Duration {
	if j.polOf(h.key).IgnoreRobots {
		return 0
	}
	var longest time.Duration
	for _, o := range h.origins {
		if r := o.rules[j.of(h.key).agent]; r != nil {
			if d, ok := r.CrawlDelay(); ok {
				longest = max(longest, min(d, j.polOf(h.key).MaxCrawlDelay))
			}
		}
	}
	return longest
}

// limit is how many fetches of the host a job may have out.
func (h *host) limit(j *job) int {
	n, _ := j.polOf(h.key).Host(j.pol.Inside(h.addrs))
	if h.out > 0 {
		n = min(n, h.outLimit)
	}
	return n
}

// at tells when a queue can be served as far as its host's clocks are known;
// ok is false where an event must come first.
func (q *queue) at(now time.Time) (t time.Time, ok bool) {
	j, h := q.job, q.host
	if j.state != jobRunning {
		return t, false
	}
	heldUntil := now
	if w := j.held[h.key]; w != nil {
		if w.until.IsZero() {
			return t, false // it is released by hand
		}
		heldUntil = latest(now, w.until)
	}
	if q.ending != nil && !q.empty() {
		return heldUntil, true
	}
	if q.parked != nil {
		return t, false // its clock rouses it
	}
	want := q.taskWaits()
	t = now
	if !want && !q.capped {
		for s := range q.subs {
			if q.subs[s].empty() {
				continue
			}
			at := now
			if !j.polOf(h.key).IgnoreRobots {
				o := h.origins[s]
				if o.task != nil {
					continue
				}
				at = latest(now, o.retryAt)
			}
			if !want || at.Before(t) {
				t = at
			}
			want = true
		}
	}
	if !want || h.lookupBusy || h.out > 0 && h.out >= h.limit(j) {
		return t, false
	}
	return latest(t, h.next, h.lookupAt, heldUntil), true
}

// taskWaits tells whether a robots.txt is to be leased here.
func (q *queue) taskWaits() bool {
	for _, t := range q.tasks {
		if !t.leased {
			return true
		}
	}
	return false
}

func latest(t time.Time, more ...time.Time) time.Time {
	for _, m := range more {
		if m.After(t) {
			t = m
		}
	}
	return t
}

// place puts a host where it belongs now: into the ready lists of its jobs, or
// among the waiting, or nowhere until an event calls place again. A host with
// nothing left is forgotten once its clock has run out.
func (f *Frontier) place(h *host, now time.Time) {
	var at time.Time
	for _, q := range h.queues {
		t, ok := q.at(now)
		if !ok {
			continue
		}
		if !t.After(now) {
			f.makeReady(q)
		}
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if len(h.queues) == 0 && h.pins == 0 && h.out == 0 && !h.lookupBusy {
		if !h.next.After(now) {
			if h.index >= 0 {
				heap.Remove(&f.waiting, h.index)
			}
			delete(f.hosts, h.key)
			return
		}
		at = h.next
	}
	h.at = at
	switch {
	case at.IsZero() || !at.After(now):
		if h.index >= 0 {
			heap.Remove(&f.waiting, h.index)
		}
	case h.index >= 0:
		heap.Fix(&f.waiting, h.index)
		f.dueAt(at)
	default:
		heap.Push(&f.waiting, h)
		f.dueAt(at)
	}
}

// dueAt makes the tick come in time.
func (f *Frontier) dueAt(t time.Time) {
	if f.timerAt.IsZero() || t.Before(f.timerAt) {
		f.timerAt = t
		if !f.ticking { // the tick looks at timerAt itself when it ends
			f.notify(f.kickTick)
		}
	}
}

func (f *Frontier) makeReady(q *queue) {
	if q.inReady {
		return
	}
	q.inReady = true
	s := f.members.Of(q.host.hash)
	q.job.ready[s].push(q)
	f.signal(s)
}

// wake makes ready what has waited long enough.
func (f *Frontier) wake(now time.Time) {
	for len(f.waiting) > 0 && !f.waiting[0].at.After(now) {
		h := heap.Pop(&f.waiting).(*host)
		f.place(h, now)
	}
}

// addQueue gives a job's queue of a host a slot.
func (f *Frontier) addQueue(j *job, key string, now time.Time) *queue {
	h := f.load(key, now)
	q := &queue{job: j, host: h, level: j.precedenceOf(key)}
	h.queues = append(h.queues, q)
	j.queues[key] = q
	f.active++
	return q
}

// dropQueue takes a queue out of memory. What it was to ask for is asked for
// again by whose turn it is.
func (f *Frontier) dropQueue(q *queue) {
	h := q.host
	f.dropTasks(q, f.now())
	h.queues = slices.DeleteFunc(h.queues, func(o *queue) bool { return o == q })
	delete(q.job.queues, h.key)
	q.parked = nil
	q.job.dropTallies(q)
	q.inReady = true // what is left of it in a ready list is passed over
	f.active--
}

// unload takes all of a job's queues out of memory.
func (f *Frontier) unload(j *job) {
	now := f.now()
	for _, q := range j.queues {
		f.dropQueue(q)
		f.place(q.host, now)
	}
	for s := range j.ready {
		j.ready[s] = readyQueues{}
	}
	j.inactiveFrom = numbered(kindInactive, j.num)
	j.moreInactive = true
	j.nextDue = 0
}

// uncap lets a job's queues try again that its limits had held.
func (f *Frontier) uncap(j *job, now time.Time) {
	if len(j.capped) == 0 {
		return
	}
	list := j.capped
	j.capped = nil
	for _, q := range list {
		q.capped = false
		if j.queues[q.host.key] == q {
			f.place(q.host, now)
		}
	}
	f.signalAll()
}

// hold keeps a queue back until its job gets something back.
func (q *queue) hold() {
	if !q.capped {
		q.capped = true
		q.job.capped = append(q.job.capped, q)
	}
}

// retireEmpty forgets a queue without URLs: at once where slots are short, else
// when it has been idle for a while, since a host that gets a URL now and then
// would be read from disk each time.
func (f *Frontier) retireEmpty(b *store.Batch, q *queue) {
	if !f.idle(q) {
		return
	}
	if q.stored && f.active < f.o.MaxActiveHosts {
		if q.idleSince.IsZero() {
			q.idleSince = f.now()
			f.idlers = append(f.idlers, q)
		}
		return
	}
	f.retire(b, q)
}

// idle tells whether a queue with a slot has nothing to do.
func (f *Frontier) idle(q *queue) bool {
	return q.empty() && q.leased == 0 && len(q.tasks) == 0 && q.job.queues[q.host.key] == q
}

func (f *Frontier) retire(b *store.Batch, q *queue) {
	if q.stored {
		f.onDisk.drop(queueName{q.job.num, q.host.key})
		b.Delete(queueKey(q.job.num, q.host.key))
		b.Delete(inactiveKey(q.job.num, q.due, q.host.key))
	}
	f.dropQueue(q)
}

// retireIdle forgets the queues that have been idle for long, or all idle ones
// where slots are short.
func (f *Frontier) retireIdle(now time.Time) {
	if len(f.idlers) == 0 {
		return
	}
	b := f.newBatch()
	short := f.active >= f.o.MaxActiveHosts
	kept := f.idlers[:0]
	for i, q := range f.idlers {
		old := now.Sub(q.idleSince) >= idleKept
		if !short && !old {
			kept = append(kept, f.idlers[i:]...)
			break
		}
		q.idleSince = time.Time{}
		if f.idle(q) {
			f.retire(b, q)
			f.place(q.host, now)
		}
	}
	clear(f.idlers[len(kept):])
	f.idlers = kept
	_, _ = f.apply(b, false)
}
