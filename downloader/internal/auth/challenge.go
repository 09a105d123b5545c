package auth

import "strings"

type challenge struct {
	space
	stale bool
}

// choose returns the strongest digest challenge that can be answered, nil if
// there is none.
func choose(values []string) *challenge {
	var best *challenge
	rank := func(c *challenge) int {
		a := strings.ToLower(c.algorithm)
		switch {
		case strings.HasPrefix(a, "sha-512"):
			return 3
		case strings.HasPrefix(a, "sha-256"):
			return 2
		}
		return 1
	}
	for _, v := range values {
		for _, c := range parse(v) {
			if best == nil || rank(&c) > rank(best) {
				best = &c
			}
		}
	}
	return best
}

// parse reads the digest challenges in a WWW-Authenticate value, which may hold
// several of several schemes (RFC 9110 section 11.6.1). One that cannot be
// answered is left out.
func parse(v string) (out []challenge) {
	p := scanner{s: v}
	var now *challenge
	qopSeen := false
	end := func() {
		// What could break a header line is not repeated in one.
		if now != nil && !strings.ContainsFunc(now.realm+now.nonce+now.opaque, func(r rune) bool { return r < ' ' || r == 0x7f }) && now.nonce != "" && newHash(now.algorithm) != nil && (!qopSeen || now.qop) && len(now.realm)+len(now.nonce)+len(now.opaque) < 4096 {
			out = append(out, *now)
		}
		now, qopSeen = nil, false
	}
	for {
		p.skip(" \t,")
		name := p.token()
		if name == "" {
			end()
			return out
		}
		p.skip(" \t")
		if !p.take('=') {
			end() // a scheme begins
			if strings.EqualFold(name, "digest") {
				now = &challenge{}
			}
			continue
		}
		p.skip(" \t")
		value := p.value()
		if now == nil {
			continue
		}
		switch strings.ToLower(name) {
		case "realm":
			now.realm = value
		case "nonce":
			now.nonce = value
		case "opaque":
			now.opaque = value
		case "algorithm":
			now.algorithm = value
		case "stale":
			now.stale = strings.EqualFold(value, "true")
		case "qop":
			qopSeen = true
			for q := range strings.SplitSeq(value, ",") {
				now.qop = now.qop || strings.EqualFold(strings.TrimSpace(q), "auth")
			}
		}
	}
}

type scanner struct {
	s string
	i int
}

func (p *scanner) skip(set string) {
	for p.i < len(p.s) && strings.IndexByte(set, p.s[p.i]) >= 0 {
		p.i++
	}
}

func (p *scanner) take(c byte) bool {
	if p.i < len(p.s) && p.s[p.i] == c {
		p.i++
		return true
	}
	return false
}

// token reads up to a separator. A byte that can begin nothing is skipped.
func (p *scanner) token() string {
	for p.i < len(p.s) {
		start := p.i
		for p.i < len(p.s) && strings.IndexByte(" \t,=\"", p.s[p.i]) < 0 {
			p.i++
		}
		if p.i > start {
			return p.s[start:p.i]
		}
		p.i++
	}
	return ""
}

// value reads a token or a quoted string. Line breaks cannot be in it.
func (p *scanner) value() string {
	if !p.take('"') {
		start := p.i
		for p.i < len(p.s) && strings.IndexByte(" \t,", p.s[p.i]) < 0 {
			p.i++
		}
		return p.s[start:p.i]
	}
	var b strings.Builder
	for p.i < len(p.s) && p.s[p.i] != '"' {
		if p.s[p.i] == '\\' && p.i+1 < len(p.s) {
			p.i++
		}
		if c := p.s[p.i]; c >= ' ' {
			b.WriteByte(c)
		}
		p.i++
	}
	p.i++
	return b.String()
}
