package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lycosa.dev/internal/testweb"
)

// With 64 open files, a crawl of 300 hosts by names of the DNS goes on: kept
// connections and names wait, the stores have what they need, and every page is
// there, once.
func TestFewOpenFiles(t *testing.T) {
	t.Parallel()
	web, names := testweb.Start(t), testweb.StartDNS(t)
	const hosts = 300
	want := map[string]int{}
	var all []string
	for i := range hosts {
		host := fmt.Sprintf("h%d.test", i)
		h := web.Host(host)
		names.Set(host, testweb.Name{Addrs: []string{"127.0.0.1"}})
		h.Page("/", testweb.HTML("/a", "/b"))
		for _, p := range []string{"/", "/a", "/b"} {
			if p != "/" {
				h.Page(p, testweb.HTML("/"))
			}
			want[h.URL(p)]++
		}
		all = append(all, h.URL("/"))
	}
	web.Host("start.test").Page("/", testweb.HTML(all...))
	names.Set("start.test", testweb.Name{Addrs: []string{"127.0.0.1"}})
	want[web.URL("start.test", "/")]++

	dir := t.TempDir()
	args := []string{
		"-c", `ulimit -n 64; exec "$@"`, "sh", binary(t, "lycosa"), "crawl", "--dir", dir, "--allow-net", "127.0.0.0/8", "--dns", names.Addr(),
		"--contact", "https://lycosa.dev/test", "--min-delay", "0s", "--max-delay", "20ms", "--delay-factor", "0", "--address-delay", "0s",
		"--scope", "any", "--concurrency", "256", "--log-level", "warn", web.URL("start.test", "/"),
	}
	p := startProcess(t, nil, "/bin/sh", args...)
	code := p.exitsWithin(3 * time.Minute)
	if code != 0 {
		t.Fatalf("exit code %d\nstdout: %s\nstderr: %s", code, ends(p.out.String()), ends(p.err.String()))
	}
	mustLycosa(t, time.Minute, "audit", dir)
	got := byURL(pages(web.Requests()))
	sameSet(t, "fetched", got, want)
	onceEach(t, "fetched", got)
	stored := map[string]int{}
	for _, r := range readWARC(t, dir) {
		if r.status() == 200 && !strings.HasSuffix(r.uri(), "/robots.txt") {
			stored[r.uri()]++
		}
	}
	sameSet(t, "stored", stored, want)
	for _, log := range []string{p.err.String(), readFile(t, filepath.Join(dir, "logs", "lycosa.log"))} {
		if strings.Contains(log, "too many open files") {
			t.Errorf("something ran out of files:\n%s", ends(log))
		}
	}
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
