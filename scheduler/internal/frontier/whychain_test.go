package frontier

import (
	"fmt"
	"strings"
	"testing"
	"time"

	specs "lycosa.dev/internal/job"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
	"lycosa.dev/scheduler/internal/frontier/store"
)

// chainText writes a chain as "/1 301 /2 200".
func chainText(hops []*schedulerv1.RedirectHop) string {
	var b strings.Builder
	for _, h := range hops {
		fmt.Fprintf(&b, "%s %d ", strings.TrimPrefix(h.Url, "http://a.test"), h.Status)
	}
	return strings.TrimSpace(b.String())
}

// A chain of redirects is told whole from each of its URLs; a loop, and where a
// rule ends it, with the reason.
func TestChainOfRedirectsIsExplained(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24), "http://a.test/start")
	redirects := map[string]string{
		"http://a.test/1": "http://a.test/2", "http://a.test/2": "http://a.test/3", // by Location
		"http://a.test/loop1": "http://a.test/loop2", "http://a.test/loop2": "http://a.test/loop3", "http://a.test/loop3": "http://a.test/loop1",
		"http://a.test/self": "http://a.test/self", "http://a.test/out": "http://elsewhere.example/x",
	}
	for {
		l := r.wait(time.Minute)
		if l == nil {
			break
		}
		o := outcomeOf(l, 200)
		var cands []*crawlv1.Candidate
		if l.Url == "http://a.test/start" {
			for _, u := range []string{"/1", "/loop1", "/self", "/out", "/refresh"} {
				cands = append(cands, candidates(1, "http://a.test"+u)...)
			}
			for _, c := range cands {
				c.HopPath, c.Referrer = "L", l.Url
			}
		}
		to := redirects[l.Url]
		if to != "" {
			o.Fetch.Status, o.RedirectUrl = 301, to
		}
		if l.Url == "http://a.test/refresh" {
			to = "http://a.test/refreshed" // a page with a refresh: no outcome's redirect
		}
		if to != "" && !strings.Contains(to, "elsewhere") {
			c := candidates(l.Depth, to)[0]
			c.HopPath, c.Referrer, c.Redirects = specs.AppendHop(l.HopPath, specs.HopRedirect), l.Url, l.Redirects+1
			cands = append(cands, c)
		}
		r.commit(o, cands...)
	}
	for url, want := range map[string]string{
		"/1": "/1 301 /2 301 /3 200", "/2": "/1 301 /2 301 /3 200", "/3": "/1 301 /2 301 /3 200",
		"/loop1": "/loop1 301 /loop2 301 /loop3 301", "/loop2": "/loop1 301 /loop2 301 /loop3 301",
		"/self": "/self 301", "/out": "/out 301 http://elsewhere.example/x 0",
		"/refreshed": "/refresh 200 /refreshed 200", "/start": "",
	} {
		if got := chainText(r.explain("j", "http://a.test"+url).Redirects); got != want {
			t.Errorf("%s: chain %q, want %q", url, got, want)
		}
	}
	for url, want := range map[string]string{
		"/loop1": "a loop: it leads back to http://a.test/loop1", "/loop2": "a loop: it leads back to http://a.test/loop1",
		"/self": "a loop: it leads back to http://a.test/self", "/out": "not known here; in scope",
	} {
		chain := r.explain("j", "http://a.test"+url).Redirects
		if got := chain[len(chain)-1].Reason; !strings.HasPrefix(got, want) {
			t.Errorf("%s: the chain ends with %q, want %q", url, got, want)
		}
	}
}
