package weburl

import (
	"strconv"
	"unicode/utf8"
)

// Classes of bytes for the one-pass reader. plain bytes are copied as they are.
const (
	plain    uint8 = iota
	escape         // is written as an escape
	percent        // starts an escape, or is escaped itself
	slash          // separates segments
	question       // ends a path
	hash           // ends a path or a query
	high           // byte of a non-ASCII code point
	tab            // tab or newline, which the standard removes beforehand
)

// pathClass and queryClass hold, besides the standard's percent-encode sets,
// what RFC 3986 allows in no path and no query.
var pathClass, queryClass = byteClasses(setPath, "[]|", true), byteClasses(setSpecialQuery, "[]|\\^`{}", false)

func byteClasses(set uint8, more string, path bool) (t [256]uint8) {
	for c := range 256 {
		switch {
		case c >= utf8.RuneSelf:
			t[c] = high
		case encodeSets[c]&set != 0:
			t[c] = escape
		}
	}
	for i := range len(more) {
		t[more[i]] = escape
	}
	t['\t'], t['\n'], t['\r'] = tab, tab, tab
	t['%'], t['#'] = percent, hash
	if path {
		t['/'], t['\\'], t['?'] = slash, slash, question
	}
	return t
}

// hostLower maps the bytes a host may hold on the fast path to their lower case,
// all others to 0.
var hostLower = func() (t [256]uint8) {
	for c := range 256 {
		b := byte(c)
		switch {
		case isAlpha(b):
			t[c] = b | 0x20
		case isDigit(b) || b == '-' || b == '.' || b == '_':
			t[c] = b
		}
	}
	return t
}()

type verdict uint8

const (
	done     verdict = iota // the canonical URL was written
	rejected                // certainly no http or https URL
	unsure                  // the general parser must decide
)

// layout is a URL whose href is still in a buffer.
type layout struct {
	schemeEnd, hostStart, hostEnd, pathStart, queryStart uint32
	kind                                                 schemeKind
}

func (l layout) url(href string) URL {
	return URL{
		href: href, schemeEnd: l.schemeEnd, hostStart: l.hostStart, hostEnd: l.hostEnd, pathStart: l.pathStart,
		queryStart: l.queryStart, fragStart: uint32(len(href)), kind: l.kind, hasHost: true,
	}
}

// appendFast appends the canonical form of ref to the empty buf, resolved
// against base, which is a canonical http or https URL or nil. ref is trimmed
// and not empty. It writes only what it is sure of.
func appendFast(buf []byte, base *URL, ref []byte) ([]byte, layout, verdict) {
	var l layout
	c := ref[0]
	switch {
	case isAlpha(c):
		n := 1
		for n < len(ref) && isSchemeByte(ref[n]) {
			n++
		}
		if n == len(ref) || ref[n] != ':' {
			break // relative
		}
		kind := httpKind(ref[:n])
		if kind == kindOther {
			return buf, l, rejected
		}
		if n+3 > len(ref) || ref[n+1] != '/' || ref[n+2] != '/' {
			return buf, l, unsure // http:x depends on the base
		}
		return appendAuthority(buf, kind, ref[n+3:])
	case c == '/' && len(ref) > 1 && ref[1] == '/':
		if base == nil {
			return buf, l, unsure
		}
		return appendAuthority(buf, base.kind, ref[2:])
	}
	if base == nil || c == '\\' || c == '/' && len(ref) > 1 && ref[1] == '\\' {
		return buf, l, unsure
	}
	l = layout{base.schemeEnd, base.hostStart, base.hostEnd, base.pathStart, base.queryStart, base.kind}
	switch c {
	case '#':
		return append(buf, base.href[:base.fragStart]...), l, done
	case '?':
		buf = append(buf, base.href[:base.queryStart]...)
		return appendQuery(buf, ref, 0, l)
	case '/':
		buf = append(buf, base.href[:base.pathStart+1]...)
		return appendPath(buf, ref, 1, l)
	}
	dir := base.queryStart
	for base.href[dir-1] != '/' {
		dir--
	}
	buf = append(buf, base.href[:dir]...)
	return appendPath(buf, ref, 0, l)
}

// httpKind is kindHTTP, kindHTTPS or kindOther.
func httpKind(scheme []byte) schemeKind {
	if len(scheme) < 4 || len(scheme) > 5 {
		return kindOther
	}
	if scheme[0]|0x20 != 'h' || scheme[1]|0x20 != 't' || scheme[2]|0x20 != 't' || scheme[3]|0x20 != 'p' {
		return kindOther
	}
	if len(scheme) == 4 {
		return kindHTTP
	}
	if scheme[4]|0x20 == 's' {
		return kindHTTPS
	}
	return kindOther
}

// appendAuthority reads what stands behind "//".
func appendAuthority(buf []byte, kind schemeKind, s []byte) ([]byte, layout, verdict) {
	var l layout
	l.kind = kind
	if kind == kindHTTP {
		buf = append(buf, "http://"...)
		l.schemeEnd, l.hostStart = 4, 7
	} else {
		buf = append(buf, "https://"...)
		l.schemeEnd, l.hostStart = 5, 8
	}
	i, label := 0, 0 // label: start of the last label, a trailing dot not counted
	for i < len(s) {
		c := hostLower[s[i]]
		if c == 0 {
			break
		}
		buf = append(buf, c)
		if c == '.' && i+1 < len(s) && hostLower[s[i+1]] != 0 {
			label = i + 1
		}
		i++
	}
	// An empty host fails, a last label that starts with a digit may be a number.
	if i == 0 || isDigit(s[label]) {
		return buf, l, unsure
	}
	l.hostEnd = uint32(len(buf))
	if i < len(s) && s[i] == ':' {
		port := 0
		for i++; i < len(s) && isDigit(s[i]); i++ {
			if port = port*10 + int(s[i]-'0'); port > 0xffff {
				return buf, l, unsure
			}
		}
		if s[i-1] != ':' && port != defaultPort[kind] {
			buf = strconv.AppendInt(append(buf, ':'), int64(port), 10)
		}
	}
	l.pathStart = uint32(len(buf))
	buf = append(buf, '/')
	if i == len(s) {
		l.queryStart = uint32(len(buf))
		return buf, l, done
	}
	switch s[i] {
	case '/', '\\':
		return appendPath(buf, s, i+1, l)
	case '?':
		l.queryStart = uint32(len(buf))
		return appendQuery(buf, s, i, l)
	case '#':
		l.queryStart = uint32(len(buf))
		return buf, l, done
	}
	return buf, l, unsure
}

// appendPath appends the segments of s[i:] to buf, which ends in a slash, then
// the query.
func appendPath(buf []byte, s []byte, i int, l layout) ([]byte, layout, verdict) {
	segment := len(buf)
	for {
		run := i
		for i < len(s) && pathClass[s[i]] == plain {
			i++
		}
		buf = append(buf, s[run:i]...)
		if i == len(s) {
			break
		}
		switch c := s[i]; pathClass[c] {
		case slash:
			i++
			var dot bool
			if buf, dot = closeSegment(buf, segment, int(l.pathStart)); !dot {
				buf = append(buf, '/')
			}
			segment = len(buf)
			continue
		case percent:
			buf, i = appendPercent(buf, s, i)
			continue
		case escape:
			buf = appendEscape(buf, c)
			i++
			continue
		case high:
			n := highRun(s[i:])
			if n == 0 {
				return buf, l, unsure
			}
			buf = appendEscapes(buf, s[i:i+n])
			i += n
			continue
		case tab:
			return buf, l, unsure
		}
		break // question or hash
	}
	buf, _ = closeSegment(buf, segment, int(l.pathStart))
	l.queryStart = uint32(len(buf))
	if i < len(s) && s[i] == '?' {
		return appendQuery(buf, s, i, l)
	}
	return buf, l, done
}

// closeSegment takes back the segment that begins at start if it is "." or
// "..", in the second case with the one before it. buf then ends in a slash.
// The escapes of a dot are already decoded.
func closeSegment(buf []byte, start, path int) ([]byte, bool) {
	switch len(buf) - start {
	case 1:
		if buf[start] == '.' {
			return buf[:start], true
		}
	case 2:
		if buf[start] == '.' && buf[start+1] == '.' {
			for start--; start > path && buf[start-1] != '/'; start-- {
			}
			return buf[:max(start, path+1)], true
		}
	}
	return buf, false
}

// appendQuery appends the query of s[i:], which begins with "?".
func appendQuery(buf []byte, s []byte, i int, l layout) ([]byte, layout, verdict) {
	l.queryStart = uint32(len(buf))
	buf = append(buf, '?')
	i++
	for {
		run := i
		for i < len(s) && queryClass[s[i]] == plain {
			i++
		}
		buf = append(buf, s[run:i]...)
		if i == len(s) {
			return buf, l, done
		}
		switch c := s[i]; queryClass[c] {
		case percent:
			buf, i = appendPercent(buf, s, i)
		case escape:
			buf = appendEscape(buf, c)
			i++
		case high:
			n := highRun(s[i:])
			if n == 0 {
				return buf, l, unsure
			}
			buf = appendEscapes(buf, s[i:i+n])
			i += n
		case hash:
			return buf, l, done
		default: // tab
			return buf, l, unsure
		}
	}
}

// appendPercent normalises the escape at s[i] and returns where to go on.
func appendPercent(buf []byte, s []byte, i int) ([]byte, int) {
	if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
		return append(buf, "%25"...), i + 1
	}
	c := unhex[s[i+1]]<<4 | unhex[s[i+2]]
	if isUnreserved(c) {
		return append(buf, c), i + 3
	}
	return appendEscape(buf, c), i + 3
}

// highRun is the length of the non-ASCII run that s begins with, 0 if it is not
// UTF-8.
func highRun(s []byte) int {
	n := 0
	for n < len(s) && s[n] >= utf8.RuneSelf {
		n++
	}
	if !utf8.Valid(s[:n]) {
		return 0
	}
	return n
}

func appendEscapes(buf, s []byte) []byte {
	for _, c := range s {
		buf = appendEscape(buf, c)
	}
	return buf
}

// parseSerialised recognises an http or https URL that is already in the
// serialised form and of the simplest kind, and shares its string.
func parseSerialised(raw string) (URL, bool) {
	var l layout
	switch {
	case len(raw) > maxBytes:
		return URL{}, false
	case len(raw) > 7 && raw[:7] == "http://":
		l.kind, l.schemeEnd, l.hostStart = kindHTTP, 4, 7
	case len(raw) > 8 && raw[:8] == "https://":
		l.kind, l.schemeEnd, l.hostStart = kindHTTPS, 5, 8
	default:
		return URL{}, false
	}
	i := int(l.hostStart)
	for i < len(raw) && hostLower[raw[i]] == raw[i] && raw[i] != 0 {
		i++
	}
	host := raw[l.hostStart:i]
	if host == "" || i == len(raw) {
		return URL{}, false
	}
	if last := lastLabel(host); last != "" && isDigit(last[0]) {
		return URL{}, false
	}
	l.hostEnd = uint32(i)
	if raw[i] == ':' {
		port := i + 1
		for i++; i < len(raw) && isDigit(raw[i]); i++ {
		}
		if n := i - port; n == 0 || n > 4 || raw[port] == '0' || i == len(raw) {
			return URL{}, false
		}
		if p := raw[port:i]; p == "80" && l.kind == kindHTTP || p == "443" && l.kind == kindHTTPS {
			return URL{}, false
		}
	}
	if raw[i] != '/' {
		return URL{}, false
	}
	l.pathStart = uint32(i)
	for ; i < len(raw); i++ {
		switch pathClass[raw[i]] {
		case plain:
		case slash:
			if raw[i] == '\\' || i+1 < len(raw) && raw[i+1] == '.' {
				return URL{}, false // perhaps a dot segment
			}
		case percent:
			if i+2 < len(raw) && raw[i+1] == '2' && raw[i+2]|0x20 == 'e' {
				return URL{}, false
			}
		case question:
			l.queryStart = uint32(i)
			for i++; i < len(raw); i++ {
				if c := queryClass[raw[i]]; c != plain && c != percent {
					return URL{}, false
				}
			}
			return l.url(raw), true
		default:
			return URL{}, false
		}
	}
	l.queryStart = uint32(len(raw))
	return l.url(raw), true
}
