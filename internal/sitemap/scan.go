package sitemap

import (
	"bufio"
	"bytes"
	"errors"
	"html"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of what is held in memory.
const (
	maxTag   = 16 << 10 // a start tag with its attributes
	maxText  = 16 << 10 // the text of an element; longer text is no URL or date
	maxNames = 256      // names remembered
)

type tokenKind uint8

const (
	tokenStart tokenKind = iota
	tokenEnd
	tokenText
)

// token is one piece of markup. attrs and text are valid until the next one.
type token struct {
	kind   tokenKind
	prefix string // lower case, without the colon
	name   string // lower case
	self   bool   // <name/>
	attrs  []byte // of a start tag, as written
	text   []byte // decoded
}

// scanner splits XML into tokens, forgiving what browsers and feed readers
// forgive. encoding/xml gives up at the first error.
type scanner struct {
	in *bufio.Reader
	// skipText drops text instead of keeping it.
	skipText bool
	inTag    bool // the "<" of the next tag has been read
	buf      []byte
	text     []byte
	names    map[string]string
	entities map[string]bool // declared in the DTD
	damage   string
}

func (s *scanner) broken(what string) {
	if s.damage == "" {
		s.damage = what
	}
}

// next returns the next token, io.EOF at the end.
func (s *scanner) next() (token, error) {
	for {
		if !s.inTag {
			t, err := s.readText()
			if err != nil || len(t.text) > 0 {
				return t, err
			}
		}
		s.inTag = false
		c, err := s.in.ReadByte()
		if err != nil {
			return token{}, s.cut(err)
		}
		switch {
		case c == '!':
			t, ok, err := s.declaration()
			if err != nil || ok {
				return t, err
			}
		case c == '?':
			if err := s.skipTo("?>"); err != nil {
				return token{}, err
			}
		case c == '/':
			if err := s.readTag(); err != nil {
				return token{}, err
			}
			t := token{kind: tokenEnd}
			t.prefix, t.name, _ = s.tagName(s.buf)
			return t, nil
		case isNameStart(c):
			_ = s.in.UnreadByte()
			if err := s.readTag(); err != nil {
				return token{}, err
			}
			t := token{kind: tokenStart}
			b := bytes.TrimRight(s.buf, " \t\r\n")
			if bytes.HasSuffix(b, []byte("/")) {
				t.self = true
				b = b[:len(b)-1]
			}
			t.prefix, t.name, t.attrs = s.tagName(b)
			return t, nil
		default:
			s.broken("a < that begins no tag")
			_ = s.in.UnreadByte()
		}
	}
}

// cut turns an end inside a tag into damage.
func (s *scanner) cut(err error) error {
	if errors.Is(err, io.EOF) {
		s.broken("the document ends inside a tag")
	}
	return err
}

// readText reads up to the next tag.
func (s *scanner) readText() (token, error) {
	s.text = s.text[:0]
	for {
		part, err := s.in.ReadSlice('<')
		if err == nil {
			part = part[:len(part)-1]
			s.inTag = true
		}
		if !s.skipText && len(s.text) <= maxText {
			s.text = append(s.text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil: // text at the very end means nothing
			return token{}, err
		}
		return token{kind: tokenText, text: s.decodeText(s.text)}, nil
	}
}

// readTag reads the rest of a tag into buf. A "<" ends a tag that was never
// closed: no tag may hold one.
func (s *scanner) readTag() error {
	s.buf = s.buf[:0]
	quote := byte(0)
	for {
		c, err := s.in.ReadByte()
		if err != nil {
			return s.cut(err)
		}
		switch {
		case c == '<':
			s.broken("a tag without its >")
			s.inTag = true
			return nil
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '>':
			return nil
		case c == '"' || c == '\'':
			quote = c
		}
		if len(s.buf) < maxTag {
			s.buf = append(s.buf, c)
		}
	}
}

// declaration reads what begins with "<!". A CDATA section is a text token.
func (s *scanner) declaration() (t token, ok bool, err error) {
	if p, _ := s.in.Peek(2); string(p) == "--" {
		_, _ = s.in.Discard(2)
		return t, false, s.skipTo("-->")
	}
	if p, _ := s.in.Peek(7); string(p) == "[CDATA[" {
		_, _ = s.in.Discard(7)
		s.text = s.text[:0]
		err := s.readTo("]]>", func(c byte) {
			if !s.skipText && len(s.text) <= maxText {
				s.text = append(s.text, c)
			}
		})
		return token{kind: tokenText, text: s.text}, len(s.text) > 0, err
	}
	return t, false, s.doctype()
}

// doctype passes over a document type with its internal subset, and notes the
// names of the entities declared there.
func (s *scanner) doctype() error {
	s.buf = s.buf[:0]
	depth, quote := 1, byte(0)
	for depth > 0 {
		c, err := s.in.ReadByte()
		if err != nil {
			return s.cut(err)
		}
		if len(s.buf) < maxTag {
			s.buf = append(s.buf, c)
		}
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '>':
			depth--
		case c == '<':
			depth++
			if p, _ := s.in.Peek(3); string(p) == "!--" {
				if err := s.skipTo("-->"); err != nil {
					return err
				}
				depth--
			}
		}
	}
	for rest := s.buf; ; {
		_, after, found := bytes.Cut(rest, []byte("<!ENTITY"))
		if !found {
			return nil
		}
		if f := bytes.Fields(after); len(f) > 0 && len(s.entities) < maxNames {
			if s.entities == nil {
				s.entities = make(map[string]bool)
			}
			s.entities[string(f[0])] = true
		}
		rest = after
	}
}

// skipTo passes over everything up to and including mark.
func (s *scanner) skipTo(mark string) error { return s.readTo(mark, func(byte) {}) }

// readTo hands on everything before mark and passes over mark.
func (s *scanner) readTo(mark string, take func(byte)) error {
	matched := 0
	for {
		c, err := s.in.ReadByte()
		if err != nil {
			return s.cut(err)
		}
		// The marks repeat only their first byte, so the longest part that
		// still matches is found by stepping back one byte at a time.
		for matched > 0 && c != mark[matched] {
			if c == mark[matched-1] && mark[:matched-1] == mark[1:matched] {
				take(mark[0])
				matched--
				break
			}
			for i := range matched {
				take(mark[i])
			}
			matched = 0
		}
		if c == mark[matched] {
			if matched++; matched == len(mark) {
				return nil
			}
			continue
		}
		take(c)
	}
}

// tagName splits a tag into prefix, name and the rest.
func (s *scanner) tagName(b []byte) (prefix, name string, rest []byte) {
	i := bytes.IndexAny(b, " \t\r\n/")
	if i < 0 {
		i = len(b)
	}
	full := s.intern(b[:i])
	if p, n, ok := strings.Cut(full, ":"); ok {
		return p, n, b[i:]
	}
	return "", full, b[i:]
}

// intern returns a name in lower case, without allocating for known ones.
func (s *scanner) intern(b []byte) string {
	if n, ok := s.names[string(b)]; ok {
		return n
	}
	n := strings.ToLower(string(b))
	if s.names == nil {
		s.names = make(map[string]string)
	}
	if len(s.names) < maxNames && len(b) < 64 {
		s.names[string(b)] = n
	}
	return n
}

// attr returns the value of an attribute without a prefix.
func (s *scanner) attr(attrs []byte, name string) string {
	for len(attrs) > 0 {
		attrs = bytes.TrimLeft(attrs, " \t\r\n/")
		eq := bytes.IndexByte(attrs, '=')
		if eq < 0 {
			return ""
		}
		key := bytes.TrimSpace(attrs[:eq])
		attrs = bytes.TrimLeft(attrs[eq+1:], " \t\r\n")
		if len(attrs) == 0 {
			return ""
		}
		var value []byte
		if q := attrs[0]; q == '"' || q == '\'' {
			end := bytes.IndexByte(attrs[1:], q)
			if end < 0 {
				return ""
			}
			value, attrs = attrs[1:1+end], attrs[end+2:]
		} else {
			end := bytes.IndexAny(attrs, " \t\r\n")
			if end < 0 {
				end = len(attrs)
			}
			value, attrs = attrs[:end], attrs[end:]
		}
		if strings.EqualFold(string(key), name) {
			return string(s.decodeText(bytes.Clone(value)))
		}
	}
	return ""
}

// decodeText replaces references in place; the result is never longer. An "&"
// that begins none is left as it is, as in unescaped query strings.
func (s *scanner) decodeText(b []byte) []byte {
	i := bytes.IndexByte(b, '&')
	if i < 0 {
		return b
	}
	out := b[:i]
	for i < len(b) {
		if b[i] != '&' {
			out = append(out, b[i])
			i++
			continue
		}
		end := bytes.IndexByte(b[i:min(len(b), i+34)], ';')
		if end > 1 {
			if r, ok := s.reference(string(b[i+1 : i+end])); ok {
				out = append(out, r...)
				i += end + 1
				continue
			}
		}
		out = append(out, '&')
		i++
	}
	return out
}

// reference returns what the reference &name; stands for. Entities of the
// document's own stand for nothing: what they say may be elsewhere, or huge.
func (s *scanner) reference(name string) (string, bool) {
	switch name {
	case "amp":
		return "&", true
	case "lt":
		return "<", true
	case "gt":
		return ">", true
	case "quot":
		return `"`, true
	case "apos":
		return "'", true
	}
	if s.entities[name] {
		return "", true
	}
	if name[0] == '#' {
		digits, base := name[1:], 10
		if digits != "" && (digits[0] == 'x' || digits[0] == 'X') {
			digits, base = digits[1:], 16
		}
		n, err := strconv.ParseUint(digits, base, 32)
		if err != nil {
			return "", false
		}
		if n > utf8.MaxRune || n == 0 || !utf8.ValidRune(rune(n)) {
			return "", true
		}
		return string(rune(n)), true
	}
	ref := "&" + name + ";"
	// Only what is replaced as a whole; "&ampx;" is not.
	if u := html.UnescapeString(ref); u != ref && !strings.HasSuffix(u, ";") && len(u) <= len(ref) {
		return u, true
	}
	return "", false
}

func isNameStart(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == ':' || c >= 0x80
}
