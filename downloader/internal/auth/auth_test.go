package auth

import (
	"strings"
	"testing"
)

func TestBasicAndBearer(t *testing.T) {
	a := New([]Credential{{Host: "a.test", Kind: "basic", User: "Aladdin", Secret: "open sesame"}, {Host: "*.b.test:8443", Kind: "bearer", Secret: "tok"}, {Host: "*.c.test", Kind: "bearer", Secret: "tik"}})
	for host, want := range map[string]string{"a.test": "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "a.test:81": "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "x.c.test": "Bearer tik", "c.test": "", "other.test": ""} {
		if got := string(a.Append(nil, host, "/")); got != want {
			t.Errorf("%s: %q", host, got)
		}
	}
	if (*Auth)(nil).Append(nil, "a.test", "/") != nil || (*Auth)(nil).Answered("a.test", 401, nil, false) {
		t.Error("a nil Auth knows somebody")
	}
}

// The examples of RFC 7616 section 3.9.1 and RFC 2617 section 3.5.
func TestDigestExamples(t *testing.T) {
	const header = `Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm=%, nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"`
	const cnonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"
	for algorithm, want := range map[string]string{
		"SHA-256": "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1",
		"MD5":     "8ca523f5e9506fed4657c9700eebdbec",
	} {
		c := choose([]string{"Basic realm=x", strings.Replace(header, "%", algorithm, 1)})
		if c == nil {
			t.Fatal(algorithm)
		}
		c.count = 1
		got := c.answer(&Credential{User: "Mufasa", Secret: "Circle of Life"}, "/dir/index.html", cnonce)
		if !strings.Contains(got, `response="`+want+`"`) || !strings.Contains(got, `nc=00000001`) || !strings.Contains(got, `uri="/dir/index.html"`) {
			t.Errorf("%s: %s", algorithm, got)
		}
	}
	c := choose([]string{`Digest realm="testrealm@host.com", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093"`}) // RFC 2069 form
	if got := c.answer(&Credential{User: "Mufasa", Secret: "Circle Of Life"}, "/dir/index.html", ""); !strings.Contains(got, `response="670fd8c2df070c60b045671b8b24ff02"`) {
		t.Error(got)
	}
}

func TestChallenges(t *testing.T) {
	for in, want := range map[string]string{
		`Digest realm="a", nonce="n1", algorithm=MD5, Digest realm="a", nonce="n2", algorithm=SHA-256`: "n2",
		`Negotiate, Digest realm="a",nonce=n`:           "n",
		`Digest realm="a, Digest nonce=\"x\"", nonce=b`: "b",
		`Digest nonce="n", qop="auth-int"`:              "",
		`Digest nonce="n", algorithm=MD6`:               "",
		`Digest realm="a"`:                              "",
		`Basic realm="a", nonce="n"`:                    "",
		`"=,=,Digest`:                                   "",
		``:                                              "",
	} {
		got := ""
		if c := choose([]string{in}); c != nil {
			got = c.nonce
		}
		if got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

// A challenge is answered; a wrong password is sent once; a server that calls
// every nonce stale does not make us go round for ever.
func TestAnswered(t *testing.T) {
	a := New([]Credential{{Host: "a.test", Kind: "digest", User: "u", Secret: "p"}})
	ask := []string{`Digest realm="r", nonce="n", qop="auth"`}
	stale := []string{`Digest realm="r", nonce="m", qop="auth", stale=true`}
	if len(a.Append(nil, "a.test", "/")) != 0 {
		t.Error("an answer without a challenge")
	}
	if a.Answered("b.test", 401, ask, false) || a.Answered("a.test", 401, []string{"Basic realm=x"}, false) || a.Answered("a.test", 200, nil, false) {
		t.Error("again for nothing")
	}
	if !a.Answered("a.test", 401, ask, false) {
		t.Fatal("the challenge is not answered")
	}
	first, second := string(a.Append(nil, "a.test", "/")), string(a.Append(nil, "a.test", "/"))
	if !strings.Contains(first, "nc=00000001") || !strings.Contains(second, "nc=00000002") || strings.Contains(first, `"p"`) {
		t.Errorf("%s\n%s", first, second)
	}
	rounds := 0
	for a.Answered("a.test", 401, stale, true) {
		if rounds++; rounds > 10 {
			t.Fatal("for ever")
		}
	}
	a = New(a.list)
	a.Answered("a.test", 401, ask, false)
	if a.Answered("a.test", 401, ask, true) || len(a.Append(nil, "a.test", "/")) != 0 {
		t.Error("a wrong password is sent again")
	}
}

func FuzzChallenge(f *testing.F) {
	f.Add(`Digest realm="a, b", nonce="n\"", qop="auth"`)
	f.Add(`Basic realm=x, Digest nonce==`)
	f.Fuzz(func(t *testing.T, s string) {
		if c := choose([]string{s}); c != nil {
			if got := c.answer(&Credential{User: "u", Secret: "p"}, "/", "c"); strings.ContainsAny(got, "\r\n\x00") {
				t.Fatalf("%q", got)
			}
		}
	})
}
