package e2e

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lycosa.dev/internal/testweb"
)

// TestAddressPolicy: whatever leads there, nothing connects to an address that
// is not allowed: links in every spelling, names, redirects, robots.txt and its
// redirects, a name with an allowed address beside. Only 127.0.0.1 is allowed;
// 127.0.0.2 listens and must never be called.
func TestAddressPolicy(t *testing.T) {
	t.Parallel()
	trap, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer trap.Close()
	var called atomic.Int64
	go func() { // ends with the listener
		for {
			c, err := trap.Accept()
			if err != nil {
				return
			}
			called.Add(1)
			c.Close()
		}
	}()
	_, port, err := net.SplitHostPort(trap.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	at := func(host string) string { return "http://" + host + ":" + port + "/" }

	web, names := testweb.Start(t), testweb.StartDNS(t)
	for name, addrs := range map[string][]string{
		"a.test": {"127.0.0.1"}, "robots.test": {"127.0.0.1"}, "inner.test": {"127.0.0.2"}, "both.test": {"127.0.0.1", "127.0.0.2"},
		"private.test": {"10.1.2.3", "fd00::1"}, "six.test": {"::ffff:127.0.0.2", "64:ff9b::7f00:2", "2002:7f00:2::1"},
	} {
		names.Set(name, testweb.Name{Addrs: addrs})
	}
	names.Set("alias.test", testweb.Name{CNAME: "inner.test"})
	forbidden := []string{
		at("127.0.0.2"), at("inner.test"), at("alias.test"), at("six.test"), at("[::ffff:127.0.0.2]"), at("[64:ff9b::7f00:2]"), at("[2002:7f00:2::1]"),
		"http://private.test/", "http://169.254.169.254/latest/meta-data/", "http://[fe80::1]/", "http://224.0.0.1/",
	}
	odd := []string{at("0x7f.2"), at("2130706434"), at("0177.0.0.02"), at("127.2"), at("127.0.0.2.")} // all 127.0.0.2
	h := web.Host("a.test")
	h.Page("/", testweb.HTML(append(append([]string{"/redirect", web.URL("robots.test", "/"), web.URL("both.test", "/")}, forbidden...), odd...)...))
	h.Page("/redirect", testweb.Redirect(302, at("inner.test")+"from-redirect"))
	web.Host("robots.test").Page("/robots.txt", testweb.Redirect(301, at("127.0.0.2")+"robots.txt")).Page("/", testweb.HTML())
	web.Host("both.test").Page("/", testweb.HTML())

	dir := t.TempDir()
	r := lycosa(t, 2*time.Minute, "crawl", "--dir", dir, "--allow-net", "127.0.0.1/32", "--dns", names.Addr(), "--scope", "any", "--contact",
		"https://lycosa.dev/test", "--min-delay", "0s", "--max-delay", "10ms", "--delay-factor", "0", "--address-delay", "0s", "--max-duration", "10s", h.URL("/"))
	if r.code != 0 {
		t.Errorf("exit code %d: %s", r.code, ends(r.err))
	}
	if n := called.Load(); n != 0 {
		t.Errorf("127.0.0.2 was called %d times", n)
	}
	got := byURL(pages(web.Requests()))
	for _, u := range []string{h.URL("/"), h.URL("/redirect"), web.URL("both.test", "/")} {
		if got[u] != 1 {
			t.Errorf("%s was fetched %d times", u, got[u])
		}
	}
	for _, u := range append(forbidden, at("inner.test")+"from-redirect") {
		out := mustLycosa(t, time.Minute, "why", u, "--dir", dir).out
		if strings.Contains(out, "HTTP 2") || !strings.Contains(out, "not allowed") && !strings.Contains(out, "address") {
			t.Errorf("why %s does not tell of its address:\n%s", u, out)
		}
	}
}
