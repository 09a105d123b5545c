package e2e

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"

	"lycosa.dev/internal/testweb"
)

// TestRecrawlByLastMod: a job that fetches again by the lastmod of sitemaps
// visits the sitemap at its interval, and of its pages only those of which it
// tells a later change, through all services.
func TestRecrawlByLastMod(t *testing.T) {
	t.Parallel()
	web := testweb.Start(t)
	h := web.Host("news.test")
	h.Robots("Sitemap: " + h.URL("/map.xml") + "\n")
	for _, p := range []string{"/", "/old", "/new", "/dateless"} {
		h.Page(p, testweb.HTML("/", "/old", "/new", "/dateless"))
	}
	old := time.Now().Add(-48 * time.Hour)
	list := func(changed time.Time) {
		h.SitemapOf("/map.xml", testweb.Listed{URL: h.URL("/old"), LastMod: old}, testweb.Listed{URL: h.URL("/new"), LastMod: changed},
			testweb.Listed{URL: h.URL("/dateless")})
	}
	list(old)
	r := startRing(t, 1)
	s := spec("news", 0, h.URL("/"))
	s.Recrawl = &jobv1.Recrawl{Policy: jobv1.RecrawlPolicy_RECRAWL_POLICY_SITEMAP, Interval: durationpb.New(time.Second)}
	r.create(s)
	visits := func(path string, n int) {
		t.Helper()
		eventually(t, 30*time.Second, path, func() bool { return web.Counts("news.test")[path] >= n })
	}
	visits("/map.xml", 3)
	for _, p := range []string{"/", "/old", "/new", "/dateless"} {
		visits(p, 1)
	}
	// Twice, each time later than what was fetched.
	for n := 2; n <= 3; n++ {
		list(time.Now().Add(time.Duration(n) * time.Hour))
		visits("/new", n)
		seen := web.Counts("news.test")["/map.xml"]
		visits("/map.xml", seen+3)
	}
	r.stopAll()
	got := web.Counts("news.test")
	for path, want := range map[string]int{"/": 1, "/old": 1, "/new": 3, "/dateless": 1, "/robots.txt": 1} {
		if got[path] != want {
			t.Errorf("%s was fetched %d times, want %d", path, got[path], want)
		}
	}
}
