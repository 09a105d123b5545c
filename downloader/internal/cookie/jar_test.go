package cookie_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lycosa.dev/downloader/internal/cookie"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// What servers set, and what the next request then carries.
func TestSetAndSend(t *testing.T) {
	for name, c := range map[string]struct {
		at, set string // URL of the response; values separated by newlines
		to      string
		want    string
	}{
		"plain":                {"https://a.test/x/y", "k=v", "https://a.test/x/z", "k=v"},
		"path of the response": {"https://a.test/x/y", "k=v", "https://a.test/other", ""},
		"path":                 {"https://a.test/x", "k=v; Path=/", "https://a.test/", "k=v"},
		"path is no prefix":    {"https://a.test/", "k=v; Path=/ab", "https://a.test/abc", ""},
		"path below":           {"https://a.test/", "k=v; Path=/ab", "https://a.test/ab/c?d", "k=v"},
		"longer paths first":   {"https://a.test/", "a=1; Path=/\nb=2; Path=/x\nc=3; Path=/", "https://a.test/x", "b=2; a=1; c=3"},
		"replaced":             {"https://a.test/", "k=v\nk=w", "https://a.test/", "k=w"},
		"max-age 0 removes":    {"https://a.test/", "k=v\nk=; Max-Age=0", "https://a.test/", ""},
		"max-age wins":         {"https://a.test/", "k=v; Max-Age=100; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "https://a.test/", "k=v"},
		"expired":              {"https://a.test/", "k=v; Expires=Thu, 01-Jan-1970 00:00:00 GMT", "https://a.test/", ""},
		"odd date":             {"https://a.test/", "k=v; Expires=Wed 30 Nov 2050 1:2:3", "https://a.test/", "k=v"},
		"no date":              {"https://a.test/", "k=v; Expires=soon", "https://a.test/", "k=v"},
		"host only":            {"https://a.test/", "k=v", "https://b.a.test/", ""},
		"domain":               {"https://www.a.test/", "k=v; Domain=a.test", "https://b.a.test/", "k=v"},
		"domain with a dot":    {"https://www.a.test/", "k=v; domain=.A.test", "https://a.test/", "k=v"},
		"of another host":      {"https://a.test/", "k=v; Domain=b.test", "https://b.test/", ""},
		"for a public suffix":  {"https://a.co.uk/", "k=v; Domain=co.uk", "https://b.co.uk/", ""},
		"suffix is no domain":  {"https://a.test/", "k=v; Domain=a.test", "https://ba.test/", ""},
		"address":              {"http://127.0.0.1/", "k=v", "http://127.0.0.1/", "k=v"},
		"domain of an address": {"http://127.0.0.1/", "k=v; Domain=0.0.1", "http://127.0.0.1/", ""},
		"secure":               {"https://a.test/", "k=v; Secure", "http://a.test/", ""},
		"secure over http":     {"http://a.test/", "k=v; Secure", "https://a.test/", ""},
		"no name":              {"https://a.test/", "v", "https://a.test/", "v"},
		"empty":                {"https://a.test/", "=", "https://a.test/", ""},
		"value with =":         {"https://a.test/", "k=a=b", "https://a.test/", "k=a=b"},
		"blanks":               {"https://a.test/", "  k  =  v  ;Path=/", "https://a.test/", "k=v"},
		"control":              {"https://a.test/", "k=a\x01b", "https://a.test/", ""},
		"too long":             {"https://a.test/", "k=" + strings.Repeat("v", 5000), "https://a.test/", ""},
		"__Host-":              {"https://a.test/", "__Host-k=v; Secure; Path=/\n__Host-l=v; Secure", "https://a.test/", "__Host-k=v"},
		"__Secure-":            {"https://a.test/", "__secure-k=v", "https://a.test/", ""},
		"last dot":             {"https://a.test./", "k=v", "https://a.test/", "k=v"},
	} {
		t.Run(name, func(t *testing.T) {
			j := cookie.New(1 << 20)
			host, path, secure := split(c.at)
			for v := range strings.SplitSeq(c.set, "\n") {
				j.Set([]byte(v), host, path, secure, now)
			}
			host, path, secure = split(c.to)
			if got := string(j.Append(nil, host, path, secure, now.Add(time.Second))); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func split(url string) (host, path string, secure bool) {
	scheme, rest, _ := strings.Cut(url, "://")
	host, path, _ = strings.Cut(rest, "/")
	return host, "/" + path, scheme == "https"
}

// Set says whether the next request for the same will be another.
func TestChanged(t *testing.T) {
	j := cookie.New(1 << 20)
	for _, c := range []struct {
		set  string
		want bool
	}{
		{"k=v", true}, {"k=v", false}, {"k=w", true}, {"k=; Max-Age=0", true}, {"k=; Max-Age=0", false}, {"x=1; Path=/else", false}, {"y=1; Domain=other.test", false},
	} {
		if got := j.Set([]byte(c.set), "a.test", "/p", true, now); got != c.want {
			t.Errorf("%s: %v", c.set, got)
		}
	}
}

// A jar never grows beyond its bound, whatever servers set; what was used
// lately stays.
func TestBound(t *testing.T) {
	const bound = 100 << 10
	j := cookie.New(bound)
	j.Set([]byte("keep=1"), "keep.test", "/", true, now)
	for i := range 5000 {
		j.Set([]byte(fmt.Sprintf("k%d=%s", i, strings.Repeat("v", i%3000))), fmt.Sprintf("h%d.test", i%97), "/", true, now)
		if j.Size() > bound {
			t.Fatalf("%d bytes", j.Size())
		}
		if i%5 == 0 {
			if got := string(j.Append(nil, "keep.test", "/", true, now)); got != "keep=1" {
				t.Fatalf("what is used was dropped: %q", got)
			}
		}
	}
	j = cookie.New(64 << 20)
	for i := range 1000 {
		j.Set([]byte(fmt.Sprintf("k%d=v", i)), "one.test", "/", true, now)
	}
	if j.Len() > 180 {
		t.Errorf("%d cookies of one host", j.Len())
	}
}

func TestNetscape(t *testing.T) {
	const text = "# Netscape HTTP Cookie File\n" +
		"#HttpOnly_.a.test\tTRUE\t/\tTRUE\t1900000000\tid\tx y\n" +
		".b.test\tTRUE\t/p\tFALSE\t0\tk\tv\n" +
		"c.test\tFALSE\t/\tFALSE\t1900000000\tempty\t\n"
	j := cookie.New(1 << 20)
	n, err := j.ReadNetscape(strings.NewReader("\n# a comment\n"+text+"old.test\tFALSE\t/\tFALSE\t5\tk\tv\r\n"), now)
	if err != nil || n != 3 || j.Len() != 3 {
		t.Fatalf("%d, %v, %d in the jar", n, err, j.Len())
	}
	for to, want := range map[string]string{"https://w.a.test/": "id=x y", "http://w.a.test/": "", "http://b.test/p/q": "k=v", "http://x.c.test/": "", "http://c.test/": "empty="} {
		host, path, secure := split(to)
		if got := string(j.Append(nil, host, path, secure, now)); got != want {
			t.Errorf("%s: %q, want %q", to, got, want)
		}
	}
	var out strings.Builder
	if !j.Dirty() || j.WriteNetscape(&out, now) != nil || j.Dirty() || out.String() != text {
		t.Errorf("written:\n%s", out.String())
	}
	for _, bad := range []string{"a.test TRUE / FALSE 0 secretname secretvalue", "a.test\tTRUE\t/\tFALSE\tsoon\tsecretname\tsecretvalue", "a.test\tTRUE\tx\tFALSE\t0\tsecretname\tsecretvalue"} {
		_, err := cookie.New(1<<20).ReadNetscape(strings.NewReader("\n"+bad), now)
		if err == nil || !strings.Contains(err.Error(), "line 2") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	}
}

// Whatever a server sets: no panic, no line break in what is sent, the bound
// holds, and what is written is read back the same.
func FuzzJar(f *testing.F) {
	for _, s := range []string{"k=v", "k=v; Path=/; Domain=a.test; Max-Age=5; Secure", "=;;=", "__Host-a=b; Secure; Path=/", "k=v; Expires=Wed, 30 Nov 2050 01:02:03 GMT"} {
		f.Add(s, "www.a.test", "/x/y")
	}
	f.Fuzz(func(t *testing.T, set, host, path string) {
		j := cookie.New(8 << 10)
		j.Set([]byte(set), host, path, true, now)
		sent := string(j.Append(nil, host, path, true, now))
		if strings.ContainsAny(sent, "\r\n\x00") || j.Size() > 8<<10 {
			t.Fatalf("%q, %d bytes", sent, j.Size())
		}
		var a, b strings.Builder
		_ = j.WriteNetscape(&a, now)
		k := cookie.New(8 << 10)
		if _, err := k.ReadNetscape(strings.NewReader(a.String()), now); err == nil {
			_ = k.WriteNetscape(&b, now)
			if a.String() != b.String() {
				t.Fatalf("%q\n%q", a.String(), b.String())
			}
		}
	})
}
