package charset

import (
	"bytes"
	"unicode/utf8"
)

// hasEscapes tells whether an ASCII text holds the escapes of ISO-2022-JP
// (RFC 1468) with something in them.
func hasEscapes(b []byte) bool {
	for {
		i := bytes.IndexByte(b, 0x1B)
		if i < 0 || i+3 >= len(b) {
			return false
		}
		b = b[i+1:]
		if b[0] == '$' && (b[1] == 'B' || b[1] == '@') && b[2] > ' ' && b[2] < 0x7F {
			return true
		}
	}
}

// wideSample bounds what is looked at for UTF-16.
const wideSample = 4096

// wideWithoutBOM finds UTF-16 by its zero bytes: markup and blanks have one in
// every pair, all on the same side, whatever the language.
func wideWithoutBOM(b []byte) *Encoding {
	b = b[:min(len(b), wideSample)&^1]
	if len(b) < 4 || bytes.IndexByte(b, 0) < 0 {
		return nil
	}
	var zero, ascii [2]int
	for i := 0; i < len(b); i += 2 {
		for side := range 2 {
			if b[i+side] == 0 {
				zero[side]++
				if c := b[i+1-side]; c >= ' ' && c < 0x7F || isSpace(c) {
					ascii[side]++
				}
			}
		}
	}
	pairs := len(b) / 2
	for side, e := range [2]*Encoding{utf16BE, utf16LE} {
		// A tenth of the characters is ASCII, and hardly a zero stands elsewhere.
		if ascii[side]*10 >= pairs && ascii[side] >= 2 && zero[1-side]*50 <= ascii[side] && (zero[side]-ascii[side])*10 <= ascii[side] {
			return e
		}
	}
	return nil
}

// utf8Count counts the multi-byte sequences of b that are UTF-8, and the bytes
// above 0x7F that are not. A sequence that the end of b cuts counts as neither
// where b is partial.
func utf8Count(b []byte, partial bool) (good, bad int) {
	for i := 0; i < len(b); {
		if b[i] < utf8.RuneSelf {
			i += firstHigh(b[i:])
			continue
		}
		r, size := utf8.DecodeRune(b[i:])
		switch {
		case r != utf8.RuneError || size > 1:
			good++
		case partial && len(b)-i < utf8.UTFMax && !utf8.FullRune(b[i:]):
			return good, bad
		default:
			bad++
		}
		i += size
	}
	return good, bad
}

// wellFormed counts the multi-byte characters of b that can be of the encoding
// by their bytes, and those that cannot. A character that the end cuts counts
// as neither.
func wellFormed(e *Encoding, b []byte) (good, bad int) {
	for i := 0; i < len(b); {
		c := b[i]
		if c < 0x80 {
			i++
			continue
		}
		size := 2
		var ok bool
		switch e {
		case shiftJIS:
			if c >= 0xA1 && c <= 0xDF {
				size = 1 // half-width katakana
				ok = true
				break
			}
			ok = c != 0x80 && c != 0xA0 && c <= 0xFC && i+1 < len(b) && isTrail(b[i+1], 0x40, 0xFC) && b[i+1] != 0x7F
		case eucJP:
			switch {
			case c == 0x8E:
				ok = i+1 < len(b) && isTrail(b[i+1], 0xA1, 0xDF)
			case c == 0x8F:
				size = 3
				ok = i+2 < len(b) && isTrail(b[i+1], 0xA1, 0xFE) && isTrail(b[i+2], 0xA1, 0xFE)
			default:
				ok = c >= 0xA1 && c <= 0xFE && i+1 < len(b) && isTrail(b[i+1], 0xA1, 0xFE)
			}
		case gbk, gb18030:
			if c != 0x80 && c != 0xFF && i+1 < len(b) && b[i+1] >= '0' && b[i+1] <= '9' {
				size = 4
				ok = i+3 < len(b) && isTrail(b[i+2], 0x81, 0xFE) && isTrail(b[i+3], '0', '9')
				break
			}
			ok = c >= 0x81 && c <= 0xFE && i+1 < len(b) && isTrail(b[i+1], 0x40, 0xFE) && b[i+1] != 0x7F
		case big5:
			ok = c >= 0x81 && c <= 0xFE && i+1 < len(b) && (isTrail(b[i+1], 0x40, 0x7E) || isTrail(b[i+1], 0xA1, 0xFE))
		case eucKR:
			ok = c >= 0x81 && c <= 0xFE && i+1 < len(b) && (isLetter(b[i+1]) || isTrail(b[i+1], 0x81, 0xFE))
		}
		switch {
		case ok:
			good++
			i += size
		case i+size > len(b):
			return good, bad
		default:
			bad++
			i++
		}
	}
	return good, bad
}

func isTrail(c, low, high byte) bool { return c >= low && c <= high }

// isMultiByte tells whether wellFormed knows the encoding.
func (e *Encoding) isMultiByte() bool {
	switch e {
	case shiftJIS, eucJP, gbk, gb18030, big5, eucKR:
		return true
	}
	return false
}

// mislabelled tells whether the text near the first byte above 0x7F
// contradicts the encoding that was declared.
func mislabelled(e *Encoding, doc []byte, partial bool) bool {
	if e == utf16LE || e == utf16BE {
		// Markup without a zero byte is not UTF-16.
		start := doc[:min(len(doc), 64)]
		return len(start) >= 16 && start[0] != 0xFE && start[0] != 0xFF && bytes.IndexByte(start, 0) < 0 && isASCII(start)
	}
	looked := doc[:min(len(doc), seekBytes)]
	high := firstHigh(looked)
	if high == len(looked) {
		return false
	}
	window := doc[high:min(len(doc), high+checkBytes)]
	partial = partial || high+checkBytes < len(doc)
	switch {
	case e == UTF8:
		if utf8.Valid(window) {
			return false
		}
		_, bad := utf8Count(window, partial)
		return bad > 0
	case e == iso2022JP:
		return true
	case e.isMultiByte():
		good, bad := wellFormed(e, window)
		if bad*20 > good {
			return true
		}
	case !e.ascii:
		return false
	}
	good, bad := utf8Count(window, partial)
	return bad == 0 && good >= 3
}
