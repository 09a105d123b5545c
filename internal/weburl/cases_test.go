package weburl

import (
	"strings"
	"testing"

	"lycosa.dev/internal/casefiles"
)

type urlCase struct {
	In       string  `json:"in"`
	Base     *string `json:"base"`
	Expected *string `json:"expected"`
	Failure  bool    `json:"failure"`
	Rule     string  `json:"rule"`
	Source   string  `json:"source"`
}

// parseAgainst parses in, against a base if there is one.
func parseAgainst(t *testing.T, in string, base *string) (URL, error) {
	t.Helper()
	if base == nil {
		return Parse(in)
	}
	b, err := Parse(*base)
	if err != nil {
		t.Fatalf("base %q: %v", *base, err)
	}
	return b.Resolve(in)
}

func TestWHATWGCases(t *testing.T) {
	for _, file := range []string{"url/wpt_urls.jsonl", "url/resolve.jsonl", "url/canon_whatwg.jsonl"} {
		t.Run(file, func(t *testing.T) {
			for _, c := range casefiles.Lines[urlCase](t, file) {
				u, err := parseAgainst(t, c.In, c.Base)
				if c.Expected == nil {
					if err == nil {
						t.Errorf("%q (base %v): got %q, want failure", c.In, c.Base, u)
					}
					continue
				}
				if err != nil {
					t.Errorf("%q: %v, want %q", c.In, err, *c.Expected)
					continue
				}
				if u.String() != *c.Expected && u.WithoutFragment().String() != *c.Expected {
					t.Errorf("%q (base %v): got %q, want %q", c.In, c.Base, u, *c.Expected)
				}
				checkParts(t, u)
				checkTwoWays(t, c.In, c.Base)
			}
		})
	}
}

// checkParts holds a URL to what every URL must satisfy.
func checkParts(t interface{ Errorf(string, ...any) }, u URL) {
	href := u.String()
	again, err := Parse(href)
	if err != nil || again != u {
		t.Errorf("Parse(%q) = %#v, %v; want %#v", href, again, err, u)
	}
	if slow, err := parse(href, nil, nil); err != nil || slow != u {
		t.Errorf("parse(%q) = %#v, %v; want %#v", href, slow, err, u)
	}
	if !isASCII(href) {
		t.Errorf("%q is not ASCII", href)
	}
	c := u.Canonical()
	if c.HasFragment() || c.HasCredentials() {
		t.Errorf("canonical %q of %q keeps a fragment or credentials", c, u)
	}
	if cc := c.Canonical(); cc != c {
		t.Errorf("canonical of %q: %q, then %q", u, c, cc)
	}
	if p, err := ParseCanonical(c.String()); err != nil || p != c {
		t.Errorf("ParseCanonical(%q) = %#v, %v; want %#v", c, p, err, c)
	}
	if c.IsHTTP() {
		if c.Scheme()+"://"+c.HostKey()+c.RequestTarget() != c.String() || c.Origin() != c.Scheme()+"://"+c.HostKey() {
			t.Errorf("parts of %q do not make it up: %q %q %q", c, c.Origin(), c.HostKey(), c.RequestTarget())
		}
		key := c.Hostname()
		if c.Port() != "" {
			key += ":" + c.Port()
		}
		if key != c.HostKey() || c.Path()[0] != '/' || strings.ContainsAny(c.RequestTarget(), " \"<>\\^`{}|#") {
			t.Errorf("%q is not in canonical form", c)
		}
	}
	_, _, _, _ = u.SURT(), u.SURTKey(), u.SURTPrefix(), u.SURTDomainPrefix()
	_, _, _ = u.RegistrableDomain(), u.IsIP(), u.PortNumber()
}

// checkTwoWays compares the one-pass reader with the standard's parser followed
// by Canonical.
func checkTwoWays(t interface{ Errorf(string, ...any) }, in string, base *string) {
	var b URL
	if base != nil {
		b, _ = Parse(*base)
	}
	want, err := parse(in, &b, nil)
	if err != nil || !want.IsHTTP() {
		want = URL{}
	}
	want = want.Canonical()
	got, ok := NewResolver(b, nil).ResolveString(in)
	if ok == want.IsZero() || got != want {
		t.Errorf("Resolver(%q).Resolve(%q) = %#v, %v; want %#v", b, in, got, ok, want)
	}
	if base != nil {
		return
	}
	want, err = parse(in, nil, nil)
	got, err2 := ParseCanonical(in)
	if (err == nil) != (err2 == nil) || got != want.Canonical() {
		t.Errorf("ParseCanonical(%q) = %#v, %v; want %#v, %v", in, got, err2, want.Canonical(), err)
	}
	got, err2 = Parse(in)
	if (err == nil) != (err2 == nil) || got != want {
		t.Errorf("Parse(%q) = %#v, %v; want %#v, %v", in, got, err2, want, err)
	}
}
