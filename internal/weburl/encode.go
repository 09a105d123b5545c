package weburl

import "unicode/utf8"

// Percent-encode sets of the standard (section 1.3), one bit a set.
const (
	setC0 uint8 = 1 << iota
	setFragment
	setQuery
	setSpecialQuery
	setPath
	setUserinfo
)

// encodeSets says for each byte which sets it belongs to. Bytes of non-ASCII
// code points belong to all.
var encodeSets = func() (t [256]uint8) {
	add := func(chars string, sets uint8) {
		for i := range len(chars) {
			t[chars[i]] |= sets
		}
	}
	for c := range 256 {
		if c <= 0x1f || c > 0x7e {
			t[c] = setC0 | setFragment | setQuery | setSpecialQuery | setPath | setUserinfo
		}
	}
	add(" \"<>`", setFragment)
	add(" \"#<>", setQuery|setSpecialQuery|setPath|setUserinfo)
	add("'", setSpecialQuery)
	add("?^`{}", setPath|setUserinfo)
	add("/:;=@[\\]|", setUserinfo)
	return t
}()

const upperHex = "0123456789ABCDEF"

// appendEncoded appends s with the bytes of set escaped. Bytes that are not
// UTF-8 count as U+FFFD each.
func appendEncoded(dst []byte, s string, set uint8) []byte {
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			i++
			if encodeSets[c]&set != 0 {
				dst = appendEscape(dst, c)
			} else {
				dst = append(dst, c)
			}
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		var enc [utf8.UTFMax]byte
		for _, b := range enc[:utf8.EncodeRune(enc[:], r)] {
			dst = appendEscape(dst, b)
		}
		i += size
	}
	return dst
}

func appendEscape(dst []byte, c byte) []byte {
	return append(dst, '%', upperHex[c>>4], upperHex[c&15])
}

// percentDecode replaces the escapes of s and leaves what is none.
func percentDecode(s string) string {
	i := 0
	for i < len(s) && s[i] != '%' {
		i++
	}
	if i == len(s) {
		return s
	}
	out := append(make([]byte, 0, len(s)), s[:i]...)
	for ; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]) {
			out = append(out, unhex[s[i+1]]<<4|unhex[s[i+2]])
			i += 2
			continue
		}
		out = append(out, s[i])
	}
	return string(out)
}

// unhex is the value of a hex digit, 0xff for other bytes.
var unhex = func() (t [256]uint8) {
	for i := range t {
		t[i] = 0xff
	}
	for c := '0'; c <= '9'; c++ {
		t[c] = uint8(c - '0')
	}
	for c := 'a'; c <= 'f'; c++ {
		t[c] = uint8(c-'a') + 10
		t[c-'a'+'A'] = uint8(c-'a') + 10
	}
	return t
}()

func isHex(c byte) bool   { return unhex[c] != 0xff }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isAlpha(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isUnreserved(c byte) bool {
	return isAlpha(c) || isDigit(c) || c == '-' || c == '.' || c == '_' || c == '~'
}

func isSchemeByte(c byte) bool {
	return isAlpha(c) || isDigit(c) || c == '+' || c == '-' || c == '.'
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// lowerASCII lower-cases ASCII letters only.
func lowerASCII(s string) string {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				if 'A' <= b[i] && b[i] <= 'Z' {
					b[i] |= 0x20
				}
			}
			return string(b)
		}
	}
	return s
}
