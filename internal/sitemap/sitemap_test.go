package sitemap

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func locs(t *testing.T, doc string, opt Options) ([]string, Kind, error) {
	t.Helper()
	res, err := Parse(strings.NewReader(doc), opt)
	var out []string
	for _, e := range res.Entries {
		out = append(out, e.Loc)
	}
	// The same through a reader that hands out one byte at a time.
	slow, slowErr := Parse(iotest.OneByteReader(strings.NewReader(doc)), opt)
	if len(slow.Entries) != len(res.Entries) || slow.Kind != res.Kind || (slowErr == nil) != (err == nil) {
		t.Errorf("read in single bytes: %d entries, %v; at once: %d, %v", len(slow.Entries), slowErr, len(res.Entries), err)
	}
	return out, res.Kind, err
}

const urlset = `<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`

func TestDocuments(t *testing.T) {
	const site = "https://example.org/maps/sitemap.xml"
	tests := []struct {
		name, doc string
		kind      Kind
		want      string
		err       error
	}{
		{"plain", urlset + `<url><loc>https://example.org/a</loc></url></urlset>`, URLSet, "https://example.org/a", nil},
		{"cdata", urlset + "<url><loc>\n<![CDATA[https://example.org/a?b=1&c=2]]]]><![CDATA[>]]> </loc></url></urlset>", URLSet, "https://example.org/a?b=1&c=2]]>", nil},
		{"references", urlset + `<url><loc>https://example.org/?a=1&amp;b=&#50;&#x33;&c=4&copy=5</loc></url></urlset>`, URLSet, "https://example.org/?a=1&b=23&c=4&copy=5", nil},
		{"prefixes", `<s:urlset xmlns:s="x"><s:url><image:image><image:loc>https://example.org/i.png</image:loc></image:image><image:loc>https://example.org/j</image:loc><s:loc>https://example.org/a</s:loc></s:url></s:urlset>`, URLSet, "https://example.org/a", nil},
		{"upper case", `<URLSET><URL><LOC>https://example.org/a</LOC></URL></URLSET>`, URLSet, "https://example.org/a", nil},
		{"relative", urlset + `<url><loc>/a</loc></url><url><loc>b.html#x</loc></url><url><loc>example.org/c</loc></url><url><loc>//example.org/d</loc></url></urlset>`, URLSet, "https://example.org/a https://example.org/maps/b.html http://example.org/c https://example.org/d", nil},
		{"no locations", urlset + `<url><loc/></url><url><loc> </loc></url><url><lastmod>2020-01-01</lastmod></url></urlset>`, URLSet, "", nil},
		{"comment with tags", urlset + `<!-- <url><loc>https://example.org/no</loc></url> --- --><url><loc>https://example.org/a</loc></url></urlset>`, URLSet, "https://example.org/a", nil},
		{"index", `<sitemapindex><sitemap><loc>https://example.org/1.xml</loc></sitemap></sitemapindex>`, Index, "https://example.org/1.xml", nil},
		{"warning before", "Warning: x on line 3\n" + urlset + `<url><loc>https://example.org/a</loc></url></urlset>`, URLSet, "https://example.org/a", nil},
		{"unclosed entries", urlset + `<url><loc>https://example.org/a</loc><url><loc>https://example.org/b</loc></urlset>`, URLSet, "https://example.org/a https://example.org/b", ErrBroken},
		{"cut inside a tag", urlset + `<url><loc>https://example.org/a</loc></url><url><loc>https://example.org/b</loc><last`, URLSet, "https://example.org/a https://example.org/b", ErrBroken},
		{"cut inside a location", urlset + `<url><loc>https://example.org/a</loc></url><url><loc>https://example.org/b`, URLSet, "https://example.org/a", ErrBroken},
		{"tag without end", urlset + `<url><loc>https://example.org/a</loc</url><url><loc>https://example.org/b</loc></url></urlset>`, URLSet, "https://example.org/a https://example.org/b", ErrBroken},
		{"stray less-than", urlset + `<url><loc>https://example.org/a</loc><x>1 < 2</x></url></urlset>`, URLSet, "https://example.org/a", ErrBroken},
		{"html", `<!DOCTYPE html PUBLIC "-//W3C//DTD"><html><body><a href="https://example.org/">x</a></body></html>`, Unknown, "", ErrFormat},
		{"other xml", `<wsdl><loc>https://example.org/</loc></wsdl>`, Unknown, "", ErrFormat},
		{"empty", "", Unknown, "", ErrFormat},
		{"text", "\ufeffhttps://example.org/a\r\n# no\n\n  HTTPS://example.org/b  \nwww.example.org/c\nnot a url\nhttp://x y\nftp://example.org/\n", Text, "https://example.org/a HTTPS://example.org/b http://www.example.org/c", nil},
		{"text, old line ends", "https://example.org/a\rhttps://example.org/b\r", Text, "https://example.org/a https://example.org/b", nil},
		{"prose", "this is a bogus sitemap", Unknown, "", ErrFormat},
		{"rss", `<rss version="2.0"><channel><link>https://example.org/</link><atom:link rel="self" href="https://example.org/feed"/><item><link>https://example.org/1</link><guid>https://example.org/g</guid></item><item><guid isPermaLink="true">https://example.org/2</guid></item><item><guid isPermaLink="false">https://example.org/no</guid></item><item><atom:link href="https://example.org/3"/><link/></item></channel></rss>`, RSS, "https://example.org/1 https://example.org/2 https://example.org/3", nil},
		{"rdf", `<rdf:RDF><channel rdf:about="x"><link>https://example.org/</link></channel><item><link>https://example.org/1</link><dc:date>2020-01-02</dc:date></item></rdf:RDF>`, RSS, "https://example.org/1", nil},
		{"atom", `<feed><link href="/"/><entry><link rel="edit" href="/edit"/><link rel='alternate' href='/1?a&amp;b'/><content type="xhtml"><div><link href="/no"/></div></content></entry></feed>`, Atom, "https://example.org/1?a&b", nil},
	}
	for _, c := range tests {
		got, kind, err := locs(t, c.doc, Options{URL: site})
		if strings.Join(got, " ") != c.want || kind != c.kind || !errors.Is(err, c.err) {
			t.Errorf("%s: got %v %q, %v; want %v %q, %v", c.name, kind, got, err, c.kind, c.want, c.err)
		}
		if _, _, err := locs(t, c.doc, Options{URL: site, AllowPartial: true}); c.want != "" && err != nil {
			t.Errorf("%s: partial documents allowed: %v", c.name, err)
		}
	}
}

func TestEntities(t *testing.T) {
	doc := `<?xml version="1.0"?><!DOCTYPE urlset [
<!-- it's a comment > with " quotes -->
<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY xxe SYSTEM "file:///etc/passwd">
]><urlset><url><loc>https://example.org/&b;x</loc></url><url><loc>&xxe;</loc></url><url><loc>https://example.org/&eacute;&undeclared;</loc></url></urlset>`
	got, _, err := locs(t, doc, Options{URL: "https://example.org/"})
	if want := []string{"https://example.org/x", "https://example.org/é&undeclared;"}; !slices.Equal(got, want) || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestFields(t *testing.T) {
	doc := urlset + `<url><loc>https://example.org/a</loc><lastmod>2004-12-23T18:00:15&#43;02:00</lastmod><changefreq> Weekly </changefreq><priority>0.8</priority>
<xhtml:link rel="alternate" hreflang="de" href="https://example.org/a?l=de&amp;x"/><xhtml:link rel="stylesheet" href="/s.css"/></url>
<url><loc>https://example.org/b</loc><lastmod>soon</lastmod><changefreq>often</changefreq><priority>7</priority></url></urlset>`
	res, err := Parse(strings.NewReader(doc), Options{})
	if err != nil || len(res.Entries) != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	a, b := res.Entries[0], res.Entries[1]
	if !a.LastMod.Equal(time.Date(2004, 12, 23, 16, 0, 15, 0, time.UTC)) || a.ChangeFreq != "weekly" || a.Priority != 0.8 ||
		!slices.Equal(a.Alternates, []string{"https://example.org/a?l=de&x"}) || !a.Valid || a.Sitemap {
		t.Errorf("%+v", a)
	}
	if !b.LastMod.IsZero() || b.ChangeFreq != "" || b.Priority != DefaultPriority || b.Alternates != nil {
		t.Errorf("%+v", b)
	}
}

func TestValid(t *testing.T) {
	for _, c := range []struct {
		base, loc string
		want      bool
	}{
		{"https://example.org/sitemap.xml", "https://EXAMPLE.org/a", true},
		{"https://example.org/sitemap.xml", "https://example.org", true},
		{"https://example.org/sitemap.xml", "https://example.org?a", true},
		{"https://example.org", "https://example.org/a", true},
		{"https://example.org/sitemap.xml", "http://example.org/a", false},
		{"https://example.org/sitemap.xml", "https://example.org.evil.test/a", false},
		{"https://example.org/sitemap.xml", "https://example.org:8443/a", false},
		{"https://example.org/sitemap.xml", "https://sub.example.org/a", false},
		{"https://example.org/x/sitemap.xml?id=/", "https://example.org/x/a", true},
		{"https://example.org/x/sitemap.xml", "https://example.org/y", false},
		{"https://example.org/x/sitemap.xml", "https://example.org/", false},
		{"https://example.org/x/sitemap.xml", "https://example.org", false},
		{"", "https://example.org/a", true},
	} {
		if got := newBase(c.base).covers(c.loc); got != c.want {
			t.Errorf("%s in %s: got %v", c.loc, c.base, got)
		}
		res, _ := Parse(strings.NewReader(c.loc), Options{URL: c.base, Strict: true})
		if (len(res.Entries) == 1) != c.want {
			t.Errorf("%s in %s: strict reading gives %v", c.loc, c.base, res.Entries)
		}
	}
}

func pack(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, s)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGzip(t *testing.T) {
	doc := urlset
	for i := range 2000 {
		doc += fmt.Sprintf("<url><loc>https://example.org/%d/%x</loc></url>", i, i*i*7919)
	}
	doc += "</urlset>"
	once := pack(t, doc)
	for _, d := range []string{once, pack(t, once)} {
		if got, kind, err := locs(t, d, Options{}); len(got) != 2000 || kind != URLSet || err != nil {
			t.Errorf("got %d, %v, %v", len(got), kind, err)
		}
	}
	got, _, err := locs(t, once[:len(once)/2], Options{})
	if len(got) < 500 || !errors.Is(err, ErrBroken) {
		t.Errorf("half of a gzip gives %d entries, %v", len(got), err)
	}
	if _, _, err := locs(t, once[:5], Options{}); !errors.Is(err, ErrFormat) {
		t.Errorf("a gzip header alone: %v", err)
	}
}

func TestLimits(t *testing.T) {
	doc := urlset + strings.Repeat("<url><loc>https://example.org/</loc></url>", 100) + "</urlset>"
	if got, _, err := locs(t, doc, Options{MaxEntries: 10}); len(got) != 10 || !errors.Is(err, ErrLimit) {
		t.Errorf("got %d, %v", len(got), err)
	}
	if got, _, err := locs(t, doc, Options{MaxEntries: 100, MaxBytes: int64(len(doc))}); len(got) != 100 || err != nil {
		t.Errorf("exactly the limits: got %d, %v", len(got), err)
	}
	got, _, err := locs(t, pack(t, doc), Options{MaxBytes: int64(len(doc)) / 2})
	if len(got) < 40 || len(got) > 50 || !errors.Is(err, ErrLimit) {
		t.Errorf("half the bytes: got %d, %v", len(got), err)
	}
	// A bomb: a limit on what is unpacked, not on what is sent.
	if _, _, err := locs(t, pack(t, "<urlset>"+strings.Repeat(" ", 4<<20)), Options{MaxBytes: 1 << 20}); !errors.Is(err, ErrLimit) {
		t.Errorf("bomb: %v", err)
	}
}

func TestHugePiecesStayOut(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, piece := range []string{
		"<url><loc>https://example.org/" + long + "</loc></url>",
		"<url><loc>https://example.org/<![CDATA[" + long + "]]></loc></url>",
		"<url>" + long + "</url>",
		"<url><link href='" + long + "'/></url>",
		"<" + long + "></" + long + ">",
		"<!--" + long + "-->",
		strings.Repeat("<a>", 10000) + strings.Repeat("</a>", 10000),
	} {
		got, _, err := locs(t, "<urlset>"+piece+"<url><loc>https://example.org/a</loc></url></urlset>", Options{AllowPartial: true})
		if !slices.Equal(got, []string{"https://example.org/a"}) || err != nil {
			t.Errorf("%.40s: got %d entries, %v", piece, len(got), err)
		}
	}
	if got, _, err := locs(t, long+"\nhttps://example.org/a\n", Options{}); len(got) != 1 || err != nil {
		t.Errorf("got %d entries, %v", len(got), err)
	}
}

func TestCharsets(t *testing.T) {
	utf16 := func(s string, big bool) string {
		var b []byte
		for _, r := range s {
			if big {
				b = append(b, byte(r>>8), byte(r))
			} else {
				b = append(b, byte(r), byte(r>>8))
			}
		}
		return string(b)
	}
	const doc = "<urlset><url><loc>https://example.org/é</loc></url></urlset>"
	latin := strings.Replace(doc, "é", "\xe9", 1)
	for name, c := range map[string]struct{ doc, charset string }{
		"utf-8":                  {doc, ""},
		"mark":                   {"\xef\xbb\xbf\n" + doc, "iso-8859-1"},
		"declared latin-1":       {"\n<?xml version='1.0' encoding = 'ISO-8859-1'?>" + latin, ""},
		"transport before it":    {"<?xml version='1.0' encoding='koi8-r'?>" + latin, "windows-1252"},
		"a lie":                  {"<?xml version='1.0' encoding='UTF-16'?>" + doc, ""},
		"an unknown one":         {"<?xml version='1.0' encoding='x-none'?>" + doc, ""},
		"utf-16 le with mark":    {"\xff\xfe" + utf16(doc, false), ""},
		"utf-16 be with mark":    {"\xfe\xff" + utf16(doc, true), ""},
		"utf-16 le, no mark":     {utf16(doc, false), ""},
		"utf-16 be, no mark":     {utf16(doc, true), ""},
		"utf-16 in a .gz":        {pack(t, "\xff\xfe"+utf16(doc, false)), ""},
		"declared, then gzipped": {pack(t, "<?xml version='1.0' encoding='latin1'?>"+latin), ""},
	} {
		got, _, err := locs(t, c.doc, Options{Charset: c.charset})
		if !slices.Equal(got, []string{"https://example.org/é"}) || err != nil {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

func TestErrorsOfOthers(t *testing.T) {
	boom := errors.New("boom")
	doc := urlset + "<url><loc>https://example.org/a</loc></url><url><loc>https://example.org/b</loc></url></urlset>"
	n := 0
	_, err := Walk(strings.NewReader(doc), Options{}, func(Entry) error { n++; return boom })
	if err != boom || n != 1 {
		t.Errorf("the callback's error: %v after %d calls", err, n)
	}
	res, err := Parse(io.MultiReader(strings.NewReader(doc[:len(doc)-30]), iotest.ErrReader(boom)), Options{AllowPartial: true})
	if !errors.Is(err, boom) || len(res.Entries) == 0 {
		t.Errorf("the reader's error: %v, %d entries", err, len(res.Entries))
	}
	if _, err := Parse(iotest.ErrReader(boom), Options{}); !errors.Is(err, boom) {
		t.Errorf("the reader's error at once: %v", err)
	}
}

func TestDates(t *testing.T) {
	for in, want := range map[string]string{
		"2005":                            "2005-01-01T00:00:00Z",
		"2005-03":                         "2005-03-01T00:00:00Z",
		"2005-03-04":                      "2005-03-04T00:00:00Z",
		"2005-03-04T05:06Z":               "2005-03-04T05:06:00Z",
		"2005-03-04T05:06:07+01:00":       "2005-03-04T04:06:07Z",
		"2005-03-04T05:06:07.89Z":         "2005-03-04T05:06:07Z",
		"2005-03-04T05:06:07+0100":        "2005-03-04T04:06:07Z",
		"2005-03-04T05:06:07":             "2005-03-04T05:06:07Z",
		"2005-03-04 05:06:07":             "2005-03-04T05:06:07Z",
		"Fri, 04 Mar 2005 05:06:07 GMT":   "2005-03-04T05:06:07Z",
		"Fri, 4 Mar 05 05:06:07 EST":      "2005-03-04T10:06:07Z",
		"04 Mar 2005 05:06 -0800":         "2005-03-04T13:06:00Z",
		"Friday, 04 Mar 2005 05:06:07 UT": "2005-03-04T05:06:07Z",
		"04 Mar 05 05:06:07":              "",
		"2005-13-01":                      "",
		"yesterday":                       "",
		"":                                "",
	} {
		if got := when(parseW3C(in)); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}
