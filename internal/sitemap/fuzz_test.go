package sitemap

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
)

func FuzzSitemap(f *testing.F) {
	for _, s := range []string{
		urlset + `<url><loc>https://example.org/a</loc><lastmod>2020-01-01</lastmod><priority>1</priority><xhtml:link rel="alternate" href="/b"/></url></urlset>`,
		`<sitemapindex><sitemap>https://example.org/1.xml</sitemap><sitemap><loc>a</loc><loc>b</loc></sitemap></sitemapindex>`,
		`<rss><channel><item><link>/1</link><guid isPermaLink="false">x</guid><pubDate>Thu, 05 Jan 17 13:34:52 +0100</pubDate></item></channel></rss>`,
		`<feed><entry><link href='/1'/><link rel="alternate" href=/2 /><updated>2003-12-13T18:30:02Z</updated></entry></feed>`,
		`<!DOCTYPE x [<!ENTITY a "b"><!-- ' -->]><urlset><url><loc>&a;&#x41;&amp;&eacute;<![CDATA[x]]]]></loc></url>`,
		"https://example.org/a\r\nwww.example.org\n",
		"<urlset><url><loc>https://e</loc</url><url <loc>x</loc>< /url></urlset",
		"\xff\xfe<\x00u\x00", "\x1f\x8b\x08\x00", "\xef\xbb\xbf <?xml encoding='latin1'?><urlset>\xe9",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		opt := Options{URL: "https://example.org/x/s.xml", MaxEntries: 50, MaxBytes: 1 << 16}
		res, err := Parse(bytes.NewReader(doc), opt)
		if len(res.Entries) > opt.MaxEntries {
			t.Fatalf("%d entries", len(res.Entries))
		}
		if err == nil && res.Kind == Unknown || res.Kind == Unknown && len(res.Entries) > 0 {
			t.Fatalf("unknown kind, %v, %v", res.Entries, err)
		}
		if err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrBroken) && !errors.Is(err, ErrLimit) {
			t.Fatalf("an error of no kind: %v", err)
		}
		for _, e := range res.Entries {
			if !hasHTTP(e.Loc) && !strings.Contains(e.Loc, ":") || strings.ContainsAny(e.Loc, "#\n\t") {
				t.Fatalf("location %q", e.Loc)
			}
			if !(e.Priority >= 0 && e.Priority <= 1) || e.Sitemap != (res.Kind == Index) {
				t.Fatalf("entry %+v", e)
			}
		}
		// How the bytes arrive makes no difference.
		slow, slowErr := Parse(iotest.OneByteReader(bytes.NewReader(doc)), opt)
		if fmt.Sprint(slow) != fmt.Sprint(res) || fmt.Sprint(slowErr) != fmt.Sprint(err) {
			t.Fatalf("in single bytes: %v, %v\nat once: %v, %v", slow, slowErr, res, err)
		}
	})
}

func BenchmarkWalk(b *testing.B) {
	var doc strings.Builder
	doc.WriteString(urlset)
	for i := range 10000 {
		fmt.Fprintf(&doc, "\n<url>\n  <loc>https://example.org/section/%d/a-title-of-some-length.html</loc>\n  <lastmod>2026-11-30T18:00:15+00:00</lastmod>\n  <changefreq>weekly</changefreq>\n  <priority>0.5</priority>\n</url>", i)
	}
	doc.WriteString("</urlset>")
	b.SetBytes(int64(doc.Len()))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		if _, err := Walk(strings.NewReader(doc.String()), Options{URL: "https://example.org/sitemap.xml"}, func(Entry) error { n++; return nil }); err != nil || n != 10000 {
			b.Fatal(n, err)
		}
	}
}
