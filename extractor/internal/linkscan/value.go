package linkscan

import (
	"html"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
)

// value returns an attribute's value, decoded. It lies in b, or in the arena
// where decoding changed it.
func (s *Scanner) value(b []byte, a Attr) []byte { return s.decode(b, s.span[a]) }

func (s *Scanner) decode(b []byte, at span) []byte {
	v := b[at.start:at.end:at.end]
	for _, c := range v {
		if class[c]&clsSlow != 0 {
			return s.decodeSlow(v)
		}
	}
	return v
}

// decodeSlow does what stands between the bytes and a value: the encoding, new
// lines (HTML 13.2.3.5), NUL, and character references.
func (s *Scanner) decodeSlow(v []byte) []byte {
	plain := true
	high := false
	for _, c := range v {
		switch {
		case c >= 0x80:
			high = true
		case class[c]&clsSlow != 0:
			plain = false
		}
	}
	if high {
		if !s.opt.Charset.IsUTF8() {
			v = s.toUTF8(v)
		} else if !utf8.Valid(v) {
			if u, err := unicode.UTF8.NewDecoder().Bytes(v); err == nil {
				v = u
			}
		}
	}
	if plain {
		return v
	}
	start := len(s.arena)
	for i := 0; i < len(v); {
		switch c := v[i]; c {
		case '\r':
			s.arena = append(s.arena, '\n')
			i++
			if i < len(v) && v[i] == '\n' {
				i++
			}
		case 0:
			s.arena = utf8.AppendRune(s.arena, utf8.RuneError)
			i++
		case '&':
			var n int
			if s.arena, n = appendReference(s.arena, v[i:]); n == 0 {
				s.arena = append(s.arena, '&')
				n = 1
			}
			i += n
		default:
			s.arena = append(s.arena, c)
			i++
		}
	}
	return s.arena[start:len(s.arena):len(s.arena)]
}

// appendReference appends what the character reference at the start of v stands
// for in an attribute's value, and returns its length, 0 if it is none (HTML
// 13.2.5.72 to 80). A name counts with its semicolon, or, where the standard has
// it without, if neither = nor a letter or digit follows; so the name is always
// the whole run of letters and digits.
func appendReference(dst, v []byte) ([]byte, int) {
	if len(v) > 1 && v[1] == '#' {
		return appendNumeric(dst, v)
	}
	i := 1
	for i < len(v) && isAlnum(v[i]) {
		i++
	}
	name := v[1:i]
	if len(name) == 0 || len(name) > 32 {
		return dst, 0
	}
	semicolon := i < len(v) && v[i] == ';'
	if !semicolon && i < len(v) && v[i] == '=' {
		return dst, 0
	}
	n := i
	if semicolon {
		n++
	}
	switch string(name) {
	case "amp", "AMP":
		return append(dst, '&'), n
	case "lt", "LT":
		return append(dst, '<'), n
	case "gt", "GT":
		return append(dst, '>'), n
	case "quot", "QUOT":
		return append(dst, '"'), n
	}
	if !semicolon && len(name) > len("frac12") {
		return dst, 0
	}
	ref := string(v[:n])
	r := html.UnescapeString(ref)
	switch {
	case r == ref:
		return dst, 0
	case semicolon && len(r) > 1 && r[len(r)-1] == ';':
		return dst, 0 // only the beginning was a name
	case !semicolon && utf8.RuneCountInString(r) != 1:
		return dst, 0
	}
	return append(dst, r...), n
}

func isAlnum(c byte) bool { return class[c]&clsLetter != 0 || '0' <= c && c <= '9' }

// windows1252 is what the numbers 0x80 to 0x9F mean (HTML 13.2.5.80).
var windows1252 = [32]rune{
	0x20AC, 0x81, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8D, 0x017D, 0x8F,
	0x90, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x9D, 0x017E, 0x0178,
}

func appendNumeric(dst, v []byte) ([]byte, int) {
	i, base := 2, rune(10)
	if i < len(v) && lower[v[i]] == 'x' {
		i, base = 3, 16
	}
	first, r := i, rune(0)
	for ; i < len(v); i++ {
		d := hexDigit(v[i])
		if d < 0 || d >= base {
			break
		}
		if r <= utf8.MaxRune {
			r = r*base + d
		}
	}
	if i == first {
		return dst, 0
	}
	if i < len(v) && v[i] == ';' {
		i++
	}
	switch {
	case 0x80 <= r && r <= 0x9F:
		r = windows1252[r-0x80]
	case r == 0:
		r = utf8.RuneError
	}
	return utf8.AppendRune(dst, r), i // an invalid rune gives U+FFFD
}

func hexDigit(c byte) rune {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0')
	case 'a' <= c && c <= 'f':
		return rune(c - 'a' + 10)
	case 'A' <= c && c <= 'F':
		return rune(c - 'A' + 10)
	}
	return -1
}

// toUTF8 decodes a value.
func (s *Scanner) toUTF8(v []byte) []byte {
	if s.decoder == nil {
		s.decoder = s.opt.Charset.NewDecoder()
	}
	u, err := s.decoder.Bytes(v)
	if err != nil {
		return v
	}
	return u
}
