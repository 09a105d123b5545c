package linkscan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lycosa.dev/internal/charset"
)

func TestSrcset(t *testing.T) {
	for in, want := range map[string]string{
		"":                                     "",
		" , ,, ":                               "",
		"a":                                    "a",
		"a, b":                                 "a b",
		"a,b":                                  "a,b",
		"a,, b":                                "a b",
		",a 1x,b 2x":                           "a b",
		"a 1x,, b 2x":                          "a b",
		"data:,x 1x, b":                        "data:,x b",
		"a 100w, b 2x":                         "a b",
		"a 1w 2w, b":                           "b",
		"a 0w, b -1w, c 1.5w, d +1w, e w, f 1": "",
		"a 1.5x, b .5x, c 1e3x, d -0x, e 0x":   "a b c d e",
		"a -1x, b 1.x, c 1ex, d x, e +1x":      "",
		"a 1h, b 1w 1h, c 1x 1h":               "b",
		"a (1x, 2x) 1x, b":                     "b",
		"a (, b":                               "",
		"a 1x 2x, b\t2x\n,c":                   "b c",
	} {
		var got []string
		for v := []byte(in); ; {
			u, rest, ok := nextCandidate(v)
			if !ok {
				break
			}
			if v = rest; len(u) > 0 {
				got = append(got, string(u))
			}
		}
		if g := strings.Join(got, " "); g != want {
			t.Errorf("%q: got %q, want %q", in, g, want)
		}
	}
}

func TestRefresh(t *testing.T) {
	for in, want := range map[string]string{
		"5":                  "5s ",
		" 0 ":                "0s ",
		"0;":                 "0s ",
		"0; url=x":           "0s x",
		"0;URL = 'x y' z":    "0s x y",
		`0,url="x`:           "0s x",
		"0 url=x":            "0s x",
		"1.9;url=x":          "1s x",
		".5; x":              "0s x",
		"0; x":               "0s x",
		"0; 'x'":             "0s x",
		"0; url x":           "0s url x",
		"0; ur":              "0s ur",
		"0; url=":            "0s ",
		"99999999999999; x":  "8760h0m0s x",
		"0;; url=x":          "0s ; url=x",
		"x; url=y":           "no",
		"-1; url=y":          "no",
		"5x; url=y":          "no",
		"":                   "no",
		"; url=y":            "no",
		"3;\n\turl\f=\r'y'z": "3s y",
	} {
		got := "no"
		if d, ok := ParseRefresh(in); ok {
			got = fmt.Sprintf("%s %s", d.After, d.URL)
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if d, _ := ParseRefresh("7"); d.After != 7*time.Second {
		t.Errorf("got %v", d.After)
	}
}

func TestCSS(t *testing.T) {
	for in, want := range map[string]string{
		`a{b:url(x)}`:                         "x",
		`a{b:url( "x" )} c{d:URL( 'y' )}`:     "x y",
		`a{b:url(x y)} c{d:url(z)}`:           "z",
		`a{b:url(x'y)} c{d:url(z)}`:           "z",
		`a{b:url(x(y)} c{d:url(z)}`:           "z",
		`a{b:url(x\)y\20z)}`:                  "x)y z",
		`a{b:u\72l(x) u\000072 l(y)}`:         "x y",
		`a{b:url("x\"y\` + "\n" + `z\41 b")}`: `x"yzAb`,
		"a{b:url('x\n) c:url(y)}":             "y",
		`/* url(x) */ a{b:url(y)}`:            "y",
		`a{b:"url(x)" 'url(y)'; c:url(z)}`:    "z",
		`a{b:url(x`:                           "x",
		`a{b:url()} c{d:url("")}`:             "",
		`a{fill:url(#x)}`:                     "",
		`a{b:myurl(x) -url(y) url-(z)}`:       "",
		`#url(x) .url(y) 1url(z)`:             "",
		`@import "x"; @import url(y) screen; @IMPORT url("z") layer(l) supports(a: "q");`: "+x +y +z",
		`@import "x" "y";`: "+x",
		`@charset "x"; @namespace url(y); @font-face{src:url(z) format("w")}`: "z",
		`a{b:image-set("x" 1x, url(y) 2x type("z"))} c{d:"w"}`:                "x y",
		`a{b:-webkit-image-set('x' 1x)}`:                                      "x",
		`@imp\6frt "x";`:                                                      "+x",
		`a{b:src("x")}`:                                                       "x",
		`a{b:url(/**/x)}`:                                                     "/**/x",
		`<!-- a{b:url(x)} -->`:                                                "x",
		`a{b:url(data:image/png;base64,AA==)}`:                                "data:image/png;base64,AA==",
		`/* url(x)`:                                                           "",
		`\`:                                                                   "",
		`a\`:                                                                  "",
		`url(\`:                                                               "",
		`"\`:                                                                  "",
	} {
		var s Scanner
		var got []string
		s.ScanCSS([]byte(in), Options{}, func(l Link) {
			u := string(l.URL)
			if l.Rel&RelStylesheet != 0 {
				u = "+" + u
			}
			got = append(got, u)
		})
		if g := strings.Join(got, " "); g != want {
			t.Errorf("%q: got %q, want %q", in, g, want)
		}
	}
	// A style attribute is a list of declarations, decoded from its references.
	equal(t, found(`<p style="@import 'x'; a: url(&quot;y&amp;z&quot;)">`, Options{}), []string{"style.style y&z"})
}

func FuzzCSS(f *testing.F) {
	for _, s := range []string{`@import url("x\41"); a{b:image-set('y' 1x)}`, `a{b:u\72l(x\)y)}`, `/**/"\`, `url(\`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, css []byte) {
		var s Scanner
		s.ScanCSS(css, Options{}, func(l Link) {
			if len(l.URL) == 0 || len(l.URL) > 3*len(css) {
				t.Errorf("%q gave %q", css, l.URL)
			}
		})
	})
}

func TestHeaderLinks(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"location", " /x y ", "location /x y 0"},
		{"Location", "", ""},
		{"Content-Location", "a", "content-location a 0"},
		{"Refresh", "5; url=b", "refresh b 0"},
		{"Refresh", "5", ""},
		{"X-Other", "a", ""},
		{"Link", `<a>; rel=next, <b>; rel="prev stylesheet"`, "link a 0, link b 1"},
		{"Link", `<a,b;c>; title="x, <y>; rel=\"z\""; REL = "Next"`, "link a,b;c 0"},
		{"Link", `<a>; rel=next; rel=stylesheet`, "link a 0"},
		{"Link", `<a>`, ""},
		{"Link", `<a>; rel=preconnect, <b>;rel=preload;as=style`, "link b 1"},
		{"Link", `<a>; rel="next, <b>; rel=next`, "link a 0"},
		{"Link", `, ,<a>;;rel=next junk, x <b> ; rel*=x; rel=icon,`, "link a 0, link b 1"},
		{"Link", `<a`, ""},
		{"Link", `<a>; rel`, ""},
		{"Link", `< a >; rel=canonical; crossorigin; x=y`, "link a 0"},
	} {
		var got []string
		for _, l := range HeaderLinks(nil, c.name, c.value) {
			if l.Element != ElementHeader {
				t.Errorf("%s: element %s", c.value, l.Element)
			}
			got = append(got, fmt.Sprintf("%s %s %d", l.Attr, l.URL, l.Kind))
		}
		if g := strings.Join(got, ", "); g != c.want {
			t.Errorf("%s: %s\ngot  %q\nwant %q", c.name, c.value, g, c.want)
		}
	}
	l := HeaderLinks(nil, "Link", `<f>; rel=alternate; type="application/atom+xml"`)
	if len(l) != 1 || l[0].Rel != RelAlternate|RelFeed {
		t.Errorf("feed: %+v", l)
	}
}

func TestCharset(t *testing.T) {
	for _, c := range []struct{ html, charset, want string }{
		{"<a href='/\xe9?\xe9'>", "latin1", "/é?é"},
		{"<a href=/\xd6\xd0\xce\xc4/&eacute;>", "gbk", "/中文/é"},
		{"<a href=\"/\x83\x5c\">", "shift_jis", "/ソ"}, // the second byte is a backslash
		{"<a href=\"/\xff\">", "utf-8", "/\ufffd"},
		{"<style>a{b:url(\xe9)}</style>", "windows-1252", "é"},
	} {
		var s Scanner
		for range 2 {
			l, _ := s.Collect([]byte(c.html), Options{Charset: charset.Lookup(c.charset)})
			if len(l) != 1 || string(l[0].URL) != c.want {
				t.Errorf("%q in %s: got %+v, want %q", c.html, c.charset, l, c.want)
			}
			s.Collect([]byte("<a href='\xe9'>"), Options{Charset: charset.Lookup("koi8-r")})
		}
	}
}
