package e2e

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lycosa.dev/internal/testweb"
)

// TestDNSRecordsInWARC: with --dns-records the answers of the DNS are in the
// crawl's WARC files, in the form that archives know, and independent readers
// accept them.
func TestDNSRecordsInWARC(t *testing.T) {
	t.Parallel()
	web, names := testweb.Start(t), testweb.StartDNS(t)
	web.Host("a.test").Page("/", testweb.HTML(web.URL("b.test", "/")))
	web.Host("b.test").Page("/", testweb.HTML())
	names.Set("a.test", testweb.Name{Addrs: []string{"127.0.0.1"}})
	names.Set("b.test", testweb.Name{CNAME: "c.test"})
	names.Set("c.test", testweb.Name{Addrs: []string{"127.0.0.1"}})
	dir := t.TempDir()
	mustLycosa(t, time.Minute, "crawl", "--dir", dir, "--allow-net", "127.0.0.0/8", "--dns", names.Addr(), "--dns-records", "--scope", "any",
		"--contact", "https://lycosa.dev/test", "--min-delay", "0s", "--delay-factor", "0", "--address-delay", "0s", web.URL("a.test", "/"))
	found := map[string]string{}
	recs := readWARC(t, dir)
	for _, r := range recs {
		if strings.HasPrefix(r.uri(), "dns:") {
			if r.kind() != "resource" || r.fields["content-type"] != "text/dns" || r.fields["warc-ip-address"] != "127.0.0.1" {
				t.Errorf("%s: %v", r.uri(), r.fields)
			}
			found[r.uri()] = string(r.block)
		}
	}
	if len(found) != 2 || !strings.Contains(found["dns:a.test"], "a.test.\t60\tIN\tA\t127.0.0.1\n") ||
		!strings.Contains(found["dns:b.test"], "b.test.\t60\tIN\tCNAME\tc.test.\n") || !strings.Contains(found["dns:b.test"], "c.test.\t60\tIN\tA\t127.0.0.1\n") {
		t.Errorf("records of the DNS: %q", found)
	}
	checkWARC(t, dir)
	gowarcReads(t, dir, len(recs))
	mustLycosa(t, time.Minute, "audit", dir)
}

// TestSecretsAndProxy: a job file names a secret, which lies in the crawl's own
// folder, and a proxy on loopback; the proxy is asked for the address that was
// checked, and the secret is nowhere but in the request.
func TestSecretsAndProxy(t *testing.T) {
	t.Parallel()
	const secret = "s3cret-of-the-test"
	var mu sync.Mutex
	asked, authorized := map[string]int{}, 0
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	go func() { // ends with the listener
		for {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the client
				defer c.Close()
				r := bufio.NewReader(c)
				for {
					q, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					mu.Lock()
					if q.Method == http.MethodConnect {
						asked[q.Host]++
						_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
						mu.Unlock()
						continue
					}
					if _, password, ok := q.BasicAuth(); ok && password == secret {
						authorized++
					}
					mu.Unlock()
					body := "<html><body>page</body></html>"
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 30\r\n\r\n"+body)
				}
			}()
		}
	}()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "secrets", "door"), []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := filepath.Join(t.TempDir(), "job.yaml")
	text := "name: inside\nseeds: [http://site.test/]\nfetch:\n  resolve: [\"site.test:93.184.216.34\"]\n" +
		"  credentials: [{host: site.test, kind: basic, user: me, secret: door}]\n" +
		"  proxies: [{host: \"*\", urls: [\"http://" + lis.Addr().String() + "\"]}]\n"
	if err := os.WriteFile(spec, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := mustLycosa(t, time.Minute, "crawl", "--dir", dir, "--job", spec, "--contact", "https://lycosa.dev/test", "--log-level", "debug", "--max-pages", "1")
	mu.Lock()
	defer mu.Unlock()
	if asked["93.184.216.34:80"] == 0 || len(asked) != 1 || authorized == 0 {
		t.Errorf("the proxy was asked for %v, %d requests were authorized\n%s", asked, authorized, ends(r.err))
	}
	if got := stored(readWARC(t, dir), 200); got["http://site.test/"] != 1 {
		t.Errorf("stored: %v", got)
	}
	for _, rec := range readWARC(t, dir) {
		if strings.Contains(string(rec.block), secret) || strings.Contains(string(rec.block), "Basic ") {
			t.Errorf("%s of %s holds the secret", rec.kind(), rec.uri())
		}
	}
	for name, said := range map[string]string{
		"output": r.out + r.err, "log": readFile(t, filepath.Join(dir, "logs", "lycosa.log")), "job.yaml": readFile(t, filepath.Join(dir, "job.yaml")),
	} {
		if strings.Contains(said, secret) {
			t.Errorf("the secret is in the %s", name)
		}
	}
}
