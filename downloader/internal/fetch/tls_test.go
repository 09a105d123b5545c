package fetch_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"lycosa.dev/downloader/internal/fetch"
)

func tlsServer(t *testing.T) (*httptest.Server, *fetch.Request) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("hello " + r.TLS.ServerName + " " + r.Proto))
	}))
	s.Config.ErrorLog = log.New(discard{}, "", 0)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	target, err := fetch.ParseTarget("https://example.com/x")
	if err != nil {
		t.Fatal(err)
	}
	addr := s.Listener.Addr().(*net.TCPAddr).AddrPort()
	target.Port = addr.Port()
	return s, &fetch.Request{Target: target, Addresses: []netip.Addr{addr.Addr()}}
}

func TestTLS(t *testing.T) {
	t.Run("HTTP/1.1", func(t *testing.T) { testTLS(t, false, "HTTP/1.1", "http/1.1") })
	t.Run("HTTP/2", func(t *testing.T) { testTLS(t, true, "HTTP/2.0", "h2") })
}

func testTLS(t *testing.T, http2 bool, proto, alpn string) {
	s, req := tlsServer(t)
	cfg := config()
	cfg.HTTP2 = http2
	cfg.RootCAs = x509.NewCertPool()
	cfg.RootCAs.AddCert(s.Certificate())
	e := engine(t, cfg)
	for i := range 3 {
		var p page
		res := e.Fetch(context.Background(), req, &p)
		if res.Class != fetch.ClassResponse || p.body != "hello example.com "+proto || res.Protocol != alpn || !strings.HasPrefix(p.head, "HTTP/1.1 200 OK\r\n") || res.Reused != (i > 0) || res.Notes != 0 {
			t.Fatalf("%d: %+v %q", i, res, p.body)
		}
		if !strings.HasPrefix(res.TLS, "TLS1.3 TLS_") || (i == 0) != (res.Timings.TLS > 0) {
			t.Errorf("%d: %q %v", i, res.TLS, res.Timings)
		}
	}
	s.CloseClientConnections()
	time.Sleep(20 * time.Millisecond)
	// A new connection, and the TLS session is resumed.
	res := e.Fetch(context.Background(), req, &page{})
	if res.Class != fetch.ClassResponse || res.Reused || !res.Resumed {
		t.Errorf("after the server closed the session: %+v", res)
	}
	if st := e.Stats(); st.Handshakes != 2 || st.Resumed != 1 {
		t.Errorf("%+v", st)
	}
}

func TestTLSCertificates(t *testing.T) {
	_, req := tlsServer(t) // its authority is unknown
	strict := engine(t, config())
	if res := strict.Fetch(context.Background(), req, &page{}); res.Class != fetch.ClassTLS || res.Code != "certificate-invalid" || res.Detail != "the certificate is signed by an unknown authority" {
		t.Errorf("strict: %+v", res)
	}
	cfg := config()
	cfg.Verify = fetch.VerifyRecord
	e := engine(t, cfg)
	for range 2 { // the second on a kept connection
		res := e.Fetch(context.Background(), req, &page{})
		if res.Class != fetch.ClassResponse || !strings.Contains(res.CertError, "unknown authority") || len(res.Notes.Codes()) != 1 {
			t.Errorf("record: %+v", res)
		}
	}
	req.Target.Authority, req.Target.Host = "other.test", "other.test"
	if res := e.Fetch(context.Background(), req, &page{}); !strings.Contains(res.CertError, "another host") {
		t.Errorf("record: %+v", res)
	}
}

func TestTLSFailures(t *testing.T) {
	old := tls.Config{MaxVersion: tls.VersionTLS11}
	for name, c := range map[string]struct {
		script func(*peer)
		code   string
	}{
		"plain":  {func(p *peer) { p.say("HTTP/1.1 400 Bad Request\r\n\r\n"); p.wait() }, "no-tls"},
		"closed": {func(p *peer) {}, "tls-closed"},
		"silent": {(*peer).wait, "tls-timeout"},
		"old":    {func(p *peer) { _ = tls.Server(p.Conn, &old).Handshake() }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(p *peer, _ int) {
				if name == "closed" {
					_, _ = p.r.Peek(1)
					_, _ = p.r.Discard(p.r.Buffered())
					return
				}
				c.script(p)
			})
			cfg := config()
			cfg.TLSTimeout = 200 * time.Millisecond
			req := request(t, s, "/")
			req.Target.TLS = true
			res := engine(t, cfg).Fetch(context.Background(), req, &page{})
			if res.Class != fetch.ClassTLS || (c.code != "" && res.Code != c.code) || res.Detail == "" {
				t.Errorf("%+v", res)
			}
		})
	}
}
