package fetch_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lycosa.dev/downloader/internal/fetch"
	"lycosa.dev/downloader/internal/wire"
	"lycosa.dev/internal/testdeps"
)

// openssl runs `openssl s_server -WWW` with the given options until the test
// ends, and returns its address.
func openssl(t *testing.T, options ...string) netip.AddrPort {
	t.Helper()
	bin := testdeps.Program(t, "openssl")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "page.html"), []byte("<p>hello</p>"), 0o600); err != nil {
		t.Fatal(err)
	}
	key, cert := filepath.Join(dir, "key.pem"), filepath.Join(dir, "cert.pem")
	out, err := exec.Command(bin, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "3",
		"-subj", "/CN=old.test", "-addext", "subjectAltName=DNS:old.test").CombinedOutput()
	if err != nil {
		t.Fatalf("openssl req: %v\n%s", err, out)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := lis.Addr().(*net.TCPAddr).AddrPort()
	lis.Close()
	cmd := exec.Command(bin, append([]string{"s_server", "-accept", addr.String(), "-key", key, "-cert", cert, "-WWW", "-quiet"}, options...)...)
	cmd.Dir = dir
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for range 200 {
		if c, err := net.DialTimeout("tcp", addr.String(), time.Second); err == nil {
			c.Close()
			return addr
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("openssl s_server %v does not listen: %s", options, log.String())
	return addr
}

// Real servers of every age: what they speak is found, recorded, and said in
// words where it does not work.
func TestServersOfEveryAge(t *testing.T) {
	const weak = "ALL:COMPLEMENTOFDEFAULT:@SECLEVEL=0"
	for _, c := range []struct {
		name    string
		options []string
		strict  bool
		modern  bool // without the fallback
		tls     string
		legacy  bool
		code    string
	}{
		{name: "1.3", options: []string{"-tls1_3"}, tls: "TLS1.3 "},
		{name: "1.2", options: []string{"-tls1_2"}, tls: "TLS1.2 TLS_ECDHE_"},
		{name: "1.1", options: []string{"-tls1_1", "-cipher", weak}, tls: "TLS1.1 ", legacy: true},
		{name: "1.0", options: []string{"-tls1", "-cipher", weak}, tls: "TLS1.0 ", legacy: true},
		{name: "1.2, RSA key exchange only", options: []string{"-tls1_2", "-cipher", "AES128-SHA:@SECLEVEL=0"}, tls: "TLS1.2 TLS_RSA_WITH_AES_128_CBC_SHA", legacy: true},
		{name: "1.0 without the fallback", options: []string{"-tls1", "-cipher", weak}, modern: true, code: "tls-version"},
		{name: "a cipher suite nobody has", options: []string{"-tls1_2", "-cipher", "ECDHE-RSA-CAMELLIA128-SHA256:@SECLEVEL=0"}, code: "tls-ciphers"},
		{name: "self-signed, strict", options: []string{"-tls1_3"}, strict: true, code: "certificate-invalid"},
		{name: "1.0, self-signed, strict", options: []string{"-tls1", "-cipher", weak}, strict: true, code: "certificate-invalid"},
		{name: "client certificate demanded", options: []string{"-tls1_2", "-Verify", "1", "-verify_return_error"}, code: "tls-ciphers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			addr := openssl(t, c.options...)
			cfg := config()
			cfg.LegacyTLS = !c.modern
			if !c.strict {
				cfg.Verify = fetch.VerifyRecord
			}
			e := engine(t, cfg)
			target, _ := fetch.ParseTarget("https://old.test/page.html")
			target.Port = addr.Port()
			var facts *fetch.TLSFacts
			req := &fetch.Request{Target: target, Addresses: []netip.Addr{addr.Addr()}, Facts: func(f *fetch.TLSFacts) { facts = f }}
			var p page
			res := e.Fetch(context.Background(), req, &p)
			if c.code != "" {
				if res.Class != fetch.ClassTLS || res.Code != c.code && !(strings.HasPrefix(c.name, "client") && strings.HasPrefix(res.Code, "tls-")) || len(res.Detail) < 20 {
					t.Errorf("%v %s: %s", res.Class, res.Code, res.Detail)
				}
				return
			}
			if res.Class != fetch.ClassResponse || !strings.Contains(p.body, "<p>hello</p>") {
				t.Fatalf("%+v %q", res, p.body)
			}
			if !strings.HasPrefix(res.TLS, c.tls) || (res.Notes&wire.NoteLegacyTLS != 0) != c.legacy {
				t.Errorf("%q %v", res.TLS, res.Notes.Codes())
			}
			if facts == nil || facts.Legacy != c.legacy || fmt.Sprint(facts.Names) != "[old.test]" || facts.NotAfter.Before(time.Now()) || facts.Problem == "" {
				t.Errorf("%+v", facts)
			}
			dials := e.Stats().Dials
			if res := e.Fetch(context.Background(), req, &page{}); res.Class != fetch.ClassResponse || e.Stats().Dials != dials+1 || c.legacy == (dials == 1) {
				t.Errorf("again: %+v, %d connections", res, e.Stats().Dials)
			}
			// s_server keeps no session for TLS 1.0 and 1.1 with every build.
			if st := e.Stats(); !c.legacy && st.Resumed == 0 {
				t.Errorf("the session was not resumed: %+v", st)
			}
		})
	}
}
