package fetch_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"lycosa.dev/downloader/internal/fetch"
	"lycosa.dev/downloader/internal/proxy"
	"lycosa.dev/internal/netpolicy"
)

// relay passes bytes on between the two until one ends.
func relay(c *peer, to string) {
	up, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(up, c.r); _ = up.(*net.TCPConn).CloseWrite() })
	_, _ = io.Copy(c.Conn, up)
	_ = c.Conn.Close()
	_ = up.Close()
	wg.Wait()
}

// asked is what a proxy was asked for, in order.
type asked struct {
	mu   sync.Mutex
	list []string
}

func (a *asked) add(s string) { a.mu.Lock(); defer a.mu.Unlock(); a.list = append(a.list, s) }
func (a *asked) all() string  { a.mu.Lock(); defer a.mu.Unlock(); return strings.Join(a.list, ",") }

// httpProxy answers CONNECT and absolute requests, all to one server.
func httpProxy(t *testing.T, to string, a *asked) *server {
	return serve(t, func(c *peer, _ int) {
		for r := c.request(); r != ""; r = c.request() {
			f := strings.Fields(r)
			a.add(f[0] + " " + f[1])
			switch {
			case !strings.Contains(r, "\r\nProxy-Authorization: Basic dTpw\r\n"):
				c.say("HTTP/1.1 407 Who\r\nContent-Length: 0\r\n\r\n")
			case strings.Contains(f[1], "down"):
				c.say("HTTP/1.1 502 Bad\r\n\r\n")
				return
			case strings.Contains(f[1], "forbidden"):
				c.say("HTTP/1.1 403 No\r\n\r\n")
				return
			case f[0] == "CONNECT":
				c.say("HTTP/1.1 200 Connection established\r\nX-A: b\r\n\r\n")
				relay(c, to)
				return
			default:
				c.say("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nby proxy")
			}
		}
	})
}

// socksProxy speaks SOCKS5 with a password, all to one server.
func socksProxy(t *testing.T, to string, a *asked) *server {
	return serve(t, func(c *peer, _ int) {
		read := func(n int) []byte { b := make([]byte, n); _, _ = io.ReadFull(c.r, b); return b }
		read(int(read(2)[1]))
		_, _ = c.Write([]byte{5, 2})
		user := string(read(int(read(2)[1])))
		if pass := string(read(int(read(1)[0]))); user+pass != "up" {
			_, _ = c.Write([]byte{1, 1})
			return
		}
		_, _ = c.Write([]byte{1, 0})
		head := read(4)
		var host string
		switch head[3] {
		case 1:
			host = net.IP(read(4)).String()
		case 3:
			host = string(read(int(read(1)[0])))
		case 4:
			host = net.IP(read(16)).String()
		}
		a.add(fmt.Sprintf("%s:%d", host, binary.BigEndian.Uint16(read(2))))
		if strings.HasPrefix(host, "down") {
			_, _ = c.Write([]byte{5, 5, 0, 1, 0, 0, 0, 0, 0, 0})
			return
		}
		_, _ = c.Write([]byte{5, 0, 0, 3, 2, 'a', 'b', 0, 0})
		relay(c, to)
	})
}

func upstream(scheme string, s *server) *proxy.Upstream {
	return &proxy.Upstream{Scheme: scheme, Addr: s.addr.String(), User: "u", Password: "p"}
}

// proxyConfig allows public addresses only, and proxies on loopback.
func proxyConfig(rules ...*proxy.Rule) fetch.Config {
	cfg := config2()
	cfg.Policy = netpolicy.Policy{}
	cfg.ProxyNets = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	cfg.Proxies = rules
	return cfg
}

// Pages come through proxies of every kind, over http and https, and the proxy
// is asked for the address that was checked unless it resolves names.
func TestProxies(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "hello "+r.Host+" "+r.Proto) })
	plain := httptest.NewServer(handler)
	defer plain.Close()
	secure := httptest.NewUnstartedServer(handler)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer secure.Close()
	addr := netip.MustParseAddr("93.184.216.34") // never connected to: the proxies lead elsewhere
	for _, c := range []struct {
		scheme, url string
		remote      bool
		asked, body string
	}{
		{"http", "http://example.com/x", false, "CONNECT 93.184.216.34:80", "hello example.com HTTP/1.1"},
		{"http", "https://example.com/x", false, "CONNECT 93.184.216.34:443", "hello example.com HTTP/2.0"},
		{"http", "http://example.com/x", true, "GET http://example.com/x,GET http://example.com/x", "by proxy"},
		{"http", "https://example.com/x", true, "CONNECT example.com:443", "hello example.com HTTP/2.0"},
		{"socks5", "http://example.com/x", false, "93.184.216.34:80", "hello example.com HTTP/1.1"},
		{"socks5", "https://example.com/x", false, "93.184.216.34:443", "hello example.com HTTP/2.0"},
		{"socks5h", "http://example.com/x", false, "example.com:80", "hello example.com HTTP/1.1"},
		{"socks5h", "https://example.com:8443/x", false, "example.com:8443", "hello example.com:8443 HTTP/2.0"},
	} {
		t.Run(fmt.Sprintf("%s %s %v", c.scheme, c.url, c.remote), func(t *testing.T) {
			to := plain.Listener.Addr().String()
			if strings.HasPrefix(c.url, "https") {
				to = secure.Listener.Addr().String()
			}
			var a asked
			var s *server
			if c.scheme == "http" {
				s = httpProxy(t, to, &a)
			} else {
				s = socksProxy(t, to, &a)
			}
			e := engine(t, proxyConfig(&proxy.Rule{Host: "*", Upstreams: []*proxy.Upstream{upstream(c.scheme, s)}, RemoteDNS: c.remote}))
			target, err := fetch.ParseTarget(c.url)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 2 {
				var p page
				res := e.Fetch(context.Background(), &fetch.Request{Target: target, Addresses: []netip.Addr{addr}}, &p)
				if res.Class != fetch.ClassResponse || p.body != c.body || res.Reused != (i > 0) {
					t.Fatalf("%d: %+v %q", i, res, p.body)
				}
				if strings.Contains(p.request, "dTpw") {
					t.Errorf("a password is stored: %q", p.request)
				}
				if !c.remote && c.scheme != "socks5h" && res.Address != netip.AddrPortFrom(addr, target.Port) {
					t.Errorf("address %v", res.Address)
				}
			}
			if a.all() != c.asked {
				t.Errorf("asked for %s, want %s", a.all(), c.asked)
			}
		})
	}
}

// The address policy holds through proxies, whatever resolves the names.
func TestPolicyThroughProxies(t *testing.T) {
	var a asked
	s := socksProxy(t, "127.0.0.1:1", &a)
	fetchOne := func(cfg fetch.Config, url string, addrs ...string) fetch.Result {
		target, err := fetch.ParseTarget(url)
		if err != nil {
			t.Fatal(err)
		}
		req := &fetch.Request{Target: target}
		for _, a := range addrs {
			req.Addresses = append(req.Addresses, netip.MustParseAddr(a))
		}
		return engine(t, cfg).Fetch(context.Background(), req, &page{})
	}
	for _, scheme := range []string{"socks5", "socks5h"} {
		cfg := proxyConfig(&proxy.Rule{Host: "*", Upstreams: []*proxy.Upstream{upstream(scheme, s)}})
		for url, addr := range map[string]string{
			"http://rebind.test/": "10.0.0.1", "http://meta.test/": "169.254.169.254", "http://mapped.test/": "::ffff:127.0.0.1", "http://six.test/": "64:ff9b::7f00:1",
		} {
			if res := fetchOne(cfg, url, addr); res.Class != fetch.ClassPolicy || res.Written {
				t.Errorf("%s %s: %+v", scheme, url, res)
			}
		}
	}
	cfg := proxyConfig(&proxy.Rule{Host: "*", Upstreams: []*proxy.Upstream{upstream("socks5h", s)}})
	for _, url := range []string{"http://localhost/", "http://db/", "http://printer.local/", "http://10.0.0.1/", "http://[::1]/", "http://x.internal/", "http://2130706433/", "http://0x7f.1/", "http://127.1/"} {
		if res := fetchOne(cfg, url, "93.184.216.34"); res.Class != fetch.ClassPolicy || res.Code != "address-refused" {
			t.Errorf("%s: %+v", url, res)
		}
	}
	cfg.ProxyNets = nil // the proxy lies on loopback
	if res := fetchOne(cfg, "http://example.com/", "93.184.216.34"); res.Class != fetch.ClassPolicy {
		t.Errorf("a proxy at a private address: %+v", res)
	}
	if a.all() != "" || s.conns.Load() != 0 {
		t.Errorf("the proxy was asked for %s", a.all())
	}
}

// Proxies are used in turn; one that cannot be reached is put aside and costs
// no fetch; failures of the server behind are the server's.
func TestProxyFailures(t *testing.T) {
	var a, b asked
	one, two := httpProxy(t, "127.0.0.1:1", &a), httpProxy(t, "127.0.0.1:1", &b)
	dead := &proxy.Upstream{Scheme: "http", Addr: "127.0.0.1:9", User: "u", Password: "p"}
	dead.Addr = "127.0.0.99:" + fmt.Sprint(one.addr.Port())
	rule := &proxy.Rule{Host: "*.test", RemoteDNS: true, Upstreams: []*proxy.Upstream{dead, upstream("http", one), upstream("http", two)}}
	wrong := &proxy.Rule{Host: "auth.example", RemoteDNS: true, Upstreams: []*proxy.Upstream{{Scheme: "http", Addr: one.addr.String(), User: "u", Password: "x"}}}
	none := &proxy.Rule{Host: "direct.example"}
	cfg := proxyConfig(rule, wrong, none)
	cfg.KeepAlive = 0
	cfg.ConnectTimeout = 2 * time.Second
	e := engine(t, cfg)
	run := func(url string) fetch.Result {
		target, _ := fetch.ParseTarget(url)
		return e.Fetch(context.Background(), &fetch.Request{Target: target, Addresses: []netip.Addr{netip.MustParseAddr("93.184.216.34")}}, &page{})
	}
	for range 6 {
		if res := run("http://a.test/"); res.Class != fetch.ClassResponse {
			t.Errorf("%+v", res)
		}
	}
	if n, m := strings.Count(a.all(), "GET"), strings.Count(b.all(), "GET"); n < 2 || m < 2 {
		t.Errorf("not in turn: %d and %d", n, m)
	}
	for url, want := range map[string]struct {
		class fetch.Class
		code  string
	}{
		"https://down.test/":      {fetch.ClassConnect, "connect-failed"},
		"https://forbidden.test/": {fetch.ClassPolicy, "proxy-refused"},
		"https://auth.example/":   {fetch.ClassNotStarted, "proxy-auth"},
		"http://auth.example/":    {fetch.ClassNotStarted, "proxy-auth"},
	} {
		if res := run(url); res.Class != want.class || res.Code != want.code || strings.Contains(res.Detail, "dTp") {
			t.Errorf("%s: %+v", url, res)
		}
	}
	only := proxyConfig(&proxy.Rule{Host: "*", Upstreams: []*proxy.Upstream{dead}})
	e = engine(t, only)
	for range 2 { // put aside or not: never without the proxy
		if res := run("http://x.example/"); res.Class != fetch.ClassNotStarted || res.Code != "proxy-unreachable" {
			t.Errorf("%+v", res)
		}
	}
	var c asked
	socks := socksProxy(t, "127.0.0.1:1", &c)
	e = engine(t, proxyConfig(&proxy.Rule{Host: "*", Upstreams: []*proxy.Upstream{upstream("socks5h", socks)}}))
	if res := run("http://down.example/"); res.Class != fetch.ClassConnect || res.Code != "connect-refused" {
		t.Errorf("%+v", res)
	}
}

// A proxy that is itself spoken to over TLS.
func TestHTTPSProxy(t *testing.T) {
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer secure.Close()
	var a asked
	inner := httpProxy(t, secure.Listener.Addr().String(), &a)
	outer := serve(t, func(c *peer, _ int) {
		tc := tls.Server(c.Conn, &tls.Config{Certificates: secure.TLS.Certificates})
		if tc.Handshake() != nil {
			return
		}
		relay(&peer{Conn: tc, r: bufio.NewReader(tc), s: c.s}, inner.addr.String())
	})
	cfg := proxyConfig(&proxy.Rule{Host: "*", Upstreams: []*proxy.Upstream{upstream("https", outer)}})
	cfg.RootCAs = x509.NewCertPool()
	cfg.RootCAs.AddCert(secure.Certificate())
	e := engine(t, cfg)
	target, _ := fetch.ParseTarget("https://example.com/")
	for i := range 3 {
		var p page
		res := e.Fetch(context.Background(), &fetch.Request{Target: target, Addresses: []netip.Addr{netip.MustParseAddr("93.184.216.34")}}, &p)
		if res.Class != fetch.ClassResponse || p.body != "HTTP/2.0" || res.Reused != (i > 0) || res.CertError != "" {
			t.Fatalf("%+v %q", res, p.body)
		}
	}
	cfg.RootCAs = x509.NewCertPool() // the proxy's certificate is not trusted
	res := engine(t, cfg).Fetch(context.Background(), &fetch.Request{Target: target, Addresses: []netip.Addr{netip.MustParseAddr("93.184.216.34")}}, &page{})
	if res.Class != fetch.ClassNotStarted || res.Code != "proxy-unreachable" || !strings.Contains(res.Detail, "unknown authority") {
		t.Errorf("%+v", res)
	}
}
