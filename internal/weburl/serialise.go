package weburl

import "strconv"

// serialise is the URL serialiser.
func (p *parser) serialise() URL {
	n := len(p.scheme) + len(p.user) + len(p.pass) + len(p.host) + len(p.path) + len(p.query) + len(p.frag) + 16
	b := make([]byte, 0, n)
	u := URL{kind: p.kind, hasHost: p.hasHost, opaquePath: p.opaque}
	b = append(b, p.scheme...)
	u.schemeEnd = uint32(len(b))
	b = append(b, ':')
	if p.hasHost {
		b = append(b, "//"...)
		if p.user != "" || p.pass != "" {
			b = append(b, p.user...)
			if p.pass != "" {
				b = append(append(b, ':'), p.pass...)
			}
			b = append(b, '@')
		}
		u.hostStart = uint32(len(b))
		b = append(b, p.host...)
		u.hostEnd = uint32(len(b))
		if p.port >= 0 {
			b = strconv.AppendInt(append(b, ':'), int64(p.port), 10)
		}
	} else {
		u.hostStart, u.hostEnd = uint32(len(b)), uint32(len(b))
		if !p.opaque && len(p.path) > 1 && p.path[0] == '/' && p.path[1] == '/' {
			b = append(b, "/."...)
		}
	}
	u.pathStart = uint32(len(b))
	b = append(b, p.path...)
	u.queryStart = uint32(len(b))
	if p.hasQuery {
		b = append(append(b, '?'), p.query...)
	}
	u.fragStart = uint32(len(b))
	if p.hasFrag {
		b = append(append(b, '#'), p.frag...)
	}
	u.href = string(b)
	return u
}
