package robots

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

func allowed(body, agent, path string) bool {
	return Parse([]byte(body)).Agent(agent).Allowed(path)
}

func TestDecisionNamesTheLine(t *testing.T) {
	const body = "# head\r\nUser-agent: lycosa\r\nDisallow: /private/\r\nAllow: /private/open$\r\n\r\nUser-agent: *\nDisallow: /\nAllow: /é/\n"
	tests := []struct {
		agent, path string
		want        Decision
	}{
		{"lycosa", "/private/x", Decision{false, 3, "/private/"}},
		{"Lycosa/1.0 (+https://example.org/)", "/private/open", Decision{true, 4, "/private/open$"}},
		{"lycosa", "/private/open?x", Decision{false, 3, "/private/"}},
		{"lycosa", "/other", Decision{true, 0, ""}},
		{"other", "/other", Decision{false, 7, "/"}},
		{"other", "/%C3%A9/x", Decision{true, 8, "/é/"}},
		{"other", "/robots.txt", Decision{true, 0, ""}},
		{"other", "", Decision{false, 7, "/"}},
	}
	for _, c := range tests {
		if got := Parse([]byte(body)).Agent(c.agent).Test(c.path); got != c.want {
			t.Errorf("%s %s: got %+v, want %+v", c.agent, c.path, got, c.want)
		}
	}
	if got := (Decision{Line: 3, Rule: "/x"}).String(); got != "disallowed: line 3: Disallow: /x" {
		t.Error(got)
	}
}

func TestZeroValuesAllow(t *testing.T) {
	var r *Rules
	if !r.Test("/x").Allowed || r.Group() != "" || r.Len() != 0 {
		t.Error("the nil Rules must allow all")
	}
	if _, ok := r.CrawlDelay(); ok {
		t.Error("the nil Rules has no delay")
	}
	if !new(File).Agent("x").Allowed("/x") {
		t.Error("the zero File must allow all")
	}
}

func TestGroups(t *testing.T) {
	const body = `User-agent: a
User-agent: b
Disallow: /ab
Sitemap: https://example.org/s.xml
Disallow: /ab2
User-agent: b
Disallow: /b
User-agent: none

User-agent: *
Disallow: /star
User-agent: * extra words
Disallow: /late
`
	tests := []struct {
		agent, path string
		want        bool
	}{
		{"a", "/ab", false}, {"a", "/ab2", false}, {"a", "/b", true}, {"a", "/star", true},
		{"B", "/ab", false}, {"b", "/b", false},
		{"c", "/star", false}, {"c", "/late", false}, {"c", "/ab", true},
		{"", "/star", false}, {"*", "/star", false},
		// "none" joins the group of "*", as no rule stands between.
		{"none", "/star", false}, {"none", "/late", true},
		{"ab", "/ab", true},
	}
	for _, c := range tests {
		if got := allowed(body, c.agent, c.path); got != c.want {
			t.Errorf("%s %s: got %v", c.agent, c.path, got)
		}
	}
}

func TestPatterns(t *testing.T) {
	tests := []struct {
		rules, path string
		want        bool
	}{
		{"Disallow: *", "/", false},
		{"Disallow: *$", "/x", false},
		{"Disallow: $", "/", true},
		{"Disallow: /$", "/", false},
		{"Disallow: /$", "/a", true},
		{"Disallow: /a$b", "/a$bc", false},
		{"Disallow: /a*b*c$", "/axbxbxc", false},
		{"Disallow: /a*b*c$", "/axbxbxcd", true},
		{"Disallow: /*ab$", "/aab", false},
		{"Disallow: /a*ab$", "/ab", true}, // the pieces must not overlap
		{"Disallow: /**//**", "/x//", false},
		{"Disallow: fish", "/fish", true},
		{"Disallow: /x<br />", "/x", false},
		{"Disallow: /*<script>", "/x", true},
		{"Disallow: /x\x00y", "/xz", false},
		{"Disallow: /\nAllow: /x/index.html", "/x/", true},
		{"Disallow: /\nAllow: /x/index.html", "/x/y", false},
		{"Disallow: /*?a=\nAllow: /p?a=1", "/p?a=1", true},
		{"Disallow: /p\nAllow: /p", "/p", true},
		{"Disallow: /a b", "/a%20b", false},
		{"Disallow: /*%", "/a%41", false},
		{"Disallow: /?u=https%3A%2F%2Fe.org", "/?u=https://e.org", false},
		{"Disallow: /?u=https://e.org", "/?u=https%3a%2f%2fe.org", false},
		{"Disallow: /a%2Fb", "/a/b", true},
		{"Disallow: /a/b", "/a%2Fb", true},
		{"Disallow: /?a=1%26b", "/?a=1&b", true},
		{"Disallow: /*u=%2F", "/?u=%2Fx", false},
		{"Disallow: /%61dmin", "/admin", false},
		{"Disallow: /admin", "/%61dmin", false},
		{"Disallow: /\nAllow: /~joe", "/%7ejoe", true},
		{"Disallow: /\nAllow: /%7Ejoe", "/~joe", true},
		{"Disallow: /\nAllow: /baz", "/%62%61%7A", true},
		{"Disallow: /\nAllow: /%62%61%7A", "/baz", false}, // Google's reading: not the same
	}
	for _, c := range tests {
		if got := allowed("User-agent: *\n"+c.rules, "x", c.path); got != c.want {
			t.Errorf("%q %s: got %v", c.rules, c.path, got)
		}
	}
}

func TestLongLineIsCut(t *testing.T) {
	// The line is cut at 16,663 bytes: of what follows the path only "/" is left.
	long := "/x/" + strings.Repeat("a", maxLineBytes-len("disallow: /")-len("/x/"))
	body := "user-agent: x\ndisallow: " + long + "/qux\n"
	if !allowed(body, "x", "/fux") {
		t.Error("must not match")
	}
	if allowed(body, "x", long+"/fux") {
		t.Error("the cut rule must match")
	}
}

func TestSizeLimit(t *testing.T) {
	head := "User-agent: a\nDisallow: /\nUser-agent: b\n"
	pad := strings.Repeat("#\n", (MaxBytes-len(head)-len("Disallow: /"))/2)
	body := []byte(head + pad + "Disallow: /private\nDisallow: /late\n")
	f := Parse(body)
	if !f.Stats().Cut {
		t.Error("cut not noted")
	}
	if d := f.Agent("a").Test("/x"); d.Allowed {
		t.Error("what lies before the limit counts")
	}
	if d := f.Agent("b").Test("/x"); !d.Allowed {
		t.Errorf("half a line counted: %v", d)
	}
	if got := Parse(Bound(body)).Agent("b").Test("/private"); !got.Allowed {
		t.Errorf("Bound and Parse disagree: %v", got)
	}
	if b := Bound(bytes.Repeat([]byte("x"), MaxBytes+1)); len(b) != 0 {
		t.Errorf("a body without lines keeps %d bytes", len(b))
	}
	whole := bytes.Repeat([]byte("#"), MaxBytes)
	copy(whole, "User-agent: *\nDisallow: /x\n")
	if allowed(string(whole), "a", "/x") || len(Bound(whole)) != MaxBytes {
		t.Error("a body of exactly the limit is read whole")
	}
}

func TestByteOrderMarks(t *testing.T) {
	for _, bom := range []string{"", "\xef", "\xef\xbb", "\xef\xbb\xbf"} {
		if allowed(bom+"User-agent: x\nDisallow: /", "x", "/") {
			t.Errorf("mark %x hides the first line", bom)
		}
	}
	s := Parse([]byte("User-agent: x\n\xef\xbb\xbfAllow: /")).Stats()
	if s.Valid != 1 || s.Unknown != 1 {
		t.Errorf("a mark in the middle belongs to the key: %+v", s)
	}
}

func TestLineEnds(t *testing.T) {
	for _, end := range []string{"\n", "\r", "\r\n"} {
		lines := []string{"User-agent: foo", "Allow: /some/path", "User-agent: bar", "", "", "Disallow: /"}
		f := Parse([]byte(strings.Join(lines, end)))
		if d := f.Agent("bar").Test("/x"); d.Allowed || d.Line != 6 {
			t.Errorf("%q: %+v", end, d)
		}
		if s := f.Stats(); s.Valid != 4 || s.Lines != 6 || s.LastLine != 6 {
			t.Errorf("%q: %+v", end, s)
		}
	}
}

func TestCrawlDelay(t *testing.T) {
	tests := []struct {
		value string
		want  time.Duration
		ok    bool
	}{
		{"10", 10 * time.Second, true}, {"0", 0, true}, {".5", 500 * time.Millisecond, true},
		{"5.2 # slow", 5200 * time.Millisecond, true}, {"30<BR>", 30 * time.Second, true}, {"3s", 3 * time.Second, true},
		{"-1", 0, false}, {"", 0, false}, {"abc", 0, false}, {"1.2.3", 0, false}, {"10x", 0, false}, {".", 0, false},
		{"99999999999999999999", maxDelay, true},
		{strings.Repeat("9", 400), maxDelay, true},
	}
	for _, c := range tests {
		got, ok := Parse([]byte("User-agent: *\nCrawl-delay: " + c.value)).Agent("x").CrawlDelay()
		if got != c.want || ok != c.ok {
			t.Errorf("%q: got %v %v", c.value, got, ok)
		}
	}
	const body = "User-agent: a\nCrawl-delay: 10\nUser-agent: b\nDisallow: /p\nCrawl-delay: 4\nUser-agent: b\nCrawl-delay: 2"
	for agent, want := range map[string]time.Duration{"a": 10 * time.Second, "b": 4 * time.Second} {
		if got, _ := Parse([]byte(body)).Agent(agent).CrawlDelay(); got != want {
			t.Errorf("%s: got %v, want %v", agent, got, want)
		}
		if allowed(body, agent, "/p") {
			t.Errorf("%s: a Crawl-delay must not end the group", agent)
		}
	}
}

func TestSitemapURLs(t *testing.T) {
	f := Parse([]byte("Sitemap: HTTP://example.com/A.xml\nSitemap: /b.xml\nsitemap:/b.xml\nsite-map: //c.org/s\nSitemap: mailto:x\nhttps://example.com/sitemap2.xml\nhttps://example.com/page\n"))
	got := fmt.Sprint(f.SitemapURLs("http://example.com/robots.txt"))
	if want := "[http://example.com/A.xml http://example.com/b.xml http://c.org/s https://example.com/sitemap2.xml]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestProductToken(t *testing.T) {
	for in, want := range map[string]string{
		"Lycosa/1.0 (+https://example.org/bot)":          "Lycosa",
		"Mozilla/5.0 (compatible; Lycosa/1.0; +http://)": "Lycosa",
		"Mozilla/5.0 (X11; Linux)":                       "Mozilla",
		"Googlebot-Image (Googlebot)":                    "Googlebot-Image",
		"  bot1":                                         "bot1",
		"ツ":                                              "",
		"*":                                              "",
		"":                                               "",
	} {
		if got := ProductToken(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestPathAndQuery(t *testing.T) {
	for in, want := range map[string]string{
		"http://www.example.com":                   "/",
		"http://www.example.com/a/b?c=http://d.e/": "/a/b?c=http://d.e/",
		"www.example.com/a/b?c=d&e=f#fragment":     "/a/b?c=d&e=f",
		"www.example.com?a":                        "/?a",
		"www.example.com/a;b#c":                    "/a;b",
		"//a/b/c":                                  "/b/c",
		"//a":                                      "/",
		"/a?b=://c":                                "/a?b=://c",
		"http://h#/a":                              "/",
		"http://user@example.com:10/path;params?query#frag": "/path;params?query",
		"http://example.com//folder":                        "//folder",
	} {
		if got := PathAndQuery(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestStatusPolicy(t *testing.T) {
	for status, want := range map[int]Policy{
		200: UseBody, 206: UseBody, 301: Redirect, 304: Redirect, 401: AllowAll, 404: AllowAll, 429: AllowAll, 499: AllowAll,
		500: DisallowAll, 503: DisallowAll, 599: DisallowAll, 0: DisallowAll, 100: DisallowAll, 999: DisallowAll, -1: DisallowAll,
	} {
		if got := StatusPolicy(status); got != want {
			t.Errorf("%d: got %v, want %v", status, got, want)
		}
	}
}

// TestRulesKeepNothingOfTheFile: the rules of one crawler in a large file for
// many must be small.
func TestRulesKeepNothingOfTheFile(t *testing.T) {
	var b strings.Builder
	for i := range 10000 {
		fmt.Fprintf(&b, "User-agent: bot%d\nDisallow: /%d/\n", i, i)
	}
	r := Parse([]byte(b.String())).Agent("bot77")
	if r.Len() != 1 || len(r.text) > 16 || r.Group() != "bot77" {
		t.Errorf("kept %d rules, %d bytes of text, group %q", r.Len(), len(r.text), r.Group())
	}
}
