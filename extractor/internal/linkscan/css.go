package linkscan

import (
	"bytes"
	"unicode/utf8"
)

// ScanCSS reports the URLs of a whole style sheet: url(), the strings of @import
// and of image-set(), escapes decoded. The URL of a link is valid until fn
// returns; it has Kind Embed, Element ElementCSSFile and, for @import,
// RelStylesheet. Of the options only Charset and MaxURLBytes matter. It ends any
// document that was begun.
func (s *Scanner) ScanCSS(css []byte, opt Options, fn func(Link)) {
	s.Begin(opt, fn)
	s.css = cssScanner{s: s, el: ElementCSSFile, attr: AttrText}
	s.css.scan(s.cssText(css))
	s.fn = nil
}

// mayLoad says whether a style text can hold a URL at all: all need a
// parenthesis or an at-rule.
func mayLoad(v []byte) bool {
	return bytes.IndexByte(v, '(') >= 0 || bytes.IndexByte(v, '@') >= 0
}

// cssScanner cuts a style text into tokens (CSS Syntax 3, section 4), as far as
// URLs depend on it.
type cssScanner struct {
	s    *Scanner
	el   Element
	attr Attr
	v    []byte

	depth    int // open parentheses
	imageSet int // depth inside the outermost image-set(), 0 outside
	rule     atRule
}

type atRule uint8

const (
	ruleNone      atRule = iota
	ruleImport           // @import, its URL not yet seen
	ruleNamespace        // @namespace: its URL is a name, loads nothing
)

func (c *cssScanner) scan(v []byte) {
	c.v = v
	for i := 0; i < len(v); {
		switch b := v[i]; {
		case b == '/' && i+1 < len(v) && v[i+1] == '*':
			end := bytes.Index(v[i+2:], []byte("*/"))
			if end < 0 {
				return
			}
			i += end + 4
		case b == '"' || b == '\'':
			var u []byte
			u, i = c.quoted(i)
			if u != nil {
				c.str(u)
			}
		case b == '@' && c.attr != AttrStyle:
			i = c.at(i)
		case isNameStart(b) || b == '\\' && i+1 < len(v) && v[i+1] != '\n' || b == '-':
			i = c.ident(i)
		case b == '#' || b == '.' || '0' <= b && b <= '9':
			// A hash, class or number takes the name behind it with it.
			i = skipName(v, i+1)
		case b == '(':
			c.depth++
			i++
		case b == ')':
			if c.depth > 0 {
				c.depth--
			}
			if c.depth < c.imageSet {
				c.imageSet = 0
			}
			i++
		case b == ';' || b == '{' || b == '}':
			c.rule = ruleNone
			if b != ';' {
				c.depth, c.imageSet = 0, 0
			}
			i++
		default:
			i++
		}
	}
	c.v = nil
}

func (c *cssScanner) report(u []byte, r Rel) {
	if loads(u) {
		c.s.report(Link{URL: u, Kind: Embed, Element: c.el, Attr: c.attr, Rel: r})
	}
}

func isNameStart(b byte) bool { return class[b]&clsLetter != 0 || b == '_' || b >= 0x80 }

func isNameByte(b byte) bool { return isNameStart(b) || b == '-' || '0' <= b && b <= '9' }

func skipName(v []byte, i int) int {
	for i < len(v) {
		switch {
		case isNameByte(v[i]):
			i++
		case v[i] == '\\' && i+1 < len(v) && v[i+1] != '\n':
			i += 2
		default:
			return i
		}
	}
	return i
}

// name returns the identifier at i with its escapes decoded, and its end.
func (c *cssScanner) name(i int) ([]byte, int) {
	end := skipName(c.v, i)
	if bytes.IndexByte(c.v[i:end], '\\') < 0 {
		return c.v[i:end], end
	}
	n, start := i, len(c.s.arena)
	for n < len(c.v) {
		switch b := c.v[n]; {
		case isNameByte(b):
			c.s.arena = append(c.s.arena, b)
			n++
			continue
		case b == '\\' && n+1 < len(c.v) && c.v[n+1] != '\n':
			n = c.escape(n)
			continue
		}
		break
	}
	return c.s.arena[start:], n
}

func (c *cssScanner) at(i int) int {
	name, end := c.name(i + 1)
	switch {
	case equalFold(name, "import"):
		c.rule = ruleImport
	case equalFold(name, "namespace"):
		c.rule = ruleNamespace
	default:
		c.rule = ruleNone
	}
	return max(end, i+1)
}

func (c *cssScanner) ident(i int) int {
	name, end := c.name(i)
	if end >= len(c.v) || c.v[end] != '(' {
		return max(end, i+1)
	}
	end++
	c.depth++
	switch {
	case equalFold(name, "url"), equalFold(name, "src"):
		return c.url(end, equalFold(name, "url"))
	case c.imageSet == 0 && hasSuffixFold(name, "image-set"):
		c.imageSet = c.depth
	}
	return end
}

// str acts on a string token.
func (c *cssScanner) str(u []byte) {
	switch {
	case c.rule == ruleImport && c.depth == 0:
		c.rule = ruleNone
		c.report(u, RelStylesheet)
	case c.imageSet > 0 && c.depth == c.imageSet:
		c.report(u, 0)
	}
}

func (c *cssScanner) found(u []byte) {
	switch c.rule {
	case ruleNamespace:
	case ruleImport:
		c.rule = ruleNone
		c.report(u, RelStylesheet)
	default:
		c.report(u, 0)
	}
}

// url reads the inside of url( at i; bare allows it without quotes.
func (c *cssScanner) url(i int, bare bool) int {
	v := c.v
	for i < len(v) && class[v[i]]&clsSpace != 0 {
		i++
	}
	if i >= len(v) {
		return i
	}
	if v[i] == '"' || v[i] == '\'' {
		u, end := c.quoted(i)
		if u != nil {
			c.found(u)
		}
		return end // the parenthesis is still open
	}
	if !bare {
		return i
	}
	c.depth--
	start, from := i, len(c.s.arena)
	escaped := false
	for i < len(v) {
		switch b := v[i]; {
		case b == ')' || class[b]&clsSpace != 0:
			u := v[start:i:i]
			if escaped {
				u = c.s.arena[from:]
			}
			for i < len(v) && class[v[i]]&clsSpace != 0 {
				i++
			}
			if i < len(v) && v[i] != ')' {
				return badURL(v, i)
			}
			c.found(u)
			return min(i+1, len(v))
		case b == '"' || b == '\'' || b == '(' || b < 0x20 || b == 0x7F:
			return badURL(v, i)
		case b == '\\':
			if i+1 >= len(v) || v[i+1] == '\n' {
				return badURL(v, i)
			}
			if !escaped {
				escaped = true
				c.s.arena = append(c.s.arena, v[start:i]...)
			}
			i = c.escape(i)
		default:
			if escaped {
				c.s.arena = append(c.s.arena, b)
			}
			i++
		}
	}
	u := v[start:]
	if escaped {
		u = c.s.arena[from:]
	}
	c.found(u)
	return i
}

// badURL passes over the remnants of a bad url (CSS Syntax 4.3.14).
func badURL(v []byte, i int) int {
	for i < len(v) {
		switch v[i] {
		case ')':
			return i + 1
		case '\\':
			i++
		}
		i++
	}
	return len(v)
}

// quoted reads the string at i; u is nil if a new line cuts it.
func (c *cssScanner) quoted(i int) (u []byte, end int) {
	v, quote := c.v, c.v[i]
	i++
	start, from := i, len(c.s.arena)
	escaped := false
	for i < len(v) && v[i] != quote {
		switch b := v[i]; {
		case b == '\n' || b == '\r' || b == '\f':
			return nil, i
		case b == '\\':
			if !escaped {
				escaped = true
				c.s.arena = append(c.s.arena, v[start:i]...)
			}
			switch {
			case i+1 >= len(v):
				i++
			case v[i+1] == '\r' && i+2 < len(v) && v[i+2] == '\n':
				i += 3
			case v[i+1] == '\n' || v[i+1] == '\r' || v[i+1] == '\f':
				i += 2
			default:
				i = c.escape(i)
			}
		default:
			if escaped {
				c.s.arena = append(c.s.arena, b)
			}
			i++
		}
	}
	u = v[start:i:i]
	if escaped {
		u = c.s.arena[from:len(c.s.arena):len(c.s.arena)]
	}
	return u, min(i+1, len(v))
}

// escape appends what the escape at i stands for and returns its end (CSS Syntax
// 4.3.7).
func (c *cssScanner) escape(i int) int {
	v := c.v
	i++
	r, n := rune(0), 0
	for n < 6 && i < len(v) {
		d := hexDigit(v[i])
		if d < 0 {
			break
		}
		r = r<<4 | d
		n++
		i++
	}
	if n == 0 {
		if i >= len(v) {
			return i
		}
		_, size := utf8.DecodeRune(v[i:])
		c.s.arena = append(c.s.arena, v[i:i+size]...)
		return i + size
	}
	if i < len(v) && class[v[i]]&clsSpace != 0 {
		if v[i] == '\r' && i+1 < len(v) && v[i+1] == '\n' {
			i++
		}
		i++
	}
	if r == 0 {
		r = utf8.RuneError
	}
	c.s.arena = utf8.AppendRune(c.s.arena, r)
	return i
}
