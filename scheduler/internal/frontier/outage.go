package frontier

import (
	"slices"
	"strings"
	"time"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// outage stops leasing for a reason that is nobody's on the web. While it
// lasts a single lease goes out now and then to see whether it is over.
type outage struct {
	reason string // empty: none
	probe  time.Time
}

func (o *outage) pass(now time.Time) bool {
	return o.reason == "" || !now.Before(o.probe)
}

// passed tells that a lease went out: the next probe waits.
func (o *outage) passed(now time.Time, interval time.Duration) {
	if o.reason != "" {
		o.probe = now.Add(interval)
	}
}

// StorageUnavailable stops leasing: a store behind the ring is full or cannot
// be written. A lease goes out every ProbeInterval until one is committed.
func (f *Frontier) StorageUnavailable(reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if f.hold.reason == "" {
		f.log.Warn("leasing stops: storage is unavailable", "reason", reason)
	}
	f.hold = outage{reason: orElse(reason, "no reason given"), probe: now.Add(f.o.ProbeInterval)}
	f.dueAt(f.hold.probe)
}

func (f *Frontier) storageBack() {
	if f.hold.reason != "" {
		f.log.Info("leasing goes on: storage is available again")
		f.hold = outage{}
		f.signalAll()
	}
}

const (
	networkWindow = 50
	networkFailed = 45 // nine tenths
	// longestDown is how long the network is taken as down.
	longestDown = time.Hour
)

// netWindow watches the last results of different hosts. When nine tenths fail
// at DNS or connect, the network is down, not the hosts.
type netWindow struct {
	hosts  []string // oldest first
	failOf map[string]bool
	fails  int
	down   outage
	since  time.Time // when it was found down
	tries  []netTry  // that failed since a host answered last, and counted
	found  bool      // it has just been found down: tries are to be given back
}

// netTry is a try of a URL, or of an origin's robots.txt, that failed at DNS or
// connect.
type netTry struct {
	job    *job
	host   string
	origin *origin // nil: a URL's
	key    uint64
	class  jobv1.FailureClass
}

// netClass tells whether a result may be the network's fault.
func netClass(c crawlv1.OutcomeClass) bool {
	return c == crawlv1.OutcomeClass_OUTCOME_CLASS_DNS || c == crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT
}

// triesKept bounds the tries that can be given back.
const triesKept = 1024

// tried notes a failure that counted as a try: the network may be found down
// for it later.
func (w *netWindow) tried(t netTry) {
	if len(w.tries) == triesKept {
		w.tries = append(w.tries[:0], w.tries[1:]...)
	}
	w.tries = append(w.tries, t)
}

func (w *netWindow) note(host string, failed bool) {
	if w.failOf == nil {
		w.failOf = map[string]bool{}
	}
	if was, ok := w.failOf[host]; ok {
		if was != failed {
			w.failOf[host] = failed
			if failed {
				w.fails++
			} else {
				w.fails--
			}
		}
		return
	}
	if len(w.hosts) == networkWindow {
		oldest := w.hosts[0]
		w.hosts = append(w.hosts[:0], w.hosts[1:]...)
		if w.failOf[oldest] {
			w.fails--
		}
		delete(w.failOf, oldest)
	}
	w.hosts = append(w.hosts, host)
	w.failOf[host] = failed
	if failed {
		w.fails++
	}
}

// failed notes a failure at DNS or connect and says whether the network is
// down: the try does not count then. A host that failed before (again) is no
// witness: at the end of a crawl only dead hosts may be left. Nor is the network
// taken as down for longer than longestDown without a sign, so that a crawl of
// dead hosts ends as well.
func (w *netWindow) failed(host string, again bool, now time.Time) bool {
	if w.down.reason != "" && now.Sub(w.since) >= longestDown {
		*w = netWindow{}
		return false
	}
	if !again {
		w.note(host, true)
	}
	if w.down.reason == "" && w.fails >= networkFailed {
		w.down = outage{reason: "network down: nine tenths of the last 50 hosts failed at DNS or connect", probe: now}
		w.since, w.found = now, true
	}
	return w.down.reason != ""
}

// reached notes that a host answered: the network works.
func (w *netWindow) reached(host string) (back bool) {
	w.note(host, false)
	w.tries = w.tries[:0]
	if w.down.reason == "" {
		return false
	}
	*w = netWindow{}
	return true
}

// giveBack gives tries back that were made while the network was down, before
// that was found: a URL that is queued or leased has one more again, one that
// had failed by them is queued again. The hosts wait no longer than after a
// fetch; that they have failed stays known, so that they are no witnesses of
// another outage: a crawl of which only dead hosts are left ends.
func (f *Frontier) giveBack(b *store.Batch, now time.Time) {
	if !f.network.found {
		return
	}
	f.network.found = false
	tries := slices.Clone(f.network.tries)
	f.network.tries = nil
	a := admission{f: f, b: b, now: now, stored: map[queueName]bool{}, touched: map[*host]struct{}{}}
	jobs := map[*job]bool{}
	for _, t := range tries {
		if f.jobs[t.job.id] != t.job {
			continue
		}
		h := f.load(t.host, now)
		if h.failures > 0 {
			h.failures, h.failedAt = 1, time.Time{}
			h.forgetBackOff(now)
			f.saveHost(b, h, now)
		}
		if t.origin != nil {
			f.askAgain(b, t.origin)
			if o := f.hosts[t.origin.host.key]; o != nil {
				a.touched[o] = struct{}{}
			}
		} else {
			a.tryAgain(t)
		}
		a.touched[h] = struct{}{}
		jobs[t.job] = true
	}
	for h := range f.network.failOf {
		if h := f.hosts[h]; h != nil && h.lookups > 1 {
			h.lookups = 1
		}
	}
	for h := range a.touched {
		f.place(h, now)
	}
	for j := range jobs {
		f.saveCounters(b, j)
	}
	f.log.Warn("the network is down; tries that failed for it do not count", "tries", len(tries))
}

// tryAgain gives a URL one try back.
func (a *admission) tryAgain(t netTry) {
	f, j := a.f, t.job
	key := urlKey(j.num, t.key)
	v, ok := f.get(key)
	if !ok {
		return
	}
	rec, err := decodeURL(key, v)
	if err != nil {
		return
	}
	switch rec.state {
	case stateLeased:
		if l := f.leases[rec.lease]; l != nil && l.page != nil {
			l.page.unfailed(t.class)
			f.saveLease(a.b, l, l.issued)
		}
	case stateQueued:
		if e := f.queuedEntry(j, rec, t.key); e != nil {
			e.unfailed(t.class)
			f.writeQueued(a.b, j, rec.host, e)
		}
	case stateFailed:
		if rec.entry == nil || rec.entry.url == "" {
			return
		}
		rec.entry.unfailed(t.class)
		a.again(j, rec)
	}
}

// askAgain gives an origin the tries of its robots.txt back.
func (f *Frontier) askAgain(b *store.Batch, o *origin) {
	if f.hosts[o.host.key] != o.host || o.known && !o.rec.gaveUp {
		return // it has left memory, or has been read since
	}
	if o.known {
		b.Delete(robotsKey(o.scheme, o.host.key))
		o.known, o.rules, o.rec = false, nil, robotsRecord{}
		for _, q := range o.host.queues {
			if q.ending != nil && strings.HasPrefix(q.ending.reason, robotsUnreachable) {
				q.ending = nil
			}
		}
	}
	o.tries, o.retryAt = 0, time.Time{}
}
