package e2e

import (
	"bufio"
	"bytes"
	"net/http"
	"testing"
	"time"

	"lycosa.dev/internal/testweb"
)

// site is some hosts of a test web that lead to each other, and all URLs that
// may be fetched from the first seed on.
type site struct {
	web   *testweb.Server
	hosts []string
	seed  string
	want  map[string]bool
}

// newSite fills hosts with pages that take delay each. Every host forbids
// /private/ and has a link into it.
func newSite(t testing.TB, hosts []string, g testweb.Graph) *site {
	t.Helper()
	s := &site{web: testweb.Start(t), hosts: hosts, want: map[string]bool{}}
	for i, h := range hosts {
		host := s.web.Host(h).Robots("User-agent: *\nDisallow: /private/\n")
		g.Seed++
		for _, p := range g.Fill(host) {
			s.want[s.web.URL(h, p)] = true
		}
		host.Page("/private/x", testweb.HTML("/private/y"))
		host.Page("/next", testweb.HTML(s.web.URL(hosts[(i+1)%len(hosts)], "/next"), "/", "/private/x", "/#top"))
		s.want[host.URL("/next")] = true
	}
	s.seed = s.web.URL(hosts[0], "/next")
	return s
}

// checkExact: every page was asked for once and is stored once, and nothing
// else was.
func (s *site) checkExact(t testing.TB, dir string) {
	t.Helper()
	got := byURL(pages(s.web.Requests()))
	sameSet(t, "requests", got, s.want)
	onceEach(t, "requests", got)
	kept := stored(readWARC(t, dir), 200)
	for _, h := range s.hosts {
		delete(kept, s.web.URL(h, "/robots.txt"))
	}
	sameSet(t, "WARC", kept, s.want)
	onceEach(t, "WARC", kept)
}

// TestRingCrawls: five processes, with three downloaders, crawl several hosts:
// every page once, all of it in WARC files that two readers accept.
func TestRingCrawls(t *testing.T) {
	t.Parallel()
	s := newSite(t, []string{"a.test", "b.test", "c.test", "d.test"}, testweb.Graph{Pages: 40, Links: 12, BodyBytes: 3000})
	r := startRing(t, 3)
	r.create(spec("ring", 0, s.seed))
	r.waitFinished("ring", 60*time.Second)
	r.stopAll()
	s.checkExact(t, r.data())
	checkWARC(t, r.data())
}

// TestOneProcessCrawls is the same in one process, and says what it is asked to
// at the end.
func TestOneProcessCrawls(t *testing.T) {
	t.Parallel()
	s := newSite(t, []string{"a.test", "b.test", "c.test", "d.test"}, testweb.Graph{Pages: 40, Links: 12, BodyBytes: 3000})
	dir := t.TempDir()
	mustLycosa(t, time.Minute, polite(dir, "--scope", "any", s.seed)...)
	s.checkExact(t, dir)
	checkWARC(t, dir)
	mustLycosa(t, time.Minute, "audit", dir)
	// Not only the plain form was judged.
	forms := map[string]int{}
	for _, r := range readWARC(t, dir) {
		if r.kind() != "response" {
			continue
		}
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(r.block)), nil)
		if err != nil {
			t.Errorf("%s: %v", r.uri(), err)
			continue
		}
		_ = resp.Body.Close()
		forms[resp.Header.Get("Content-Encoding")]++
		if len(resp.TransferEncoding) > 0 {
			forms["chunked"]++
		}
	}
	for _, f := range []string{"", "gzip", "br", "deflate", "chunked"} {
		if forms[f] == 0 {
			t.Errorf("no response of the form %q in the WARC: %v", f, forms)
		}
	}

	// The same command again finds nothing to do and fetches nothing.
	before := len(s.web.Requests())
	mustLycosa(t, time.Minute, polite(dir, "--scope", "any", s.seed)...)
	if n := len(s.web.Requests()) - before; n != 0 {
		t.Errorf("a finished crawl that is started again made %d requests", n)
	}
}
