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
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// Class says how asking failed. All classes are temporary: none says anything
// about whether the name exists.
type Class uint8

// The classes, by how much they tell, least first.
const (
	// Busy is nobody asked: the rate limit left no room in time.
	Busy Class = iota + 1
	// Timeout is no reply in time, or no way to the server.
	Timeout
	// Refused is a server that will not answer us (REFUSED, NOTIMP, NOTAUTH).
	Refused
	// ServFail is a server that tried and failed, or a reply that is of no use
	// (SERVFAIL, FORMERR, a referral from a lame server).
	ServFail
)

// String is the class in lower case.
func (c Class) String() string {
	switch c {
	case Busy:
		return "busy"
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
	Reason Reason
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
	// Hedge is how long a server may take before the next one is asked beside
	// it; the first usable reply counts. At most one question in ten is hedged,
	// after a burst of 16: a slow day must not double the load. 0: never.
	Hedge time.Duration
	// Rate is the packets a second that one server is sent at most, a tenth of
	// that at once; more wait for their turn. 0: no limit.
	Rate int
	// Hedged, if set, is told of every hedge.
	Hedged func()
	// Transport carries the queries; nil is the network.
	Transport Transport
	// Now is the clock of the servers' health; nil is time.Now.
	Now func() time.Time
	// Observe, if set, is told of every try: protocol ("udp", "tcp"), outcome
	// ("ok", "nxdomain", "truncated", or a class) and how long it took.
	Observe func(network, outcome string, took time.Duration)
}

// Group is a list of servers that stand for one another. It is safe for
// concurrent use; its only goroutines are those of a hedged Ask, which has ended
// them when it returns.
type Group struct {
	cfg     Config
	servers []*server
	turn    atomic.Uint32
	hedges  budget
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
	if cfg.Hedged == nil {
		cfg.Hedged = func() {}
	}
	cfg.Rounds = max(cfg.Rounds, 1)
	g := &Group{cfg: cfg}
	for _, a := range cfg.Servers {
		g.servers = append(g.servers, &server{addr: a, pace: newPace(cfg.Rate)})
	}
	return g
}

// Servers are the addresses in order of preference.
func (g *Group) Servers() []netip.AddrPort { return g.cfg.Servers }

// try asks one server once, over TCP too if the reply does not fit, and without
// EDNS0 if the server does not know it.
func (g *Group) try(ctx context.Context, s *server, name string, qtype uint16, timeout time.Duration) (*dns.Msg, *Error) {
	fail := func(c Class, r Reason, err error) (*dns.Msg, *Error) {
		return nil, &Error{Class: c, Reason: r, Server: s.name(), Err: err}
	}
	// A server that refuses, or sends us on, is as good as none: it is asked
	// last after a while. One that fails for a name is well.
	useless := func(r Reason, err error) (*dns.Msg, *Error) {
		s.failed(g.cfg.Now())
		return fail(Refused, r, err)
	}
	edns := true
	network := "udp"
	for {
		q := g.query(name, qtype, edns)
		msg, err := g.exchange(ctx, s, network, q, timeout)
		switch {
		case errors.Is(err, errRate):
			return fail(Busy, ReasonRate, err)
		case errors.Is(err, errNoSocket):
			return fail(Busy, ReasonSockets, err)
		}
		if err != nil {
			return fail(Timeout, ReasonTimeout, err)
		}
		if network == "udp" && msg.Truncated {
			network = "tcp" // RFC 7766 section 5
			continue
		}
		reason, told := explain(msg)
		if reason == ReasonFiltered {
			// RFC 8914 sections 4.16 to 4.19: whatever the reply says of the name
			// is the server's policy, not the DNS.
			s.worked()
			return fail(Refused, reason, errors.New(told))
		}
		switch msg.Rcode {
		case dns.RcodeSuccess:
			if lame(msg) {
				s.failed(g.cfg.Now())
				return fail(ServFail, ReasonLame, errors.New("the reply neither answers nor denies: the server does not recurse, and the name is not its own"))
			}
			s.worked()
			return msg, nil
		case dns.RcodeNameError:
			s.worked()
			return msg, nil
		case dns.RcodeFormatError, dns.RcodeNotImplemented, dns.RcodeBadVers:
			if edns { // RFC 6891 section 7
				edns, network = false, "udp"
				continue
			}
			if msg.Rcode == dns.RcodeNotImplemented {
				return useless(ReasonRefused, errors.New(told))
			}
			s.worked()
			return fail(ServFail, ReasonFormat, errors.New(told))
		case dns.RcodeRefused, dns.RcodeNotAuth:
			return useless(ReasonRefused, errors.New(told))
		default:
			s.worked()
			return fail(ServFail, reason, errors.New(told))
		}
	}
}

// exchange is one packet and its reply, sent when the server's rate allows it.
// No reply counts against the server's health; what a reply is worth is for the
// caller to say. The error is errRate if nothing was sent.
func (g *Group) exchange(ctx context.Context, s *server, network string, q *dns.Msg, timeout time.Duration) (*dns.Msg, error) {
	if err := s.wait(ctx, g.cfg.Now); err != nil {
		g.cfg.Observe(network, Busy.String(), 0)
		return nil, err
	}
	tctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	begin := time.Now()
	msg, err := g.cfg.Transport.Exchange(tctx, network, s.addr, q)
	if err == nil && !belongs(q, msg) {
		err = errors.New("the reply is not to the question")
	}
	outcome := Timeout.String()
	switch {
	case err == nil:
		outcome = outcomeOf(msg)
	case errors.Is(err, errNoSocket):
		outcome = Busy.String()
	case ctx.Err() == nil: // giving up from above says nothing about the server
		s.failed(g.cfg.Now())
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

// lame says that a NOERROR reply neither answers nor denies: it sends us on to
// other servers (RFC 2308 section 2.2, referral), or is empty and comes from a
// server that neither recurses nor owns the name.
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
	return ns || !m.Authoritative
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
