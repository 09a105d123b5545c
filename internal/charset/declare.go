package charset

import (
	"bytes"
	"strings"
)

// kind is what a document is, as far as it says where a declaration stands.
type kind uint8

const (
	kindHTML kind = iota // and whatever else may hold markup
	kindXML
	kindCSS
	kindUTF8 // JSON and scripts: UTF-8 unless the transport says otherwise
)

func (k kind) defaultEncoding() *Encoding {
	if k == kindHTML {
		return Windows1252
	}
	return UTF8
}

// kindOf goes by the media type, and without one by the first bytes.
func kindOf(contentType string, doc []byte) kind {
	mt, _, _ := strings.Cut(contentType, ";")
	mt = strings.TrimSpace(mt)
	fold := func(s string) bool { return strings.EqualFold(mt, s) }
	switch {
	case fold("text/html"), fold("text/plain"):
		return kindHTML
	case mt == "":
		if bytes.HasPrefix(doc, xmlStart) && !bytes.Contains(doc[:min(len(doc), prescanBytes)], []byte("<html")) {
			return kindXML
		}
		return kindHTML
	case len(mt) >= 4 && (strings.EqualFold(mt[len(mt)-4:], "/xml") || strings.EqualFold(mt[len(mt)-4:], "+xml")):
		return kindXML
	case fold("text/css"):
		return kindCSS
	case len(mt) >= 4 && strings.EqualFold(mt[len(mt)-4:], "json"), fold("text/javascript"), fold("application/javascript"):
		return kindUTF8
	}
	return kindHTML
}

// charsetParam finds the label in a Content-Type header as browsers do: the
// first charset parameter, quoted or not, whatever else the header holds.
func charsetParam(contentType string) string {
	return charsetOf(contentType[:min(len(contentType), maxContentType)], true)
}

// maxContentType bounds what is read of a header, in bytes.
const maxContentType = 1024

// declaration finds what the document says of itself.
func declaration(doc []byte, k kind) (*Encoding, Ground) {
	start := doc[:min(len(doc), prescanBytes)]
	switch k {
	case kindXML:
		if e := xmlEncoding(start); e != nil {
			return e, GroundXML
		}
		return prescan(start), GroundMeta
	case kindCSS:
		return cssCharset(start), GroundMeta
	case kindUTF8:
		return nil, GroundDefault
	}
	if e := prescan(start); e != nil {
		return e, GroundMeta
	}
	if e := xmlEncoding(start); e != nil {
		return e, GroundXML
	}
	if len(doc) > prescanBytes {
		return lateMeta(doc[:min(len(doc), lateBytes)]), GroundMeta
	}
	return nil, GroundDefault
}

var (
	xmlStart   = []byte("<?xml")
	xmlStart16 = [2][]byte{[]byte("<\x00?\x00x\x00"), []byte("\x00<\x00?\x00x")}
)

// xmlEncoding reads an XML declaration (HTML 13.2.3.2, get an XML encoding). One
// that is UTF-16 without a byte order mark is known by its first characters.
func xmlEncoding(b []byte) *Encoding {
	switch {
	case bytes.HasPrefix(b, xmlStart16[0]):
		return utf16LE
	case bytes.HasPrefix(b, xmlStart16[1]):
		return utf16BE
	case !bytes.HasPrefix(b, xmlStart):
		return nil
	}
	end := bytes.IndexByte(b, '>')
	if end < 0 {
		return nil
	}
	b = b[:end]
	const word = "encoding"
	i := bytes.Index(b, []byte(word))
	if i < 0 {
		return nil
	}
	b = trimControls(b[i+len(word):])
	if len(b) == 0 || b[0] != '=' {
		return nil
	}
	b = trimControls(b[1:])
	if len(b) == 0 || b[0] != '"' && b[0] != '\'' {
		return nil
	}
	end = bytes.IndexByte(b[1:], b[0])
	if end < 0 {
		return nil
	}
	return lookupInMarkup(b[1 : 1+end]).asASCII()
}

// trimControls passes over blanks and controls.
func trimControls(b []byte) []byte {
	for len(b) > 0 && b[0] <= ' ' {
		b = b[1:]
	}
	return b
}

// cssCharset reads the @charset of a style sheet (CSS Syntax 3, 3.2), which has
// one spelling only.
func cssCharset(b []byte) *Encoding {
	rest, ok := cutPrefix(b, `@charset "`)
	if !ok {
		return nil
	}
	end := bytes.IndexByte(rest, '"')
	if end < 0 || end+1 >= len(rest) || rest[end+1] != ';' {
		return nil
	}
	return lookup(rest[:end]).asASCII()
}

// asASCII is what a declaration that was read as ASCII means: the document is
// not UTF-16 (HTML 13.2.3.2, prescan, step "processing").
func (e *Encoding) asASCII() *Encoding {
	switch e {
	case utf16BE, utf16LE:
		return UTF8
	case userDefined:
		return Windows1252
	}
	return e
}

// charsetOf finds the label in a content type (HTML 2.5.4, extracting a character
// encoding from a meta element). In a header a quote that is not closed lasts to
// the end (WHATWG MIME Sniffing, 4.4), and the parameter's name is charset alone.
func charsetOf[T chars](v T, header bool) T {
	const word = "charset"
	for i := 0; i+len(word) <= len(v); i++ {
		if v[i]|0x20 != word[0] || !hasPrefixFold(v[i:], word) || header && i > 0 && isAlnum(v[i-1]) {
			continue
		}
		j := i + len(word)
		for j < len(v) && isSpace(v[j]) {
			j++
		}
		if j >= len(v) || v[j] != '=' {
			i = j - 1
			continue
		}
		j++
		for j < len(v) && isSpace(v[j]) {
			j++
		}
		if j >= len(v) {
			break
		}
		if q := v[j]; q == '"' || q == '\'' && !header {
			end := j + 1
			for end < len(v) && v[end] != q {
				end++
			}
			if end == len(v) && !header {
				break
			}
			return v[j+1 : end]
		}
		end := j
		for end < len(v) && !isSpace(v[end]) && v[end] != ';' {
			end++
		}
		return v[j:end]
	}
	return v[:0]
}
