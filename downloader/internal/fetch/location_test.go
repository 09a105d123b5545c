package fetch

import (
	"strings"
	"testing"

	"lycosa.dev/internal/weburl"
)

// Whatever stands in a Location, what is asked for in its place is a canonical
// URL of one line that this package takes, on the host that the URL names, and
// the same URL when it is read again.
func FuzzLocation(f *testing.F) {
	for _, l := range []string{
		"/ok/next.html", "//other.test/x", "?a=1", "#top", "", ".", "../../..", "http:/one-slash.test", "https:\\\\back.test\\slash", "/ok/caf\xe9.html", "/\u65e5\u672c?q=\u00e9",
		"/a b\tc", "/%zz%2", "http://h\u00e9.test/", "http://0x7f.1/", "http://[::ffff:127.0.0.1]:80/", "http://u:p@h.test/", "file:///etc/passwd", "javascript:x",
		"http://h.test:99999/", "http://h.test/\r\nX: y", " http://h.test/ ", "HTTP://H.TEST:80/%7e/./a//b;c=d", "http://169.254.169.254/latest", "/\x00", "http://h.test%00.evil/",
	} {
		f.Add("http://h.test/dir/page?q", []byte(l))
		f.Add("https://h.test:8443", []byte(l))
	}
	f.Fuzz(func(t *testing.T, base string, location []byte) {
		from, err := weburl.Parse(base)
		if err != nil || !from.IsHTTP() {
			return
		}
		to, err := from.Resolve(string(weburl.FromHeader(location)))
		if err != nil || !to.IsHTTP() {
			return
		}
		url, _, _ := strings.Cut(to.Canonical().String(), "#")
		target, err := ParseTarget(url)
		if err != nil {
			t.Fatalf("%q from %q is %q, which cannot be asked for: %v", location, base, url, err)
		}
		if strings.ContainsAny(target.Path+target.Authority, " \r\n\t\x00#") || target.Path[0] != '/' || target.Host == "" || strings.ContainsAny(target.Host, "/?@\\") {
			t.Fatalf("%q from %q: %+v", location, base, target)
		}
		again, err := weburl.Parse(target.url())
		if err != nil {
			t.Fatalf("%q: %v", target.url(), err)
		}
		if u, _, _ := strings.Cut(again.Canonical().String(), "#"); u != target.url() {
			t.Fatalf("%q is read again as %q", target.url(), u)
		}
		if !target.same(url) {
			t.Fatalf("%q does not lead to itself", url)
		}
	})
}
