package robots

import (
	"net/http"
	"strings"
	"time"
)

// Directives is what a page says about itself in meta robots elements and
// X-Robots-Tag headers. The zero value restricts nothing. Where directives
// contradict each other the more restrictive one holds.
type Directives struct {
	NoIndex      bool
	NoFollow     bool
	NoArchive    bool // "noarchive" or "nocache": keep no public copy
	NoSnippet    bool
	NoImageIndex bool
	NoTranslate  bool
	// UnavailableAfter is when the page should no longer be shown; zero if it
	// does not say.
	UnavailableAfter time.Time
}

// Merge returns the restrictions of both.
func (d Directives) Merge(o Directives) Directives {
	d.NoIndex = d.NoIndex || o.NoIndex
	d.NoFollow = d.NoFollow || o.NoFollow
	d.NoArchive = d.NoArchive || o.NoArchive
	d.NoSnippet = d.NoSnippet || o.NoSnippet
	d.NoImageIndex = d.NoImageIndex || o.NoImageIndex
	d.NoTranslate = d.NoTranslate || o.NoTranslate
	d.expire(o.UnavailableAfter)
	return d
}

// Expired tells whether the page says it is no longer available.
func (d Directives) Expired(now time.Time) bool {
	return !d.UnavailableAfter.IsZero() && now.After(d.UnavailableAfter)
}

// expire keeps the earlier time.
func (d *Directives) expire(t time.Time) {
	if !t.IsZero() && (d.UnavailableAfter.IsZero() || t.Before(d.UnavailableAfter)) {
		d.UnavailableAfter = t
	}
}

// ParseDirectives reads the content of one meta robots element. Whether the
// element's name is for this crawler ("robots", or its product token) is for
// the caller to see.
func ParseDirectives(content string) Directives {
	var d Directives
	parts := strings.FieldsFunc(content, func(c rune) bool { return c == ',' || c == ';' })
	for i := 0; i < len(parts); i++ {
		i += d.part(parts, i)
	}
	return d
}

// ParseXRobotsTag reads the values of all X-Robots-Tag headers of a response,
// as far as they are for every crawler or for this one. A value may begin with
// a crawler's name and a colon; the name holds until the next one in the same
// value.
func ParseXRobotsTag(values []string, agent string) Directives {
	var d Directives
	token := ProductToken(agent)
	for _, v := range values {
		mine := true
		parts := strings.Split(v, ",")
		for i := 0; i < len(parts); i++ {
			if name, rest, ok := cutAgent(parts[i]); ok {
				mine = name == "*" || strings.EqualFold(name, "robots") || token != "" && strings.EqualFold(name, token)
				parts[i] = rest
			}
			// Read the part in any case: it may be a date with commas.
			var one Directives
			i += one.part(parts, i)
			if mine {
				d = d.Merge(one)
			}
		}
	}
	return d
}

// cutAgent separates a leading crawler's name from a directive.
func cutAgent(s string) (name, rest string, ok bool) {
	name, rest, ok = strings.Cut(s, ":")
	name = trim(name)
	if !ok || name == "" || hasValue(name) {
		return "", s, false
	}
	for i := range len(name) {
		if c := name[i]; !isAlpha(c) && !isDigit(c) && strings.IndexByte("_-.*", c) < 0 {
			return "", s, false
		}
	}
	// A clock time, not a name.
	if isDigit(name[0]) && len(rest) > 0 && isDigit(rest[0]) {
		return "", s, false
	}
	return name, rest, true
}

// hasValue tells whether a directive takes a value after a colon.
func hasValue(name string) bool {
	switch strings.ToLower(name) {
	case "unavailable_after", "max-snippet", "max-image-preview", "max-video-preview":
		return true
	}
	return false
}

// part reads the directive at parts[i] and returns how many of the parts after
// it belong to it.
func (d *Directives) part(parts []string, i int) int {
	s := trim(parts[i])
	if name, value, ok := strings.Cut(s, ":"); ok {
		if strings.EqualFold(trim(name), "unavailable_after") {
			return d.unavailable(value, parts[i+1:])
		}
		return 0
	}
	// Some pages put spaces where commas belong.
	for _, w := range strings.Fields(s) {
		d.word(w)
	}
	return 0
}

func (d *Directives) word(w string) {
	switch strings.ToLower(w) {
	case "none":
		d.NoIndex, d.NoFollow = true, true
	case "noindex":
		d.NoIndex = true
	case "nofollow":
		d.NoFollow = true
	case "noarchive", "nocache":
		d.NoArchive = true
	case "nosnippet":
		d.NoSnippet = true
	case "noimageindex":
		d.NoImageIndex = true
	case "notranslate":
		d.NoTranslate = true
	}
}

// unavailable reads a date that may go on in the next part, as the comma of
// "Wed, 25 Jun 2025 15:00:00 GMT" is also the one that separates directives.
func (d *Directives) unavailable(value string, next []string) int {
	if t, ok := parseDate(value); ok {
		d.expire(t)
		return 0
	}
	if len(next) > 0 {
		if t, ok := parseDate(value + "," + next[0]); ok {
			d.expire(t)
			return 1
		}
	}
	return 0
}

var dateLayouts = []string{
	http.TimeFormat, time.RFC1123Z, time.RFC1123, time.RFC850, time.RFC822Z, time.RFC822, time.ANSIC,
	"2 Jan 2006 15:04:05 MST", "2 Jan 2006 15:04:05 -0700", "02-Jan-2006 15:04:05 MST", "2 Jan 2006 15:04:05", "2 Jan 2006",
	"Monday, 2 Jan 2006 15:04:05 MST", "Mon, 2 Jan 2006 15:04:05 MST", "Mon, 2 Jan 2006 15:04:05 -0700",
	time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04Z07:00", time.DateOnly,
}

func parseDate(s string) (time.Time, bool) {
	s = trim(s)
	for _, l := range dateLayouts {
		if t, err := time.Parse(l, s); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}
