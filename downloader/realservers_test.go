package downloader_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lycosa.dev/downloader"
	"lycosa.dev/downloader/internal/fetch"
	"lycosa.dev/internal/testdeps"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// freePort is a loopback port that nobody has at the moment.
func freePort(t *testing.T) int {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	return lis.Addr().(*net.TCPAddr).Port
}

// webRoot is a folder with pages and a certificate for old.test.
func webRoot(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} { // a server gives up being root
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	page := "<title>t</title>" + strings.Repeat("<p>hello <a href=/next>next</a></p>\n", 2000)
	for name, text := range map[string]string{"page.html": page, "empty.html": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(testdeps.Program(t, "openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", filepath.Join(dir, "key.pem"),
		"-out", filepath.Join(dir, "cert.pem"), "-days", "3", "-subj", "/CN=old.test").CombinedOutput()
	if err != nil {
		t.Fatalf("openssl: %v\n%s", err, out)
	}
	return dir
}

// start runs a server until the test ends and waits until it listens.
func start(t *testing.T, ports []int, bin string, args ...string) {
	t.Helper()
	cmd := exec.Command(bin, args...)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	for _, p := range ports {
		for i := 0; ; i++ {
			c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", p), time.Second)
			if err == nil {
				c.Close()
				break
			}
			if i > 300 {
				t.Fatalf("%s does not listen: %v\n%s", bin, err, log.String())
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// Servers that are out there: nginx and Apache over HTTP/1.1, HTTP/2 and TLS,
// coded and not, whole and conditional.
func TestRealServers(t *testing.T) {
	t.Run("nginx", func(t *testing.T) {
		bin, dir := testdeps.Program(t, "nginx"), webRoot(t)
		plain, secure := freePort(t), freePort(t)
		conf := fmt.Sprintf(`daemon off; master_process off; worker_processes 1; pid %[1]s/pid; error_log stderr;
events { worker_connections 64; }
http { access_log off; gzip on; gzip_types text/html; root %[1]s; types { text/html html; }
client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
server { listen 127.0.0.1:%[2]d; location /move { return 301 /page.html?x=%%zz; } }
server { listen 127.0.0.1:%[3]d ssl http2; ssl_certificate cert.pem; ssl_certificate_key key.pem; } }`, dir, plain, secure)
		if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o644); err != nil {
			t.Fatal(err)
		}
		start(t, []int{plain, secure}, bin, "-p", dir, "-c", filepath.Join(dir, "nginx.conf"))
		realServer(t, plain, secure, "h2")
		r, err := downloader.FetchOne(context.Background(), fmt.Sprintf("http://127.0.0.1:%d/move", plain), oneSpec(&jobv1.Fetch{}))
		if err != nil || r.Final().Status != 301 || !strings.Contains(r.Final().Redirect, "/page.html?x=%") {
			t.Errorf("%v, %d to %q", err, r.Final().Status, r.Final().Redirect)
		}
	})
	t.Run("apache2", func(t *testing.T) {
		bin, dir := testdeps.Program(t, "apache2"), webRoot(t)
		plain, secure := freePort(t), freePort(t)
		var modules strings.Builder
		for _, m := range []string{"mpm_event", "authz_core", "mime", "deflate", "filter", "ssl", "socache_shmcb", "http2"} {
			path := "/usr/lib/apache2/modules/mod_" + m + ".so"
			if _, err := os.Stat(path); err != nil {
				testdeps.Missing(t, "apache2 has no module %s", m)
			}
			fmt.Fprintf(&modules, "LoadModule %s_module %s\n", m, path)
		}
		user := ""
		if os.Getuid() == 0 {
			user = "User www-data\nGroup www-data\n"
		}
		conf := modules.String() + user + fmt.Sprintf(`ServerRoot %[1]s
DocumentRoot %[1]s
PidFile %[1]s/pid
ErrorLog /dev/stderr
ServerName old.test
DefaultRuntimeDir %[1]s
Listen 127.0.0.1:%[2]d
Listen 127.0.0.1:%[3]d
TypesConfig /dev/null
AddType text/html .html
AddOutputFilterByType DEFLATE text/html
Protocols h2 http/1.1
<VirtualHost *:%[3]d>
SSLEngine on
SSLCertificateFile cert.pem
SSLCertificateKeyFile key.pem
</VirtualHost>
`, dir, plain, secure)
		if err := os.WriteFile(filepath.Join(dir, "apache.conf"), []byte(conf), 0o644); err != nil {
			t.Fatal(err)
		}
		start(t, []int{plain, secure}, bin, "-DFOREGROUND", "-d", dir, "-f", filepath.Join(dir, "apache.conf"))
		realServer(t, plain, secure, "h2")
	})
}

func realServer(t *testing.T, plain, secure int, proto string) {
	t.Helper()
	one := func(url string, o downloader.OneOptions) *downloader.Step {
		t.Helper()
		r, err := downloader.FetchOne(context.Background(), url, o)
		if err != nil {
			t.Fatal(err)
		}
		return r.Final()
	}
	want := "<title>t</title>" + strings.Repeat("<p>hello <a href=/next>next</a></p>\n", 2000)
	lax := func() downloader.OneOptions {
		return oneSpec(&jobv1.Fetch{InsecureTls: true, Resolve: []string{"old.test:127.0.0.1"}})
	}
	for url, protocol := range map[string]string{
		fmt.Sprintf("http://old.test:%d/page.html", plain): "http/1.1", fmt.Sprintf("https://old.test:%d/page.html", secure): proto,
	} {
		f := one(url, lax())
		if f.Status != 200 || f.Protocol != protocol || string(f.Decoded) != want || len(f.Body) >= len(want) || f.Truncated != "" {
			t.Errorf("%s: %d %s, %d bytes of %d, %s %v", url, f.Status, f.Protocol, len(f.Body), len(f.Decoded), f.Code, f.Annotations)
		}
		plainOnly := lax().WithEngine(func(c *fetch.Config) { c.AcceptEncoding = "" })
		f = one(url, plainOnly)
		if string(f.Body) != want || f.Protocol != protocol {
			t.Errorf("%s not coded: %+v", url, f.Code)
		}
		var modified string
		for l := range strings.SplitSeq(string(f.Head), "\r\n") {
			if k, v, ok := strings.Cut(l, ": "); ok && strings.EqualFold(k, "Last-Modified") {
				modified = v
			}
		}
		again := lax()
		again.LastModified = modified
		if f := one(url, again); f.Status != 304 || len(f.Body) != 0 {
			t.Errorf("%s since %q: %d", url, modified, f.Status)
		}
		if f := one(strings.Replace(url, "page", "empty", 1), lax()); f.Status != 200 || len(f.Decoded) != 0 || f.Truncated != "" {
			t.Errorf("empty: %s %d %s %s", f.Class, f.Status, f.Code, f.Detail)
		}
		if f := one(strings.Replace(url, "page", "none", 1), lax()); f.Status != 404 {
			t.Errorf("none: %s %d %s %s", f.Class, f.Status, f.Code, f.Detail)
		}
	}
	// Spoken to in the wrong way, a server is still understood.
	if f := one(fmt.Sprintf("http://old.test:%d/page.html", secure), lax()); f.Status != 400 {
		t.Errorf("http to the TLS port: %s %d %s %s", f.Class, f.Status, f.Code, f.Detail)
	}
	if f := one(fmt.Sprintf("https://old.test:%d/page.html", plain), lax()); f.Class != "tls" || f.Code != "no-tls" {
		t.Errorf("https to the plain port: %s %d %s %s", f.Class, f.Status, f.Code, f.Detail)
	}
	limited := lax()
	limited.Spec.Limits = &jobv1.Limits{MaxPageBytes: 1000}
	if f := one(fmt.Sprintf("https://old.test:%d/page.html", secure), limited.WithEngine(func(c *fetch.Config) { c.AcceptEncoding = "" })); f.Truncated != "length" || len(f.Body) != 1000 {
		t.Errorf("cut: %q %d", f.Truncated, len(f.Body))
	}
}
