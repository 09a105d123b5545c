package frontier

import (
	"time"
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
		w.since = now
	}
	return w.down.reason != ""
}

// reached notes that a host answered: the network works.
func (w *netWindow) reached(host string) (back bool) {
	w.note(host, false)
	if w.down.reason == "" {
		return false
	}
	*w = netWindow{}
	return true
}
