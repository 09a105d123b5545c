package e2e

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lycosa.dev/internal/testdeps"
)

// TestComplete: real documentation, served by a real web server, is crawled to
// the last page: what the crawler asked for, what the server saw and what the
// WARC holds is exactly what an independent method finds, each once.
func TestComplete(t *testing.T) {
	t.Parallel()
	sites := testdeps.Folder(t, "LYCOSA_SITES")
	for _, c := range []struct {
		name  string
		seeds []string
		least int // pages, so that the test cannot pass on an empty site
		long  bool
	}{
		{name: "debian-reference-zh-cn", seeds: []string{"/debian-reference/index.zh-cn.html"}, least: 14},
		{name: "python3.11-doc", seeds: []string{"/doc/python3.11/html/index.html"}, least: 500, long: true},
		{name: "apache2-doc", seeds: []string{"/doc/apache2-doc/manual/index.html", "/doc/apache2-doc/manual/en/"}, least: 2000, long: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.long && testing.Short() {
				t.Skip("short")
			}
			root := filepath.Join(sites, c.name, "usr", "share")
			if _, err := os.Stat(root); err != nil {
				testdeps.Missing(t, "%v", err)
			}
			complete(t, root, c.seeds, c.least)
		})
	}
}

func complete(t *testing.T, root string, paths []string, least int) {
	server := startNginx(t, root)
	var seeds []string
	for _, p := range paths {
		seeds = append(seeds, "http://"+server.addr+p)
	}
	w := walk(t, seeds...)
	dir := t.TempDir()
	mustLycosa(t, 3*time.Minute, append(polite(dir, "--per-host", "8"), seeds...)...)
	mustLycosa(t, time.Minute, "audit", dir)
	server.stop()

	asked, ok := map[string]int{}, map[string]int{}
	for _, h := range server.hits(t, "Lycosa/") {
		key := uriKey(h.uri)
		if (key == "/robots.txt" || key == "/sitemap.xml") && !w.seen[key] {
			continue
		}
		asked[key]++
		if h.status == 200 {
			ok[key]++
		}
	}
	want200 := map[string]bool{}
	for key, status := range w.status {
		if status == 200 {
			want200[key] = true
		}
	}
	t.Logf("%d URLs, %d of them pages with status 200", len(w.status), len(want200))
	if len(want200) < least {
		t.Errorf("the independent method finds %d pages, want at least %d", len(want200), least)
	}
	sameSet(t, "asked for", asked, w.status)
	onceEach(t, "asked for", asked)
	sameSet(t, "pages", ok, want200)

	kept := map[string]int{}
	for u, n := range stored(readWARC(t, dir), 200) {
		parsed, err := url.Parse(u)
		if err != nil {
			t.Errorf("WARC-Target-URI %q: %v", u, err)
			continue
		}
		kept[uriKey(parsed.RequestURI())] += n
	}
	sameSet(t, "WARC", kept, want200)
	onceEach(t, "WARC", kept)
	checkWARC(t, dir)
}
