package profile_test

import (
	"strings"
	"testing"
	"time"

	"lycosa.dev/downloader/internal/fetch"
	"lycosa.dev/downloader/internal/profile"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// What a job says of itself becomes settings; secrets come from where the
// downloader's owner put them, and are in no error.
func TestIdentity(t *testing.T) {
	t.Setenv("LYCOSA_SECRET_PW", "hidden")
	t.Setenv("LYCOSA_SECRET_JAR", "h.test\tFALSE\t/\tFALSE\t0\tk\tv\n")
	t.Setenv("LYCOSA_SECRET_LINE", "X-Key: hidden")
	p := profile.New(profile.Options{Base: fetch.Default().Settings})
	spec := &jobv1.Spec{Fetch: &jobv1.Fetch{
		Cookies: true, CookiesSecret: "jar", StoreSecrets: true, AcceptLanguage: "de",
		HostHeaders: []*jobv1.HostHeaders{{Host: "a.test", Headers: []string{"X-A: b"}}},
		Credentials: []*jobv1.Credential{{Host: "a.test", Kind: "basic", User: "u", Secret: "pw"}, {Host: "b.test", Kind: "header", Secret: "line"}},
		Proxies: []*jobv1.ProxyRule{
			{Host: "in.test", Urls: []string{"direct"}},
			{Host: "*", Urls: []string{"socks5h://p.test", "http://q.test:8080"}, User: "u", Secret: "pw"},
		},
	}}
	s, err := p.For(&schedulerv1.JobSpec{JobId: "a", SpecVersion: 1, Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(s.Jar.Append(nil, "h.test", "/", false, time.Now())); got != "k=v" {
		t.Errorf("cookies %q", got)
	}
	if got := string(s.Auth.Append(nil, "a.test", "/")); got != "Basic dTpoaWRkZW4=" {
		t.Errorf("auth %q", got)
	}
	if len(s.HostHeaders) != 2 || s.HostHeaders[0].Secret || !s.HostHeaders[1].Secret || !s.StoreSecrets || s.AcceptLanguage != "de" {
		t.Errorf("%+v", s.HostHeaders)
	}
	if u, _ := s.Proxies.Pick("in.test", time.Now()); u != nil {
		t.Errorf("a direct host goes through %v", u)
	}
	if u, remote := s.Proxies.Pick("x.test", time.Now()); u == nil || u.String() != "socks5h://p.test:1080" || !remote || u.Password != "hidden" {
		t.Errorf("%v %v", u, remote)
	}
	next, _ := p.For(&schedulerv1.JobSpec{JobId: "a", SpecVersion: 2, Spec: spec})
	other, _ := p.For(&schedulerv1.JobSpec{JobId: "b", SpecVersion: 1, Spec: spec})
	if next.Jar != s.Jar || other.Jar == s.Jar {
		t.Error("a jar belongs to a job, whatever the version of its spec")
	}
	for i, bad := range []*jobv1.Fetch{
		{Credentials: []*jobv1.Credential{{Host: "a.test", Kind: "basic", User: "u", Secret: "none"}}},
		{Credentials: []*jobv1.Credential{{Host: "a.test", Kind: "certificate", Secret: "pw"}}},
		{Credentials: []*jobv1.Credential{{Host: "a.test", Kind: "header", Secret: "pw"}}},
		{Proxies: []*jobv1.ProxyRule{{Host: "*", Urls: []string{"direct", "http://q.test"}}}},
		{Cookies: true, CookiesSecret: "pw"},
	} {
		_, err := p.For(&schedulerv1.JobSpec{JobId: "bad" + string(rune('a'+i)), SpecVersion: 1, Spec: &jobv1.Spec{Fetch: bad}})
		if err == nil || strings.Contains(err.Error(), "hidden") || !strings.Contains(err.Error(), "job bad") {
			t.Errorf("%d: %v", i, err)
		}
	}
}
