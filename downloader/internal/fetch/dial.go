package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// dialer opens connections.
type dialer struct {
	roots       *x509.CertPool
	strict, lax *tls.Config
}

func newDialer(roots *x509.CertPool) *dialer {
	strict := &tls.Config{
		NextProtos:         []string{"http/1.1"},
		RootCAs:            roots,
		ClientSessionCache: tls.NewLRUClientSessionCache(1024),
		MinVersion:         tls.VersionTLS12,
	}
	lax := strict.Clone()
	lax.ClientSessionCache = tls.NewLRUClientSessionCache(1024)
	lax.InsecureSkipVerify = true
	lax.MinVersion = tls.VersionTLS10
	return &dialer{roots: roots, strict: strict, lax: lax}
}

// connect opens a TCP connection to the first of the request's addresses that
// takes one, within the time for connecting. Each address gets its share of
// what is left of that time.
func (d *dialer) connect(ctx context.Context, x *exchange) (net.Conn, netip.AddrPort, *failure) {
	addrs := x.req.Addresses
	deadline := x.sooner(time.Now().Add(x.set.ConnectTimeout))
	nd := net.Dialer{
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
	var (
		last netip.AddrPort
		fail *failure
	)
	for i, a := range addrs {
		last = netip.AddrPortFrom(a, x.req.Target.Port)
		if err := x.set.Policy.Check(a); err != nil {
			if fail == nil {
				fail = connectFailure(err)
			}
			continue
		}
		now := time.Now()
		left := deadline.Sub(now)
		if left <= 0 {
			return nil, last, &failure{ClassConnect, "connect-timeout", "no connection within the time for connecting"}
		}
		until := now.Add(left / time.Duration(len(addrs)-i))
		dctx, cancel := context.WithDeadline(ctx, until)
		tcp, err := nd.DialContext(dctx, "tcp", last.String())
		cancel()
		if err == nil {
			return tcp, last, nil
		}
		if ctx.Err() != nil {
			return nil, last, &failure{ClassNotStarted, "cancelled", "given up while connecting"}
		}
		if f := connectFailure(err); fail == nil || fail.class == ClassPolicy {
			fail = f
		}
	}
	if fail == nil {
		fail = &failure{ClassPolicy, "no-address", "the lease names no address"}
	}
	return nil, last, fail
}

// secure makes the TLS handshake on c. The connection's deadline is set.
func (d *dialer) secure(c *conn, t *Target, v Verify) *failure {
	cfg := d.strict.Clone()
	name := t.serverName()
	if v == VerifyRecord {
		cfg = d.lax.Clone()
		cfg.VerifyConnection = func(cs tls.ConnectionState) error {
			if err := verify(&cs, name, d.roots); err != nil {
				c.certError = certWords(err)
			}
			return nil
		}
	}
	cfg.ServerName = name
	tc := tls.Client(c.tcp, cfg)
	if err := tc.Handshake(); err != nil {
		return tlsFailure(err)
	}
	cs := tc.ConnectionState()
	c.tls, c.Conn = tc, tc
	c.tlsFacts = versionName(cs.Version) + " " + tls.CipherSuiteName(cs.CipherSuite)
	return nil
}

// verify checks a certificate as crypto/tls does when it is strict.
func verify(cs *tls.ConnectionState, name string, roots *x509.CertPool) error {
	opts := x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: x509.NewCertPool()}
	if len(cs.PeerCertificates) == 0 {
		return x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign, Detail: "no certificate"}
	}
	for _, cert := range cs.PeerCertificates[1:] {
		opts.Intermediates.AddCert(cert)
	}
	_, err := cs.PeerCertificates[0].Verify(opts)
	return err
}

func versionName(v uint16) string {
	switch v {
	case tls.VersionTLS10:
		return "TLS1.0"
	case tls.VersionTLS11:
		return "TLS1.1"
	case tls.VersionTLS12:
		return "TLS1.2"
	case tls.VersionTLS13:
		return "TLS1.3"
	}
	return tls.VersionName(v)
}
