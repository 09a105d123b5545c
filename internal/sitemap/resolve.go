package sitemap

import (
	"net/url"
	"strings"
)

// base is a sitemap's own address.
type base struct {
	url    *url.URL // nil if there is none
	origin string   // scheme://host, lower case
	folder string   // path up to the last "/"
}

func newBase(raw string) base {
	u, err := url.Parse(raw)
	if raw == "" || err != nil || u.Host == "" {
		return base{}
	}
	b := base{url: u, origin: strings.ToLower(u.Scheme + "://" + u.Host)}
	path := u.EscapedPath()
	b.folder = path[:strings.LastIndexByte(path, '/')+1]
	return b
}

// covers tells whether a sitemap here may speak for an absolute URL: the same
// scheme and host, in its folder or below.
func (b base) covers(loc string) bool {
	if b.url == nil {
		return true
	}
	n := len(b.origin)
	if len(loc) < n || !strings.EqualFold(loc[:n], b.origin) {
		return false
	}
	rest := loc[n:]
	switch {
	case rest == "", rest[0] == '?':
		return b.folder == "" || b.folder == "/"
	case rest[0] != '/':
		return false // a longer host, or a port
	}
	return strings.HasPrefix(rest, b.folder)
}

// resolve makes a location absolute and drops its fragment; false if it is
// none. It is not made canonical: that is for the URL type.
func (b base) resolve(loc string) (string, bool) {
	loc = clean(loc)
	if i := strings.IndexByte(loc, '#'); i >= 0 {
		loc = loc[:i]
	}
	switch {
	case loc == "":
		return "", false
	case hasHTTP(loc):
		return loc, !strings.ContainsAny(loc, " <>\"") || parses(loc)
	case startsFold(loc, "www.") || b.isOwnHost(loc):
		return "http://" + loc, true
	case b.url == nil || strings.ContainsAny(loc, " <>\""):
		return "", false
	}
	u, err := b.url.Parse(loc)
	if err != nil || u.Host == "" {
		return "", false
	}
	return u.String(), true
}

// parses tells whether a URL with odd characters can be read at all.
func parses(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != ""
}

// isOwnHost tells whether a location without a scheme begins with the
// sitemap's host, as those do that forget the scheme.
func (b base) isOwnHost(loc string) bool {
	if b.url == nil {
		return false
	}
	host, _, _ := strings.Cut(loc, "/")
	return strings.EqualFold(host, b.url.Host)
}

// clean drops white space around a location, and line breaks and tabs inside:
// pretty-printers put them there, and no URL holds them.
func clean(s string) string {
	s = strings.TrimSpace(s)
	if strings.ContainsAny(s, "\t\r\n") {
		s = strings.NewReplacer("\t", "", "\r", "", "\n", "").Replace(s)
	}
	return s
}

// absolute tells whether a line of a text sitemap is a URL, with its scheme or
// at least with "www.".
func absolute(line string) bool {
	s := strings.TrimSpace(line)
	return (hasHTTP(s) || startsFold(s, "www.")) && !strings.ContainsAny(s, " \t")
}

func hasHTTP(s string) bool { return startsFold(s, "http://") || startsFold(s, "https://") }

func startsFold(s, prefix string) bool {
	return len(s) > len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

func splitCR(s string) []string { return strings.Split(strings.TrimRight(s, "\r\n"), "\r") }
