package linkscan

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lycosa.dev/internal/charset"
)

// seeds are pages that look like pages, and pages that are wrong in the ways
// pages are.
var seeds = []string{
	`<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>A &amp; B</title><base href="/docs/"><link rel=stylesheet href="s.css?v=1&amp;w=2">
<script src="a.js" defer></script><style>p { color: red }</style></head><body><ul class="nav"><li><a href="one.html#x">One</a><li><a href='two.html'>Two</a></ul>
<p>Text <a href=three.html>three<img src=i.png alt="<a href=x>"></a></p><!-- <a href=no> --><iframe src="f.html"></iframe></body></html>`,
	`<A HREF = "x" HREF="y"><a href=a&amp=b><a href="?x=1&copy=2&copy;&lt"><img srcset="a.png 1x, b.png 2x,c.png" src>`,
	`<script>var s = "<a href=no>"; <!-- <script> "</script>" --> </script><a href=yes><textarea><a href=no></textarea>`,
	`<svg viewBox="0 0 1 1"><title><a href=s></title><a xlink:href="t"><path d="M0 0"/></a><foreignObject><p><a href=u></a></p></foreignObject></svg>`,
	`<table background=t.png><tr><td background=u.png><form action=/q method=get><input type=image src=v.png formaction=w></form></table>`,
	`<template><a href=x><base href=no></template><noscript><img src=n.png></noscript><meta http-equiv=refresh content="0;url=r">`,
	`<a href="unfinished`, `<!-- unfinished <a href=x>`, `<!--><a href=x>--><!---><a href=y>`, `</a x=">"><a href=z>`, "<a href='\x00\r\n'>",
	`<!-- x --!><a href=y><!-- xx --!><a href=y><!-- xxxx --><a href=z>`,
	`<svg><![CDATA[> <a href=no>]]><a href=y></a><![CDATA[xx]]><a href=z></a><![CDATA[]]]]><a href=u></a></svg>`,
	`<script><!-- <script> --></script><a href=y><script><!-- xx <script> x --></script><a href=z>`,
	`<svg><style>a{b:url(c)}<![CDATA[d{e:url(f)}]]></style></svg><!--[if IE]><a href=x><![endif]--><a data-href=y style="a:url(z)">`,
	`<plaintext><a href=x>`, `<xmp><a href=x></xmp ><noembed></noembed/><a href=y>`, `<?xml version="1.0"?><![CDATA[x]]><a href=x/>`,
}

// xnetScript matches what x/net/html reads otherwise than the standard: in
// escaped script data it leaves the escape at a < that is followed by neither a
// letter nor a solidus (HTML 13.2.5.23 reconsumes in the escaped state).
var xnetScript = regexp.MustCompile(`(?is)<script.*<!--.*<[^/a-z]`)

func checkTokenizer(t interface{ Errorf(string, ...any) }, doc []byte) {
	if low := strings.ToLower(string(doc)); strings.Contains(low, "<svg") || strings.Contains(low, "<math") || xnetScript.Match(doc) {
		return
	}
	got, want := scanPage(doc, Options{Kinds: refKinds, Scripting: true, MaxURLBytes: 1 << 30}), tokenizerPage(doc)
	if !slices.Equal(got.links, want.links) || !got.sameBase(want) {
		t.Errorf("%q\ngot  %q base %v\nwant %q base %v", doc, got.links, got.base, want.links, want.base)
	}
}

func checkFeed(t interface{ Errorf(string, ...any) }, doc []byte, size func() int) {
	opt := Options{Kinds: all}
	var s Scanner
	var whole, fed []string
	d := *s.Scan(doc, opt, func(l Link) { whole = append(whole, line(l)) })
	want := fmt.Sprintf("%+v", d)
	var f Scanner
	f.Begin(opt, func(l Link) { fed = append(fed, line(l)) })
	for rest := doc; len(rest) > 0; {
		n := min(size(), len(rest))
		f.Feed(rest[:n:n])
		rest = rest[n:]
	}
	d = *f.End()
	if got := fmt.Sprintf("%+v", d); !slices.Equal(fed, whole) || got != want {
		t.Errorf("%q in chunks\ngot  %q %s\nwant %q %s", doc, fed, got, whole, want)
	}
	c, _ := f.Collect(doc, opt)
	var collected []string
	for _, l := range c {
		collected = append(collected, line(l))
	}
	if !slices.Equal(collected, whole) {
		t.Errorf("%q collected\ngot  %q\nwant %q", doc, collected, whole)
	}
}

func FuzzScan(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s), uint8(7))
	}
	f.Fuzz(func(t *testing.T, doc []byte, chunk uint8) {
		doc = []byte(strings.ToValidUTF8(string(doc), "?")) // x/net/html keeps what is no UTF-8
		checkTokenizer(t, doc)
		checkFeed(t, doc, func() int { return int(chunk) + 1 })
	})
}

func TestTokenizerSeeds(t *testing.T) {
	for _, s := range seeds {
		checkTokenizer(t, []byte(s))
		for n := 1; n < 20; n++ {
			checkFeed(t, []byte(s), func() int { return n })
		}
		for cut := 1; cut < len(s); cut++ {
			next := cut
			checkFeed(t, []byte(s), func() (n int) { n, next = next, len(s); return n })
		}
	}
}

// fragments make pages that are wrong: their concatenations hit the states of
// the tokenizer far more often than random bytes.
var fragments = []string{
	"<", ">", "/", "=", `"`, "'", " ", "\n", "\r\n", "-", "--", "!", "?", "]", "&", ";", "\x00", "x", "A", "&amp;", "&copy", "&#x41;", "&notin;", ",",
	"<a href=x>", "<a href='y", `<a href="z" `, "</a>", "<img src=", "<img srcset='a 1x, b", "<!--", "-->", "--!>", "<!-->", "<script>", "</script", "</script>",
	"<SCRIPT ", "<style>", "</style>", "<title>", "</title>", "<textarea>", "</textarea >", "<xmp>", "</xmp/>", "<plaintext>", "<noscript>", "</noscript>",
	"<iframe src=f>", "</iframe>", "<template>", "</template>", "<base href=b>", "<meta http-equiv=refresh content='1;u'>", "<![CDATA[", "]]>", "<!DOCTYPE",
	"<?", "</", "<svg>", "</svg>", "<svg/>", "<math>", "<mi>", "<foreignObject>", "</foreignObject>", "<p>", "</p>", "<image href=i>", "<link rel=next href=l>",
	"<div style='a:url(u)'>", "<!--[if x]>", "<![endif]-->", "data-src=d", "<div ",
}

func wrongPage() *rapid.Generator[[]byte] {
	return rapid.Custom(func(t *rapid.T) []byte {
		return []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(fragments), 0, 40).Draw(t, "page"), ""))
	})
}

func TestTokenizerRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkTokenizer(t, wrongPage().Draw(t, "doc")) })
}

func TestFeedRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkFeed(t, wrongPage().Draw(t, "doc"), func() int { return rapid.IntRange(1, 9).Draw(t, "chunk") })
	})
}

// goodPage makes pages whose tree is as written, with all that makes their
// tokens depend on the tree.
func goodPage(t *rapid.T) []byte {
	var b strings.Builder
	n := 0
	pick := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, "pick") }
	url := func() string {
		n++
		u := fmt.Sprintf("u%d%s", n, pick("", "?a=1&amp;b=2", "?a&b=c", "#f", "/&eacute;", "?&copy=1"))
		return pick("=", " = ", "=\n") + pick(`"`+u+`"`, `'`+u+`'`, u+" ")
	}
	noise := func() string { return pick("", " ", ` class="a b"`, ` id=x`, ` title='a > b "c"'`, " hidden") }
	inSVG := 0
	var html, svg func(depth int)
	repeat := func(max int, f func()) {
		for range rapid.IntRange(0, max).Draw(t, "n") {
			f()
		}
	}
	svg = func(depth int) {
		switch k := rapid.IntRange(0, 9).Draw(t, "svg"); {
		case k == 0:
			b.WriteString("<![CDATA[<a href" + url() + ">]]>")
		case k == 1:
			b.WriteString("<path" + noise() + "/>")
		case k == 2:
			b.WriteString("<image" + noise() + pick(" href", " xlink:href") + url() + "/>")
		case k == 3:
			b.WriteString("<use xlink:href" + url() + "></use>")
		case depth <= 0:
			b.WriteString("text <!-- <a href=no> -->")
		case k == 4:
			b.WriteString("<a" + noise() + " xlink:href" + url() + ">")
			repeat(3, func() { svg(depth - 1) })
			b.WriteString("</a>")
		case k == 5:
			b.WriteString("<foreignObject>")
			inSVG++
			repeat(3, func() { html(depth - 1) })
			inSVG--
			b.WriteString("</foreignObject>")
		case k == 6:
			b.WriteString(pick("<title><a href=t></a></title>", "<desc>x</desc>", "<script><use href=no-raw-text /></script>", "<style><a href=u></a></style>"))
		case k == 7:
			b.WriteString("<g" + noise() + ">")
			repeat(3, func() { svg(depth - 1) })
			b.WriteString("</g>")
		default:
			b.WriteString("<circle r=1" + noise() + " />")
		}
	}
	html = func(depth int) {
		switch k := rapid.IntRange(0, 21).Draw(t, "html"); {
		case k == 0:
			b.WriteString("text &amp; more ")
		case k == 1:
			b.WriteString("<!-- <a href" + url() + "> -->")
		case k == 2:
			b.WriteString("<script" + noise() + pick("", " src"+url()) + `>var x = "<a href=no>";</script>`)
		case k == 3:
			b.WriteString("<style>a { content: '<a href=no>' }</style>")
		case k == 4:
			b.WriteString("<textarea><a href=no></textarea>")
		case k == 5:
			b.WriteString("<img" + noise() + " src" + url() + "/>")
		case k == 6:
			b.WriteString("<iframe src" + url() + "><a href=no></iframe>")
		case k == 7:
			b.WriteString("<link rel=" + pick("next", "stylesheet", "preconnect", "'icon x'") + " href" + url() + ">")
		case k == 8:
			b.WriteString("<base href" + url() + ">")
		case k == 9:
			b.WriteString("<area href" + url() + "><embed src" + url() + ">")
		case depth <= 0:
			b.WriteString("<br/>")
		case k <= 12:
			b.WriteString("<a" + noise() + " href" + url() + ">link</a>")
		case k == 13:
			b.WriteString("<svg" + noise() + ">")
			repeat(4, func() { svg(depth - 1) })
			b.WriteString("</svg>")
		case k == 14:
			b.WriteString("<math><mi><a href" + url() + "></a></mi><mrow><![CDATA[<a href=no>]]></mrow></math>")
		case k == 15 && inSVG == 0: // x/net/html drops what is in a template there
			b.WriteString("<template>")
			repeat(3, func() { html(depth - 1) })
			b.WriteString("</template>")
		case k == 16:
			b.WriteString("<noscript>")
			repeat(2, func() { html(0) })
			b.WriteString("</noscript>")
		case k == 17:
			b.WriteString("<ul><li>")
			html(depth - 1)
			b.WriteString("<li>")
			html(depth - 1)
			b.WriteString("</ul>")
		case k == 18:
			b.WriteString("<table" + pick("", " background"+url()) + "><tr><td>")
			html(depth - 1)
			b.WriteString("</table>")
		default:
			e := pick("div", "section", "blockquote cite"+url(), "span", "p", "h1", "object data"+url(), "video src"+url())
			name, _, _ := strings.Cut(e, " ")
			b.WriteString("<" + e + noise() + ">")
			repeat(3, func() { html(depth - 1) })
			b.WriteString("</" + name + ">")
		}
	}
	b.WriteString("<!DOCTYPE html><html><head><title>t</title></head><body>")
	repeat(6, func() { html(4) })
	b.WriteString("</body></html>")
	return []byte(b.String())
}

func checkTree(t interface{ Fatalf(string, ...any) }, doc []byte) {
	want, err := treePage(doc)
	if err != nil {
		return // nested too deep for x/net/html
	}
	got := scanPage(doc, Options{Kinds: refKinds})
	if extra, missing := differences(got.links, want.links); extra != nil || missing != nil || !got.sameBase(want) {
		t.Fatalf("%s\nonly the scanner  %q\nonly the parser   %q", doc, extra, missing)
	}
}

func TestTreeRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := goodPage(t)
		checkTree(t, doc)
		checkFeed(t, doc, func() int { return rapid.IntRange(1, 200).Draw(t, "chunk") })
	})
}

// TestSites compares the scanner with a parse on the pages below the folder that
// LYCOSA_SITES names.
func TestSites(t *testing.T) {
	dir := os.Getenv("LYCOSA_SITES")
	if dir == "" {
		t.Skip("LYCOSA_SITES names no folder of pages; TestTreeRandom covers made ones")
	}
	htmlName := regexp.MustCompile(`(?i)\.x?html?(\.|$)`)
	pages, links, different := 0, 0, 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !htmlName.MatchString(d.Name()) || strings.HasSuffix(d.Name(), ".gz") {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		cs := charset.Decide(raw, charset.Hints{}).Encoding
		doc := cs.Decode(raw)
		want, err := treePage(doc)
		if err != nil {
			return err
		}
		got := scanPage(doc, Options{Kinds: refKinds})
		pages++
		links += len(got.links)
		extra, missing := differences(got.links, want.links)
		if extra != nil || missing != nil || !got.sameBase(want) {
			different++
			t.Errorf("%s (%s): only the scanner %q, only the parser %q", path, cs.Name(), extra, missing)
		}
		if cs.ASCIICompatible() {
			// The bytes as they are give the same.
			if asIs := scanPage(raw, Options{Kinds: refKinds, Charset: cs}); !slices.Equal(asIs.links, got.links) {
				t.Errorf("%s (%s): undecoded %q, decoded %q", path, cs.Name(), asIs.links, got.links)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pages, %d links, %d pages differ", pages, links, different)
	if pages == 0 {
		t.Errorf("no page below %s", dir)
	}
}
