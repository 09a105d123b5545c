package job_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"lycosa.dev/internal/job"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

const identity = `
name: x
seeds: [https://a.test/]
fetch:
  min_rate_bytes: 0
  max_decoded_bytes: 10MiB
  http2: false
  cookies: true
  cookies_secret: jar
  host_headers: [{host: "*.a.test", headers: ["X-A: b"]}]
  credentials:
    - {host: a.test, kind: digest, user: me, secret: a-password}
    - {host: "b.test:8443", kind: certificate, secret: b_pem}
  proxies:
    - {host: "*", urls: ["http://127.0.0.1:3128", "socks5h://[::1]"], user: u, secret: p}
    - {host: c.test, urls: [direct]}
`

func TestFetchSettings(t *testing.T) {
	spec, err := job.ParseYAML("x.yaml", []byte(identity))
	if err != nil {
		t.Fatal(err)
	}
	again, err := job.ParseYAML("y.yaml", job.MarshalYAML(spec))
	if err != nil || !proto.Equal(spec, again) {
		t.Errorf("written and read again: %v, %v", again, err)
	}
	e := job.WithDefaults(spec, "1")
	if err := job.Validate(e); err != nil {
		t.Fatal(err)
	}
	f := e.GetFetch()
	if f.GetMinRateBytes() != 0 || f.GetMaxDecodedBytes() != 10<<20 || f.GetMaxDecodedRatio() != job.DefaultMaxDecodedRatio || f.GetHttp2() || !f.GetLegacyTls() || f.GetHeadTimeout().AsDuration() != job.DefaultHeadTimeout {
		t.Errorf("%v", f)
	}
	if d := job.WithDefaults(&jobv1.Spec{}, "1").GetFetch(); d.GetMinRateBytes() != job.DefaultMinRateBytes || !d.GetHttp2() || d.GetCookies() {
		t.Errorf("%v", d)
	}
}

func TestFetchSettingsThatAreWrong(t *testing.T) {
	bad := &jobv1.Spec{Name: "x", Fetch: &jobv1.Fetch{
		MinRateBytes: proto.Int64(-1), MaxDecodedBytes: -1, MaxCookieBytes: 1 << 40, AcceptLanguage: "a\r\nb", CookiesSecret: "../x",
		HostHeaders: []*jobv1.HostHeaders{{Host: "A.test", Headers: []string{"no"}}},
		Credentials: []*jobv1.Credential{{Host: "*", Kind: "bsic", User: "a", Secret: "my password!"}},
		Proxies:     []*jobv1.ProxyRule{{Host: "x/y", Urls: []string{"http://user:hidden@p.test:1", "ftp://p.test"}}, {Host: "*"}},
	}}
	err := job.Validate(job.WithDefaults(bad, "1"))
	for _, want := range []string{
		"fetch.min_rate_bytes:", "fetch.max_decoded_bytes:", "fetch.max_cookie_bytes:", "fetch.accept_language:", "fetch.cookies_secret:",
		"fetch.host_headers[0].host:", "fetch.host_headers[0].headers[0]:", "fetch.credentials[0].host:", `did you mean "basic"`,
		"fetch.credentials[0].secret:", "fetch.proxies[0].host:", "fetch.proxies[0].urls[0]:", "fetch.proxies[0].urls[1]:", "fetch.proxies[1].urls:",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "hidden") {
		t.Errorf("a password is in %v", err)
	}
}

func TestMatchHost(t *testing.T) {
	for _, c := range []struct {
		pattern, host string
		want          bool
	}{
		{"*", "a.test", true}, {"a.test", "a.test", true}, {"a.test", "a.test:8080", true}, {"a.test:8080", "a.test:8080", true},
		{"a.test:8080", "a.test", false}, {"*.a.test", "b.a.test:1", true}, {"*.a.test", "a.test", false}, {"*.a.test", "ba.test", false},
		{"[::1]", "[::1]:80", true}, {"[::1]", "[::1]", true},
	} {
		if got := job.MatchHost(c.pattern, c.host); got != c.want {
			t.Errorf("%s, %s: %v", c.pattern, c.host, got)
		}
	}
}
