package linkscan

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// benchPage is 20 KB with 40 links: a head, a menu, paragraphs of text with a
// few inline elements, some images.
func benchPage() []byte {
	var b strings.Builder
	b.WriteString(`<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Page of a site</title>
<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/static/site.css"><script src="/static/site.js" defer></script>
<script>var config = { path: "/api", debug: false }; if (config.debug && 1 < 2) { console.log("<p>") }</script></head><body>
<ul class="menu">`)
	for i := range 20 {
		fmt.Fprintf(&b, `<li class="item"><a class="ref" href="/section/%d/index.html">Section %d</a></li>`+"\n", i, i)
	}
	b.WriteString("</ul>\n<div class=\"main\" id=\"content\">\n")
	const words = "The spider waits where the threads meet and reads the trembling of each one before it moves at all. "
	for i := 0; b.Len() < 20000; i++ {
		fmt.Fprintf(&b, `<h2 id="s%d">Heading %d</h2><p class="text">%s`, i, i, strings.Repeat(words, 4))
		if i < 18 {
			fmt.Fprintf(&b, `See <a href="../page/%d.html?from=%d">the <em>next</em> page</a> for <b>more</b>. `, i*7, i)
		}
		b.WriteString(strings.Repeat(words, 3) + "</p>\n")
	}
	b.WriteString("</div></body></html>")
	return []byte(b.String())
}

func BenchmarkPage(b *testing.B) {
	page := benchPage()
	var s Scanner
	links, _ := s.Collect(page, Options{})
	b.Logf("%d bytes, %d links, %d tags", len(page), len(links), bytes.Count(page, []byte("<")))
	b.Run("scan", func(b *testing.B) { benchScan(b, page, Options{}) })
	b.Run("navigation", func(b *testing.B) { benchScan(b, page, Options{Kinds: Navigation}) })
	b.Run("feed16k", func(b *testing.B) {
		var s Scanner
		n := 0
		fn := func(Link) { n++ }
		b.SetBytes(int64(len(page)))
		b.ReportAllocs()
		for b.Loop() {
			s.Begin(Options{}, fn)
			for rest := page; len(rest) > 0; {
				c := min(16<<10, len(rest))
				s.Feed(rest[:c])
				rest = rest[c:]
			}
			s.End()
		}
	})
	b.Run("xnet-tokenizer", func(b *testing.B) {
		b.SetBytes(int64(len(page)))
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			z := html.NewTokenizer(bytes.NewReader(page))
			for tt := z.Next(); tt != html.ErrorToken; tt = z.Next() {
				if tt != html.StartTagToken {
					continue
				}
				name, more := z.TagName()
				if len(name) != 1 || name[0] != 'a' {
					continue
				}
				for more {
					var k, v []byte
					if k, v, more = z.TagAttr(); string(k) == "href" && len(v) > 0 {
						n++
					}
				}
			}
		}
	})
}

func benchScan(b *testing.B, page []byte, opt Options) {
	var s Scanner
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		s.Collect(page, opt)
	}
}

func BenchmarkScanCallback(b *testing.B) {
	page := benchPage()
	var s Scanner
	n := 0
	fn := func(Link) { n++ }
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		s.Scan(page, Options{}, fn)
	}
}
