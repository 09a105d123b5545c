package cookie

import (
	"strings"
	"time"
)

// parseDate reads a cookie's date as leniently as RFC 6265 section 5.1.1 says:
// the first token that looks like a time, a day, a month and a year each.
func parseDate(s string) (time.Time, bool) {
	var (
		hour, minute, second, day, year  int
		month                            time.Month
		hasTime, hasDay, hasMonth, hasYr bool
	)
	for _, tok := range strings.FieldsFunc(s, func(r rune) bool {
		return r == '\t' || r >= ' ' && r <= '/' || r >= ';' && r <= '@' || r >= '[' && r <= '`' || r >= '{' && r <= '~'
	}) {
		if !hasTime {
			if h, m, sec, ok := clock(tok); ok {
				hour, minute, second, hasTime = h, m, sec, true
				continue
			}
		}
		n, digits := number(tok)
		switch {
		case !hasDay && (digits == 1 || digits == 2):
			day, hasDay = n, true
		case !hasMonth && len(tok) >= 3 && monthOf(tok[:3]) != 0:
			month, hasMonth = monthOf(tok[:3]), true
		case !hasYr && digits >= 2 && digits <= 4:
			year, hasYr = n, true
		}
	}
	switch {
	case year >= 70 && year <= 99:
		year += 1900
	case year >= 0 && year <= 69:
		year += 2000
	}
	if !hasTime || !hasDay || !hasMonth || !hasYr || day < 1 || day > 31 || year < 1601 || hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, false
	}
	t := time.Date(year, month, day, hour, minute, second, 0, time.UTC)
	return t, t.Day() == day
}

// number reads the digits at the start of s and says how many there are.
func number(s string) (n, digits int) {
	for digits < len(s) && s[digits] >= '0' && s[digits] <= '9' {
		if digits < 6 {
			n = n*10 + int(s[digits]-'0')
		}
		digits++
	}
	return n, digits
}

// clock reads "1:2:3".
func clock(s string) (h, m, sec int, ok bool) {
	for i, dst := range []*int{&h, &m, &sec} {
		n, d := number(s)
		if d < 1 || d > 2 {
			return 0, 0, 0, false
		}
		*dst, s = n, s[d:]
		if i < 2 {
			if s == "" || s[0] != ':' {
				return 0, 0, 0, false
			}
			s = s[1:]
		}
	}
	return h, m, sec, true
}

func monthOf(s string) time.Month {
	i := strings.Index("janfebmaraprmayjunjulaugsepoctnovdec", strings.ToLower(s))
	if i < 0 || i%3 != 0 {
		return 0
	}
	return time.Month(i/3 + 1)
}
