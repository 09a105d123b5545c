package fetch

import (
	"context"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// attemptDelay is how long a connection attempt may take before the next
// address is tried beside it (RFC 8305 section 5).
const attemptDelay = 250 * time.Millisecond

// netDialer dials under the address policy.
func (x *exchange) netDialer() *net.Dialer {
	return &net.Dialer{
		// Kept connections are probed before they are used; the system's own
		// keep-alive would add packets and four system calls a connection.
		KeepAlive: -1,
		// The address really connected to is checked once more, whatever led
		// here.
		Control: func(_, address string, _ syscall.RawConn) error {
			ap, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return x.set.Policy.Check(ap.Addr())
		},
	}
}

// permittedAddresses returns those of the request's addresses that the policy
// allows, in the order in which they are tried; if there is none, why.
func (x *exchange) permittedAddresses() ([]netip.AddrPort, *failure) {
	if a := x.req.Addresses; len(a) == 1 && x.set.Policy.Check(a[0]) == nil {
		x.single[0] = netip.AddrPortFrom(a[0], x.req.Target.Port)
		return x.single[:], nil
	}
	var (
		refused *failure
		last    netip.Addr
	)
	addrs := make([]netip.Addr, 0, len(x.req.Addresses))
	for _, a := range x.req.Addresses {
		if err := x.set.Policy.Check(a); err != nil {
			if refused == nil {
				refused = connectFailure(err)
			}
			last = a
			continue
		}
		addrs = append(addrs, a)
	}
	if len(addrs) > 0 {
		return x.engine.health.order(addrs, x.req.Target.Port, x.begun), nil
	}
	if refused == nil {
		return nil, &failure{ClassPolicy, "no-address", "the lease names no address"}
	}
	x.res.Address = netip.AddrPortFrom(last, x.req.Target.Port)
	return nil, refused
}

// dialed is the end of one attempt.
type dialed struct {
	conn net.Conn
	addr netip.AddrPort
	err  error
}

// connect opens a TCP connection to one of addrs within the time for
// connecting: the first gets a head start of attemptDelay, then the next is
// tried beside it, and the first that answers is taken. All attempts have ended
// when it returns.
func (x *exchange) connect(ctx context.Context, addrs []netip.AddrPort) (net.Conn, netip.AddrPort, *failure) {
	deadline := x.sooner(time.Now().Add(x.set.ConnectTimeout))
	if !time.Now().Before(deadline) {
		return nil, addrs[0], &failure{ClassConnect, "connect-timeout", "no connection within the time for connecting"}
	}
	nd := x.netDialer()
	dctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	health := &x.engine.health
	if len(addrs) == 1 {
		c, err := nd.DialContext(dctx, "tcp", addrs[0].String())
		if err == nil {
			return c, addrs[0], nil
		}
		if ctx.Err() != nil {
			return nil, addrs[0], &failure{ClassNotStarted, "cancelled", "given up while connecting"}
		}
		return nil, addrs[0], connectFailure(err)
	}
	results := make(chan dialed, len(addrs))
	started, ended := 0, 0
	next := func() {
		addr, more := addrs[started], started > ended // beside another attempt
		if more && !x.engine.places.try() {
			return
		}
		started++
		go func() { // ends by dctx, and is waited for below
			if more {
				defer x.engine.places.give()
			}
			c, err := nd.DialContext(dctx, "tcp", addr.String())
			results <- dialed{c, addr, err}
		}()
	}
	next()
	timer := time.NewTimer(attemptDelay)
	defer timer.Stop()
	var (
		won  dialed
		fail *failure
		last = addrs[0]
	)
	for ended < started {
		var r dialed
		select {
		case <-timer.C:
			if won.conn == nil && started < len(addrs) {
				next()
				timer.Reset(attemptDelay)
			}
			continue
		case r = <-results:
			ended++
		}
		switch {
		case r.err == nil && won.conn == nil:
			won = r
			health.works(r.addr)
			cancel()
		case r.err == nil:
			_ = r.conn.Close()
		case won.conn == nil && ctx.Err() == nil:
			f := connectFailure(r.err)
			if f.class == ClassConnect {
				health.failed(r.addr, time.Now())
			}
			if fail == nil || fail.class == ClassPolicy {
				fail, last = f, r.addr
			}
			if started < len(addrs) && time.Now().Before(deadline) {
				next()
				timer.Reset(attemptDelay)
			}
		}
	}
	switch {
	case won.conn != nil:
		return won.conn, won.addr, nil
	case ctx.Err() != nil:
		return nil, last, &failure{ClassNotStarted, "cancelled", "given up while connecting"}
	}
	return nil, last, fail
}
