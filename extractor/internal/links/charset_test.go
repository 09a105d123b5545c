package links

import (
	"context"
	"strings"
	"testing"

	"lycosa.dev/extractor/internal/page"
	"lycosa.dev/internal/httpwire"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// Paths are UTF-8, queries in the document's encoding, whatever that is and
// whether the page is in memory or not.
func TestLinksOfEveryEncoding(t *testing.T) {
	yes := true
	f := New(&jobv1.Spec{Links: &jobv1.Links{Navigation: &yes, Embeds: &yes}})
	for _, c := range []struct{ contentType, body, want string }{
		{"text/html; charset=gb2312", "<a href=\"/\xd6\xd0?\xd6\xd0\">", "http://a.example/%E4%B8%AD?%D6%D0"},
		{"text/html", "<meta charset='x-sjis'><a href=\"/\x83\x5c\">", "http://a.example/%E3%82%BD"},
		{"text/html; charset=utf-16", "<\x00a\x00 \x00h\x00r\x00e\x00f\x00=\x00/\x00\x2d\x4e>\x00", "http://a.example/%E4%B8%AD"},
		{"text/html", "\x1b$BCf\x1b(B<a href=\"/\x1b$BCf\x1b(B\">", "http://a.example/%E4%B8%AD"},
		{"text/html", "<a href=\"/\xef\xf0\xe8\xe2\xe5\xf2\">\xcf\xf0\xe8\xe2\xe5\xf2, \xec\xe8\xf0</a>", "http://a.example/%D0%BF%D1%80%D0%B8%D0%B2%D0%B5%D1%82"},
		{"text/css", "@charset \"koi8-r\"; a{b:url(/\xc1)}", "http://a.example/%D0%B0"},
	} {
		for _, memory := range []int64{1 << 20, 1} {
			p, err := page.New(&crawlv1.Lease{Url: "http://a.example/"}, &crawlv1.FetchResult{Class: crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP, Status: 200}, nil,
				[]byte("HTTP/1.1 200 OK\r\nContent-Type: "+c.contentType+"\r\n\r\n"), httpwire.Limits{MaxBytes: 1 << 30})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Body.Append([]byte(c.body), memory, t.TempDir()); err != nil {
				t.Fatal(err)
			}
			p.SetContentType()
			if err := f.Handle(context.Background(), p); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, l := range p.Links {
				got = append(got, l.URL.String())
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%q (%s), in memory %v: got %q (%v), want %q", c.body, c.contentType, p.InMemory(), got, p.Annotations, c.want)
			}
			p.Body.Close()
		}
	}
}
