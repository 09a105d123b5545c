package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"lycosa.dev/internal/testweb"
)

// TestChainOfRedirects: redirects by Location, by a Refresh header and by a
// page's refresh are followed as links, each URL once, over hosts; a loop and a
// chain that is too long end; and `why` tells the chain from any of its URLs.
func TestChainOfRedirects(t *testing.T) {
	t.Parallel()
	web := testweb.Start(t)
	h, other := web.Host("a.test"), web.Host("b.test")
	h.Page("/", testweb.HTML("/1", "/loop1", "/self", "/header", "/meta", "/long0"))
	h.Page("/1", testweb.Redirect(301, other.URL("/2")))
	other.Page("/2", testweb.Redirect(302, "//a.test:"+web.Port()+"/3%zz\xe9"))
	h.Page("/3%25zz%E9", testweb.HTML())
	h.Page("/loop1", testweb.Redirect(307, "loop2"))
	h.Page("/loop2", testweb.Redirect(308, "./loop1#x"))
	h.Page("/self", testweb.Redirect(303, "?"))
	h.Page("/self?", testweb.HTML())
	h.Page("/header", testweb.HTML().With(func(p *testweb.Page) { p.Header = http.Header{"Refresh": {"0; url=/header-target"}} }))
	h.Page("/header-target", testweb.HTML())
	h.Page("/meta", testweb.Page{Body: []byte(`<html><head><meta http-equiv="refresh" content="3; URL='/meta-target'"></head></html>`)})
	h.Page("/meta-target", testweb.HTML())
	h.Every(func(path string) (testweb.Page, bool) {
		n, ok := strings.CutPrefix(path, "/long")
		return testweb.Redirect(302, "/long"+n+"0"), ok
	})
	dir := t.TempDir()
	mustLycosa(t, time.Minute, append(polite(dir, "--scope", "any"), h.URL("/"))...)
	got := byURL(pages(web.Requests()))
	onceEach(t, "fetched", got)
	for _, u := range []string{h.URL("/1"), other.URL("/2"), h.URL("/loop1"), h.URL("/loop2"), h.URL("/self"), h.URL("/header-target"), h.URL("/meta-target")} {
		if got[u] != 1 {
			t.Errorf("%s was fetched %d times", u, got[u])
		}
	}
	long := 0
	for u := range got {
		if strings.Contains(u, "/long") {
			long++
		}
	}
	if long != 21 { // the first and 20 redirects in a row
		t.Errorf("%d URLs of the endless chain were fetched", long)
	}
	why := func(url string, want ...string) {
		t.Helper()
		out := mustLycosa(t, time.Minute, "why", url, "--dir", dir).out
		at := 0
		for _, w := range want {
			i := strings.Index(out[at:], w)
			if i < 0 {
				t.Errorf("why %s lacks %q at its place:\n%s", url, w, out)
				return
			}
			at += i + len(w)
		}
	}
	chain := []string{"1. " + h.URL("/1") + "  HTTP 301, done", "2. " + other.URL("/2") + "  HTTP 302, done", "3. " + h.URL("/3%25zz%E9") + "  HTTP 200, done"}
	why(h.URL("/1"), chain...)
	why(other.URL("/2"), chain...)
	why(h.URL("/3%25zz%E9"), append(chain, "(this one)")...)
	why(h.URL("/loop2"), "1. "+h.URL("/loop1"), "2. "+h.URL("/loop2")+"  HTTP 308, done: a loop: it leads back to "+h.URL("/loop1"))
	why(h.URL("/header-target"), "1. "+h.URL("/header")+"  HTTP 200, done", "2. "+h.URL("/header-target")+"  HTTP 200, done")
	why(h.URL("/meta-target"), "1. "+h.URL("/meta")+"  HTTP 200, done", "2. "+h.URL("/meta-target")+"  HTTP 200, done")
	why(h.URL("/long"+strings.Repeat("0", 21)), "1. "+h.URL("/long0"), "21. ", "22. "+h.URL("/long"+strings.Repeat("0", 22)), "trap: redirects: more than 20 in a row")
}
