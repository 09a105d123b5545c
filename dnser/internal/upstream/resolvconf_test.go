package upstream

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseServer(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.53":        "192.0.2.53:53",
		"192.0.2.53:5353":   "192.0.2.53:5353",
		"2001:db8::53":      "[2001:db8::53]:53",
		"[2001:db8::53]":    "[2001:db8::53]:53",
		"[2001:db8::53]:54": "[2001:db8::53]:54",
		" 127.0.0.1 ":       "127.0.0.1:53",
	} {
		if got, err := ParseServer(text); err != nil || got.String() != want {
			t.Errorf("ParseServer(%q) = %v, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "dns.example", "dns.example:53", "192.0.2.53:", "192.0.2.53:0", "192.0.2.53:99999"} {
		if got, err := ParseServer(text); err == nil {
			t.Errorf("ParseServer(%q) = %v, want an error", text, got)
		}
	}
}

func TestReadResolvConf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	content := "# nameserver 192.0.2.9\nsearch example.org\n\tnameserver   192.0.2.1  \nnameserver nonsense\nnameserver fe80::1%eth0\nnameserver\noptions rotate\n" +
		strings.Repeat("nameserver 192.0.2.2\n", 20)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := ReadResolvConf(path)
	if err != nil || len(got) != maxServers || got[0].String() != "192.0.2.1:53" || got[1].String() != "[fe80::1%eth0]:53" {
		t.Errorf("%v, %v", got, err)
	}
	for name, content := range map[string]string{"empty": "", "none": "search x\n"} {
		p := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadResolvConf(p); err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("%s: error %v does not name the file", name, err)
		}
	}
	if _, err := ReadResolvConf(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("an absent file is no error")
	}
}

func FuzzResolvConf(f *testing.F) {
	f.Add("nameserver 192.0.2.1\nnameserver ::1\n")
	f.Fuzz(func(t *testing.T, text string) {
		servers, _ := parseResolvConf(strings.NewReader(text))
		for _, s := range servers {
			if !s.IsValid() || s.Port() != DefaultPort {
				t.Errorf("bad server %v", s)
			}
		}
	})
}
