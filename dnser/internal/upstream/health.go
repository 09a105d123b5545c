package upstream

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Health bounds: a server that failed downAfter times in a row (no reply, a
// refusal, a reply of no use, or outrun by a hedge) is asked last for a while
// that doubles from minDown to maxDown.
const (
	downAfter = 3
	minDown   = time.Second
	maxDown   = 30 * time.Second
)

// server is one address and its health.
type server struct {
	addr netip.AddrPort

	mu        sync.Mutex
	failures  int // in a row
	downUntil time.Time
	pace      pace
}

func (s *server) name() string { return s.addr.String() }

func (s *server) failed(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures++
	if s.failures < downAfter || now.Before(s.downUntil) {
		return
	}
	down := minDown << min(s.failures-downAfter, 16)
	s.downUntil = now.Add(min(down, maxDown))
}

func (s *server) worked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures, s.downUntil = 0, time.Time{}
}

func (s *server) down(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Before(s.downUntil)
}

// order is the servers as they are to be asked now: those that are well, of
// them those that their rate makes wait later, then the one to avoid, those that
// are down last. Nobody is left out: when
// all are down, asking is the only way to find out that one is back.
func (g *Group) order(avoid netip.AddrPort) []*server {
	if len(g.servers) == 1 {
		return g.servers
	}
	list := slices.Clone(g.servers)
	if g.cfg.Rotate {
		k := int(g.turn.Add(1)-1) % len(list)
		list = append(list[k:len(list):len(list)], list[:k]...)
	}
	now := g.cfg.Now()
	rank := func(s *server) int {
		switch {
		case s.down(now):
			return 3
		case s.addr == avoid:
			return 2
		case s.busy(now):
			return 1
		}
		return 0
	}
	ranks := make(map[*server]int, len(list))
	for _, s := range list {
		ranks[s] = rank(s)
	}
	slices.SortStableFunc(list, func(a, b *server) int { return ranks[a] - ranks[b] })
	return list
}

// Down is how many servers are being avoided at this moment.
func (g *Group) Down() int {
	now := g.cfg.Now()
	n := 0
	for _, s := range g.servers {
		if s.down(now) {
			n++
		}
	}
	return n
}
