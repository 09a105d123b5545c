package weburl

import (
	"bytes"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// Rules are changes on top of the canonical form that may join URLs of one page
// and may also join different pages; a job switches them on. They apply to http
// and https URLs. The zero value changes nothing.
type Rules struct {
	// StripSessionIDs removes session ids: the parameters jsessionid, phpsessid,
	// aspsessionid*, cfid, cftoken, sessionid, session_id and sid (this one only
	// with a value that looks drawn by lot), ";jsessionid=…" in the path, and the
	// cookieless sessions of ASP.NET, "/(S(…))/".
	StripSessionIDs bool `yaml:"strip_session_ids" json:"strip_session_ids"`
	// DropTracking removes parameters that only say where a visitor came from:
	// utm_*, gclid, fbclid and their like.
	DropTracking bool `yaml:"drop_tracking" json:"drop_tracking"`
	// SortQuery sorts the parameters by name, then by value, and drops empty
	// ones ("a=1&&b=2&").
	SortQuery bool `yaml:"sort_query" json:"sort_query"`
	// StripEmptyQuery removes a query without content: "?", "?&".
	StripEmptyQuery bool `yaml:"strip_empty_query" json:"strip_empty_query"`
	// StripQuery removes every query.
	StripQuery bool `yaml:"strip_query" json:"strip_query"`
	// StripWWW removes the first label of the host if it is www or www and a
	// number, unless what remains is a public suffix.
	StripWWW bool `yaml:"strip_www" json:"strip_www"`
	// TrimHostDots removes leading, trailing and doubled dots of the host.
	TrimHostDots bool `yaml:"trim_host_dots" json:"trim_host_dots"`
	// StripTrailingSlash removes slashes at the end of the path, but for "/".
	StripTrailingSlash bool `yaml:"strip_trailing_slash" json:"strip_trailing_slash"`
	// CollapseSlashes makes one slash of several in the path.
	CollapseSlashes bool `yaml:"collapse_slashes" json:"collapse_slashes"`
	// StripIndex removes a directory's usual index page: index.html, index.htm,
	// index.php, default.asp and their like.
	StripIndex bool `yaml:"strip_index" json:"strip_index"`
	// Lowercase lower-cases path and query.
	Lowercase bool `yaml:"lowercase" json:"lowercase"`
}

// ArchiveRules are the rules under which web archives index captures.
func ArchiveRules() Rules {
	return Rules{
		StripSessionIDs: true, SortQuery: true, StripEmptyQuery: true, StripWWW: true,
		TrimHostDots: true, StripTrailingSlash: true, CollapseSlashes: true, Lowercase: true,
	}
}

// Canonicalizer gives the canonical form of URLs under a set of rules. It is
// safe for concurrent use; nil applies no rules.
type Canonicalizer struct {
	rules Rules
	none  bool
}

// NewCanonicalizer returns a canonicalizer for the rules.
func NewCanonicalizer(r Rules) *Canonicalizer {
	return &Canonicalizer{rules: r, none: r == Rules{}}
}

// Rules returns the rules.
func (c *Canonicalizer) Rules() Rules {
	if c == nil {
		return Rules{}
	}
	return c.rules
}

// Canonical returns u's canonical form, changed as the rules say.
func (c *Canonicalizer) Canonical(u URL) URL { return c.apply(u.Canonical()) }

// apply changes a canonical URL until the rules find nothing more to change: one
// may give another something to do. Each shortens, sorts or lower-cases, so it
// comes to an end. A change that makes no URL (a host that becomes a number) is
// left undone.
func (c *Canonicalizer) apply(u URL) URL {
	if c == nil || c.none || !u.IsHTTP() {
		return u
	}
	for {
		host, path, query := c.host(u.Hostname()), c.path(u.Path()), c.query(u.href[u.queryStart:])
		if len(host) == len(u.Hostname()) && path == u.Path() && query == u.href[u.queryStart:] {
			return u
		}
		next, ok := respell(u, host, path, query)
		if !ok {
			next, ok = respell(u, u.Hostname(), path, query)
		}
		if !ok || next == u {
			return u
		}
		u = next
	}
}

// respell is u, canonical, with other parts.
func respell(u URL, host, path, query string) (URL, bool) {
	var room [512]byte
	b := append(room[:0], u.href[:u.hostStart]...)
	b = append(b, host...)
	b = append(b, u.href[u.hostEnd:u.pathStart]...)
	b = append(append(b, path...), query...)
	if next, ok := canonicalFast(b, u.href); ok {
		return next, true
	}
	next, err := ParseCanonical(string(b))
	return next, err == nil
}

func (c *Canonicalizer) host(h string) string {
	if c.rules.TrimHostDots && (h[0] == '.' || h[len(h)-1] == '.' || strings.Contains(h, "..")) {
		if t := strings.Join(strings.FieldsFunc(h, func(r rune) bool { return r == '.' }), "."); t != "" {
			h = t
		}
	}
	if c.rules.StripWWW && strings.HasPrefix(h, "www") {
		rest := strings.TrimLeft(h[3:], "0123456789")
		if len(rest) > 1 && rest[0] == '.' {
			rest = rest[1:]
			if suffix, icann := publicsuffix.PublicSuffix(rest); !icann || suffix != rest {
				h = rest
			}
		}
	}
	return h
}

func (c *Canonicalizer) path(p string) string {
	r := &c.rules
	if r.Lowercase {
		p = lowerKeepingEscapes(p)
	}
	if r.StripSessionIDs {
		p = stripPathSession(p)
	}
	if r.CollapseSlashes && strings.Contains(p, "//") {
		b := []byte(p)
		p = string(slices.CompactFunc(b, func(x, y byte) bool { return x == '/' && y == '/' }))
	}
	if r.StripIndex {
		slash := strings.LastIndexByte(p, '/')
		if isIndexPage(p[slash+1:]) {
			p = p[:slash+1]
		}
	}
	if r.StripTrailingSlash {
		p = strings.TrimRight(p, "/")
	}
	if p == "" {
		return "/"
	}
	return p
}

// isIndexPage knows the names that servers commonly give for a directory.
func isIndexPage(name string) bool {
	stem, ext, ok := strings.Cut(name, ".")
	if !ok {
		return false
	}
	switch lowerASCII(stem) {
	case "index", "default":
	default:
		return false
	}
	switch lowerASCII(ext) {
	case "html", "htm", "xhtml", "shtml", "php", "php3", "php4", "php5", "asp", "aspx", "jsp", "jspx", "do", "cgi", "pl", "cfm":
		return true
	}
	return false
}

// query takes and returns the query with its "?", or "".
func (c *Canonicalizer) query(q string) string {
	r := &c.rules
	if q == "" || r.StripQuery {
		return ""
	}
	if r.Lowercase {
		q = lowerKeepingEscapes(q)
	}
	if r.StripSessionIDs || r.DropTracking {
		q = c.dropParams(q)
	}
	if r.SortQuery && len(q) > 1 && !sortedQuery(q[1:]) {
		params := strings.Split(q[1:], "&")
		params = slices.DeleteFunc(params, func(p string) bool { return p == "" })
		slices.SortStableFunc(params, compareParams)
		q = "?" + strings.Join(params, "&")
	}
	if r.StripEmptyQuery && strings.Trim(q, "?&") == "" {
		return ""
	}
	return q
}

// sortedQuery reports whether SortQuery has nothing to do.
func sortedQuery(q string) bool {
	prev := ""
	for p := range strings.SplitSeq(q, "&") {
		if p == "" || prev != "" && compareParams(prev, p) > 0 {
			return false
		}
		prev = p
	}
	return true
}

func compareParams(a, b string) int {
	ka, va, _ := strings.Cut(a, "=")
	kb, vb, _ := strings.Cut(b, "=")
	if n := strings.Compare(ka, kb); n != 0 {
		return n
	}
	if n := strings.Compare(va, vb); n != 0 {
		return n
	}
	return len(a) - len(b) // "a" before "a="
}

// dropParams removes session and tracking parameters; where nothing is left of
// the query its "?" goes too.
func (c *Canonicalizer) dropParams(q string) string {
	drop := func(p string) bool {
		name, value, hasValue := strings.Cut(p, "=")
		return c.rules.StripSessionIDs && hasValue && isSessionParam(name, value) ||
			c.rules.DropTracking && isTrackingParam(name)
	}
	found := false
	for p := range strings.SplitSeq(q[1:], "&") {
		found = found || drop(p)
	}
	if !found {
		return q
	}
	out := make([]byte, 0, len(q))
	for p := range strings.SplitSeq(q[1:], "&") {
		if !drop(p) {
			out = append(append(out, '&'), p...)
		}
	}
	if len(out) == 0 {
		return ""
	}
	out[0] = '?'
	return string(out)
}

// lowerKeepingEscapes lower-cases ASCII letters but for those of escapes, whose
// canonical form is upper case.
func lowerKeepingEscapes(s string) string {
	if lowerASCII(s) == s {
		return s
	}
	b := bytes.Clone([]byte(s))
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] == '%':
			i += 2
		case 'A' <= b[i] && b[i] <= 'Z':
			b[i] |= 0x20
		}
	}
	return string(b)
}
