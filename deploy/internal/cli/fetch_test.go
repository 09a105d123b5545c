package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// One URL: the report, the body, a WARC file, and the exit codes.
func TestFetchCommand(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/old" {
			http.Redirect(w, r, "/new", http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte("<p>" + r.Header.Get("X-A") + "</p>"))
	}))
	defer site.Close()
	dir := t.TempDir()
	body := filepath.Join(dir, "body")
	got, code := say(t, "", "fetch", site.URL+"/old", "--allow-net", "127.0.0.0/8", "--header", "X-A: b", "--request", "--output", body, "--warc", dir)
	for _, want := range []string{"status       301 ", "redirect     " + site.URL + "/new", "status       200 ", "(http/1.1)", "charset      utf-8  (by http)", "> X-A: b", "< Content-Type: text/html", "warc         fetch-"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if b, err := os.ReadFile(body); code != 0 || err != nil || string(b) != "<p>b</p>" {
		t.Errorf("code %d, body %q, %v", code, b, err)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "fetch-*.warc.gz")); len(files) != 1 {
		t.Errorf("%v", files)
	}
	if got, code := say(t, "", "fetch", site.URL+"/new"); code != ExitNoSeed || !strings.Contains(got, "loopback") {
		t.Errorf("a private address: code %d\n%s", code, got)
	}
	for _, args := range [][]string{{"fetch", "ftp://a.test/"}, {"fetch", "http://a.test/", "--allow-net", "x"}, {"fetch", "http://a.test/", "--job", filepath.Join(dir, "none")}} {
		if got, code := say(t, "", args...); code != ExitUsage {
			t.Errorf("%v: code %d\n%s", args, code, got)
		}
	}
}
