package linkscan

import (
	"bytes"
	"mime"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
)

// Charset is a document's encoding. nil stands for UTF-8.
type Charset struct {
	name string
	enc  encoding.Encoding // nil for UTF-8
}

var utf8Charset = &Charset{name: "utf-8"}

// LookupCharset returns the encoding that a label names (WHATWG Encoding, 4.2),
// nil if none.
func LookupCharset(label string) *Charset {
	enc, err := htmlindex.Get(label)
	if err != nil {
		return nil
	}
	name, err := htmlindex.Name(enc)
	if err != nil {
		return nil
	}
	if name == utf8Charset.name {
		return utf8Charset
	}
	return &Charset{name: name, enc: enc}
}

// Name is the encoding's name, lower case.
func (c *Charset) Name() string {
	if c == nil {
		return utf8Charset.name
	}
	return c.name
}

func (c *Charset) isUTF8() bool { return c == nil || c.enc == nil }

// ASCIICompatible says whether a document can be scanned as it is: bytes below
// 0x80 outside a multi-byte character are ASCII, and no markup byte is ever part
// of one. That holds for all web encodings but UTF-16, ISO-2022-JP and the
// replacement encoding.
func (c *Charset) ASCIICompatible() bool {
	switch c.Name() {
	case "utf-16be", "utf-16le", "iso-2022-jp", "replacement":
		return false
	}
	return true
}

// Decode converts a document to UTF-8. A document that is UTF-8 already is
// returned as it is, without its byte order mark.
func (c *Charset) Decode(doc []byte) []byte {
	doc = bytes.TrimPrefix(doc, bom)
	if c.isUTF8() {
		if utf8.Valid(doc) {
			return doc
		}
		out, err := unicode.UTF8.NewDecoder().Bytes(doc)
		if err != nil {
			return doc
		}
		return out
	}
	out, err := c.enc.NewDecoder().Bytes(doc)
	if err != nil {
		return doc
	}
	return bytes.TrimPrefix(out, bom)
}

var bom = []byte("\xEF\xBB\xBF")

// prescanBytes is how much of a document is looked at before it is parsed.
const prescanBytes = 1024

// DeclaredCharset finds the encoding that a document declares: byte order mark,
// Content-Type header, meta elements in the first 1024 bytes, and then meta
// elements anywhere (HTML 13.2.3.2 and 13.2.3.4). nil means that it declares none.
func DeclaredCharset(doc []byte, contentType string) *Charset {
	switch {
	case bytes.HasPrefix(doc, bom):
		return utf8Charset
	case bytes.HasPrefix(doc, []byte{0xFE, 0xFF}):
		return LookupCharset("utf-16be")
	case bytes.HasPrefix(doc, []byte{0xFF, 0xFE}):
		return LookupCharset("utf-16le")
	}
	if contentType != "" {
		if c := LookupCharset(contentTypeCharset(contentType)); c != nil {
			return c
		}
	}
	if len(doc) <= prescanBytes {
		return prescan(doc)
	}
	if c := prescan(doc[:prescanBytes]); c != nil {
		return c
	}
	var s Scanner
	return LookupCharset(string(s.Scan(doc, Options{Kinds: NoLinks}, nil).Charset)).asMeta()
}

// DetectCharset is DeclaredCharset, and where nothing is declared UTF-8 if all of
// the document is that, windows-1252 if not. doc may be the first 1024 bytes of a
// document or more, cut anywhere.
func DetectCharset(doc []byte, contentType string) *Charset {
	if c := DeclaredCharset(doc, contentType); c != nil {
		return c
	}
	text := doc
	if len(doc) >= prescanBytes {
		text = wholeRunes(doc)
	}
	if utf8.Valid(text) {
		return utf8Charset
	}
	return LookupCharset("windows-1252")
}

// wholeRunes leaves out a UTF-8 sequence that the end of b cuts.
func wholeRunes(b []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return b[:len(b)-n]
			}
			break
		}
	}
	return b
}

// asMeta is what a meta element that names c means: it was read as ASCII, so
// the document is not UTF-16.
func (c *Charset) asMeta() *Charset {
	if c == nil {
		return nil
	}
	switch c.name {
	case "utf-16be", "utf-16le":
		return utf8Charset
	case "x-user-defined":
		return LookupCharset("windows-1252")
	}
	return c
}

func contentTypeCharset(v string) string {
	if _, params, err := mime.ParseMediaType(v); err == nil {
		return params["charset"]
	}
	return string(charsetOf([]byte(v)))
}

// Decode converts a document to UTF-8 from the encoding that DetectCharset
// finds, and names it.
func Decode(doc []byte, contentType string) (utf8 []byte, charset string) {
	c := DetectCharset(doc, contentType)
	return c.Decode(doc), c.Name()
}

// charsetOf finds the label in a content type (HTML 2.5.4, extracting a character
// encoding from a meta element).
func charsetOf(v []byte) []byte {
	const word = "charset"
	for i := 0; i+len(word) <= len(v); i++ {
		if !hasPrefixFold(v[i:], word) {
			continue
		}
		j := i + len(word)
		for j < len(v) && class[v[j]]&clsSpace != 0 {
			j++
		}
		if j >= len(v) || v[j] != '=' {
			i = j - 1
			continue
		}
		j++
		for j < len(v) && class[v[j]]&clsSpace != 0 {
			j++
		}
		if j >= len(v) {
			return nil
		}
		if q := v[j]; q == '"' || q == '\'' {
			end := bytes.IndexByte(v[j+1:], q)
			if end < 0 {
				return nil
			}
			return v[j+1 : j+1+end]
		}
		end := j
		for end < len(v) && class[v[end]]&clsSpace == 0 && v[end] != ';' {
			end++
		}
		return v[j:end]
	}
	return nil
}

// toUTF8 decodes a value.
func (s *Scanner) toUTF8(v []byte) []byte {
	if s.decoder == nil {
		s.decoder = s.opt.Charset.enc.NewDecoder()
	}
	u, err := s.decoder.Bytes(v)
	if err != nil {
		return v
	}
	return u
}
