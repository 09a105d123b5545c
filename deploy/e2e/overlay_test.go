package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"lycosa.dev/internal/testweb"
)

// TestOverlays: overlays of a job file reach the requests of the hosts and URLs
// that they apply to, robots.txt's too, and no others; one ends what it
// excludes, another retires a host.
func TestOverlays(t *testing.T) {
	t.Parallel()
	web := testweb.Start(t)
	a, b := web.Host("a.test"), web.Host("b.test")
	a.Page("/", testweb.HTML("/de/1", "/2", "/cal/3", b.URL("/")))
	b.Page("/", testweb.HTML("/cal/3", "/4", "/5", "/6"))
	for _, h := range []*testweb.Host{a, b} {
		for _, p := range []string{"/de/1", "/2", "/cal/3", "/4", "/5", "/6"} {
			h.Page(p, testweb.HTML("/"))
		}
	}
	file := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(file, []byte(`
name: overlaid
seeds: ["`+a.URL("/")+`"]
scope: {kind: any}
links: {sitemaps: false}
overlays:
  - {name: guest, hosts: ["a.test:`+web.Port()+`"], user_agent: "guest/1 (+https://lycosa.dev/test)", headers: ["X-Key: 7"]}
  - {name: german, url_prefixes: ["`+a.URL("/de/")+`"], accept_language: de}
  - {name: few, domains: [b.test], max_host_pages: 2, exclude: ["/cal/"]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	mustLycosa(t, time.Minute, polite(dir, "--job", file)...)
	mustLycosa(t, time.Minute, "audit", dir)
	for _, q := range web.Requests() {
		guest := q.Name == "a.test"
		if ua := q.Header.Get("User-Agent"); (ua == "guest/1 (+https://lycosa.dev/test)") != guest {
			t.Errorf("%s%s with User-Agent %q", q.Name, q.Path, ua)
		}
		if key := q.Header.Get("X-Key"); (key == "7") != guest {
			t.Errorf("%s%s with X-Key %q", q.Name, q.Path, key)
		}
		if l := q.Header.Get("Accept-Language"); (l == "de") != (guest && q.Path == "/de/1") {
			t.Errorf("%s%s with Accept-Language %q", q.Name, q.Path, l)
		}
	}
	if n := web.Counts("a.test"); n["/cal/3"] != 1 || n["/de/1"] != 1 || n["/2"] != 1 {
		t.Errorf("a.test: %v", n)
	}
	n := web.Counts("b.test")
	if n["/cal/3"] != 0 || n["/"] != 1 || n["/4"]+n["/5"]+n["/6"] != 1 {
		t.Errorf("b.test, with a budget of two pages: %v", n)
	}
}
