package linkscan

import (
	"fmt"
	"strings"
	"testing"
)

// found scans html and returns "element.attr url" lines.
func found(html string, opt Options) []string {
	var s Scanner
	var out []string
	s.Scan([]byte(html), opt, func(l Link) { out = append(out, line(l)) })
	return out
}

func line(l Link) string {
	k := ""
	if l.Inert {
		k = " inert"
	}
	return fmt.Sprintf("%s.%s %s%s", l.Element, l.Attr, l.URL, k)
}

const all = Default | Forms | Data | Cites | Conditional

func TestTokens(t *testing.T) {
	for _, c := range []struct {
		name, html string
		want       []string
	}{
		{"double quotes", `<a href="x">`, []string{"a.href x"}},
		{"single quotes", `<a href='x"y'>`, []string{`a.href x"y`}},
		{"no quotes", `<a href=x/>`, []string{"a.href x/"}},
		{"no quotes, quote inside", `<a href=x"y'z>`, []string{`a.href x"y'z`}},
		{"space around =", "<a href\n=\t x>", []string{"a.href x"}},
		{"upper case", `<A HREF=x><ArEa hReF=y>`, []string{"a.href x", "area.href y"}},
		{"solidus between", `<a/href=x/id=1>`, []string{"a.href x/id=1"}},
		{"solidus and space", `<a / href=x>`, []string{"a.href x"}},
		{"value without space behind", `<a id="1"href="x">`, []string{"a.href x"}},
		{"first of two counts", `<a href=x href=y HREF=z>`, []string{"a.href x"}},
		{"name begins with =", `<a =href=x href=y>`, []string{"a.href y"}},
		{"name alone", `<a href>`, []string{"a.href "}},
		{"name alone with another", `<a href id=x>`, []string{"a.href "}},
		{"= alone", `<a href=>`, []string{"a.href "}},
		{"> in a value", `<a title="a>b" href=x>`, []string{"a.href x"}},
		{"quote in a name", `<a ti"tle href=x>`, []string{"a.href x"}},
		{"cut tag", `<a href="x"`, nil},
		{"cut value", `<a href="x><a href='y'>`, nil},
		{"no tag", `< a href=x> <1 href=x>`, nil},
		{"name goes on", `<abbr href=x><a:b href=x><aa href=x>`, nil},
		{"NUL in a name", "<a\x00 href=x>", nil},
		{"NUL in a value", "<a href=x\x00y>", []string{"a.href x\ufffdy"}},
		{"new lines", "<a href='x\r\ny\rz'>", []string{"a.href x\ny\nz"}},
		{"end tag with attributes", `</a href=x><a href=y>`, []string{"a.href y"}},
		{"end tag with > in a value", `</a b="><a href=x>"><a href=y>`, []string{"a.href y"}},
		{"comment", `<!-- <a href=x> --><a href=y>`, []string{"a.href y"}},
		{"comment ends with --!>", `<!-- <a href=x> --!><a href=y>`, []string{"a.href y"}},
		{"empty comments", `<!--><a href=x><!---><a href=y><!----><a href=z>`, []string{"a.href x", "a.href y", "a.href z"}},
		{"comment, dash and !", `<!--!><a href=x>--><!---!><a href=x>--><a href=y>`, []string{"a.href y"}},
		{"comment, many dashes", `<!-- a ----><a href=y>`, []string{"a.href y"}},
		{"comment, --!- is no end", `<!-- --!-> <a href=x> --><a href=y>`, []string{"a.href y"}},
		{"comment in a comment", `<!-- <!-- --><a href=y>-->`, []string{"a.href y"}},
		{"cut comment", `<!-- <a href=x>`, nil},
		{"bogus comments", `<!x <a href=x><?php <a href=x></ <a href=x><a href=y>`, []string{"a.href y"}},
		{"empty end tag", `</><a href=y>`, []string{"a.href y"}},
		{"doctype", `<!DOCTYPE html "<a href=x>"><a href=y>`, []string{"a.href y"}},
		{"CDATA is bogus in HTML", `<![CDATA[<a href=x>]]><a href=y>`, []string{"a.href y"}},
		{"script", `<script>"<a href=x>"</script><a href=y>`, []string{"a.href y"}},
		{"script end tag with space", "<script><a href=x></script\n><a href=y>", []string{"a.href y"}},
		{"script, longer name", `<script><a href=x></scripts><a href=x></script><a href=y>`, []string{"a.href y"}},
		{"script, escaped", `<script><!-- <a href=x></script><a href=y>`, []string{"a.href y"}},
		{"script, double escaped", `<script><!-- <script> </script> <a href=x> --></script><a href=y>`, []string{"a.href y"}},
		{"script, double escape left", `<script><!-- <script> --></script><a href=y>`, []string{"a.href y"}},
		{"script, <!--> is no escape", `<script><!--><script></script><a href=y>`, []string{"a.href y"}},
		{"script, escape keeps <", `<script><!-- <1 <script> </script> <a href=x> --></script><a href=y>`, []string{"a.href y"}},
		{"self-closing script is open", `<script/><a href=x></script><a href=y>`, []string{"a.href y"}},
		{"cut script", `<script><a href=x>`, nil},
		{"raw text", `<style><a href=x></style><title><a href=x></title><textarea><a href=x></textarea><xmp><a href=x></xmp><noembed><a href=x></noembed><noframes><a href=x></noframes><iframe><a href=x></iframe><a href=y>`, []string{"a.href y"}},
		{"raw text, other end tag", `<title><a href=x></textarea></title><a href=y>`, []string{"a.href y"}},
		{"raw text, upper case", `<TITLE><a href=x></tItLe ><a href=y>`, []string{"a.href y"}},
		{"noscript", `<noscript><a href=x></noscript><a href=y>`, []string{"a.href x", "a.href y"}},
		{"plaintext", `<a href=y><plaintext><a href=x></plaintext><a href=x>`, []string{"a.href y"}},
		{"template", `<template><a href=x></template><a href=y>`, []string{"a.href x inert", "a.href y"}},
		{"image is img", `<image src=x>`, []string{"img.src x"}},
	} {
		t.Run(c.name, func(t *testing.T) { equal(t, found(c.html, Options{}), c.want) })
	}
	equal(t, found(`<noscript><a href=x></noscript><a href=y>`, Options{Scripting: true}), []string{"a.href y"})
}

func TestReferences(t *testing.T) {
	for in, want := range map[string]string{
		"?a=1&b=2": "?a=1&b=2", "?a=1&amp;b=2": "?a=1&b=2", "?a&copy=1": "?a&copy=1", "?a&copy;=1": "?a\u00a9=1",
		"?a&copyb": "?a&copyb", "?a&copy": "?a\u00a9", "?a&copy!": "?a\u00a9!", "&ampx;": "&ampx;", "&amp": "&", "&": "&",
		"&#65;&#x42&#X43;&#;&#x;&#xg": "ABC&#;&#x;&#xg", "&#128;&#0;&#xD800;&#x110000;&#99999999999;": "\u20ac\ufffd\ufffd\ufffd\ufffd",
		"&semi;&NotEqualTilde;&nosuch;&lang;": ";\u2242\u0338&nosuch;\u27e8", "&#13;": "\r", "&&amp;&": "&&&", "&notit;": "&notit;",
		"&frac12": "\u00bd", "&AMP;&LT&quot": "&<\"", "&hellip": "&hellip", "&Aacute=": "&Aacute=",
	} {
		got := found(`<a href="`+in+`">`, Options{})
		if in == "&AMP;&LT&quot" {
			want = `&<"`
		}
		equal(t, got, []string{"a.href " + want})
	}
}

func TestElements(t *testing.T) {
	for _, c := range []struct {
		html string
		want []string
	}{
		{`<frame src=a><iframe src=b longdesc=c></iframe><iframe src="">`, []string{"frame.src a", "iframe.src b", "iframe.longdesc c"}},
		{`<img src=a srcset="b 1x, c 2x" longdesc=d><picture><source srcset=e></picture>`, []string{"img.src a", "img.srcset b", "img.srcset c", "img.longdesc d", "source.srcset e"}},
		{`<video src=a poster=b><source src=c><track src=d></video><audio src=e></audio>`, []string{"video.src a", "video.poster b", "source.src c", "track.src d", "audio.src e"}},
		{`<embed src=a><object data=b></object><script src=c></script><input type=IMAGE src=d><input src=x>`, []string{"embed.src a", "object.data b", "script.src c", "input.src d"}},
		{`<form action=a></form><form method=post action=x></form><form method=GET action=b></form><button formaction=c>`, []string{"form.action a", "form.action b", "button.formaction c"}},
		{`<blockquote cite=a><q cite=b><ins cite=c><del cite=d>`, []string{"quote.cite a", "quote.cite b", "quote.cite c", "quote.cite d"}},
		{`<body background=a><table background=b><td background=c>`, []string{"body.background a", "table.background b", "table.background c"}},
		{`<link rel=canonical href=a><link href=x><link rel=preconnect href=x><link rel=preload imagesrcset="b, c 2x"><link rel=stylesheet href="">`, []string{"link.href a", "link.imagesrcset b", "link.imagesrcset c"}},
		{`<div data-src=a data-srcset="b 1x" data-url=c data-id=x data-href=d>`, []string{"other.data-* a", "other.data-* b", "other.data-* c", "other.data-* d"}},
		{`<p style="background:url(a)"><style>@import "b"; p{background:url( c )}</style>`, []string{"style.style a", "style.text b", "style.text c"}},
		{`<svg><a xlink:href=a href=b><image xlink:href=c /><use href="d#e"/><use href="#f"/></a></svg><image href=x>`, []string{"a.href b", "img.xlink:href c", "use.href d#e"}},
		{`<meta http-equiv=refresh content="3; url=a"><meta http-equiv=refresh content="0;b">`, []string{"meta.content a"}},
		{`<!--[if IE]><img src=a><script src=b><![endif]--><!-- [if]<img src=x> --><img src=c>`, []string{"img.src a", "script.src b", "img.src c"}},
		{`<a href="  "><img src="  ">`, []string{"a.href   "}},
	} {
		equal(t, found(c.html, Options{Kinds: all}), c.want)
	}
	for k, n := range map[Kinds]int{NoLinks: 0, Anchors: 1, Images: 2, LinkPages: 1, LinkResources: 1, Scripts: 1} {
		got := found(`<a href=a><img src=b style="x:url(y)"><svg><image href=c></svg><link rel=next href=d><link rel=icon href=e><script src=f></script>`, Options{Kinds: k})
		if len(got) != n {
			t.Errorf("kinds %b: got %q, want %d links", k, got, n)
		}
	}
}

func TestForeign(t *testing.T) {
	for _, c := range []struct{ name, html, want string }{
		{"CDATA", `<svg><![CDATA[<a href=x>]]></svg><a href=y>`, "y"},
		{"title is no raw text", `<svg><title><a href=x></title></svg><title><a href=z></title><a href=y>`, "x y"},
		{"script is no raw text", `<svg><script><a href=x></script></svg><a href=y>`, "x y"},
		{"self-closing svg", `<svg/><title><a href=x></title><a href=y>`, "y"},
		{"breakout", `<svg><p><title><a href=x></title></p><a href=y>`, "y"},
		{"breakout by font", `<svg><font size=1><title><a href=x></title><a href=y>`, "y"},
		{"font stays", `<svg><font><title><a href=x></title></font></svg><a href=y>`, "x y"},
		{"foreignObject is HTML", `<svg><foreignObject><title><a href=x></title><p><a href=z></p></foreignObject><title><a href=y></title></svg>`, "z y"},
		{"CDATA in HTML of foreignObject", `<svg><foreignObject><p><![CDATA[<a href=x>]]></p></foreignObject></svg>`, ""},
		{"math text", `<math><mi><style><a href=x></style></mi><style><a href=y></style></math>`, ""},
		{"annotation-xml", `<math><annotation-xml encoding="text/HTML"><title><a href=x></title></annotation-xml></math><a href=y>`, "y"},
		{"svg in annotation-xml", `<math><annotation-xml><svg><a href=y></a></svg></annotation-xml></math>`, "y"},
		{"end tag of an element around", `<div><svg></div><title><a href=x></title><a href=y>`, "y"},
		{"</p> leaves", `<svg></p><title><a href=x></title><a href=y>`, "y"},
		{"</br> leaves up to foreignObject", `<svg><foreignObject><svg></br><image href=x /></foreignObject><image href=y /></svg>`, "y"},
		{"</p> leaves and closes", `<svg><foreignObject><p><svg></p></foreignObject><image href=y /></svg>`, "y"},
		{"solidus of a value", `<svg a=b/><title><a href=x></title></svg><svg a=b /><title><a href=z></title><a href=y>`, "x y"},
		{"nested too deep", `<svg>` + strings.Repeat("<g>", 600) + `<title><a href=x></title><a href=y>`, "y"},
		{"HTML elements have no meaning", `<svg><link rel=next href=x /><iframe src=x /><base href=x /></svg><a href=y>`, "y"},
		{"style of svg", `<svg><style><![CDATA[ a { fill: url(x.svg) } ]]> b { fill: url(z) }</style></svg>`, "x.svg z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s Scanner
			var got []string
			s.Scan([]byte(c.html), Options{}, func(l Link) { got = append(got, string(l.URL)) })
			if g := strings.Join(got, " "); g != c.want {
				t.Errorf("%s\ngot  %s\nwant %s", c.html, g, c.want)
			}
		})
	}
}

func TestDoc(t *testing.T) {
	var s Scanner
	html := `<svg><base href=no></svg><template><base href=no><meta name=robots content=no></template><base target=x><base href="/b/"><base href=c>
<meta name=" Robots" content=noindex><meta name=LycosaBot content="nofollow"><meta name=other content=x>
<meta http-equiv=pragma content=No-Cache><meta http-equiv=content-type content="text/html; charset = 'gbk'"><meta charset=utf-8>
<link rel="Canonical" href="/c"><link rel=canonical href=/d><meta http-equiv=refresh content="x"><meta http-equiv=Refresh content="5;URL='e' ">`
	for range 2 { // the second time on used memory
		d := s.Scan([]byte(html), Options{Kinds: NoLinks, RobotsNames: []string{"lycosabot"}}, nil)
		if string(d.Base) != "/b/" || !d.HasBase || string(d.Canonical) != "/c" || !d.NoCache {
			t.Errorf("got %+v", d)
		}
		if len(d.Robots) != 2 || string(d.Robots[0].Name) != "robots" || string(d.Robots[0].Content) != "noindex" || string(d.Robots[1].Name) != "lycosabot" {
			t.Errorf("robots: %q", d.Robots)
		}
		if !d.HasRefresh || string(d.Refresh.URL) != "e" || d.Refresh.After.Seconds() != 5 {
			t.Errorf("refresh: %+v", d.Refresh)
		}
	}
	if d := s.Scan(nil, Options{}, nil); d.HasBase || d.Base != nil || len(d.Robots) != 0 || d.NoCache {
		t.Errorf("an empty page kept %+v", d)
	}
}

func TestRel(t *testing.T) {
	for html, want := range map[string]Rel{
		`<a href=x rel="external NoFollow ugc">`: RelNofollow | RelUGC,
		`<a href=x>`:                             0,
		`<a href=x rel=tag>`:                     RelOther,
		`<link href=x rel=alternate type="application/rss+xml; charset=utf-8">`: RelAlternate | RelFeed,
		`<link href=x rel=alternate type="text/html">`:                          RelAlternate,
		`<link href=x rel="alternate stylesheet" type="text/css">`:              RelAlternate | RelStylesheet,
		`<link href=x rel="shortcut icon">`:                                     RelIcon | RelOther,
		`<link href=x rel=apple-touch-icon-precomposed>`:                        RelIcon,
	} {
		var s Scanner
		l, _ := s.Collect([]byte(html), Options{})
		if len(l) != 1 || l[0].Rel != want {
			t.Errorf("%s: got %+v, want rel %b", html, l, want)
		}
	}
}

func TestLimits(t *testing.T) {
	long := strings.Repeat("x", 100)
	var s Scanner
	l, d := s.Collect([]byte(`<a href=`+long+`><a href=y>`), Options{MaxURLBytes: 99})
	if len(l) != 1 || d.TooLong != 1 {
		t.Errorf("got %d links, %d too long", len(l), d.TooLong)
	}
	// Many small chunks of one large tag cost no more than a few passes.
	big := `<a title="` + strings.Repeat("x", 1<<20-100) + `" href=y>`
	s.Begin(Options{}, nil)
	passes := 0
	for i := range len(big) {
		before := s.nextTry
		s.Feed([]byte(big[i : i+1]))
		if s.nextTry != before {
			passes++
		}
	}
	if passes == 0 || passes > 25 {
		t.Errorf("the tag was looked at %d times", passes)
	}
	// A tag that does not fit gives what fitted, and its raw text stays raw.
	var got []string
	s.Begin(Options{MaxTokenBytes: 64}, func(l Link) { got = append(got, line(l)) })
	html := `<script src=a data-x="` + strings.Repeat("<a href=x>", 50) + `" ><a href=x></script><a href=b></a x="` +
		strings.Repeat("<a href=x>", 50) + `"><a href=c><` + strings.Repeat("z", 500) + ` "<a href=x>"=<a href=d><style>` +
		strings.Repeat("p { x: url(e)} ", 20) + `</style><a href=f>`
	for i := 0; i < len(html); i += 10 {
		s.Feed([]byte(html[i:min(i+10, len(html))]))
	}
	d = s.End()
	j := strings.Join(got, " ")
	if !strings.HasPrefix(j, "script.src a a.href b a.href c ") || !strings.HasSuffix(j, "a.href f") || d.TooLarge != 4 {
		t.Errorf("got %s, %d too large", j, d.TooLarge)
	}
}

// TestFeedBounds feeds a document far larger than what may be kept: the memory
// kept follows the options, not the document, and the links are all found.
func TestFeedBounds(t *testing.T) {
	const limit, chunk = 16 << 10, 4 << 10
	part := strings.Repeat("<p>text <a href='?a=1&amp;b=2'>x</a> <!-- "+strings.Repeat("c", 200)+" --></p>", 100) +
		"<script>" + strings.Repeat("s < t; ", 10_000) + "</script><img alt='" + strings.Repeat("i", 100_000) + "' src=lost><!--" +
		strings.Repeat("c>", 50_000) + "--><style>" + strings.Repeat("p{q:r}", 20_000) + "</style>"
	n := 0
	var s Scanner
	s.Begin(Options{MaxTokenBytes: limit}, func(Link) { n++ })
	const parts = 20
	for range parts {
		for rest := []byte(part); len(rest) > 0; {
			c := min(chunk, len(rest))
			s.Feed(rest[:c])
			rest = rest[c:]
			if kept := cap(s.carry) + cap(s.arena) + cap(s.docText); kept > 4*(limit+chunk) {
				t.Fatalf("%d bytes kept, the limit is %d", kept, limit)
			}
		}
	}
	d := s.End()
	if n != parts*100 || d.TooLarge != parts*2 {
		t.Errorf("got %d links, %d too large; want %d, %d", n, d.TooLarge, parts*100, parts*2)
	}
}

func equal(t *testing.T, got, want []string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
