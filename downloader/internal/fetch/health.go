package fetch

import (
	"net/netip"
	"sync"
	"time"
)

// Bounds of what is remembered of addresses and hosts.
const (
	maxSick     = 8192
	firstSick   = 30 * time.Second
	longestSick = 10 * time.Minute
	maxHosts    = 8192
	hostMemory  = 24 * time.Hour
)

// health remembers the addresses that could not be connected to, so that the
// next fetch of their host begins with another. It is bounded; an address that
// is not in it is well.
type health struct {
	mu   sync.Mutex
	sick map[netip.AddrPort]sickness
}

type sickness struct {
	until time.Time
	times uint
}

// failed notes that no connection to addr came about.
func (h *health) failed(addr netip.AddrPort, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sick == nil {
		h.sick = map[netip.AddrPort]sickness{}
	}
	s, known := h.sick[addr]
	if !known && len(h.sick) >= maxSick {
		for a := range h.sick { // any one: the table is a help, not a record
			delete(h.sick, a)
			break
		}
	}
	s.until = now.Add(min(firstSick<<min(s.times, 10), longestSick))
	s.times++
	h.sick[addr] = s
}

// works notes that a connection to addr came about.
func (h *health) works(addr netip.AddrPort) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sick, addr)
}

// order arranges addresses for connecting: those that work first, families in
// turn (RFC 8305 section 4) beginning with that of the first, else as given.
func (h *health) order(addrs []netip.Addr, port uint16, now time.Time) []netip.AddrPort {
	var well, sick [2][]netip.AddrPort // by family
	first := -1
	h.mu.Lock()
	for _, a := range addrs {
		family := 0
		if a.Is6() && !a.Is4In6() {
			family = 1
		}
		ap := netip.AddrPortFrom(a, port)
		if s, ok := h.sick[ap]; ok && now.Before(s.until) {
			sick[family] = append(sick[family], ap)
			continue
		}
		if first < 0 {
			first = family
		}
		well[family] = append(well[family], ap)
	}
	h.mu.Unlock()
	first = max(first, 0)
	out := make([]netip.AddrPort, 0, len(addrs))
	for _, lists := range [...][2][]netip.AddrPort{well, sick} {
		a, b := lists[first], lists[1-first]
		for len(a)+len(b) > 0 {
			if len(a) > 0 {
				out, a = append(out, a[0]), a[1:]
			}
			a, b = b, a
			if len(a) == 0 {
				a, b = b, a
			}
		}
	}
	return out
}

// hostFacts is what is remembered of a server between connections.
type hostFacts struct {
	legacy bool // refuses today's TLS and takes the old one
	http1  bool // asked for HTTP/1.1 (RFC 9113 section 7, HTTP_1_1_REQUIRED)
	until  time.Time
}

// hostTable remembers facts of hosts by authority. It is bounded.
type hostTable struct {
	mu sync.Mutex
	m  map[string]hostFacts
}

func (t *hostTable) get(authority string, now time.Time) hostFacts {
	t.mu.Lock()
	defer t.mu.Unlock()
	f, ok := t.m[authority]
	if ok && now.After(f.until) {
		delete(t.m, authority)
		return hostFacts{}
	}
	return f
}

func (t *hostTable) change(authority string, now time.Time, set func(*hostFacts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m == nil {
		t.m = map[string]hostFacts{}
	}
	f, known := t.m[authority]
	if !known && len(t.m) >= maxHosts {
		for a := range t.m {
			delete(t.m, a)
			break
		}
	}
	set(&f)
	f.until = now.Add(hostMemory)
	t.m[authority] = f
}
