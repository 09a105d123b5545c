package weburl

import (
	"net/url"
	"testing"

	whatwg "github.com/nlnwa/whatwg-url/url"
)

const benchBase = "https://www.example.org/docs/guide/chapter-3/index.html"

// benchLinks are 40 links as a page of documentation has them.
var benchLinks = []string{
	"/", "/about/", "/docs/", "/docs/guide/", "/blog/2024/05/17/release-notes.html", "/search?q=url&lang=en", "#section-1", "#section-2", "#top",
	"../chapter-2/index.html", "../chapter-4/index.html", "../../reference/api.html", "figure-1.png", "figure-2.png", "./appendix.html",
	"section-3-1.html", "section-3-2.html#details", "section-3-3.html?print=1", "https://www.example.org/login?next=%2Fdocs%2Fguide%2F",
	"https://github.com/example/project", "https://github.com/example/project/issues?page=2&state=open", "//cdn.example.net/lib/jquery-3.7.1.min.js",
	"//cdn.example.net/css/site.css?v=20240517", "http://www.w3.org/TR/html52/", "https://en.wikipedia.org/wiki/Uniform_Resource_Locator",
	"https://de.wikipedia.org/wiki/Caf%C3%A9", "mailto:info@example.org", "javascript:void(0)", "/images/logo.svg", "/favicon.ico",
	"/feed.xml", "/docs/guide/chapter-1/", "/docs/guide/chapter-2/", "/docs/guide/chapter-4/", "/docs/guide/chapter-5/section%20one.html",
	"/docs/faq.html#q12", "/tags/url/", "/tags/http/", "/contact?subject=docs&from=chapter-3", "https://twitter.com/share?url=https://www.example.org/docs/&text=Guide",
}

// BenchmarkResolve40 resolves and canonicalises the 40 links of a page; one
// operation is the page. The others do as much of the same work as they can.
func BenchmarkResolve40(b *testing.B) {
	base, err := ParseCanonical(benchBase)
	if err != nil || len(benchLinks) != 40 {
		b.Fatal(err, len(benchLinks))
	}
	links := make([][]byte, len(benchLinks))
	for i, l := range benchLinks {
		links[i] = []byte(l)
	}
	run := func(name string, r Rules) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			res := NewResolver(base, NewCanonicalizer(r))
			for b.Loop() {
				res.Reset(base)
				for _, l := range links {
					res.Resolve(l)
				}
			}
		})
	}
	run("weburl", Rules{})
	run("weburl-rules", Rules{StripSessionIDs: true, DropTracking: true, SortQuery: true, StripWWW: true, StripTrailingSlash: true})
	b.Run("weburl-general", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, l := range benchLinks {
				if u, err := parse(l, &base, nil); err == nil && u.IsHTTP() {
					u.Canonical()
				}
			}
		}
	})
	b.Run("net-url", func(b *testing.B) {
		b.ReportAllocs()
		base, _ := url.Parse(benchBase)
		for b.Loop() {
			for _, l := range benchLinks {
				if u, err := base.Parse(l); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
					u.Fragment = ""
					_ = u.String()
				}
			}
		}
	})
	b.Run("nlnwa", func(b *testing.B) {
		b.ReportAllocs()
		base, _ := whatwg.Parse(benchBase)
		for b.Loop() {
			for _, l := range benchLinks {
				if u, err := base.Parse(l); err == nil && (u.Scheme() == "http" || u.Scheme() == "https") {
					_ = u.Href(true)
				}
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	const raw = "https://en.wikipedia.org/wiki/Uniform_Resource_Locator?action=edit&section=2"
	b.Run("serialised", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Parse(raw)
		}
	})
	b.Run("canonical", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ParseCanonical(raw)
		}
	})
	b.Run("international", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ParseCanonical("https://bücher.example/straße?q=ü")
		}
	})
}
