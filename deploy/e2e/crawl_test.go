package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"lycosa.dev/internal/testweb"
)

// polite are flags for a crawl of the test's own web on loopback: every name
// leads there, and nothing is waited for unless the test asks.
func polite(dir string, more ...string) []string {
	return append([]string{
		"crawl", "--dir", dir, "--allow-net", "127.0.0.0/8", "--resolve", "*:127.0.0.1", "--contact", "https://lycosa.dev/test",
		"--min-delay", "0s", "--max-delay", "20ms", "--delay-factor", "0", "--log-level", "warn",
	}, more...)
}

// pages are the requests of a log that count as pages: all but robots.txt and
// the usual place of a sitemap.
func pages(log []testweb.Request) []testweb.Request {
	return slices.DeleteFunc(slices.Clone(log), func(q testweb.Request) bool {
		return q.Path == "/robots.txt" || q.Path == "/sitemap.xml"
	})
}

// byURL counts requests by URL.
func byURL(log []testweb.Request) map[string]int {
	n := map[string]int{}
	for _, q := range log {
		n["http://"+q.Host+q.Path]++
	}
	return n
}

// sameSet compares two sets of URLs and names what is missing and what is too
// much.
func sameSet[A, B any](t testing.TB, what string, got map[string]A, want map[string]B) {
	t.Helper()
	var missing, extra []string
	for u := range want {
		if _, ok := got[u]; !ok {
			missing = append(missing, u)
		}
	}
	for u := range got {
		if _, ok := want[u]; !ok {
			extra = append(extra, u)
		}
	}
	for list, name := range map[*[]string]string{&missing: "missing", &extra: "too much"} {
		if n := len(*list); n > 0 {
			slices.Sort(*list)
			t.Errorf("%s: %d %s: %s", what, n, name, strings.Join((*list)[:min(n, 20)], " "))
		}
	}
	if len(want) == 0 {
		t.Errorf("%s: nothing to compare with", what)
	}
}

// onceEach fails for every URL that is counted more than once.
func onceEach(t testing.TB, what string, n map[string]int) {
	t.Helper()
	for _, u := range slices.Sorted(maps.Keys(n)) {
		if n[u] > 1 {
			t.Errorf("%s: %d times %s", what, n[u], u)
		}
	}
}
