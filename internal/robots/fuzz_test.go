package robots

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// reference is the matcher spelled out: every rule tried on its own, wildcards
// by a table instead of a scan.
func reference(f *File, agent, path string) bool {
	if path == RobotsPath {
		return true
	}
	if path == "" || path[0] != '/' {
		path = "/" + path
	}
	token := ProductToken(agent)
	var lines []line
	specific := false
	for _, g := range f.groups {
		if token != "" && indexFold(g.agents, token) >= 0 {
			specific = true
			lines = append(lines, g.rules...)
		}
	}
	if !specific {
		for _, g := range f.groups {
			if g.star {
				lines = append(lines, g.rules...)
			}
		}
	}
	in := func(f form) string { return string(appendForm(nil, path, f, false)) }
	best, allow := 0, true
	try := func(value string, isAllow bool) {
		if value == "" {
			return
		}
		body, anchored := strings.CutSuffix(value, "$")
		match := func(pf, uf form) bool {
			return table(string(appendForm(nil, body, pf, true)), in(uf), anchored)
		}
		ok := match(formLiteral, formLiteral) || match(formLiteral, formDecoded)
		if !isAllow {
			ok = ok || match(formLiteral, formFolded) || match(formFolded, formLiteral) || match(formFolded, formDecoded) || match(formFolded, formFolded)
		}
		if n := escapedLen(value); ok && (n > best || n == best && isAllow) {
			best, allow = n, isAllow
		}
	}
	for _, l := range lines {
		try(l.value, l.allow)
		if i := strings.LastIndexByte(l.value, '/'); l.allow && i >= 0 && strings.HasPrefix(l.value[i:], "/index.htm") {
			try(l.value[:i+1]+"$", true)
		}
	}
	return allow
}

// table matches p against s by dynamic programming.
func table(p, s string, anchored bool) bool {
	if !anchored {
		p += "*"
	}
	at := make([]bool, len(s)+1)
	at[0] = true
	for i := range len(p) {
		next := make([]bool, len(s)+1)
		for j := range at {
			switch {
			case p[i] == '*':
				next[j] = at[j] || j > 0 && next[j-1]
			case j > 0:
				next[j] = at[j-1] && s[j-1] == p[i]
			}
		}
		at = next
	}
	return at[len(s)]
}

func FuzzRobots(f *testing.F) {
	for _, s := range []struct{ body, agent, path string }{
		{"User-agent: *\nDisallow: /a\nAllow: /a/b$", "x", "/a/b"},
		{"User-agent: x\nDisallow: /*.php$\nCrawl-delay: 3\nUser-agent: y\nAllow: /", "x", "/i.php?a"},
		{"\xef\xbb\xbfuser-agent x\rdisallow /%7E*%2a$x\r\nAllow: /é", "X/1", "/%7e%C3%A9$"},
		{"User-agent: *\nDisallow: /*a*a*a*a*a*a*b$\nDisallow: ****", "", "/" + strings.Repeat("a", 50)},
		{"User-agent: *\nDisallow: /\nAllow: /x/index.html\nSitemap: /s.xml", "a", "/x/"},
		{"User-agent: *\nDisallow: /a\nDisallow: /ab\nAllow: /abc\nDisallow: /a?b=%26%2F", "a", "/a?b=%26/"},
	} {
		f.Add(s.body, s.agent, s.path)
	}
	f.Fuzz(func(t *testing.T, body, agent, path string) {
		if len(body) > 2000 || len(path) > 200 {
			return
		}
		file := Parse([]byte(body))
		r := file.Agent(agent)
		d := r.Test(path)
		if want := reference(file, agent, path); d.Allowed != want {
			t.Fatalf("agent %q, path %q: got %+v, the plain matcher says %v\n%q", agent, path, d, want, body)
		}
		if d.Line < 0 || d.Line > file.Stats().Lines || d.Line == 0 && (!d.Allowed || d.Rule != "") {
			t.Fatalf("decision %+v of %d lines", d, file.Stats().Lines)
		}
		if v, ok := r.CrawlDelay(); v < 0 || v > maxDelay || !ok && v != 0 {
			t.Fatalf("delay %v %v", v, ok)
		}
		p := PathAndQuery(path)
		if p == "" || p[0] != '/' || strings.Contains(p, "#") {
			t.Fatalf("PathAndQuery(%q) = %q", path, p)
		}
		if e := EscapePattern(path); EscapePattern(e) != e || utf8.ValidString(path) && !utf8.ValidString(e) {
			t.Fatalf("EscapePattern(%q) = %q", path, e)
		}
		file.SitemapURLs("https://example.org/robots.txt")
	})
}

func FuzzDirectives(f *testing.F) {
	for _, s := range []string{"noindex, nofollow", "otherbot: noindex, x: unavailable_after: Wed, 25 Jun 2025 15:00:00 GMT", "none;:,:,", "unavailable_after:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ParseDirectives(s)
		// What is said to everybody holds for every agent.
		all := ParseXRobotsTag([]string{s}, "")
		if one := ParseXRobotsTag([]string{s}, "x"); one.Merge(all) != one {
			t.Fatalf("%q: %+v lacks some of %+v", s, one, all)
		}
	})
}

// TestHostilePatterns: patterns made to go back and forth are answered in time
// linear in their length. The bound is far above what a scan needs and far
// below what backtracking needs.
func TestHostilePatterns(t *testing.T) {
	path := "/" + strings.Repeat("a", 2000)
	for _, body := range []string{
		"User-agent: *\nDisallow: /" + strings.Repeat("*a", 8000) + "b$",
		"User-agent: *\nDisallow: /" + strings.Repeat("*", 16000) + "b",
		"User-agent: *\n" + strings.Repeat("Disallow: /*a*a*a*a*a*a*a*a*a*a*b$\n", 10000),
		"User-agent: *\n" + strings.Repeat("Disallow: /"+strings.Repeat("a", 1000)+"\nDisallow: /b", 400),
	} {
		r := Parse([]byte(body)).Agent("x")
		start := time.Now()
		r.Test(path)
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("%.60s...: %v", body, took)
		}
	}
}
