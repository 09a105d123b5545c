package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lycosa.dev/downloader/internal/proxy"
	"lycosa.dev/internal/netpolicy"
)

// maxProxies is how many proxies one exchange tries, where one after the other
// cannot be reached.
const maxProxies = 3

// routed returns the addresses that the proxy is asked for; where it resolves
// names itself, none. The policy then has to be content with the name and with
// every address that we know for it.
func (x *exchange) routed(addrs []netip.AddrPort) ([]netip.AddrPort, *failure) {
	t := &x.req.Target
	x.absolute = x.remote && !t.TLS && !strings.HasPrefix(x.via.Scheme, "socks5")
	if !x.remote {
		return addrs, nil
	}
	for _, a := range x.req.Addresses {
		if err := x.set.Policy.Check(a); err != nil {
			return nil, connectFailure(err)
		}
	}
	host := strings.ToLower(strings.TrimSuffix(t.Host, "."))
	if a, err := netip.ParseAddr(host); err == nil {
		if err := x.set.Policy.Check(a); err != nil {
			return nil, connectFailure(err)
		}
	} else if localName(host) {
		return nil, &failure{ClassPolicy, "address-refused", "not allowed to ask a proxy for " + clip(host) + " (a name of local networks)"}
	}
	return []netip.AddrPort{{}}, nil
}

// localName tells names that resolvers take for their own network's (RFC 6761,
// RFC 6762, RFC 8375), and spellings of numbers that are no names.
func localName(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	switch last {
	case "localhost", "local", "internal", "localdomain", "lan", "intranet", "home", "corp", "":
		return true
	case host: // one label: completed by the resolver's search list
		return true
	}
	return strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") || strings.HasSuffix(host, ".home.arpa")
}

// connectVia opens a connection through the proxy of the exchange, and through
// the next one in turn where it cannot be reached.
func (x *exchange) connectVia(ctx context.Context, addrs []netip.AddrPort) (c *conn, addr netip.AddrPort, f *failure) {
	for range maxProxies {
		for _, addr = range addrs {
			if c, f = x.throughProxy(ctx, addr); f == nil || f.class != ClassConnect {
				break
			}
		}
		if f == nil || f.class != ClassNotStarted || f.code == "cancelled" || f.code == codeNoDescriptors || x.permitted(ctx) != nil {
			return c, addr, f
		}
		next, remote := x.set.Proxies.Pick(x.req.Target.Authority, time.Now())
		if next == nil || next == x.via || remote != x.remote || (x.absolute && strings.HasPrefix(next.Scheme, "socks5")) {
			return c, addr, f
		}
		x.via = next
	}
	return c, addr, f
}

func (x *exchange) throughProxy(ctx context.Context, addr netip.AddrPort) (*conn, *failure) {
	u := x.via
	deadline := x.sooner(time.Now().Add(x.set.ConnectTimeout))
	tcp, err := x.dialProxy(ctx, u, deadline)
	if err != nil {
		if ctx.Err() != nil {
			return nil, &failure{ClassNotStarted, "cancelled", "given up while connecting"}
		}
		f := connectFailure(err)
		if f.class == ClassPolicy || f.code == codeNoDescriptors {
			return nil, f
		}
		u.Failed(time.Now())
		return nil, &failure{ClassNotStarted, "proxy-unreachable", "the proxy " + u.String() + ": " + f.detail}
	}
	c := newConn(tcp, x.key(addr))
	x.conn = c
	_ = c.SetDeadline(deadline)
	stop := x.watch(ctx)
	f := x.askProxy(c, u, addr)
	if stop != nil && !stop() || f != nil && x.broken.Load() {
		f = &failure{ClassNotStarted, "cancelled", "given up while connecting"}
	}
	if f != nil {
		c.close()
		return nil, f
	}
	u.Works()
	return c, nil
}

// dialProxy connects to the proxy itself. Its address must be public, or in a
// network that is open to crawls or to proxies.
func (x *exchange) dialProxy(ctx context.Context, u *proxy.Upstream, deadline time.Time) (net.Conn, error) {
	_, p, err := net.SplitHostPort(u.Addr)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return nil, err
	}
	if err := netpolicy.CheckPort(uint16(port)); err != nil {
		return nil, err
	}
	policy := netpolicy.Policy{AllowNets: append(append([]netip.Prefix(nil), x.set.Policy.AllowNets...), x.set.ProxyNets...)}
	nd := &net.Dialer{KeepAlive: -1, Deadline: deadline, Control: func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return policy.Check(ap.Addr())
	}}
	return nd.DialContext(ctx, "tcp", u.Addr)
}

// askProxy has the proxy make its connection.
func (x *exchange) askProxy(c *conn, u *proxy.Upstream, addr netip.AddrPort) *failure {
	if u.Scheme == "https" {
		host, _, _ := net.SplitHostPort(u.Addr)
		tc := tls.Client(c.tcp, &tls.Config{ServerName: host, RootCAs: x.engine.securer.roots, MinVersion: tls.VersionTLS12})
		if err := tc.Handshake(); err != nil {
			u.Failed(time.Now())
			return &failure{ClassNotStarted, "proxy-unreachable", "the proxy " + u.String() + ": " + tlsFailure(err).detail}
		}
		// What is pending on the TCP connection says nothing of what is pending
		// inside.
		c.Conn, c.raw = tc, nil
	}
	if x.absolute {
		return nil
	}
	t := &x.req.Target
	err := u.Connect(c.Conn, t.Host, addr.Addr(), t.Port)
	var answer *proxy.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answer) && answer.Target:
		u.Works()
		return &failure{ClassConnect, answer.Code, answer.Detail}
	case errors.As(err, &answer) && answer.Code == "proxy-refused":
		u.Works()
		return &failure{ClassPolicy, answer.Code, answer.Detail}
	case errors.As(err, &answer):
		u.Failed(time.Now())
		return &failure{ClassNotStarted, answer.Code, answer.Detail}
	case isTimeout(err):
		return &failure{ClassConnect, "connect-timeout", "the proxy has made no connection within the time for connecting"}
	}
	u.Failed(time.Now())
	return &failure{ClassNotStarted, "proxy-unreachable", "the proxy " + u.String() + ": " + words(err)}
}
