package weburl

import (
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
)

// Resolver makes canonical URLs of the links of a page: the hot path of the
// crawler. It keeps a buffer and is not safe for concurrent use; its URLs are
// independent of it and of the bytes they were read from.
type Resolver struct {
	base  URL  // what the general parser resolves against
	canon URL  // base in canonical form, the rules not applied
	fast  bool // canon is http or https
	rules *Canonicalizer
	enc   encoding.Encoding // of queries; nil is UTF-8
	buf   []byte
}

// keepBytes is the largest buffer a resolver keeps.
const keepBytes = 64 << 10

// NewResolver returns a resolver for the links of a page whose base URL is base.
// A nil canonicalizer applies no rules.
func NewResolver(base URL, c *Canonicalizer) *Resolver {
	r := &Resolver{rules: c}
	r.Reset(base)
	return r
}

// Reset sets another base and forgets the charset; rules and buffer stay. With
// the zero URL as its base the resolver takes absolute links only.
func (r *Resolver) Reset(base URL) {
	r.base, r.canon, r.enc = base, base.Canonical(), nil
	r.fast = r.canon.IsHTTP()
}

// SetCharset names the page's character encoding (a label such as "gbk"): as
// the standard says, the query of a link is encoded in it, while the link
// itself is handed over as UTF-8 text. Labels that are unknown, and those of
// UTF-8 and UTF-16, mean UTF-8. It reports whether the label is known.
func (r *Resolver) SetCharset(label string) bool {
	r.enc = nil
	enc, err := htmlindex.Get(label)
	if err != nil {
		return false
	}
	// The standard's "get an output encoding".
	switch name, _ := htmlindex.Name(enc); name {
	case "", "utf-8", "utf-16be", "utf-16le", "replacement":
	default:
		r.enc = enc
	}
	return true
}

// Resolve returns the canonical URL of a link as found in a page, the rules
// applied. ref is UTF-8 text and only read during the call; white space around
// it and tabs and newlines in it do not count. false means that it is not an
// http or https URL.
func (r *Resolver) Resolve(ref []byte) (URL, bool) {
	s := trimControls(ref)
	if len(s) == 0 || s[0] == '#' && r.fast {
		return r.finish(r.canon)
	}
	if r.enc == nil || asciiBytes(s) {
		var base *URL
		if r.fast {
			base = &r.canon
		}
		b, l, v := appendFast(r.buf[:0], base, s)
		if cap(b) <= keepBytes {
			r.buf = b
		}
		switch {
		case len(s) > maxBytes || v == rejected:
			return URL{}, false
		case v == done:
			return r.finish(l.url(string(b)))
		}
	}
	u, err := parse(string(ref), &r.base, r.enc)
	if err != nil || !u.IsHTTP() {
		return URL{}, false
	}
	return r.finish(u.Canonical())
}

// ResolveString is Resolve for a string.
func (r *Resolver) ResolveString(ref string) (URL, bool) { return r.Resolve([]byte(ref)) }

func (r *Resolver) finish(u URL) (URL, bool) {
	if !u.IsHTTP() {
		return URL{}, false
	}
	if r.rules != nil {
		u = r.rules.apply(u)
	}
	return u, true
}

func asciiBytes(s []byte) bool {
	for _, c := range s {
		if c >= 0x80 {
			return false
		}
	}
	return true
}
