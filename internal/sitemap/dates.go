package sitemap

import (
	"strings"
	"time"
)

// w3cLayouts are the forms of the W3C's note on dates, and the slips that are
// common: no zone, no seconds, a space for the T, a zone without its colon.
var w3cLayouts = []string{
	time.DateOnly, time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04Z0700",
	"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 Z0700",
	"2006-01-02 15:04:05 Z07:00", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01", "2006", "20060102", "2006/01/02",
}

// parseW3C reads a lastmod, the zero time if it cannot.
func parseW3C(s string) time.Time {
	for _, l := range w3cLayouts {
		if len(s) < len("2006") || s[0] < '0' || s[0] > '9' {
			break
		}
		if t, err := time.Parse(l, s); err == nil {
			return t.UTC()
		}
	}
	return parseRFC822(s)
}

// parseFeedDate reads the date of a feed: RFC 822 with two or four digits for
// the year (RSS), or RFC 3339 (Atom, Dublin Core).
func parseFeedDate(s string) time.Time {
	if len(s) > 4 && s[4] == '-' {
		return parseW3C(s)
	}
	return parseRFC822(s)
}

var rfc822Layouts = []string{
	"2 Jan 2006 15:04:05", "2 Jan 06 15:04:05", "2 Jan 2006 15:04", "2 Jan 06 15:04",
	"2 January 2006 15:04:05", "2-Jan-2006 15:04:05", "2-Jan-06 15:04:05",
}

// zones of RFC 822, section 5.1, in hours. time.Parse knows only the local one
// by name.
var zones = map[string]time.Duration{
	"GMT": 0, "UT": 0, "UTC": 0, "Z": 0,
	"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
	"BST": 1, "CET": 1, "CEST": 2, "JST": 9,
}

// parseRFC822 reads a date with its zone, the zero time if it cannot: without
// a zone it could be off by a day.
func parseRFC822(s string) time.Time {
	if i := strings.IndexByte(s, ','); i >= 0 && i < len("Wednesday")+1 {
		s = s[i+1:]
	}
	s = strings.Join(strings.Fields(s), " ")
	i := strings.LastIndexByte(s, ' ')
	if i < 0 {
		return time.Time{}
	}
	rest, zone := s[:i], s[i+1:]
	var offset time.Duration
	if hours, ok := zones[strings.ToUpper(zone)]; ok {
		offset = hours * time.Hour
	} else {
		t, err := time.Parse("-0700", strings.Replace(zone, ":", "", 1))
		if err != nil {
			return time.Time{}
		}
		_, seconds := t.Zone()
		offset = time.Duration(seconds) * time.Second
	}
	for _, l := range rfc822Layouts {
		if t, err := time.Parse(l, rest); err == nil {
			return t.Add(-offset).UTC()
		}
	}
	return time.Time{}
}
