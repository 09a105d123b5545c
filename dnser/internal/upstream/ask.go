package upstream

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// Ask asks for name's records of one type until a server gives a usable reply,
// every round is spent or ctx ends. name is absolute or not, the same is asked.
// A server equal to avoid is asked after the others that are well. A server that
// is slow is overtaken by the next one, see Config.Hedge.
// The error is an *Error.
func (g *Group) Ask(ctx context.Context, name string, qtype uint16, avoid netip.AddrPort) (Reply, error) {
	p := &plan{g: g, avoid: avoid, timeout: g.cfg.TryTimeout}
	if g.cfg.Hedge <= 0 || len(g.servers) == 1 {
		return g.inTurn(ctx, p, name, qtype)
	}
	g.hedges.question()
	return g.hedged(ctx, p, name, qtype)
}

// plan is the servers still to be asked for one question, and what has failed.
type plan struct {
	g       *Group
	avoid   netip.AddrPort
	round   int
	list    []*server
	timeout time.Duration
	over    map[*server]bool // would say the same again
	best    *Error
}

// next is whom to ask next and for how long; nil: nobody is left. Except, if not
// nil, is not taken: it is being asked.
func (p *plan) next(except *server) (*server, time.Duration) {
	for {
		if len(p.list) == 0 {
			if p.round == p.g.cfg.Rounds {
				return nil, 0
			}
			if p.round > 0 {
				p.timeout *= 2
			}
			p.round++
			p.list = p.g.order(p.avoid)
		}
		s := p.list[0]
		if s == except {
			return nil, 0
		}
		p.list = p.list[1:]
		if !p.over[s] {
			return s, p.timeout
		}
	}
}

// failed notes a failure; of nobody's, that time is up, only where there is no
// other.
func (p *plan) failed(s *server, e *Error) {
	if s == nil && p.best != nil {
		return
	}
	if p.best == nil || e.Class > p.best.Class {
		p.best = e
	}
	if s != nil && (e.Class == Refused || e.Reason == ReasonDNSSEC || e.Reason == ReasonLame) {
		if p.over == nil {
			p.over = make(map[*server]bool)
		}
		p.over[s] = true
	}
}

// err is what to tell when nobody is left.
func (p *plan) err() error {
	if p.best == nil { // unreachable while there are servers; kept for safety
		p.best = &Error{Class: Timeout, Reason: ReasonTimeout, Err: errors.New("no server was asked")}
	}
	return p.best
}

func (g *Group) inTurn(ctx context.Context, p *plan, name string, qtype uint16) (Reply, error) {
	for {
		s, timeout := p.next(nil)
		if s == nil {
			return Reply{}, p.err()
		}
		if err := ctx.Err(); err != nil {
			p.failed(nil, &Error{Class: Timeout, Reason: ReasonTimeout, Err: err})
			return Reply{}, p.err()
		}
		msg, failure := g.try(ctx, s, name, qtype, timeout)
		if failure == nil {
			return Reply{Msg: msg, Server: s.addr}, nil
		}
		p.failed(s, failure)
	}
}

// attempt is one try of a hedged question.
type attempt struct {
	s        *server
	begin    time.Time
	msg      *dns.Msg
	failure  *Error
	panicked any
}

// hedged is inTurn with a second server asked beside the first when that is
// slow. At most two are asked at a time.
func (g *Group) hedged(ctx context.Context, p *plan, name string, qtype uint16) (Reply, error) {
	all := ctx
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait() // after cancel: whoever is outrun is not waited for
	defer cancel()
	results := make(chan *attempt, 2)
	var flying []*attempt
	slow := time.NewTimer(g.cfg.Hedge)
	defer slow.Stop()
	launch := func() bool {
		if err := all.Err(); err != nil {
			p.failed(nil, &Error{Class: Timeout, Reason: ReasonTimeout, Err: err})
			return false
		}
		var except *server
		if len(flying) > 0 {
			except = flying[0].s
		}
		s, timeout := p.next(except)
		if s == nil {
			return false
		}
		a := &attempt{s: s, begin: time.Now()}
		flying = append(flying, a)
		slow.Reset(g.cfg.Hedge)
		wg.Go(func() {
			defer func() {
				a.panicked = recover() // told where the question is owned
				results <- a
			}()
			a.msg, a.failure = g.try(ctx, s, name, qtype, timeout)
		})
		return true
	}
	launch()
	for len(flying) > 0 {
		select {
		case a := <-results:
			flying = without(flying, a)
			if a.panicked != nil {
				panic(a.panicked)
			}
			if a.failure == nil {
				for _, b := range flying {
					if time.Since(b.begin) >= g.cfg.Hedge {
						b.s.failed(g.cfg.Now()) // outrun
					}
				}
				return Reply{Msg: a.msg, Server: a.s.addr}, nil
			}
			p.failed(a.s, a.failure)
			launch()
		case <-slow.C:
			if len(flying) == 1 && g.hedges.take() && launch() {
				g.cfg.Hedged()
			}
		}
	}
	return Reply{}, p.err()
}

func without(list []*attempt, a *attempt) []*attempt {
	for i, b := range list {
		if a == b {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}
