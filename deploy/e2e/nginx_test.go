package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lycosa.dev/internal/testdeps"
)

// nginx is a real web server that serves a folder; its access log is the
// oracle.
type nginx struct {
	addr string
	log  string
	proc *process
}

// hit is one line of nginx's log.
type hit struct {
	uri    string
	status int
	agent  string
}

// startNginx serves root on a loopback port, or skips the test where there is
// no nginx.
func startNginx(t testing.TB, root string) *nginx {
	t.Helper()
	path := testdeps.Program(t, "nginx")
	mime := "/etc/nginx/mime.types"
	if _, err := os.Stat(mime); err != nil {
		testdeps.Missing(t, "nginx without its mime.types: %v", err)
	}
	dir := t.TempDir()
	n := &nginx{addr: freeAddrs(t, 1)[0], log: filepath.Join(dir, "access.log")}
	user := ""
	if os.Getuid() == 0 {
		user = "user root;" // the folder may be readable to root alone
	}
	conf := fmt.Sprintf(`
daemon off;
master_process off;
%[1]s
pid %[2]s/pid;
error_log %[2]s/error.log;
events { worker_connections 512; }
http {
	include %[3]s;
	default_type application/octet-stream;
	log_format hits '$status	$request_uri	$http_user_agent';
	access_log %[2]s/access.log hits;
	client_body_temp_path %[2]s/t1; proxy_temp_path %[2]s/t2; fastcgi_temp_path %[2]s/t3; uwsgi_temp_path %[2]s/t4; scgi_temp_path %[2]s/t5;
	gzip on;
	gzip_types text/css application/javascript;
	gzip_min_length 1000;
	absolute_redirect off;
	server {
		listen %[4]s;
		root %[5]s;
		index index.html;
	}
}
`, user, dir, mime, n.addr, root)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	n.proc = startProcess(t, nil, path, "-c", file, "-p", dir, "-e", filepath.Join(dir, "error.log"))
	eventually(t, 10*time.Second, "nginx listens", func() bool {
		if !n.proc.running() {
			t.Fatalf("nginx ended: %s%s", n.proc.out.String(), n.proc.err.String())
		}
		c, err := net.DialTimeout("tcp", n.addr, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return n
}

// stop ends nginx, so that its log is whole.
func (n *nginx) stop() {
	n.proc.signal(syscall.SIGTERM)
	n.proc.exitsWithin(10 * time.Second)
}

// hits reads the log's lines of user agents that contain agent.
func (n *nginx) hits(t testing.TB, agent string) []hit {
	t.Helper()
	b, err := os.ReadFile(n.log)
	if err != nil {
		t.Fatal(err)
	}
	var out []hit
	for line := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 3 {
			t.Fatalf("nginx's log has the line %q", line)
		}
		status, err := strconv.Atoi(f[0])
		if err != nil {
			t.Fatalf("nginx's log has the line %q", line)
		}
		if strings.Contains(f[2], agent) {
			out = append(out, hit{uri: f[1], status: status, agent: f[2]})
		}
	}
	return out
}
