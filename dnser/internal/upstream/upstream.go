// Package upstream asks questions of name servers: the recursive resolvers of
// resolv.conf, or those given by hand. It knows messages, not names: following
// aliases, caching and judging are the resolver's.
//
// A reply that leaves this package belongs to its question: it came from the
// server asked (connected socket, random source port), carries the random id
// and repeats the question. Anything else is dropped unread, and the wait goes
// on, so that a forged packet costs nothing but its own reading.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// Class says how asking failed. All classes are temporary: none says anything
// about whether the name exists.
type Class uint8

// The classes, by how much they tell, least first.
const (
	// Timeout is no reply in time, or no way to the server.
	Timeout Class = iota + 1
	// Refused is a server that will not answer us (REFUSED, NOTIMP, NOTAUTH).
	Refused
	// ServFail is a server that tried and failed, or a reply that is of no use
	// (SERVFAIL, FORMERR, a referral from a lame server).
	ServFail
)

// String is the class in lower case.
func (c Class) String() string {
	switch c {
	case Timeout:
		return "timeout"
	case Refused:
		return "refused"
	case ServFail:
		return "servfail"
	}
	return "unknown"
}

// Error is a question that no server answered.
type Error struct {
	Class  Class
	Server string // the server whose failure is told; empty: none was asked
	Err    error
}

// Error tells the server, the class and the cause.
func (e *Error) Error() string {
	if e.Server == "" {
		return fmt.Sprintf("dns: %s: %v", e.Class, e.Err)
	}
	return fmt.Sprintf("dns: %s from %s: %v", e.Class, e.Server, e.Err)
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// Reply is a valid answer: NOERROR or NXDOMAIN.
type Reply struct {
	Msg    *dns.Msg
	Server netip.AddrPort
}

// Transport carries one query to one server over "udp" or "tcp" and returns
// the reply that belongs to it. The context's deadline is the time limit.
type Transport interface {
	Exchange(ctx context.Context, network string, server netip.AddrPort, query *dns.Msg) (*dns.Msg, error)
}

// Config of a Group.
type Config struct {
	// Servers in order of preference; at least one.
	Servers []netip.AddrPort
	// TryTimeout limits one try in the first round; it doubles each round.
	TryTimeout time.Duration
	// Rounds is how often the whole list is gone through.
	Rounds int
	// UDPSize is the EDNS0 payload size that is announced.
	UDPSize uint16
	// Rotate spreads the first try over the servers.
	Rotate bool
	// Transport carries the queries; nil is the network.
	Transport Transport
	// Now is the clock of the servers' health; nil is time.Now.
	Now func() time.Time
	// Observe, if set, is told of every try: protocol ("udp", "tcp"), outcome
	// ("ok", "nxdomain", "truncated", or a class) and how long it took.
	Observe func(network, outcome string, took time.Duration)
}

// Group is a list of servers that stand for one another. It is safe for
// concurrent use and starts no goroutine.
type Group struct {
	cfg     Config
	servers []*server
	turn    atomic.Uint32
}

// New makes a group. It panics without servers: that is a fault of the caller.
func New(cfg Config) *Group {
	if len(cfg.Servers) == 0 {
		panic("upstream: no servers")
	}
	if cfg.Transport == nil {
		cfg.Transport = Network{}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Observe == nil {
		cfg.Observe = func(string, string, time.Duration) {}
	}
	cfg.Rounds = max(cfg.Rounds, 1)
	g := &Group{cfg: cfg}
	for _, a := range cfg.Servers {
		g.servers = append(g.servers, &server{addr: a})
	}
	return g
}

// Servers are the addresses in order of preference.
func (g *Group) Servers() []netip.AddrPort { return g.cfg.Servers }

// Ask asks for name's records of one type until a server gives a usable reply,
// every round is spent or ctx ends. name is absolute or not, the same is asked.
// A server equal to avoid is asked after the others that are well.
// The error is an *Error.
func (g *Group) Ask(ctx context.Context, name string, qtype uint16, avoid netip.AddrPort) (Reply, error) {
	var best *Error
	keep := func(e *Error) {
		if best == nil || e.Class > best.Class {
			best = e
		}
	}
	var refused map[*server]bool
	timeout := g.cfg.TryTimeout
	for range g.cfg.Rounds {
		for _, s := range g.order(avoid) {
			if refused[s] {
				continue
			}
			if err := ctx.Err(); err != nil {
				keep(&Error{Class: Timeout, Err: err})
				return Reply{}, best
			}
			msg, failure := g.try(ctx, s, name, qtype, timeout)
			if failure == nil {
				return Reply{Msg: msg, Server: s.addr}, nil
			}
			keep(failure)
			if failure.Class == Refused {
				if refused == nil {
					refused = make(map[*server]bool)
				}
				refused[s] = true
			}
		}
		timeout *= 2
	}
	if best == nil { // unreachable while there are servers; kept for safety
		best = &Error{Class: Timeout, Err: errors.New("no server was asked")}
	}
	return Reply{}, best
}

// try asks one server once, over TCP too if the reply does not fit, and without
// EDNS0 if the server does not know it.
func (g *Group) try(ctx context.Context, s *server, name string, qtype uint16, timeout time.Duration) (*dns.Msg, *Error) {
	fail := func(c Class, err error) *Error {
		return &Error{Class: c, Server: s.addr.String(), Err: err}
	}
	edns := true
	network := "udp"
	for {
		q := g.query(name, qtype, edns)
		msg, err := g.exchange(ctx, s, network, q, timeout)
		if err != nil {
			return nil, fail(Timeout, err)
		}
		if network == "udp" && msg.Truncated {
			network = "tcp" // RFC 7766 section 5
			continue
		}
		switch msg.Rcode {
		case dns.RcodeSuccess:
			if lame(msg) {
				return nil, fail(ServFail, errors.New("the reply is a referral: the server is not a recursive resolver"))
			}
			return msg, nil
		case dns.RcodeNameError:
			return msg, nil
		case dns.RcodeFormatError, dns.RcodeNotImplemented, dns.RcodeBadVers:
			if edns { // RFC 6891 section 7
				edns, network = false, "udp"
				continue
			}
			if msg.Rcode == dns.RcodeNotImplemented {
				return nil, fail(Refused, errors.New("NOTIMP"))
			}
			return nil, fail(ServFail, errors.New(rcodeName(msg.Rcode)))
		case dns.RcodeRefused, dns.RcodeNotAuth:
			return nil, fail(Refused, errors.New(rcodeName(msg.Rcode)))
		default:
			return nil, fail(ServFail, errors.New(rcodeName(msg.Rcode)))
		}
	}
}

// exchange is one packet and its reply, with the server's health kept.
func (g *Group) exchange(ctx context.Context, s *server, network string, q *dns.Msg, timeout time.Duration) (*dns.Msg, error) {
	tctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	begin := time.Now()
	msg, err := g.cfg.Transport.Exchange(tctx, network, s.addr, q)
	if err == nil && !belongs(q, msg) {
		err = errors.New("the reply is not to the question")
	}
	outcome := Timeout.String()
	switch {
	case err != nil:
		// Giving up from above says nothing about the server.
		if ctx.Err() == nil {
			s.failed(g.cfg.Now())
		}
	default:
		s.worked()
		outcome = outcomeOf(msg)
	}
	g.cfg.Observe(network, outcome, time.Since(begin))
	return msg, err
}

func (g *Group) query(name string, qtype uint16, edns bool) *dns.Msg {
	q := new(dns.Msg)
	q.Id = dns.Id() // cryptographically random
	q.RecursionDesired = true
	q.Question = []dns.Question{{Name: dns.Fqdn(name), Qtype: qtype, Qclass: dns.ClassINET}}
	if edns {
		q.SetEdns0(g.cfg.UDPSize, false)
	}
	return q
}

// lame says that a NOERROR reply neither answers nor denies but sends us on to
// other servers (RFC 2308 section 2.2, referral), which only a server that does
// not recurse does.
func lame(m *dns.Msg) bool {
	if len(m.Answer) > 0 || m.RecursionAvailable {
		return false
	}
	ns := false
	for _, rr := range m.Ns {
		switch rr.Header().Rrtype {
		case dns.TypeSOA:
			return false
		case dns.TypeNS:
			ns = true
		}
	}
	return ns
}

func outcomeOf(m *dns.Msg) string {
	if m.Truncated {
		return "truncated"
	}
	switch m.Rcode {
	case dns.RcodeSuccess:
		return "ok"
	case dns.RcodeNameError:
		return "nxdomain"
	case dns.RcodeRefused, dns.RcodeNotAuth, dns.RcodeNotImplemented:
		return Refused.String()
	}
	return ServFail.String()
}

func rcodeName(rcode int) string {
	if s, ok := dns.RcodeToString[rcode]; ok {
		return s
	}
	return fmt.Sprintf("RCODE%d", rcode)
}

// Health bounds: a server that failed downAfter times in a row is asked last
// for a while that doubles from minDown to maxDown.
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
}

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

// order is the servers as they are to be asked now: those that are well, the
// one to avoid after them, those that are down last. Nobody is left out: when
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
			return 2
		case s.addr == avoid:
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
