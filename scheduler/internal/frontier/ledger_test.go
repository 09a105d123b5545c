package frontier

import (
	"time"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
)

// The simulation's own books: they know what the web saw, when a fetch began,
// ended and was told, and nothing of the frontier.

// rateLaw is a leaky bucket: a fetch begins only when all bytes of the fetches
// before it that are known are paid for, at the clock's rate from each one's
// begin.
type rateLaw struct {
	paid time.Time
	open []booking // by begin; not in paid
}

type booking struct {
	lease uint64
	begun time.Time
	cost  time.Duration
	known time.Time // when the frontier was told what it received; zero: not yet
	told  bool
}

func (r *rateLaw) begin(lease uint64, now time.Time) {
	r.open = append(r.open, booking{lease: lease, begun: now})
}

// telling books what a fetch has received.
func (r *rateLaw) telling(lease uint64, received, rate int64) {
	for i := range r.open {
		if b := &r.open[i]; b.lease == lease && !b.told {
			b.known, b.cost = time.Now(), time.Duration(received)*time.Second/time.Duration(rate)
		}
	}
}

// told ends a fetch; where it was not taken, nobody knows of its bytes.
func (r *rateLaw) told(lease uint64, taken bool) {
	for i := range r.open {
		if b := &r.open[i]; b.lease == lease && !b.told {
			if b.told = true; !taken {
				b.known, b.cost = time.Now(), 0
			}
		}
	}
}

// until is when all is paid for that was known before now, and the number of
// fetches of which that is not known. What is told in this very instant may
// come before or after a lease.
func (r *rateLaw) until(now time.Time) (t time.Time, unknown int) {
	for len(r.open) > 0 && r.open[0].told && r.open[0].known.Before(now) {
		r.paid = latest(r.paid, r.open[0].begun).Add(r.open[0].cost)
		r.open = r.open[1:]
	}
	t = r.paid
	for _, b := range r.open {
		if b.known.IsZero() {
			unknown++
		} else if b.known.Before(now) {
			t = latest(t, b.begun).Add(b.cost)
		}
	}
	return t, unknown
}

// account is what a host or a domain has had, and what is on its way.
type account struct {
	pages, out      uint64
	bytes, bytesOut int64
	maxPages        uint64
	maxBytes        int64
}

// spent tells whether nothing may be fetched any more.
func (a *account) spent() bool {
	return a.maxPages > 0 && a.pages >= a.maxPages || a.maxBytes > 0 && a.bytes >= a.maxBytes
}

// ledger keeps the budgets of hosts and domains. A page is a fetch answered
// with what is not tried again; a try counts its bytes. What dies with the
// process has no outcome: it is fetched again and counts then.
type ledger struct {
	accounts map[string]*account
	of       func(host string) map[string]account // new accounts of a host, by name
}

func (g *ledger) accountsOf(host string) map[string]*account {
	list := map[string]*account{}
	for name, a := range g.of(host) {
		if g.accounts[name] == nil {
			g.accounts[name] = &a
		}
		list[name] = g.accounts[name]
	}
	return list
}

// begin checks that the budgets hold even if all that is out takes what it may.
func (g *ledger) begin(w *simWeb, l *crawlv1.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, a := range g.accountsOf(l.HostKey) {
		a.out++
		a.bytesOut += l.ByteAllowance
		if a.maxPages > 0 && a.pages+a.out > a.maxPages {
			w.breaks("%s: %d pages and %d out with %s, its budget is %d", name, a.pages, a.out-1, l.Url, a.maxPages)
		}
		if a.maxBytes > 0 && a.bytes+a.bytesOut > a.maxBytes {
			w.breaks("%s: %d bytes and %d out with %s, its budget is %d", name, a.bytes, a.bytesOut, l.Url, a.maxBytes)
		}
	}
}

// telling books a fetch; undo takes that back.
func (g *ledger) telling(l *crawlv1.Lease, o *crawlv1.Outcome) {
	for _, a := range g.accountsOf(l.HostKey) {
		a.out--
		a.bytesOut -= l.ByteAllowance
		a.bytes += o.Fetch.ReceivedBytes
		if o.Fetch.Status < 400 {
			a.pages++
		}
	}
}

func (g *ledger) undo(l *crawlv1.Lease, o *crawlv1.Outcome) {
	for _, a := range g.accountsOf(l.HostKey) {
		a.bytes -= o.Fetch.ReceivedBytes
		if o.Fetch.Status < 400 {
			a.pages--
		}
	}
}

// turnLaw: a host that answers is served within a bound, from when nothing of
// its own keeps it away.
type turnLaw struct {
	bound, delay time.Duration // delay is the longest of a host
	began        time.Time     // the process
	worst        time.Duration
	ended        map[string]time.Time // by host: the last fetch; after the begin: it is out
	failed       map[string]bool      // hosts that do not answer have their back-off
	until        map[string]time.Time // Retry-After
}

func newTurnLaw(bound, delay time.Duration) *turnLaw {
	return &turnLaw{bound: bound, delay: delay, began: time.Now(), ended: map[string]time.Time{}, failed: map[string]bool{}, until: map[string]time.Time{}}
}

func (l *turnLaw) begin(w *simWeb, host string, now time.Time) {
	ready := l.began
	if t, ok := l.ended[host]; ok {
		ready = latest(ready, t.Add(l.delay), l.until[host])
	}
	wait := now.Sub(ready)
	if !l.failed[host] {
		if l.worst = max(l.worst, wait); wait > l.bound {
			w.breaks("%s was ready for %s before it was served, the bound is %s", host, wait, l.bound)
		}
	}
	l.ended[host] = now
}

func (l *turnLaw) end(o *crawlv1.Outcome, now time.Time) {
	l.ended[o.HostKey] = now
	l.failed[o.HostKey] = o.Fetch.Class != crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP
	if ra := o.Fetch.GetRetryAfter(); ra != nil {
		l.until[o.HostKey] = now.Add(ra.AsDuration())
	}
}
