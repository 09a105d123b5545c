package page

import (
	"slices"
	"strings"
	"testing"

	"lycosa.dev/internal/httpwire"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
)

func htmlPage(t *testing.T, contentType, body string, memory int64) *Page {
	t.Helper()
	p, err := New(&crawlv1.Lease{Url: "http://a.example/"}, &crawlv1.FetchResult{Class: crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP, Status: 200}, nil,
		[]byte("HTTP/1.1 200 OK\r\nContent-Type: "+contentType+"\r\n\r\n"), httpwire.Limits{MaxBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Body.Close)
	for rest := []byte(body); len(rest) > 0; {
		n := min(len(rest), 10_000)
		if err := p.Body.Append(rest[:n], memory, t.TempDir()); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	return p
}

func TestCharset(t *testing.T) {
	pad := strings.Repeat("<p>text</p>\n", 20_000)
	for _, c := range []struct{ contentType, body, want string }{
		{"text/html; charset=gb2312", "\xd6\xd0", "charset=gbk;http"},
		{"text/html", "<meta charset=koi8-r>\xc1", "charset=koi8-r;meta"},
		{"text/html", pad + "\xcf\xf0\xe8\xe2\xe5\xf2, \xec\xe8\xf0", "charset=windows-1251;detected"},
		{"text/html", pad + "é", "charset=utf-8;detected"},
		{"text/html", "text", "charset=windows-1252;default"},
		{"text/html; charset=utf-8", "d\xe9j\xe0", "charset=utf-8;http charset-mislabelled"},
	} {
		for _, memory := range []int64{1 << 20, 1} {
			p := htmlPage(t, c.contentType, c.body, memory)
			d := p.Charset()
			if again := p.Charset(); again != d || !slices.Equal(p.Annotations, strings.Fields(c.want)) {
				t.Errorf("%.20q, in memory %v: got %v and %s, want %s", c.body, p.InMemory(), p.Annotations, again, c.want)
			}
		}
	}
}
