package fetch

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"lycosa.dev/internal/descriptors"
	"lycosa.dev/internal/job"
	"lycosa.dev/internal/netpolicy"
)

// Engine makes exchanges and keeps connections between them. Its methods are
// safe for concurrent use.
type Engine struct {
	cfg     Config
	securer *securer
	health  health
	hosts   hostTable
	pool    *pool
	places  *places
	counts  counters
}

type counters struct{ active, dials, reuses, stale, handshakes, resumed atomic.Int64 }

// Stats is a snapshot of the engine's counters.
type Stats struct {
	// Active exchanges and Idle connections are there now.
	Active, Idle int64
	// Waiting exchanges have no place for a connection yet (Config.MaxOpen).
	Waiting int64
	// Dials, Reuses and Stale count connections opened, used again, and found
	// closed only after a request was written.
	Dials, Reuses, Stale int64
	// Handshakes counts TLS sessions made, Resumed those of them that were
	// resumed.
	Handshakes, Resumed int64
}

// New returns an engine. It starts nothing; Run tends the kept connections.
func New(cfg Config) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("fetch settings: %w", err)
	}
	if cfg.MaxOpen == 0 {
		cfg.MaxOpen = descriptors.Own().Connections
	}
	e := &Engine{cfg: cfg, pool: newPool(min(cfg.MaxIdle, cfg.MaxOpen), cfg.MaxIdlePerHost)}
	e.places = newPlaces(cfg.MaxOpen, e.pool)
	e.securer = newSecurer(cfg.RootCAs, cfg.TLSSessions)
	return e, nil
}

// sweepEvery is how often kept connections are looked over.
const sweepEvery = 5 * time.Second

// Run closes kept connections that are too old or closed by their server,
// until ctx ends; then it closes all of them. Exchanges under way go on.
func (e *Engine) Run(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	defer e.pool.close()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			e.pool.sweep(now)
		}
	}
}

// Stats returns the counters.
func (e *Engine) Stats() Stats {
	return Stats{
		Active: e.counts.active.Load(), Idle: int64(e.pool.size()), Waiting: int64(e.places.waiting.Load()), Dials: e.counts.dials.Load(),
		Reuses: e.counts.reuses.Load(), Stale: e.counts.stale.Load(),
		Handshakes: e.counts.handshakes.Load(), Resumed: e.counts.resumed.Load(),
	}
}

// Fetch makes one exchange: it uses a kept connection or opens one, writes one
// request and passes the response to sink. When ctx ends the exchange is broken
// off. Every buffer that Fetch took and did not hand to sink is released.
func (e *Engine) Fetch(ctx context.Context, req *Request, sink Sink) (res Result) {
	e.counts.active.Add(1)
	defer e.counts.active.Add(-1)
	x := exchange{engine: e, cfg: &e.cfg, set: req.Settings, req: req, sink: sink, res: &res, begun: time.Now()}
	if x.set == nil {
		x.set = &e.cfg.Settings
	}
	res.Started = x.begun
	x.total = x.begun.Add(x.set.TotalTimeout)
	if fail := x.run(ctx); fail != nil {
		fail.into(&res)
	}
	res.Timings.Total = time.Since(x.begun)
	return res
}

// run makes the exchange and leaves its connection in the pool or closed.
func (x *exchange) run(ctx context.Context) *failure {
	if err := netpolicy.CheckPort(x.req.Target.Port); err != nil {
		return &failure{ClassPolicy, "port-refused", err.Error()}
	}
	if f := x.permitted(ctx); f != nil {
		return f
	}
	if f := x.connection(ctx); f != nil {
		if over := x.permitted(ctx); over != nil {
			return over // it was the permission that ended, not the server's time
		}
		return f
	}
	over := false
	defer func() {
		if !over { // a panic: nobody else closes it
			x.conn.close()
		}
	}()
	stop := x.watch(ctx)
	keep, f := x.exchange(ctx)
	over = true
	if stop != nil && !stop() {
		keep = false // the deadline of the connection is being spoilt
	}
	if keep && x.cfg.KeepAlive > 0 && !x.engine.places.wanted() {
		x.engine.pool.put(x.conn, x.expiry())
	} else {
		x.conn.close()
	}
	if f != nil && x.broken.Load() {
		return &failure{ClassCancelled, "cancelled", "broken off on our side"}
	}
	return f
}

// permitted tells whether the exchange may (still) begin.
func (x *exchange) permitted(ctx context.Context) *failure {
	switch {
	case ctx.Err() != nil:
		return &failure{ClassNotStarted, "cancelled", "given up before the request was written"}
	case x.req.Wanted != nil && !x.req.Wanted():
		return &failure{ClassNotStarted, "cancelled", "taken back before the request was written"}
	case x.req.Until != nil && !time.Now().Before(x.req.Until()):
		return &failure{ClassNotStarted, "lease-expired", "the lease ran out before the request was written"}
	}
	return nil
}

// connection gets a connection: a kept one to any of the addresses, in their
// order, or a new one.
func (x *exchange) connection(ctx context.Context) *failure {
	addrs, f := x.permittedAddresses()
	if f != nil {
		return f
	}
	x.via, x.remote = x.set.Proxies.Pick(x.req.Target.Authority, x.begun)
	if x.via != nil {
		if addrs, f = x.routed(addrs); f != nil {
			return f
		}
	}
	for _, a := range addrs {
		if c := x.engine.pool.take(x.key(a), x.begun); c != nil {
			x.conn, x.res.Reused, x.res.Address = c, true, a
			x.engine.counts.reuses.Add(1)
			x.described()
			return nil
		}
	}
	t := &x.req.Target
	facts := hostFacts{}
	if t.TLS {
		facts = x.engine.hosts.get(t.Authority, x.begun)
	}
	f = x.open(ctx, addrs, facts)
	if f == nil || !t.TLS || facts.legacy || !x.set.LegacyTLS || f.class != ClassTLS || !mayBeOld(f) {
		return f
	}
	facts.legacy = true
	if x.permitted(ctx) != nil {
		return f
	}
	if again := x.open(ctx, []netip.AddrPort{x.res.Address}, facts); again != nil {
		if again.code == "certificate-invalid" {
			return again
		}
		return f // what the server says to today's TLS tells more
	}
	x.engine.hosts.change(t.Authority, time.Now(), func(h *hostFacts) { h.legacy = true })
	return nil
}

// open makes a new connection, with a TLS session where the target has one.
func (x *exchange) open(ctx context.Context, addrs []netip.AddrPort, facts hostFacts) *failure {
	if f := x.place(ctx); f != nil {
		return f
	}
	start := time.Now()
	var (
		c    *conn
		addr netip.AddrPort
	)
	f := x.dial(ctx, func() (f *failure) {
		if x.via != nil {
			c, addr, f = x.connectVia(ctx, addrs)
			return f
		}
		var tcp net.Conn
		if tcp, addr, f = x.connect(ctx, addrs); f == nil {
			c = newConn(tcp, x.key(addr))
		}
		return f
	})
	x.res.Address = addr
	x.res.Timings.Connect += time.Since(start)
	if f != nil {
		x.engine.places.give()
		return f
	}
	c.places = x.engine.places
	x.engine.counts.dials.Add(1)
	x.conn = c
	if x.req.Target.TLS {
		start = time.Now()
		// A handshake cannot go on where a deadline cut it, and a lease is renewed
		// meanwhile; whether it still lasts is asked before the request is written.
		until := start.Add(x.set.TLSTimeout)
		if x.total.Before(until) {
			until = x.total
		}
		_ = c.SetDeadline(until)
		stop := x.watch(ctx)
		f = x.engine.securer.secure(c, &x.req.Target, tlsKind{
			lax: x.set.Verify == VerifyRecord, legacy: facts.legacy, http1: facts.http1 || !x.set.HTTP2, cert: c.key.cert,
		})
		stopped := stop == nil || stop()
		x.res.Timings.TLS += time.Since(start)
		if f == nil && !stopped || f != nil && x.broken.Load() {
			f = &failure{ClassNotStarted, "cancelled", "given up during the TLS handshake"}
		}
		if f != nil {
			c.close()
			return f
		}
		x.engine.counts.handshakes.Add(1)
		if c.resumed {
			x.engine.counts.resumed.Add(1)
		}
	}
	x.described()
	return nil
}

// key is what a connection to addr may be used again for. A session whose
// certificate was not insisted on serves only requests that do not insist.
func (x *exchange) key(addr netip.AddrPort) connKey {
	t := &x.req.Target
	k := connKey{tls: t.TLS, lax: t.TLS && x.set.Verify == VerifyRecord, host: t.Authority, addr: addr}
	if x.via != nil {
		k.via = x.via.String() + " " + x.via.User
	}
	if t.TLS {
		for i := range x.set.Certificates {
			if c := &x.set.Certificates[i]; job.MatchHost(c.Host, t.Authority) {
				k.cert = c.Certificate
				break
			}
		}
	}
	return k
}

// watch spoils the connection's deadline when ctx ends, which wakes whoever
// waits on it. It returns nil where ctx cannot end.
func (x *exchange) watch(ctx context.Context) (stop func() bool) {
	if ctx.Done() == nil {
		return nil
	}
	return context.AfterFunc(ctx, func() {
		x.broken.Store(true)
		_ = x.conn.tcp.SetDeadline(time.Unix(1, 0))
	})
}

// expiry is until when the connection may be kept: a little less than the
// server says, so that a request does not cross its goodbye.
func (x *exchange) expiry() time.Time {
	d := x.cfg.KeepAlive
	if s := x.head.KeepAliveTimeout; s > 0 {
		d = min(d, s-min(s/4, time.Second))
	}
	return time.Now().Add(d)
}
