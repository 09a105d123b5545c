package fetch

import (
	"crypto/tls"
	"crypto/x509"
	"sync"
	"time"

	"lycosa.dev/downloader/internal/wire"
)

// tlsKind is what a TLS configuration is for. Each has a session cache of its
// own: a session is resumed only under the same demands, and with the same
// certificate of ours, as it was made.
type tlsKind struct {
	lax    bool // the server's certificate is not insisted on
	legacy bool
	http1  bool // HTTP/2 is not offered
	cert   *tls.Certificate
}

// securer makes TLS sessions.
type securer struct {
	roots    *x509.CertPool
	sessions int

	mu      sync.Mutex
	configs map[tlsKind]*tls.Config
}

// maxTLSConfigs bounds the configurations kept; more only with very many client
// certificates.
const maxTLSConfigs = 256

func newSecurer(roots *x509.CertPool, sessions int) *securer {
	return &securer{roots: roots, sessions: sessions, configs: map[tlsKind]*tls.Config{}}
}

// config returns the configuration of a kind; it is shared and not changed.
func (s *securer) config(k tlsKind) *tls.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.configs[k]; c != nil {
		return c
	}
	c := &tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, InsecureSkipVerify: k.lax}
	// Without the post-quantum key share: pages of the public web are read by
	// anybody, and it costs a handshake a third more.
	c.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}
	if k.http1 {
		c.NextProtos = []string{"http/1.1"}
	}
	if s.sessions > 0 {
		c.ClientSessionCache = tls.NewLRUClientSessionCache(s.sessions)
	}
	if k.legacy {
		// What browsers spoke around 2010. Servers of that time may stumble over
		// ALPN and over TLS 1.3 in the first message.
		c.MinVersion, c.MaxVersion, c.NextProtos = tls.VersionTLS10, tls.VersionTLS12, nil
		for _, list := range [][]*tls.CipherSuite{tls.CipherSuites(), tls.InsecureCipherSuites()} {
			for _, suite := range list {
				c.CipherSuites = append(c.CipherSuites, suite.ID)
			}
		}
	}
	if k.cert != nil {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return k.cert, nil }
	}
	if len(s.configs) >= maxTLSConfigs {
		clear(s.configs)
	}
	s.configs[k] = c
	return c
}

// secure makes the TLS handshake on c. The connection's deadline is set.
func (s *securer) secure(c *conn, t *Target, k tlsKind) *failure {
	cfg := s.config(k).Clone()
	cfg.ServerName = t.serverName()
	if k.lax {
		cfg.VerifyConnection = func(cs tls.ConnectionState) error {
			if err := verify(&cs, cfg.ServerName, s.roots); err != nil {
				c.certError = certWords(err)
			}
			return nil
		}
	}
	tc := tls.Client(c.Conn, cfg)
	if err := tc.Handshake(); err != nil {
		return tlsFailure(err)
	}
	cs := tc.ConnectionState()
	c.tls, c.Conn = tc, tc
	c.tlsFacts = versionName(cs.Version) + " " + tls.CipherSuiteName(cs.CipherSuite)
	c.resumed, c.legacy = cs.DidResume, k.legacy
	if cs.NegotiatedProtocol == "h2" {
		c.h2 = newH2(c)
	}
	return nil
}

// mayBeOld tells a failure that a server gives which knows only old TLS, or
// stumbles over today's.
func mayBeOld(f *failure) bool {
	switch f.code {
	case "tls-version", "tls-ciphers", "tls-refused", "tls-closed", "tls-reset", "tls-failed":
		return true
	}
	return false
}

// Session facts.

// TLSFacts describes a TLS session to people.
type TLSFacts struct {
	Version, CipherSuite, Group, Protocol string
	Resumed, Legacy                       bool
	// The server's certificate.
	Subject, Issuer     string
	Names               []string
	NotBefore, NotAfter time.Time
	SignatureAlgorithm  string
	// Problem says why the certificate is not valid; empty: it is, or was not
	// checked again because the session was resumed.
	Problem string
}

func (c *conn) facts() *TLSFacts {
	if c.tls == nil {
		return nil
	}
	cs := c.tls.ConnectionState()
	f := &TLSFacts{
		Version: versionName(cs.Version), CipherSuite: tls.CipherSuiteName(cs.CipherSuite), Protocol: cs.NegotiatedProtocol,
		Resumed: cs.DidResume, Legacy: c.legacy, Problem: c.certError,
	}
	if cs.CurveID != 0 {
		f.Group = cs.CurveID.String()
	}
	if len(cs.PeerCertificates) > 0 {
		cert := cs.PeerCertificates[0]
		f.Subject, f.Issuer = cert.Subject.String(), cert.Issuer.String()
		f.Names = cert.DNSNames
		for _, ip := range cert.IPAddresses {
			f.Names = append(f.Names, ip.String())
		}
		f.NotBefore, f.NotAfter, f.SignatureAlgorithm = cert.NotBefore, cert.NotAfter, cert.SignatureAlgorithm.String()
	}
	return f
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

// described puts the connection's facts into the result.
func (x *exchange) described() {
	x.res.TLS, x.res.CertError = x.conn.tlsFacts, x.conn.certError
	x.res.Resumed = x.conn.resumed && !x.res.Reused
	if x.res.CertError != "" {
		x.res.Notes |= wire.NoteCertificateInvalid
	}
	if x.conn.legacy {
		x.res.Notes |= wire.NoteLegacyTLS
	}
	if x.req.Facts != nil {
		x.req.Facts(x.conn.facts())
	}
}
