package frontier

import (
	"fmt"
	"net/netip"
	"time"

	"google.golang.org/protobuf/proto"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

const (
	// maxAddresses is how many addresses a lease lists.
	maxAddresses = 8
	// lookupRetry is the wait after a lookup that gave no usable answer.
	lookupRetry = 30 * time.Second
)

func encodeAddresses(key []byte, a *crawlv1.HostAddresses) []byte {
	w := newWriter()
	raw, _ := proto.Marshal(a) // strings were checked when they were received
	w.bytes(raw)
	return w.seal(key)
}

func decodeAddresses(key, value []byte) (*crawlv1.HostAddresses, error) {
	r, err := open(key, value)
	if err != nil {
		return nil, err
	}
	a := &crawlv1.HostAddresses{}
	raw := r.raw()
	if r.err != nil {
		return nil, r.err
	}
	if err := proto.Unmarshal(raw, a); err != nil {
		return nil, fmt.Errorf("%w: addresses: %w", errBadRecord, err)
	}
	return a, nil
}

// takeAddresses takes what the dnser knows of the host.
func (h *host) takeAddresses(a *crawlv1.HostAddresses) {
	h.status = a.GetStatus()
	h.addrsError = a.GetError()
	h.addrs = h.addrs[:0:0]
	for _, raw := range a.GetAddresses() {
		if ip, ok := netip.AddrFromSlice(raw); ok && len(h.addrs) < maxAddresses {
			h.addrs = append(h.addrs, ip.Unmap())
		}
	}
	h.addrsUntil = time.Time{}
	if a.GetExpiresAt() != nil {
		h.addrsUntil = a.GetExpiresAt().AsTime()
	}
}

// news takes addresses that came with a commit. It says whether they are worth
// a write: an expiry that moves on alone is not.
func (h *host) news(a *crawlv1.HostAddresses, now time.Time) bool {
	if a.GetStatus() != crawlv1.HostStatus_HOST_STATUS_RESOLVED && h.usable(now) {
		return false
	}
	if a.GetStatus() == crawlv1.HostStatus_HOST_STATUS_UNSPECIFIED {
		return false
	}
	was, usable := h.addrs, h.usable(now)
	h.takeAddresses(a)
	if !usable || len(was) != len(h.addrs) {
		return true
	}
	for i := range was {
		if was[i] != h.addrs[i] {
			return true
		}
	}
	return false
}

// usable tells whether the host's addresses may be used. A wall time: TTLs come
// from elsewhere.
func (h *host) usable(now time.Time) bool {
	return h.status == crawlv1.HostStatus_HOST_STATUS_RESOLVED && len(h.addrs) > 0 &&
		(h.addrsUntil.IsZero() || now.Before(h.addrsUntil))
}

// resolve makes sure that the host's addresses are known; where not, a lookup
// is under way or the host waits, or its URLs end.
func (f *Frontier) resolve(q *queue, now time.Time) bool {
	h := q.host
	if h.usable(now) {
		return true
	}
	switch {
	case h.lookupBusy || h.lookupAt.After(now):
	case h.status == crawlv1.HostStatus_HOST_STATUS_NOT_FOUND_CONFIRMED && now.Before(h.addrsUntil):
		f.endHost(h, ending{state: stateFailed, reason: "dns-not-found: " + orElse(h.addrsError, "no such host")})
	case f.o.Lookup == nil:
		h.lookupAt = now.Add(lookupRetry)
	default:
		h.lookupBusy = true
		f.lookups = append(f.lookups, h)
		f.notify(f.kickLookup)
	}
	return false
}

// resolved takes the answer of a lookup.
func (f *Frontier) resolved(h *host, a *crawlv1.HostAddresses, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	h.lookupBusy = false
	b := f.newBatch()
	if err != nil || a == nil {
		// The dnser did not answer: nobody's fault on the web.
		h.lookupAt = now.Add(min(lookupRetry, f.o.ProbeInterval))
		if err != nil {
			h.addrsError = err.Error()
		}
		f.place(h, now)
		return
	}
	h.takeAddresses(a)
	h.refresh = false
	key := dnsKey(hostName(h.key))
	switch h.status {
	case crawlv1.HostStatus_HOST_STATUS_RESOLVED:
		h.lookups = 0
		if !h.usable(now) {
			// An answer that has expired on its way: it is used once.
			h.addrsUntil = now.Add(time.Second)
		}
		b.Set(key, encodeAddresses(key, a))
	case crawlv1.HostStatus_HOST_STATUS_NOT_FOUND_CONFIRMED:
		b.Set(key, encodeAddresses(key, a))
		f.endHost(h, ending{state: stateFailed, reason: "dns-not-found: " + orElse(h.addrsError, "no such host")})
	case crawlv1.HostStatus_HOST_STATUS_FORBIDDEN:
		f.endHost(h, ending{state: stateExcluded, reason: "address-policy: " + orElse(h.addrsError, "every address is refused")})
	case crawlv1.HostStatus_HOST_STATUS_NOT_FOUND:
		h.lookups++
		h.refresh = true
		h.lookupAt = now.Add(lookupRetry)
		if h.lookups > 3 {
			f.endHost(h, ending{state: stateFailed, reason: "dns-not-found: " + orElse(h.addrsError, "no such host")})
		}
	default:
		h.lookups++
		h.refresh = true
		f.dnsUnavailable(h, now)
	}
	f.giveBack(b, now)
	f.place(h, now)
	_, _ = f.apply(b, false)
}

// dnsUnavailable backs a host off whose name no server answers for; when the
// tries are spent its URLs fail.
func (f *Frontier) dnsUnavailable(h *host, now time.Time) {
	var tries uint32 = 1
	first := time.Minute
	for _, q := range h.queues {
		rule := q.job.polOf(h.key).Failure(jobv1.FailureClass_FAILURE_CLASS_DNS)
		tries = max(tries, rule.Tries)
		first = rule.Wait
	}
	if f.network.failed(h.key, h.lookups > 1, now) {
		h.lookups--
		h.lookupAt = now.Add(f.o.ProbeInterval)
		return
	}
	h.lookupAt = now.Add(f.backOff(first, h.lookups))
	if h.lookups >= tries {
		h.lookups = 0
		f.endHost(h, ending{state: stateFailed, reason: "dns: " + orElse(h.addrsError, "no server answers")})
	}
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// endHost ends the URLs of all the host's queues, and what waits for robots
// there.
func (f *Frontier) endHost(h *host, e ending) {
	e.schemes, e.host = [2]bool{true, true}, true
	for _, q := range h.queues {
		end := e
		q.ending = &end
	}
}

func earliest(t, o time.Time) time.Time {
	if t.IsZero() || o.Before(t) {
		return o
	}
	return t
}

// commitAddresses takes the addresses of a commit's hosts.
func (f *Frontier) commitAddresses(b *store.Batch, list []*crawlv1.HostAddresses, now time.Time) {
	for _, a := range list {
		h := f.hosts[a.GetHost()]
		if h == nil || !h.news(a, now) {
			continue
		}
		key := dnsKey(a.GetHost())
		b.Set(key, encodeAddresses(key, a))
		f.place(h, now)
	}
}
