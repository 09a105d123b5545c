package resolver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"

	"lycosa.dev/dnser/internal/upstream"
)

// family is what came of asking for one address family.
type family struct {
	status  Status
	addrs   []netip.Addr
	aliases []string
	ttl     time.Duration // negative: not told
	server  netip.AddrPort
	detail  string
	reason  upstream.Reason
	pending bool // the servers were not asked
	seen    []Seen
}

// askFamily asks for one type, and asks again for the end of an alias chain
// that the reply leaves open (an authoritative server knows only its zones).
func (r *Resolver) askFamily(ctx context.Context, name string, qtype uint16, avoid netip.AddrPort) (f family) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("panic while resolving", "host", name, "panic", p)
			f = family{status: ServFail, ttl: -1, reason: upstream.ReasonOther, detail: "internal fault while reading the reply"}
		}
	}()
	f.ttl = -1
	seen := []string{name}
	for at := name; ; {
		reply, err := r.group.Ask(ctx, at, qtype, avoid)
		if err != nil {
			return failed(err)
		}
		f.server = reply.Server
		if r.record != nil {
			f.seen = append(f.seen, Seen{Records: reply.Msg.Answer, Server: reply.Server, At: r.now()})
		}
		v := readReply(reply.Msg, at, qtype)
		if v.broken == "" && len(f.aliases)+len(v.aliases) > maxChain {
			v.broken = "more than 16 aliases"
		}
		for _, alias := range v.aliases {
			if v.broken == "" && slices.Contains(seen, alias) {
				v.broken = "the aliases go round in a circle at " + alias
			}
		}
		if v.broken != "" {
			f.status, f.ttl, f.detail, f.reason = ServFail, -1, v.broken, upstream.ReasonAliases
			return f
		}
		f.aliases = append(f.aliases, v.aliases...)
		seen = append(seen, v.aliases...)
		if at == name || v.ttl < f.ttl { // only the last reply may leave it open
			f.ttl = v.ttl
		}
		switch {
		case len(v.addrs) > 0:
			f.status, f.addrs = Resolved, v.addrs
			return f
		case reply.Msg.Rcode == dns.RcodeNameError:
			f.status, f.detail = NotExist, "no such name (NXDOMAIN)"
			return f
		case v.denied:
			f.status, f.detail = NoAddress, "the name has no address (NODATA)"
			return f
		}
		at = f.aliases[len(f.aliases)-1]
		if problem := checkName(at); problem != "" {
			f.status, f.ttl, f.detail = NoAddress, -1, fmt.Sprintf("alias %q: %s", at, problem)
			return f
		}
	}
}

func failed(err error) family {
	f := family{status: Timeout, ttl: -1, detail: err.Error()}
	var e *upstream.Error
	if errors.As(err, &e) {
		f.reason, f.pending = e.Reason, e.Class == upstream.Busy
		switch e.Class {
		case upstream.ServFail:
			f.status = ServFail
		case upstream.Refused:
			f.status = Refused
		case upstream.Timeout, upstream.Busy:
		}
		f.server, _ = netip.ParseAddrPort(e.Server)
	}
	return f
}

// askAll asks for both families at once and joins what they say. When one has
// addresses the other gets familyGrace more: a server that drops AAAA questions
// must not hold the A's (RFC 8305 section 3 has the same idea).
func (r *Resolver) askAll(ctx context.Context, name string, avoid netip.AddrPort) (Answer, netip.AddrPort) {
	if r.cfg.DisableIPv6 {
		return r.join(name, r.askFamily(ctx, name, dns.TypeA, avoid), family{})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	six := make(chan family, 1)
	four := make(chan family, 1)
	// Both end when ctx does, at the latest when askAll returns.
	r.wg.Go(func() { six <- r.askFamily(ctx, name, dns.TypeAAAA, avoid) })
	r.wg.Go(func() { four <- r.askFamily(ctx, name, dns.TypeA, avoid) })

	var f4, f6 family
	grace := func(have family) <-chan time.Time {
		if have.status != Resolved {
			return nil
		}
		return time.After(r.cfg.FamilyGrace)
	}
	late := family{status: Timeout, ttl: -1, detail: "the other family's answer was not waited for"}
	select {
	case f4 = <-four:
		select {
		case f6 = <-six:
		case <-grace(f4):
			f6 = late
		}
	case f6 = <-six:
		select {
		case f4 = <-four:
		case <-grace(f6):
			f4 = late
		}
	}
	return r.join(name, f4, f6)
}

// join makes one answer of the two families. Addresses win over denials and
// failures; NXDOMAIN is about the name, so one is enough; a failure beside
// NODATA leaves the question open.
func (r *Resolver) join(name string, f4, f6 family) (Answer, netip.AddrPort) {
	a := Answer{Host: name}
	best := f4
	switch {
	case f4.status == Resolved && f6.status == Resolved:
		a.Addrs = slices.Concat(f4.addrs, f6.addrs)
		best.ttl = min(f4.ttl, f6.ttl)
	case f4.status == Resolved:
		a.Addrs = f4.addrs
	case f6.status == Resolved:
		a.Addrs, best = f6.addrs, f6
	case f6.status == Unknown: // not asked
	case f4.status == f6.status:
		best.ttl = min(f4.ttl, f6.ttl)
	case weaker(f4.status, f6.status):
		best = f6
	}
	a.Status, a.CNAMEs, a.Detail = best.status, best.aliases, best.detail
	a.Server = r.names[best.server]
	if a.Status.Temporary() {
		a.Reason, a.Pending = best.reason, best.pending
	}
	a.seen = slices.Concat(f4.seen, f6.seen)
	ttl := r.clampTTL(a.Status, best.ttl)
	if a.Status == Resolved && (f4.status.Temporary() || f6.status.Temporary() && f6.status != Unknown) {
		// Half an answer is asked again sooner.
		ttl = min(ttl, max(r.cfg.MinTTL, partialTTL))
	}
	a.ttl, a.Expires = ttl, r.now().Add(ttl)
	return a, best.server
}

// weaker says whether, of two different statuses without addresses, b is the
// one to tell. NXDOMAIN beside NODATA is a server at odds with itself: the name
// exists. NXDOMAIN beside a failure stands.
func weaker(a, b Status) bool {
	switch {
	case a == NotExist:
		return b == NoAddress
	case b == NotExist:
		return a != NoAddress
	}
	return rank(b) > rank(a)
}

func rank(s Status) int {
	switch s {
	case Timeout:
		return 1
	case Refused:
		return 2
	case ServFail:
		return 3
	}
	return 0
}

// clampTTL puts what the DNS said into the bounds of the settings.
func (r *Resolver) clampTTL(s Status, ttl time.Duration) time.Duration {
	switch {
	case s == Resolved:
		return min(max(ttl, r.cfg.MinTTL), r.cfg.MaxTTL)
	case s.Negative():
		return min(max(ttl, r.cfg.MinNegativeTTL), r.cfg.MaxNegativeTTL)
	}
	return r.cfg.FailureTTL
}

// settle asks until there is something to tell: a negative answer is told as
// confirmed only after a second one. That is a second question at once, of
// another server if there is one; or, if a negative answer had been kept and
// has expired, the new one itself. A second answer that finds something wins;
// one that fails leaves the first unconfirmed, for a short time.
func (r *Resolver) settle(ctx context.Context, name string, deniedBefore bool) Answer {
	a, server := r.askAll(ctx, name, netip.AddrPort{})
	if !a.Status.Negative() {
		return a
	}
	if deniedBefore {
		a.Confirmed = true
		return a
	}
	b, _ := r.askAll(ctx, name, server)
	switch {
	case b.Status.Negative():
		b.Confirmed = true
		return b
	case b.Status == Resolved:
		return b
	}
	if limit := r.now().Add(r.cfg.MinNegativeTTL); a.Expires.After(limit) {
		a.Expires = limit
	}
	return a
}
