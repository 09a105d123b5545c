package weburl

import (
	"strconv"
	"strings"

	"golang.org/x/text/encoding"
)

// maxBytes bounds what is parsed; escaping can triple it and the offsets are 32
// bits wide.
const maxBytes = 256 << 20

// Parse parses an absolute URL as the WHATWG URL Standard does: it accepts what
// browsers accept. The fragment and credentials are kept.
func Parse(raw string) (URL, error) {
	if u, ok := parseSerialised(raw); ok {
		return u, nil
	}
	return parse(raw, nil, nil)
}

// Resolve resolves a reference against u as the standard does.
func (u URL) Resolve(ref string) (URL, error) { return parse(ref, &u, nil) }

// parse is the basic URL parser. enc is the encoding of the query, nil for UTF-8.
func parse(raw string, base *URL, enc encoding.Encoding) (URL, error) {
	if len(raw) > maxBytes {
		return URL{}, &Error{Input: raw, Reason: errTooLong}
	}
	if base != nil && base.IsZero() {
		base = nil
	}
	p := parser{base: base, enc: enc, port: -1}
	if err := p.run(removeTabs(trimControls(raw))); err != nil {
		e := &Error{Input: raw, Reason: err}
		if base != nil {
			e.Base = base.href
		}
		return URL{}, e
	}
	return p.serialise(), nil
}

// trimControls removes leading and trailing C0 controls and spaces.
func trimControls[T ~string | ~[]byte](s T) T {
	i, j := 0, len(s)
	for i < j && s[i] <= ' ' {
		i++
	}
	for j > i && s[j-1] <= ' ' {
		j--
	}
	return s[i:j]
}

func removeTabs(s string) string {
	if !strings.ContainsAny(s, "\t\n\r") {
		return s
	}
	return strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(s)
}

// parser holds the URL record of the standard while it is built. The states of
// its machine are the methods; each takes what is left of the input.
type parser struct {
	base *URL
	enc  encoding.Encoding

	scheme     string
	kind       schemeKind
	user, pass string // escaped
	host       string
	hasHost    bool
	port       int    // -1 is none
	path       []byte // each segment preceded by "/", or the opaque path
	opaque     bool
	query      []byte
	hasQuery   bool
	frag       []byte
	hasFrag    bool
}

// run covers the scheme start, scheme and no scheme states.
func (p *parser) run(s string) error {
	if scheme, rest, ok := cutScheme(s); ok {
		p.setScheme(scheme)
		base := p.base
		switch {
		case p.kind == kindFile:
			return p.fileState(rest)
		case p.kind.special() && base != nil && base.kind == p.kind:
			if strings.HasPrefix(rest, "//") {
				return p.authority(trimSlashes(rest))
			}
			return p.relative(rest)
		case p.kind.special():
			return p.authority(trimSlashes(rest))
		case strings.HasPrefix(rest, "//"):
			return p.authority(rest[2:])
		case strings.HasPrefix(rest, "/"):
			return p.pathState(rest[1:])
		default:
			p.opaquePath(rest)
			return nil
		}
	}
	base := p.base
	switch {
	case base == nil:
		return errNoScheme
	case base.opaquePath:
		if !strings.HasPrefix(s, "#") {
			return errOpaqueBase
		}
		p.setScheme(base.Scheme())
		p.copyPathQuery()
		p.setFragment(s[1:])
		return nil
	case base.kind == kindFile:
		p.setScheme("file")
		return p.fileState(s)
	default:
		p.setScheme(base.Scheme())
		return p.relative(s)
	}
}

// cutScheme splits a scheme, lower-cased, from what follows its colon.
func cutScheme(s string) (scheme, rest string, ok bool) {
	if s == "" || !isAlpha(s[0]) {
		return "", s, false
	}
	i := 1
	for i < len(s) && isSchemeByte(s[i]) {
		i++
	}
	if i == len(s) || s[i] != ':' {
		return "", s, false
	}
	return lowerASCII(s[:i]), s[i+1:], true
}

func trimSlashes(s string) string { return strings.TrimLeft(s, `/\`) }

func (p *parser) setScheme(scheme string) { p.scheme, p.kind = scheme, kindOf(scheme) }

func (p *parser) copyAuthority() {
	b := p.base
	p.user, p.pass = b.Credentials()
	p.host, p.hasHost, p.port = b.Hostname(), b.hasHost, -1
	if s := b.Port(); s != "" {
		p.port, _ = strconv.Atoi(s)
	}
}

func (p *parser) copyPathQuery() {
	b := p.base
	p.path, p.opaque = []byte(b.Path()), b.opaquePath
	p.query, p.hasQuery = []byte(b.Query()), b.HasQuery()
}

// isSlash reports whether c separates segments: a backslash does in special URLs.
func (p *parser) isSlash(c byte) bool { return c == '/' || c == '\\' && p.kind.special() }

// relative covers the relative and relative slash states.
func (p *parser) relative(s string) error {
	if s != "" && p.isSlash(s[0]) {
		s = s[1:]
		switch {
		case s != "" && p.kind.special() && p.isSlash(s[0]):
			return p.authority(trimSlashes(s))
		case strings.HasPrefix(s, "/"):
			return p.authority(s[1:])
		}
		p.copyAuthority()
		return p.pathState(s)
	}
	p.copyAuthority()
	p.copyPathQuery()
	return p.afterBase(s, true)
}

// afterBase goes on behind a base whose path and query were copied.
func (p *parser) afterBase(s string, shorten bool) error {
	switch {
	case s == "":
		return nil
	case s[0] == '?':
		p.setQuery(s[1:])
		return nil
	case s[0] == '#':
		p.setFragment(s[1:])
		return nil
	}
	p.query, p.hasQuery = nil, false
	if shorten {
		p.shorten()
	} else {
		p.path = p.path[:0]
	}
	return p.pathState(s)
}

// authority covers the authority, host and port states.
func (p *parser) authority(s string) error {
	end := 0
	for end < len(s) && s[end] != '?' && s[end] != '#' && !p.isSlash(s[end]) {
		end++
	}
	auth, rest := s[:end], s[end:]
	if at := strings.LastIndexByte(auth, '@'); at >= 0 {
		user, pass, _ := strings.Cut(auth[:at], ":")
		p.user = string(appendEncoded(nil, user, setUserinfo))
		p.pass = string(appendEncoded(nil, pass, setUserinfo))
		if auth = auth[at+1:]; auth == "" {
			return errHostMissing
		}
	}
	host, port, hasPort := cutPort(auth)
	if host == "" && (hasPort || p.kind.special()) {
		return errHostMissing
	}
	h, err := parseHost(host, !p.kind.special())
	if err != nil {
		return err
	}
	p.host, p.hasHost = h, true
	if err := p.setPort(port); err != nil {
		return err
	}
	return p.pathStart(rest)
}

// cutPort splits at the first colon outside brackets.
func cutPort(s string) (host, port string, found bool) {
	inside := false
	for i := range len(s) {
		switch s[i] {
		case '[':
			inside = true
		case ']':
			inside = false
		case ':':
			if !inside {
				return s[:i], s[i+1:], true
			}
		}
	}
	return s, "", false
}

func (p *parser) setPort(s string) error {
	if s == "" {
		return nil
	}
	n := 0
	for i := range len(s) {
		if !isDigit(s[i]) {
			return errPort
		}
		if n = n*10 + int(s[i]-'0'); n > 0xffff {
			return errPort
		}
	}
	if p.kind.special() && p.kind != kindFile && n == defaultPort[p.kind] {
		return nil
	}
	p.port = n
	return nil
}

// fileState covers the file, file slash and file host states.
func (p *parser) fileState(s string) error {
	p.host, p.hasHost = "", true
	fileBase := p.base != nil && p.base.kind == kindFile
	if s == "" || !p.isSlash(s[0]) {
		if !fileBase {
			return p.pathState(s)
		}
		p.host = p.base.Hostname()
		p.copyPathQuery()
		return p.afterBase(s, !startsWithDrive(s))
	}
	s = s[1:]
	if s == "" || !p.isSlash(s[0]) {
		if fileBase {
			p.host = p.base.Hostname()
			if d := p.base.Path(); !startsWithDrive(s) && len(d) >= 3 && isNormalDrive(d[1:3]) && (len(d) == 3 || d[3] == '/') {
				p.path = append(p.path, d[:3]...)
			}
		}
		return p.pathState(s)
	}
	s = s[1:]
	end := strings.IndexAny(s, `/\?#`)
	if end < 0 {
		end = len(s)
	}
	host := s[:end]
	switch {
	case isDrive(host):
		return p.pathState(s)
	case host == "":
		return p.pathStart(s)
	}
	h, err := parseHost(host, false)
	if err != nil {
		return err
	}
	if h != "localhost" {
		p.host = h
	}
	return p.pathStart(s[end:])
}

// isDrive reports a Windows drive letter, isNormalDrive one with a colon.
func isDrive(s string) bool {
	return len(s) == 2 && isAlpha(s[0]) && (s[1] == ':' || s[1] == '|')
}

func isNormalDrive(s string) bool { return isDrive(s) && s[1] == ':' }

func startsWithDrive(s string) bool {
	return len(s) >= 2 && isDrive(s[:2]) && (len(s) == 2 || strings.IndexByte(`/\?#`, s[2]) >= 0)
}

// shorten removes the last segment; a file's drive letter stays.
func (p *parser) shorten() {
	if p.kind == kindFile && len(p.path) == 3 && isNormalDrive(string(p.path[1:])) {
		return
	}
	i := len(p.path) - 1
	for i > 0 && p.path[i] != '/' {
		i--
	}
	p.path = p.path[:max(i, 0)]
}

func (p *parser) pathStart(s string) error {
	switch {
	case p.kind.special():
		if s != "" && p.isSlash(s[0]) {
			s = s[1:]
		}
		return p.pathState(s)
	case s == "":
		return nil
	case s[0] == '?':
		p.setQuery(s[1:])
		return nil
	case s[0] == '#':
		p.setFragment(s[1:])
		return nil
	}
	return p.pathState(strings.TrimPrefix(s, "/"))
}

// pathState reads segments up to the query, the fragment or the end.
func (p *parser) pathState(s string) error {
	for {
		end := 0
		for end < len(s) && s[end] != '?' && s[end] != '#' && !p.isSlash(s[end]) {
			end++
		}
		segment, more := s[:end], end < len(s) && p.isSlash(s[end])
		switch dots(segment) {
		case 2:
			p.shorten()
			if !more {
				p.path = append(p.path, '/')
			}
		case 1:
			if !more {
				p.path = append(p.path, '/')
			}
		default:
			first := len(p.path) == 0
			p.path = append(p.path, '/')
			p.path = appendEncoded(p.path, segment, setPath)
			if first && p.kind == kindFile && isDrive(segment) {
				p.path[2] = ':'
			}
		}
		if more {
			s = s[end+1:]
			continue
		}
		switch s = s[end:]; {
		case s == "":
		case s[0] == '?':
			p.setQuery(s[1:])
		default:
			p.setFragment(s[1:])
		}
		return nil
	}
}

// dots tells a single-dot (1) and a double-dot segment (2) from others (0).
func dots(s string) int {
	n := 0
	for s != "" {
		switch {
		case s[0] == '.':
			s = s[1:]
		case len(s) >= 3 && s[0] == '%' && s[1] == '2' && s[2]|0x20 == 'e':
			s = s[3:]
		default:
			return 0
		}
		if n++; n > 2 {
			return 0
		}
	}
	return n
}

// opaquePath is the opaque path state. A space before the query or the fragment
// is escaped, so that the path does not lose it when they are taken off.
func (p *parser) opaquePath(s string) {
	p.opaque = true
	end := strings.IndexAny(s, "?#")
	if end < 0 {
		p.path = appendEncoded(p.path, s, setC0)
		return
	}
	path := s[:end]
	if n := len(path); n > 0 && path[n-1] == ' ' {
		p.path = append(appendEncoded(p.path, path[:n-1], setC0), "%20"...)
	} else {
		p.path = appendEncoded(p.path, path, setC0)
	}
	if s[end] == '?' {
		p.setQuery(s[end+1:])
	} else {
		p.setFragment(s[end+1:])
	}
}

func (p *parser) setQuery(s string) {
	s, frag, hasFrag := strings.Cut(s, "#")
	p.hasQuery = true
	switch {
	case !p.kind.special():
		p.query = appendEncoded(p.query[:0], s, setQuery)
	case p.enc != nil && p.kind != kindWS && p.kind != kindWSS && !isASCII(s):
		p.query = appendQueryIn(p.query[:0], s, p.enc)
	default:
		p.query = appendEncoded(p.query[:0], s, setSpecialQuery)
	}
	if hasFrag {
		p.setFragment(frag)
	}
}

func (p *parser) setFragment(s string) {
	p.frag, p.hasFrag = appendEncoded(nil, s, setFragment), true
}
