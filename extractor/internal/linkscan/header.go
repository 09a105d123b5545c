package linkscan

import "strings"

// HeaderLinks appends the links of one HTTP header field to dst: Location,
// Content-Location, Link (RFC 8288) and Refresh; other fields have none. name
// is compared without case. URLs are relative to the response's URL, not to a
// base element.
func HeaderLinks(dst []Link, name, value string) []Link {
	switch {
	case strings.EqualFold(name, "Location"):
		return appendHeader(dst, value, AttrHeaderLocation)
	case strings.EqualFold(name, "Content-Location"):
		return appendHeader(dst, value, AttrHeaderContentLocation)
	case strings.EqualFold(name, "Refresh"):
		if d, ok := ParseRefresh(value); ok && len(d.URL) > 0 {
			dst = append(dst, Link{URL: d.URL, Element: ElementHeader, Attr: AttrHeaderRefresh})
		}
	case strings.EqualFold(name, "Link"):
		return linkHeader(dst, value)
	}
	return dst
}

// ParseRefresh reads a Refresh header or the content of a meta refresh.
func ParseRefresh(value string) (DeclaredRefresh, bool) { return parseRefresh([]byte(value)) }

func appendHeader(dst []Link, value string, a Attr) []Link {
	u := trimSpace([]byte(value))
	if len(u) == 0 {
		return dst
	}
	return append(dst, Link{URL: u, Element: ElementHeader, Attr: a})
}

// linkHeader reads the link values of a Link field (RFC 8288, appendix B.2), as
// lenient as it asks for. A link whose context is another resource (anchor) is
// reported like any other.
func linkHeader(dst []Link, v string) []Link {
	for {
		lt := strings.IndexByte(v, '<')
		if lt < 0 {
			return dst
		}
		v = v[lt+1:]
		gt := strings.IndexByte(v, '>')
		if gt < 0 {
			return dst
		}
		target := v[:gt]
		v = v[gt+1:]
		var rel, typ string
		var hasRel bool
		v = linkParams(v, func(name, value string) {
			switch {
			case strings.EqualFold(name, "rel") && !hasRel:
				rel, hasRel = value, true // the first counts
			case strings.EqualFold(name, "type") && typ == "":
				typ = value
			}
		})
		r := parseRel([]byte(rel)).withType([]byte(typ))
		if k, ok := r.linkKind(); ok {
			dst = append(dst, Link{URL: trimSpace([]byte(target)), Kind: k, Element: ElementHeader, Attr: AttrHeaderLink, Rel: r})
		}
	}
}

// linkParams reads the parameters up to the comma that ends a link value, and
// returns what is behind it.
func linkParams(v string, fn func(name, value string)) string {
	const space = " \t"
	for {
		v = strings.TrimLeft(v, space)
		if v == "" {
			return ""
		}
		if v[0] == ',' {
			return v[1:]
		}
		if v[0] != ';' {
			// No parameter: pass on to the next delimiter.
			i := strings.IndexAny(v, ",;")
			if i < 0 {
				return ""
			}
			v = v[i:]
			continue
		}
		v = strings.TrimLeft(v[1:], space)
		i := strings.IndexAny(v, "=;, \t")
		if i < 0 {
			return ""
		}
		name := v[:i]
		v = strings.TrimLeft(v[i:], space)
		if v == "" || v[0] != '=' {
			fn(name, "")
			continue
		}
		v = strings.TrimLeft(v[1:], space)
		var value string
		if v != "" && v[0] == '"' {
			value, v = quotedString(v)
		} else {
			i := strings.IndexAny(v, ";,")
			if i < 0 {
				i = len(v)
			}
			value, v = strings.TrimRight(v[:i], space), v[i:]
		}
		fn(name, value)
	}
}

// quotedString reads the quoted-string at the start of v (RFC 9110, 5.6.4).
func quotedString(v string) (value, rest string) {
	var out strings.Builder
	for i := 1; i < len(v); i++ {
		switch v[i] {
		case '"':
			return out.String(), v[i+1:]
		case '\\':
			if i++; i < len(v) {
				out.WriteByte(v[i])
			}
		default:
			out.WriteByte(v[i])
		}
	}
	return out.String(), ""
}
