package testweb_test

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"lycosa.dev/internal/testweb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client sends every host to the server.
func client(t *testing.T, s *testweb.Server) *http.Client {
	t.Helper()
	tr := &http.Transport{DisableCompression: true, Dial: func(network, _ string) (net.Conn, error) { return net.Dial(network, s.Addr()) }} //nolint:staticcheck // no context to pass on
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func get(t *testing.T, c *http.Client, url string) (*http.Response, string, error) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

func TestPages(t *testing.T) {
	s := testweb.Start(t)
	c := client(t, s)
	text := strings.Repeat("all that glitters\n", 200)
	s.Host("a.test").Robots("User-agent: *\nDisallow: /no\n").
		Page("/", testweb.HTML("/x?a=1&b=2", s.URL("b.test", "/"))).
		Page("/gz", testweb.Text(text).With(func(p *testweb.Page) { p.Coding, p.Chunked = "gzip", true })).
		Page("/cut", testweb.Text(text).With(func(p *testweb.Page) { p.Cut = 100 })).
		Page("/raw", testweb.Page{Raw: []byte("HTTP/1.0 200 Fine\r\n\r\nraw")}).
		Page("/moved", testweb.Redirect(301, "/")).
		Page("/busy", testweb.Unavailable(503, "2").With(func(p *testweb.Page) {
			p.Then = []testweb.Page{testweb.Status(429), testweb.Text("at last")}
		}))
	s.Host("b.test").Every(func(path string) (testweb.Page, bool) { return testweb.Text(path), path != "/none" })

	resp, body, err := get(t, c, s.URL("a.test", "/"))
	if err != nil || resp.StatusCode != 200 || !strings.Contains(body, `href="/x?a=1&amp;b=2"`) || !strings.Contains(body, `href="http://b.test:`+s.Port()+`/"`) {
		t.Errorf("/: %v %q", err, body)
	}
	if _, body, _ := get(t, c, s.URL("a.test", "/robots.txt")); !strings.Contains(body, "Disallow: /no") {
		t.Errorf("robots.txt: %q", body)
	}
	resp, body, err = get(t, c, s.URL("a.test", "/gz"))
	if err != nil || resp.Header.Get("Content-Encoding") != "gzip" || len(resp.TransferEncoding) == 0 {
		t.Fatalf("/gz: %v %v", err, resp.Header)
	}
	z, err := gzip.NewReader(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(z); err != nil || string(got) != text {
		t.Errorf("/gz: %v, %d bytes", err, len(got))
	}
	if _, body, err := get(t, c, s.URL("a.test", "/cut")); !errors.Is(err, io.ErrUnexpectedEOF) || len(body) != 100 {
		t.Errorf("/cut: %v after %d bytes", err, len(body))
	}
	if _, body, err := get(t, c, s.URL("a.test", "/raw")); err != nil || body != "raw" {
		t.Errorf("/raw: %v %q", err, body)
	}
	if resp, _, _ := get(t, c, s.URL("a.test", "/moved")); resp.StatusCode != 301 || resp.Header.Get("Location") != "/" {
		t.Errorf("/moved: %v", resp)
	}
	for i, want := range []int{503, 429, 200, 200} {
		resp, _, _ := get(t, c, s.URL("a.test", "/busy"))
		if resp.StatusCode != want || (want == 503) != (resp.Header.Get("Retry-After") == "2") {
			t.Errorf("/busy, request %d: %d %v, want %d", i, resp.StatusCode, resp.Header, want)
		}
	}
	if resp, body, _ := get(t, c, s.URL("b.test", "/any")); body != "/any" || resp.StatusCode != 200 {
		t.Errorf("b.test: %d %q", resp.StatusCode, body)
	}
	for url, want := range map[string]int{s.URL("b.test", "/none"): 404, s.URL("a.test", "/none"): 404, s.URL("c.test", "/"): 421} {
		if resp, _, _ := get(t, c, url); resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", url, resp.StatusCode, want)
		}
	}

	if n := s.Counts("a.test")["/busy"]; n != 4 {
		t.Errorf("%d requests for /busy in the log, want 4", n)
	}
	for _, q := range s.Requests() {
		if q.End.IsZero() || q.End.Before(q.Start) || q.Whole == (q.Path == "/cut") || q.Remote == "" || q.Conn == 0 {
			t.Errorf("log: %+v", q)
		}
	}
}

func TestDelaysAndSpacing(t *testing.T) {
	s := testweb.Start(t)
	c := client(t, s)
	const d = 30 * time.Millisecond
	s.Host("a.test").Page("/slow", testweb.HTML().With(func(p *testweb.Page) { p.Delay, p.BodyDelay = d, d }))
	for range 2 {
		if _, body, err := get(t, c, s.URL("a.test", "/slow")); err != nil || body == "" {
			t.Fatal(err)
		}
		time.Sleep(d)
	}
	for _, q := range s.Requests() {
		if took := q.End.Sub(q.Start); took < 2*d {
			t.Errorf("took %s, must be at least %s", took, 2*d)
		}
	}
	g, ok := s.MinGap(testweb.ByHost)
	if !ok || g.Wait < d {
		t.Errorf("gap %v, must be at least %s", g, d)
	}
	s.CheckSpacing(t, testweb.ByAny, d)
}

// TestGapsSeeOverlaps: a short request inside a long one, and the one after
// both, are measured from the end of the long one.
func TestGapsSeeOverlaps(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(1000, int64(ms)*1e6) }
	log := []testweb.Request{
		{Host: "a", Path: "/3", Start: at(150), End: at(160)},
		{Host: "a", Path: "/1", Start: at(0), End: at(100)},
		{Host: "a", Path: "/2", Start: at(10), End: at(20)},
		{Host: "b", Path: "/4", Start: at(1), End: at(2)},
	}
	var waits []time.Duration
	for _, g := range testweb.Gaps(log, testweb.ByHost) {
		waits = append(waits, g.Wait)
	}
	if len(waits) != 2 || waits[0] != -90*time.Millisecond || waits[1] != 50*time.Millisecond {
		t.Errorf("gaps %v, want -90ms and 50ms", waits)
	}
}

func TestGraphReachable(t *testing.T) {
	s := testweb.Start(t)
	c := client(t, s)
	g := testweb.Graph{Pages: 60, Links: 8, Seed: 3, BodyBytes: 1000}
	paths := g.Fill(s.Host("g.test"))
	if len(paths) != 60 || paths[0] != "/" {
		t.Fatalf("paths %v", paths)
	}
	codings := map[string]bool{}
	for _, p := range paths {
		resp, _, err := get(t, c, s.URL("g.test", p))
		if err != nil || resp.StatusCode != 200 {
			t.Errorf("%s: %v", p, err)
			continue
		}
		codings[resp.Header.Get("Content-Encoding")] = true
	}
	if len(codings) < 3 {
		t.Errorf("codings %v: a graph should have several", codings)
	}
}

func TestDNS(t *testing.T) {
	d := testweb.StartDNS(t)
	d.Set("a.test", testweb.Name{Addrs: []string{"127.0.0.1", "::1"}})
	d.Set("www.test", testweb.Name{CNAME: "a.test", TTL: 5})
	d.Set("broken.test", testweb.Name{RCode: dns.RcodeServerFailure})
	d.Set("empty.test", testweb.Name{})
	d.Set("late.test", testweb.Name{Delay: 20 * time.Millisecond, Addrs: []string{"127.0.0.1"}})
	d.Set("mute.test", testweb.Name{Silent: true})
	many := testweb.Name{}
	for i := range 80 {
		many.Addrs = append(many.Addrs, fmt.Sprintf("127.0.1.%d", i+1))
	}
	d.Set("many.test", many)

	ask := func(network, name string, qtype uint16) (*dns.Msg, error) {
		m := new(dns.Msg).SetQuestion(dns.Fqdn(name), qtype)
		c := &dns.Client{Net: network, Timeout: 500 * time.Millisecond}
		r, _, err := c.Exchange(m, d.Addr())
		return r, err
	}
	for _, network := range []string{"udp", "tcp"} {
		for _, tc := range []struct {
			name  string
			qtype uint16
			rcode int
			n     int
		}{
			{"a.test", dns.TypeA, 0, 1}, {"A.test", dns.TypeAAAA, 0, 1}, {"www.test", dns.TypeA, 0, 2},
			{"broken.test", dns.TypeA, dns.RcodeServerFailure, 0}, {"empty.test", dns.TypeA, 0, 0},
			{"none.test", dns.TypeA, dns.RcodeNameError, 0}, {"late.test", dns.TypeA, 0, 1},
		} {
			r, err := ask(network, tc.name, tc.qtype)
			if err != nil || r.Rcode != tc.rcode || len(r.Answer) != tc.n {
				t.Errorf("%s %s: %v %v, want code %d and %d records", network, tc.name, err, r, tc.rcode, tc.n)
			}
		}
	}
	if _, err := ask("udp", "mute.test", dns.TypeA); err == nil {
		t.Error("mute.test answered")
	}
	r, err := ask("udp", "many.test", dns.TypeA)
	if err != nil || !r.Truncated {
		t.Errorf("a long answer over UDP: %v, truncated %v", err, r != nil && r.Truncated)
	}
	if r, err := ask("tcp", "many.test", dns.TypeA); err != nil || len(r.Answer) != len(many.Addrs) {
		t.Errorf("a long answer over TCP: %v", err)
	}
	if n := len(d.Queries("a.test")); n != 4 {
		t.Errorf("%d questions about a.test in the log, want 4", n)
	}
	d.Remove("a.test")
	if r, err := ask("udp", "a.test", dns.TypeA); err != nil || r.Rcode != dns.RcodeNameError {
		t.Errorf("a removed name: %v %v", err, r)
	}
}
