package robots

import (
	"fmt"
	"strings"
	"testing"
)

// typical is shaped as the file of a shop or a wiki: a group for everybody
// with folders, a few wildcards, an exception or two, and groups for others.
func typical(folders, wildcards int) string {
	var b strings.Builder
	b.WriteString("User-agent: badbot\nDisallow: /\n\nUser-agent: *\nCrawl-delay: 1\n")
	for i := range folders {
		fmt.Fprintf(&b, "Disallow: /section%d/private%d/\n", i%17, i)
	}
	for i := range wildcards {
		fmt.Fprintf(&b, "Disallow: /*?sort%d=\n", i)
	}
	b.WriteString("Allow: /section3/private3/open\nDisallow: /*.pdf$\nSitemap: https://example.org/sitemap.xml\n")
	return b.String()
}

func BenchmarkTest(b *testing.B) {
	for _, size := range []struct {
		name               string
		folders, wildcards int
	}{{"small", 10, 2}, {"typical", 60, 10}, {"large", 2000, 100}, {"huge", 12000, 3000}} {
		r := Parse([]byte(typical(size.folders, size.wildcards))).Agent("lycosa")
		for _, p := range []struct{ name, path string }{
			{"plain", "/section5/articles/2026/11/a-title-of-some-length.html"},
			{"query", "/section5/articles?page=12&view=list"},
			{"encoded", "/section5/caf%C3%A9/a%20title.html"},
			{"disallowed", "/section3/private3/x"},
		} {
			b.Run(size.name+"/"+p.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					r.Test(p.path)
				}
			})
		}
	}
}

func BenchmarkParse(b *testing.B) {
	body := []byte(typical(60, 10))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		Parse(body).Agent("lycosa")
	}
}
