package charset

import (
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/transform"
)

// byteEncoding is a single-byte encoding as the standard decodes it: a byte of
// 0x80 to 0x9F that the original code page leaves empty is the C1 control of
// that number.
type byteEncoding struct {
	*charmap.Charmap
	high [128]utf8Char
}

type utf8Char struct {
	bytes [utf8.UTFMax]byte
	size  uint8
}

func newByteEncoding(c *charmap.Charmap) *byteEncoding {
	e := &byteEncoding{Charmap: c}
	for i := range e.high {
		x := &e.high[i]
		x.size = uint8(utf8.EncodeRune(x.bytes[:], e.rune(byte(0x80+i))))
	}
	return e
}

// rune is what a byte decodes to.
func (e *byteEncoding) rune(b byte) rune {
	r := e.DecodeByte(b)
	if r == utf8.RuneError && b < 0xA0 {
		return rune(b)
	}
	return r
}

// NewDecoder implements encoding.Encoding.
func (e *byteEncoding) NewDecoder() *encoding.Decoder {
	return &encoding.Decoder{Transformer: byteDecoder{e: e}}
}

type byteDecoder struct {
	transform.NopResetter
	e *byteEncoding
}

// Transform implements transform.Transformer.
func (d byteDecoder) Transform(dst, src []byte, _ bool) (nDst, nSrc int, err error) {
	for nSrc < len(src) {
		if c := src[nSrc]; c >= 0x80 {
			x := &d.e.high[c-0x80]
			if len(dst)-nDst < int(x.size) {
				return nDst, nSrc, transform.ErrShortDst
			}
			nDst += copy(dst[nDst:], x.bytes[:x.size])
			nSrc++
			continue
		}
		run := firstHigh(src[nSrc:])
		n := copy(dst[nDst:], src[nSrc:nSrc+run])
		nDst, nSrc = nDst+n, nSrc+n
		if n < run {
			return nDst, nSrc, transform.ErrShortDst
		}
	}
	return nDst, nSrc, nil
}
