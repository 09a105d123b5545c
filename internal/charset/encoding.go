package charset

import (
	"bytes"
	"io"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// Encoding is a character encoding. nil stands for UTF-8. There is one value an
// encoding, so they can be compared.
type Encoding struct {
	name string
	enc  encoding.Encoding // nil for UTF-8
	// ascii: bytes below 0x80 outside a multi-byte character are ASCII, and no
	// markup byte is ever part of one.
	ascii bool
	// annotations by ground.
	annotations [numGrounds]string
}

// Name is the encoding's name in the standard, lower case. gb2312 and gbk are
// both "gbk": it decodes as gb18030 does and differs in what URLs are encoded to.
func (e *Encoding) Name() string {
	if e == nil {
		return UTF8.name
	}
	return e.name
}

// String is Name.
func (e *Encoding) String() string { return e.Name() }

// IsUTF8 tells whether a document is UTF-8 as it is.
func (e *Encoding) IsUTF8() bool { return e == nil || e.enc == nil }

// ASCIICompatible says whether markup can be read in a document as it is: all
// encodings of the web but UTF-16, ISO-2022-JP and the replacement encoding.
func (e *Encoding) ASCIICompatible() bool { return e == nil || e.ascii }

var bom = []byte("\xEF\xBB\xBF")

// Decode converts a document to UTF-8, without its byte order mark. A document
// that is valid UTF-8 already is returned as it is. What cannot be decoded
// becomes U+FFFD.
func (e *Encoding) Decode(doc []byte) []byte {
	if e.IsUTF8() {
		if utf8.Valid(doc) {
			return bytes.TrimPrefix(doc, bom)
		}
	} else if e.ascii && isASCII(doc) {
		return doc
	}
	out, err := e.NewDecoder().Bytes(doc)
	if err != nil {
		// Decoders replace what they cannot decode; they do not fail.
		return doc
	}
	return bytes.TrimPrefix(out, bom)
}

// NewDecoder returns a decoder that replaces what it cannot decode and keeps a
// byte order mark.
func (e *Encoding) NewDecoder() *encoding.Decoder {
	if e.IsUTF8() {
		return unicode.UTF8.NewDecoder()
	}
	return e.enc.NewDecoder()
}

// NewReader converts a document that comes in pieces to UTF-8, without its byte
// order mark.
func (e *Encoding) NewReader(r io.Reader) io.Reader {
	return &bomSkipper{r: transform.NewReader(r, e.NewDecoder().Transformer)}
}

// bomSkipper leaves out a byte order mark at the start of UTF-8.
type bomSkipper struct {
	r    io.Reader
	head [len("\xEF\xBB\xBF")]byte
	rest []byte
	past bool
}

func (s *bomSkipper) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if !s.past {
		s.past = true
		n, err := io.ReadFull(s.r, s.head[:])
		s.rest = bytes.TrimPrefix(s.head[:n], bom)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			s.r = failing{err}
		}
	}
	if len(s.rest) > 0 {
		n := copy(p, s.rest)
		s.rest = s.rest[n:]
		return n, nil
	}
	return s.r.Read(p)
}

// failing gives the error that came while the start was read, after it.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// isASCII tells whether no byte is above 0x7F.
func isASCII(b []byte) bool { return firstHigh(b) == len(b) }
