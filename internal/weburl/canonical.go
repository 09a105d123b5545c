package weburl

import "unsafe"

// ParseCanonical parses an absolute URL and returns its canonical form.
func ParseCanonical(raw string) (URL, error) {
	if u, ok := canonicalFast(readOnly(raw), raw); ok {
		return u, nil
	}
	u, err := parse(raw, nil, nil)
	if err != nil {
		return URL{}, err
	}
	return u.Canonical(), nil
}

// canonicalFast is ParseCanonical where the one-pass reader is sure. If the
// result equals same, it shares that string.
func canonicalFast(raw []byte, same string) (URL, bool) {
	s := trimControls(raw)
	if len(s) == 0 || len(s) > maxBytes {
		return URL{}, false
	}
	var room [512]byte
	b, l, v := appendFast(room[:0], nil, s)
	switch {
	case v != done:
		return URL{}, false
	case string(b) == same:
		return l.url(same), true
	}
	return l.url(string(b)), true
}

// Canonical returns the canonical form (package comment).
func (u URL) Canonical() URL {
	if u.IsZero() {
		return u
	}
	if !u.kind.special() {
		return u.withoutCredentials().WithoutFragment()
	}
	buf := make([]byte, 0, len(u.href)+16)
	buf = append(buf, u.href[:u.schemeEnd]...)
	buf = append(buf, "://"...)
	l := layout{kind: u.kind, schemeEnd: u.schemeEnd, hostStart: uint32(len(buf))}
	buf = append(buf, u.HostKey()...)
	l.hostEnd = l.hostStart + u.hostEnd - u.hostStart
	l.pathStart = uint32(len(buf))
	buf = append(buf, '/')
	// A serialised URL holds only ASCII and no tabs, so that the reader is sure.
	buf, l, _ = appendPath(buf, readOnly(u.PathQuery()), 1, l)
	if string(buf) == u.href {
		return u
	}
	return l.url(string(buf))
}

func (u URL) withoutCredentials() URL {
	if !u.HasCredentials() {
		return u
	}
	cut := u.hostStart - (u.schemeEnd + 3)
	u.href = u.href[:u.schemeEnd+3] + u.href[u.hostStart:]
	u.hostStart -= cut
	u.hostEnd -= cut
	u.pathStart -= cut
	u.queryStart -= cut
	u.fragStart -= cut
	return u
}

// readOnly is the bytes of s without a copy, for a reader that only reads.
func readOnly(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
