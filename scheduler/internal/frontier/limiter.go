package frontier

import (
	"container/heap"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/net/publicsuffix"

	"lycosa.dev/scheduler/internal/frontier/store"
	"lycosa.dev/scheduler/internal/politeness"
)

// Clocks that hosts share: addresses, registrable domains, named groups, and
// the job as a whole; a host has one as well where its job limits more than its
// delay. A lease takes a place under every clock that its fetch is under, in
// the order address, domain, group, then the queue's own; where one refuses,
// none is taken and the queue is parked there. The places are the lease's: they
// end with it, by its id and at its expiry.
//
// Queues that are parked under a clock are served in the order in which they
// came to it, whatever else they had to wait for meanwhile: a queue keeps its
// ticket until it has been served. So a clock with n queues before one serves
// it after n fetches at most.

const (
	// rouseAgain is when a clock looks again for a queue to serve where the one
	// that it roused has not come.
	rouseAgain = 100 * time.Millisecond
	// parkedLong is how long a queue may have to wait under a clock until its
	// slot is another's.
	parkedLong = longWait
	// sweepEvery is how often idle clocks are forgotten.
	sweepEvery = 30 * time.Second
	// roused bounds the queues that a clock rouses at once.
	roused = 64
)

// limiter is one shared clock.
type limiter struct {
	name string
	addr netip.Addr // valid: an address's

	out      int       // fetches out
	outLimit int       // the least concurrency under which one of them is; 0: none
	promised uint64    // pages out: they count if a status comes
	unbooked int       // fetches that have ended and whose bytes are not known yet
	next     time.Time // no fetch before
	lastEnd  time.Time // of a fetch; zero: none known
	paid     time.Time // the bytes received are paid for by then
	longest  time.Duration
	day      int64 // of pages, in days of the due clock
	pages    uint64

	waiters waiterHeap
	at      time.Time // when it rouses a waiter; zero: not scheduled
	index   int       // in the heap of clocks; -1: not in it
}

// waiter is a queue that is parked under a clock.
type waiter struct {
	q      *queue
	ticket uint64
	limit  politeness.Limit
	page   bool
}

// waiterHeap orders waiters by ticket.
type waiterHeap []waiter

func (h waiterHeap) Len() int           { return len(h) }
func (h waiterHeap) Less(i, j int) bool { return h[i].ticket < h[j].ticket }
func (h waiterHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *waiterHeap) Push(x any)        { *h = append(*h, x.(waiter)) }
func (h *waiterHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = waiter{}
	*h = old[:len(old)-1]
	return x
}

// limiterHeap orders clocks by when they rouse a waiter.
type limiterHeap []*limiter

func (h limiterHeap) Len() int           { return len(h) }
func (h limiterHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h limiterHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *limiterHeap) Push(x any) {
	x.(*limiter).index = len(*h)
	*h = append(*h, x.(*limiter))
}
func (h *limiterHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	x.index = -1
	return x
}

// hold is a lease's place under a clock.
type hold struct {
	l        *limiter
	limit    politeness.Limit
	page     bool
	set      time.Time // what the clock was moved to
	before   time.Time // and from
	released bool      // its fetch has ended; the outcome is still to come
}

// under is a clock with what a job allows there.
type under struct {
	l     *limiter
	limit politeness.Limit
}

// domainOf is the registrable domain of a host key.
func domainOf(hostKey string) string {
	name := hostName(hostKey)
	if _, err := netip.ParseAddr(name); err == nil {
		return name
	}
	if d, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
		return d
	}
	return name
}

func (h *host) domainName() string {
	if h.domain == "" {
		h.domain = domainOf(h.key)
	}
	return h.domain
}

// clocksOf lists the clocks of a queue, but for addresses, in the order in
// which they are reserved.
func (f *Frontier) clocksOf(q *queue, list []under) []under {
	pol, h := q.job.polOf(q.host.key), q.host
	if !pol.DomainLimit.None() {
		list = append(list, under{f.limiter("domain " + h.domainName()), pol.DomainLimit})
	}
	for i := range f.groups {
		if g := &f.groups[i]; g.Covers(h.key, h.addrs) {
			list = append(list, under{f.limiter("group " + g.Name), g.Limit})
		}
	}
	for i := range pol.Groups {
		if f.ownGroup(pol.Groups[i].Name) {
			continue // the deployment says what belongs to it
		}
		if g := &pol.Groups[i]; g.Covers(h.key, h.addrs) {
			list = append(list, under{f.limiter("group " + g.Name), g.Limit})
		}
	}
	if !pol.HostLimit.None() {
		limit := pol.HostLimit
		if limit.Rate > 0 && limit.Concurrency == 0 {
			limit.Concurrency, _ = pol.Host(pol.Inside(h.addrs))
		}
		list = append(list, under{f.limiter("host " + h.key), limit})
	}
	if !pol.JobLimit.None() {
		list = append(list, under{f.limiter("job " + q.job.id), pol.JobLimit})
	}
	return list
}

// limiter is the clock of a name, with what is known of it.
func (f *Frontier) limiter(name string) *limiter {
	if l := f.limiters[name]; l != nil {
		return l
	}
	l := &limiter{name: name, index: -1}
	f.limiters[name] = l
	f.loadLimiter(l)
	return l
}

// address is the clock of an address. After a restart every address waits as
// if a fetch had just ended.
func (f *Frontier) address(a netip.Addr, limit politeness.Limit) *limiter {
	if l := f.addrs[a]; l != nil {
		return l
	}
	l := &limiter{name: "address " + a.String(), addr: a, index: -1}
	if f.restarted {
		l.lastEnd = f.openedAt
	}
	f.addrs[a] = l
	if limit.Rate > 0 || limit.PagesPerDay > 0 {
		f.loadLimiter(l)
	}
	return l
}

// refuses tells whether a clock has no place for a queue now, and until when if
// that is known.
func (f *Frontier) refuses(l *limiter, limit politeness.Limit, q *queue, page bool, now time.Time) (until time.Time, refused bool) {
	out := l.out
	if limit.Rate > 0 {
		out += l.unbooked // what they took is to be paid for before the next
	}
	if n := limit.Concurrency; n > 0 && out >= n || l.outLimit > 0 && l.out >= l.outLimit {
		return time.Time{}, true
	}
	t := latest(l.next, l.paid)
	if !l.lastEnd.IsZero() && limit.Delay > 0 {
		t = latest(t, l.lastEnd.Add(limit.Delay))
	}
	if page && limit.PagesPerDay > 0 {
		today := f.day(now)
		pages := l.pages
		if l.day != today {
			pages = 0
		}
		if pages >= limit.PagesPerDay {
			t = latest(t, f.midnight(now))
		} else if pages+l.promised >= limit.PagesPerDay {
			return time.Time{}, true
		}
	}
	if t.After(now) {
		return t, true
	}
	if first := l.first(); first != nil {
		if mine, ok := q.tickets[l]; !ok || first.ticket < mine {
			return time.Time{}, true
		}
	}
	return time.Time{}, false
}

// first is the waiter that is served next.
func (l *limiter) first() *waiter {
	for len(l.waiters) > 0 {
		w := &l.waiters[0]
		if w.q.parked == l {
			return w
		}
		heap.Pop(&l.waiters)
	}
	return nil
}

// claim takes a place under every clock of a fetch. Where one refuses, the
// queue is parked there and nothing is taken.
func (f *Frontier) claim(q *queue, page bool, now time.Time) (holds []hold, addrs []netip.Addr, ok bool) {
	h, pol := q.host, &q.job.pol
	var blocking *limiter
	var blockLimit politeness.Limit
	var until time.Time
	holds = make([]hold, 0, len(h.addrs)+4)
	for _, a := range h.addrs {
		limit := pol.AddressLimit(a)
		l := f.address(a, limit)
		t, refused := f.refuses(l, limit, q, page, now)
		if !refused {
			addrs = append(addrs, a)
			holds = append(holds, hold{l: l, limit: limit, page: page})
		} else if blocking == nil || !t.IsZero() && (until.IsZero() || t.Before(until)) {
			blocking, blockLimit, until = l, limit, t
		}
	}
	if len(addrs) == 0 {
		if blocking != nil {
			f.park(q, blocking, blockLimit, page, until, now)
		}
		return nil, nil, false
	}
	var list [8]under
	for _, u := range f.clocksOf(q, list[:0]) {
		if t, refused := f.refuses(u.l, u.limit, q, page, now); refused {
			f.park(q, u.l, u.limit, page, t, now)
			return nil, nil, false
		}
		holds = append(holds, hold{l: u.l, limit: u.limit, page: page})
	}
	for i := range holds {
		f.occupy(&holds[i], q, now)
	}
	return holds, addrs, true
}

// occupy takes a place under a clock.
func (f *Frontier) occupy(h *hold, q *queue, now time.Time) {
	l := h.l
	l.out++
	if n := h.limit.Concurrency; n > 0 && (l.outLimit == 0 || n < l.outLimit) {
		l.outLimit = n
	}
	if h.page {
		l.promised++
	}
	l.longest = max(l.longest, h.limit.Delay)
	// Starts are a delay apart as well: several fetches may be out.
	h.before = l.next
	l.next = latest(l.next, now.Add(h.limit.Delay))
	h.set = l.next
	delete(q.tickets, l)
}

// park puts a queue among those that a clock serves in turn.
func (f *Frontier) park(q *queue, l *limiter, limit politeness.Limit, page bool, until, now time.Time) {
	ticket, ok := q.tickets[l]
	if !ok {
		f.tickets++
		ticket = f.tickets
		if q.tickets == nil {
			q.tickets = map[*limiter]uint64{}
		}
		q.tickets[l] = ticket
	}
	q.parked, q.parkedUntil = l, until
	heap.Push(&l.waiters, waiter{q: q, ticket: ticket, limit: limit, page: page})
	switch {
	case !until.IsZero():
	case l.out == 0:
		until = now.Add(rouseAgain)
	default:
		until = now.Add(housekeeping) // the end of a fetch rouses it before
	}
	f.rouseAt(l, until)
}

// rouseAt schedules a clock that has waiters.
func (f *Frontier) rouseAt(l *limiter, t time.Time) {
	switch {
	case l.index < 0:
		l.at = t
		heap.Push(&f.closed, l)
	case t.Before(l.at):
		l.at = t
		heap.Fix(&f.closed, l.index)
	default:
		return
	}
	f.dueAt(t)
}

// rouse lets the first waiters of a clock try again.
func (f *Frontier) rouse(l *limiter, now time.Time) {
	for n := roused; n > 0; n-- {
		w := l.first()
		if w == nil {
			return
		}
		until, refused := f.refuses(l, w.limit, w.q, w.page, now)
		if refused {
			w.q.parkedUntil = until
			if until.IsZero() {
				until = now.Add(housekeeping)
			}
			f.rouseAt(l, until)
			return
		}
		x := heap.Pop(&l.waiters).(waiter)
		x.q.parked, x.q.parkedUntil = nil, time.Time{}
		f.place(x.q.host, now)
		if x.limit.Delay > 0 || x.limit.Rate > 0 {
			break
		}
		if c := x.limit.Concurrency; c > 0 {
			n = min(n, c-l.out)
		}
	}
	if l.first() != nil {
		f.rouseAt(l, now.Add(rouseAgain))
	}
}

// wakeClocks rouses the waiters of the clocks that have waited long enough.
func (f *Frontier) wakeClocks(now time.Time) {
	for len(f.closed) > 0 && !f.closed[0].at.After(now) {
		f.rouse(heap.Pop(&f.closed).(*limiter), now)
	}
}

// fetchEnded gives a lease's places back when its fetch has ended: the clocks
// run from now. connected is the address used, where known.
func (f *Frontier) fetchEnded(l *lease, connected []byte, known, untouched bool, now time.Time) {
	used, ok := netip.AddrFromSlice(connected)
	for i := range l.holds {
		h := &l.holds[i]
		if h.released {
			continue
		}
		h.released = true
		c := h.l
		c.unbooked++
		c.out--
		if c.out == 0 {
			c.outLimit = 0
		}
		charged := !untouched
		if c.addr.IsValid() && known {
			charged = ok && used.Unmap() == c.addr
		}
		if charged {
			c.lastEnd = now
			c.next = latest(c.next, now.Add(h.limit.Delay))
		} else if c.next.Equal(h.set) {
			c.next = h.before
		}
		if len(c.waiters) > 0 {
			f.rouseAt(c, latest(now, c.next))
		}
	}
}

// settleClocks books what a lease took under its clocks.
func (f *Frontier) settleClocks(b *store.Batch, l *lease, end endOf, now time.Time) {
	f.fetchEnded(l, end.connected, end.known || end.untouched, end.untouched, now)
	used, _ := netip.AddrFromSlice(end.connected)
	for i := range l.holds {
		h := &l.holds[i]
		c := h.l
		c.unbooked--
		if h.page {
			c.promised--
		}
		mine := !c.addr.IsValid() || used.Unmap() == c.addr
		lost := !end.known && !end.untouched // it may have been a page
		if h.page && (mine && end.page || lost) {
			if day := f.day(l.issued); c.day < day {
				c.day, c.pages = day, 1
			} else if c.day == day {
				c.pages++
			}
		}
		if mine && h.limit.Rate > 0 && end.bytes > 0 {
			c.paid = latest(c.paid, l.issued).Add(time.Duration(float64(end.bytes) / float64(h.limit.Rate) * float64(time.Second)))
		}
		if len(c.waiters) > 0 {
			f.rouseAt(c, latest(now, c.next, c.paid))
		}
		if h.limit.Rate > 0 || h.limit.PagesPerDay > 0 || !c.addr.IsValid() {
			f.saveLimiter(b, c)
		}
	}
	l.holds, l.addrs = nil, nil
}

// holdAgain gives a lease of an earlier start its places.
func (f *Frontier) holdAgain(l *lease, now time.Time) {
	page := l.page != nil
	for _, a := range l.addrs {
		limit := l.job.pol.AddressLimit(a)
		l.holds = append(l.holds, hold{l: f.address(a, limit), limit: limit, page: page})
	}
	var list [8]under
	for _, u := range f.clocksOf(l.queue, list[:0]) {
		l.holds = append(l.holds, hold{l: u.l, limit: u.limit, page: page})
	}
	for i := range l.holds {
		f.occupy(&l.holds[i], l.queue, now)
	}
}

// day is the day of the due clock, which is never set back.
func (f *Frontier) day(t time.Time) int64 { return f.dueNow(t) / int64(24*time.Hour) }

// midnight is when the next day begins.
func (f *Frontier) midnight(now time.Time) time.Time {
	return now.Add(time.Duration((f.day(now)+1)*int64(24*time.Hour) - f.dueNow(now)))
}

// sweepClocks forgets clocks that hold nothing back.
func (f *Frontier) sweepClocks(now time.Time) {
	if now.Sub(f.sweptAt) < sweepEvery {
		return
	}
	f.sweptAt = now
	idle := func(l *limiter) bool {
		return l.out+l.unbooked == 0 && len(l.waiters) == 0 && l.index < 0 && l.promised == 0 && !l.next.After(now) && !l.paid.After(now) &&
			(l.lastEnd.IsZero() || !l.lastEnd.Add(l.longest).After(now))
	}
	for a, l := range f.addrs {
		if idle(l) {
			delete(f.addrs, a)
		}
	}
	for name, l := range f.limiters {
		if idle(l) {
			delete(f.limiters, name)
		}
	}
}

// why tells what a parked queue waits for.
func (l *limiter) why(q *queue, now time.Time) string {
	what := "the clock of " + l.name
	switch {
	case q.parkedUntil.Sub(now) > time.Hour:
		what += " has had its pages of the day"
	case l.paid.After(now):
		what += " waits until the bytes received are paid for"
	case l.next.After(now):
		what += " waits its delay"
	case l.out > 0:
		what += fmt.Sprintf(" has %d fetches out", l.out)
	}
	if n := len(l.waiters); n > 1 {
		what += fmt.Sprintf("; %d queues wait for it in turn", n)
	}
	return what
}
