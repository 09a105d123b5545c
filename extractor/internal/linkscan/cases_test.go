package linkscan

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"golang.org/x/net/html"

	"lycosa.dev/internal/casefiles"
	"lycosa.dev/internal/charset"
	"lycosa.dev/internal/weburl"
)

type linkCase struct {
	HTML        string   `json:"html"`
	HTMLB64     string   `json:"html_b64"`
	Base        string   `json:"base"`
	ContentType string   `json:"content_type"`
	Charset     string   `json:"charset"`
	Links       []string `json:"expected_links"`
	Nofollow    []string `json:"nofollow"`
	Mode        string   `json:"mode"`
	Kind        string   `json:"kind"`
	Note        string   `json:"note"`
	Source      string   `json:"source"`
	ID          int      `json:"id"`
	Options     options  `json:"options"`
}

// options are those of the recorded extractors that a line was run with. Those
// that choose among links (allow, deny, restrict_ ...) are the scope's work, not
// the scanner's; judge and restrict below stand in for it.
type options map[string]any

func (o options) texts(name string) []string { return texts(o[name]) }

func texts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, e := range v {
			out = append(out, e.(string))
		}
		return out
	}
	return nil
}

func TestLinkCases(t *testing.T) {
	passed, failed := map[string]int{}, map[string]int{}
	for _, c := range casefiles.Lines[linkCase](t, "links/links.jsonl") {
		doc := []byte(c.HTML)
		if c.HTMLB64 != "" {
			b, err := base64.StdEncoding.DecodeString(c.HTMLB64)
			if err != nil {
				t.Fatalf("case %d: %v", c.ID, err)
			}
			doc = b
		}
		got := c.run(t, doc)
		want := uniqueSorted(c.Links, c.Base)
		ok := false
		switch c.Mode {
		case "exact":
			ok = slices.Equal(uniqueSorted(got, c.Base), want)
		case "contains":
			g := uniqueSorted(got, c.Base)
			ok = !slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(g, w) })
		case "excludes":
			g := uniqueSorted(got, c.Base)
			ok = !slices.ContainsFunc(want, func(w string) bool { return slices.Contains(g, w) })
		default:
			t.Fatalf("case %d: unknown mode %q", c.ID, c.Mode)
		}
		if ok {
			passed[c.Kind]++
			continue
		}
		failed[c.Kind]++
		switch c.Kind {
		case "nav", "mixed", "resource":
			t.Errorf("case %d (%s, %s; %s)\nhtml %.300s\ngot  %q\nwant %q", c.ID, c.Kind, c.Mode, c.Source, doc, got, c.Links)
		}
	}
	t.Logf("passed %v, failed %v; form and speculative lines are only reported", passed, failed)
	if passed["nav"] == 0 || passed["resource"] == 0 || passed["mixed"] == 0 {
		t.Errorf("a kind had no line: %v", passed)
	}
}

// run scans with what the recorded extractor looked for.
func (c *linkCase) run(t *testing.T, doc []byte) []string {
	var s Scanner
	if strings.HasPrefix(c.ContentType, "text/css") {
		var out []string
		s.ScanCSS(doc, Options{}, func(l Link) { out = append(out, resolve(c.Base, "", string(l.URL))) })
		return out
	}
	cs := charset.Lookup(c.Charset)
	opt := Options{Kinds: Navigation, Charset: cs}
	heritrix := strings.Contains(c.Source, "heritrix")
	tags := c.Options.texts("tags")
	noTags, given := c.Options["tags"]
	switch {
	case given && noTags == nil:
		opt.Kinds = NoLinks
	case heritrix || c.Kind == "mixed":
		opt.Kinds = Default | Data | Conditional
	case c.Kind == "form":
		opt.Kinds |= Forms
	case slices.Contains(tags, "img"):
		opt.Kinds |= Images
	case slices.Contains(c.Options.texts("attrs"), "data-url"):
		opt.Kinds |= Data
	}
	base := ""
	var out []string
	for _, part := range c.restrict(t, doc) {
		links, d := s.Collect(part, opt)
		if base == "" {
			base = string(d.Base)
		}
		for _, l := range links {
			if strings.Contains(c.Note, "nofollow links dropped") && l.Rel&RelNofollow != 0 {
				continue
			}
			if len(tags) > 0 && !slices.Contains(tags, tagOf(l)) {
				continue
			}
			u := resolve(c.Base, base, string(l.URL))
			if c.Nofollow != nil && l.Rel&RelNofollow != 0 && !slices.Contains(c.Nofollow, u) {
				t.Errorf("case %d: %s is nofollow, which it is not", c.ID, u)
			}
			if c.Options["canonicalize"] == true {
				u, _, _ = strings.Cut(u, "#")
			}
			if u != "" && c.allowed(u) {
				out = append(out, u)
			}
		}
	}
	return out
}

func tagOf(l Link) string {
	if l.Attr == AttrDataset {
		return "div"
	}
	return l.Element.String()
}

// resolve gives "" for what is no http URL.
func resolve(doc, base, ref string) string {
	d, err := weburl.Parse(doc)
	if err != nil {
		return ""
	}
	if base != "" {
		if b, err := d.Resolve(base); err == nil {
			d = b
		}
	}
	u, err := d.Resolve(ref)
	if err != nil || !u.IsHTTP() {
		return ""
	}
	return u.String()
}

func uniqueSorted(urls []string, base string) []string {
	var out []string
	for _, u := range urls {
		out = append(out, strings.TrimSuffix(resolve(base, "", u), "#"))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// allowed stands in for scope rules.
func (c *linkCase) allowed(u string) bool {
	any := func(pats []string) bool {
		return slices.ContainsFunc(pats, func(p string) bool { return regexp.MustCompile(p).MatchString(u) })
	}
	p, err := url.Parse(u)
	if err != nil {
		return false
	}
	if a := c.Options.texts("allow"); a != nil && !any(a) {
		return false
	}
	if any(c.Options.texts("deny")) {
		return false
	}
	if d := c.Options.texts("allow_domains"); d != nil &&
		!slices.ContainsFunc(d, func(s string) bool { return p.Hostname() == s || strings.HasSuffix(p.Hostname(), "."+s) }) {
		return false
	}
	return c.Options["deny_extensions"] != nil || !strings.Contains(c.Source, "scrapy") || !strings.HasSuffix(p.Path, ".jpg")
}

// restrict cuts out the parts of the document that the line is about, which is a
// DOM's work; the whole document (its base) is always first, without links.
func (c *linkCase) restrict(t *testing.T, doc []byte) [][]byte {
	sel := c.Options.texts("restrict_css")
	for _, x := range c.Options.texts("restrict_xpaths") {
		x = strings.TrimPrefix(x, "//")
		sel = append(sel, regexp.MustCompile(`\[@(\w+)="(\w+)"\]`).ReplaceAllString(x, `[$1="$2"]`))
	}
	text := c.Options.texts("restrict_text")
	if sel == nil && text == nil {
		return [][]byte{doc}
	}
	dom, err := goquery.NewDocumentFromReader(strings.NewReader(string(doc)))
	if err != nil {
		t.Fatal(err)
	}
	if sel == nil {
		sel = []string{"a"}
	}
	var parts [][]byte
	if h, ok := dom.Find("base[href]").Attr("href"); ok {
		parts = append(parts, []byte(`<base href="`+html.EscapeString(h)+`">`))
	}
	dom.Find(strings.Join(sel, ",")).Each(func(_ int, q *goquery.Selection) {
		if text != nil && !regexp.MustCompile(text[0]).MatchString(q.Text()) {
			return
		}
		h, err := goquery.OuterHtml(q)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, []byte(h))
	})
	return parts
}

func TestMetaRobotsCases(t *testing.T) {
	type metaCase struct {
		HTML     string  `json:"html"`
		Noindex  bool    `json:"noindex"`
		Nofollow bool    `json:"nofollow"`
		Nocache  bool    `json:"nocache"`
		Base     *string `json:"base_href"`
		Refresh  *string `json:"refresh"`
	}
	for i, c := range casefiles.Lines[metaCase](t, "links/meta_robots.jsonl") {
		var s Scanner
		_, d := s.Collect([]byte(c.HTML), Options{})
		var got metaCase
		got.Nocache = d.NoCache
		for _, r := range d.Robots {
			for _, w := range strings.FieldsFunc(strings.ToLower(string(r.Content)), func(r rune) bool { return r == ',' || r == ' ' }) {
				got.Noindex = got.Noindex || w == "noindex" || w == "none"
				got.Nofollow = got.Nofollow || w == "nofollow" || w == "none"
			}
		}
		text := func(has bool, v []byte) *string {
			if !has {
				return nil
			}
			s := string(v)
			return &s
		}
		same := func(a, b *string) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }
		if got.Noindex != c.Noindex || got.Nofollow != c.Nofollow || got.Nocache != c.Nocache ||
			!same(text(d.HasBase, d.Base), c.Base) || !same(text(d.HasRefresh, d.Refresh.URL), c.Refresh) {
			t.Errorf("line %d: got %+v from %+v\nwant %+v", i+1, got, d, c)
		}
	}
}
