package downloader_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lycosa.dev/downloader"
	"lycosa.dev/downloader/internal/fetch"
	"lycosa.dev/internal/testweb"
	"lycosa.dev/internal/warc"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

func oneSpec(f *jobv1.Fetch) downloader.OneOptions {
	f.AllowNet = []string{"127.0.0.0/8"}
	return downloader.OneOptions{Spec: &jobv1.Spec{Fetch: f}}
}

// One fetch over HTTP/2 with all that can be said of it: the report's text, the
// redirect, the charset with its ground, and a WARC file that readers accept.
func TestFetchOne(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/from":
			http.Redirect(w, r, "to?a=1", http.StatusFound)
		case "/to":
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("X-Odd", "bell \x07")
			_, _ = io.WriteString(w, "<meta charset=koi8-r><p>\xf0\xd2\xc9\xd7\xc5\xd4")
		}
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	addr := netip.MustParseAddrPort(s.Listener.Addr().String())
	opts := oneSpec(&jobv1.Fetch{})
	opts.Redirects = 3
	opts.Lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		if host != "example.com" {
			return nil, fmt.Errorf("no host %s", host)
		}
		return []netip.Addr{addr.Addr()}, nil
	}
	opts = opts.WithEngine(func(c *fetch.Config) {
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AddCert(s.Certificate())
	})
	r, err := downloader.FetchOne(context.Background(), fmt.Sprintf("https://example.com:%d/from", addr.Port()), opts)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Steps) != 2 || r.Steps[0].Status != 302 || r.Steps[0].Redirect != r.Steps[1].URL || !r.Steps[1].Reused {
		t.Fatalf("%+v", r.Steps)
	}
	f := r.Final()
	if f.Status != 200 || f.Protocol != "h2" || f.Address != addr || f.TLS == nil || f.TLS.Version != "TLS1.3" || f.Charset != "koi8-r" || f.CharsetGround != "meta" || f.Total <= 0 {
		t.Errorf("%+v", f)
	}
	var text strings.Builder
	if err := r.WriteText(&text, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"status       200  HTTP/1.1 200 OK  (h2)", "redirect     https://example.com:", "tls          TLS1.3, TLS_AES", "alpn h2", "charset      koi8-r  (by meta)", "> GET /to?a=1 HTTP/1.1", "< content-type: text/html", "first byte", f.Address.String()} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
	dir := t.TempDir()
	file, err := r.WriteWARC(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, file)
	rep, err := warc.Verify(context.Background(), path)
	if err != nil || len(rep.Problems) != 0 || rep.Records[warc.Response] != 2 || rep.Records[warc.Request] != 2 {
		t.Errorf("%+v, %v", rep, err)
	}
	readByWarcio(t, path)
}

// readByWarcio has an independent reader look at the file, where it is
// installed (LYCOSA_WARCIO is the folder that holds node_modules/warcio).
func readByWarcio(t *testing.T, path string) {
	t.Helper()
	folder := os.Getenv("LYCOSA_WARCIO")
	if folder == "" {
		return
	}
	out, err := exec.Command("node", filepath.Join(folder, "node_modules/.bin/warcio"), "cdx-index", path).CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"status":"200"`) || !strings.Contains(string(out), `"mime":"text/html"`) {
		t.Errorf("warcio: %v\n%s", err, out)
	}
}

// What goes wrong is in the report, in words.
func TestFetchOneFailures(t *testing.T) {
	s := testweb.StartOddities(t, nil, testweb.WebOddities()...)
	run := func(url string, opts downloader.OneOptions) *downloader.Step {
		t.Helper()
		r, err := downloader.FetchOne(context.Background(), url, opts)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := r.WriteText(&text, false); err != nil || strings.ContainsAny(text.String(), "\x00\x07\x1b") {
			t.Errorf("%v %q", err, text.String())
		}
		return r.Final()
	}
	base := "http://" + s.Addr().String()
	if f := run(base+"/case/ssh-banner", oneSpec(&jobv1.Fetch{})); f.Class != "protocol" || f.Code != "http09" {
		t.Errorf("%+v", f)
	}
	if f := run(base+"/case/head-nul", oneSpec(&jobv1.Fetch{})); f.Status != 200 || string(f.Body) != "a" {
		t.Errorf("%+v", f)
	}
	if f := run(base+"/ok/x", downloader.OneOptions{}); f.Class != "policy" || !strings.Contains(f.Detail, "loopback") {
		t.Errorf("a private address: %+v", f)
	}
	opts := oneSpec(&jobv1.Fetch{})
	opts.Lookup = func(context.Context, string) ([]netip.Addr, error) { return nil, nil }
	if f := run("http://nowhere.test/", opts); f.Class != "dns" {
		t.Errorf("%+v", f)
	}
	if f := run("http://named.test:"+fmt.Sprint(s.Addr().Port)+"/ok/x", oneSpec(&jobv1.Fetch{Resolve: []string{"*:127.0.0.1"}})); f.Status != 200 || string(f.Decoded) != testweb.OddPage {
		t.Errorf("%+v", f)
	}
	for _, bad := range []string{"", "ftp://a.test/", "http://"} {
		if _, err := downloader.FetchOne(context.Background(), bad, downloader.OneOptions{}); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	if _, err := downloader.FetchOne(context.Background(), "http://a.test/", downloader.OneOptions{Spec: &jobv1.Spec{Fetch: &jobv1.Fetch{Headers: []string{"Host: x"}}}}); err == nil {
		t.Error("a bad spec: no error")
	}
}

// Cookies and challenges need a second request: FetchOne makes it, and shows it.
func TestFetchOneAgain(t *testing.T) {
	t.Setenv("LYCOSA_SECRET_PW", "hidden")
	gate := testweb.Action{"cookie_gate", testweb.Say("HTTP/1.1 302 Found\r\nLocation: /gate\r\nSet-Cookie: seen=1; Path=/; Max-Age=100\r\nContent-Length: 0\r\n\r\n")[1], testweb.Say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")[1]}
	s := testweb.StartOddities(t, nil)
	s.Script("/gate", gate)
	s.Script("/digest", testweb.Action{"count_gate", 1.0, testweb.Say("HTTP/1.1 401 Who\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n\"\r\nContent-Length: 0\r\n\r\n")[1], testweb.Say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")[1]})
	opts := oneSpec(&jobv1.Fetch{Cookies: true, Credentials: []*jobv1.Credential{{Host: "127.0.0.1", Kind: "digest", User: "u", Secret: "pw"}}})
	opts.CookiesDir = t.TempDir()
	for _, path := range []string{"/gate", "/digest"} {
		r, err := downloader.FetchOne(context.Background(), "http://"+s.Addr().String()+path, opts)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Steps) != 2 || r.Steps[0].Class != "not_started" || r.Final().Status != 200 {
			t.Errorf("%s: %+v", path, r.Steps)
		}
		var text strings.Builder
		if _ = r.WriteText(&text, true); strings.Contains(text.String(), "hidden") || strings.Contains(text.String(), "seen=1\r") || !strings.Contains(text.String(), "redacted") {
			t.Errorf("%s", text.String())
		}
	}
	if log := s.Log(); !strings.Contains(log[3].Request, "Authorization: Digest username=\"u\"") || !strings.Contains(log[3].Request, "Cookie: seen=1") {
		t.Errorf("%q", log[3].Request)
	}
	jar, err := os.ReadFile(filepath.Join(opts.CookiesDir, "fetch.txt"))
	if err != nil || !strings.Contains(string(jar), "\tseen\t1\n") {
		t.Errorf("%q, %v", jar, err)
	}
}
