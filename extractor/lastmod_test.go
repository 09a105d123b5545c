package extractor_test

import (
	"testing"
	"time"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

const xmlHead = "HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n\r\n"

func sitemapOf(lastmod string) []byte {
	return []byte(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>http://a.test/x</loc><lastmod>` + lastmod +
		`</lastmod></url><url><loc>http://a.test/y</loc></url></urlset>`)
}

// A job that fetches again by lastmod is told every new one, of links that are
// known too; the same one again is not news.
func TestLastModOfSitemaps(t *testing.T) {
	r := start(t, &jobv1.Spec{Recrawl: &jobv1.Recrawl{Policy: jobv1.RecrawlPolicy_RECRAWL_POLICY_SITEMAP}})
	visit := func(lastmod string) map[string]*crawlv1.Candidate {
		l := lease("http://a.test/sitemap.xml")
		l.HopPath = "M"
		done(t, r.send(t, l, 200, xmlHead, sitemapOf(lastmod)))
		_, cands := r.last(t)
		return cands
	}
	first := visit("2024-05-01T10:00:00Z")
	want(t, first, "http://a.test/x", "http://a.test/y")
	if got, want := first["http://a.test/x"].GetLastModified().AsTime(), time.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("lastmod %s, want %s", got, want)
	}
	if m := first["http://a.test/y"].GetLastModified(); m != nil {
		t.Errorf("lastmod %s of a link without one", m.AsTime())
	}
	want(t, visit("2024-05-01T10:00:00Z"))
	next := visit("2024-05-02T10:00:00Z")
	want(t, next, "http://a.test/x")
	if got := next["http://a.test/x"].GetLastModified().AsTime().Day(); got != 2 {
		t.Errorf("lastmod of day %d, want 2", got)
	}
}

// Other jobs have no use for it: what is known is not sent again.
func TestLastModOfOtherJobs(t *testing.T) {
	r := start(t, &jobv1.Spec{})
	for i, lastmod := range []string{"2024-05-01", "2024-05-02"} {
		l := lease("http://a.test/sitemap.xml")
		l.HopPath = "M"
		done(t, r.send(t, l, 200, xmlHead, sitemapOf(lastmod)))
		if _, cands := r.last(t); len(cands) != 2-2*i {
			t.Errorf("visit %d: %d candidates", i, len(cands))
		}
	}
}

// Where an overlay gives a page another robots agent, its directives are read
// by that name, and by the job's elsewhere.
func TestDirectivesByTheLeasesAgent(t *testing.T) {
	r := start(t, &jobv1.Spec{Identity: &jobv1.Identity{RobotsAgent: "lycosa"}})
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Robots-Tag: guest: nofollow\r\n\r\n"
	for n, agent := range []string{"guest", ""} {
		l := lease("http://a.test/")
		if agent != "" {
			l.Overlay = &crawlv1.RequestOverlay{RobotsAgent: agent}
		}
		done(t, r.send(t, l, 200, head, []byte(`<a href="/x">`)))
		if _, cands := r.last(t); len(cands) != n {
			t.Errorf("agent %q: %d links are followed, want %d", agent, len(cands), n)
		}
	}
}
