// Package robots reads robots.txt files as RFC 9309 says and decides whether a
// URL may be fetched. It also reads the directives of meta robots elements and
// of X-Robots-Tag headers.
//
// [Parse] never fails: what cannot be read is passed over, as crawlers in the
// field do. A [File] is short-lived: it refers to a copy of the whole body.
// [File.Agent] compiles the merged group of one crawler into [Rules], which
// holds only what that crawler needs, is immutable, and may be used by many
// goroutines at once.
//
// The invariant kept here: a URL is allowed only if every reading of the file
// that is in use allows it. RFC 9309 and Google's matcher differ in which
// percent-encoded octets are the same; a Disallow rule matches under either
// reading, an Allow rule must match under the narrower one (see encoding.go).
package robots

import (
	"net/url"
	"strings"
)

// MaxBytes is how much of a robots.txt is read, 500 KiB: the least that RFC
// 9309, section 2.5 lets a crawler read. See [Bound].
const MaxBytes = 500 << 10

// maxLineBytes is where a line is cut. Google's matcher keeps 8 times the
// longest URL of old browsers (2083), less a terminator.
const maxLineBytes = 8*2083 - 1

// File is a parsed robots.txt. The zero value has no groups and allows all.
type File struct {
	groups   []group
	sitemaps []string
	stats    Stats
}

// Stats tells what a parse has seen.
type Stats struct {
	Lines    int  // lines, the last one counted even if it is empty
	LastLine int  // the last line that held a directive; 0 if there was none
	Valid    int  // directives understood
	Unknown  int  // lines of the form "key: value" with a key that is not known
	Cut      bool // the body was longer than MaxBytes
}

// group is a run of User-agent lines and the rules that follow it.
type group struct {
	star   bool
	agents []string // product tokens as written
	rules  []line
	delays []delay
}

// line is one Allow or Disallow line.
type line struct {
	value string
	num   int32
	allow bool
}

// delay is one Crawl-delay line. It is for the agents named before it: RFC
// 9309, section 2.2.4 forbids that it ends a group, so agents named after it
// may still join the group's rules.
type delay struct {
	value  string
	agents int
	star   bool
}

// Bound cuts a body to what Parse would read of it, at the end of a line, so
// that a stored copy means the same as the whole: half a Disallow line would
// forbid more than the site said. A body within MaxBytes is returned as it is.
func Bound(body []byte) []byte {
	if len(body) <= MaxBytes {
		return body
	}
	cut := body[:MaxBytes]
	for i := len(cut) - 1; i >= 0; i-- {
		if cut[i] == '\n' || cut[i] == '\r' {
			return cut[:i+1]
		}
	}
	return cut[:0]
}

// Parse reads a robots.txt. It keeps no reference to body.
func Parse(body []byte) *File {
	kept := Bound(body)
	f := &File{}
	f.stats.Cut = len(kept) < len(body)
	p := parser{file: f}
	p.run(skipBOM(string(kept)))
	return f
}

// Stats tells what the parse has seen.
func (f *File) Stats() Stats { return f.stats }

// Sitemaps returns the values of the Sitemap lines in order, each once, as
// written: they may be relative. A line that is only the URL of a sitemap
// counts as well.
func (f *File) Sitemaps() []string { return f.sitemaps }

// SitemapURLs returns the sitemaps as absolute URLs, resolved against the
// file's own URL. What cannot be resolved is left out.
func (f *File) SitemapURLs(robotsURL string) []string {
	base, err := url.Parse(robotsURL)
	if err != nil {
		return nil
	}
	out := make([]string, 0, len(f.sitemaps))
	seen := make(map[string]bool, len(f.sitemaps))
	for _, s := range f.sitemaps {
		u, err := base.Parse(s)
		if err != nil || u.Host == "" {
			continue
		}
		if abs := u.String(); !seen[abs] {
			seen[abs] = true
			out = append(out, abs)
		}
	}
	return out
}

// Agent returns the rules for a crawler: all groups that name its product
// token, merged; if none does, all groups for "*", merged; if there are none,
// rules that allow all (RFC 9309, section 2.2.1). A whole User-Agent string is
// accepted too. Names are compared without regard to case.
func (f *File) Agent(userAgentToken string) *Rules {
	token := ProductToken(userAgentToken)
	c := compiler{}
	name := ""
	if token != "" {
		for i := range f.groups {
			g := &f.groups[i]
			at := indexFold(g.agents, token)
			if at < 0 {
				continue
			}
			name = g.agents[at]
			c.addGroup(g, func(d delay) bool { return at < d.agents })
		}
	}
	if name == "" {
		for i := range f.groups {
			g := &f.groups[i]
			if !g.star {
				continue
			}
			name = "*"
			c.addGroup(g, func(d delay) bool { return d.star })
		}
	}
	return c.rules(name)
}

func indexFold(list []string, s string) int {
	for i, x := range list {
		if strings.EqualFold(x, s) {
			return i
		}
	}
	return -1
}
