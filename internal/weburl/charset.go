package weburl

import (
	"strconv"
	"unicode/utf8"

	"golang.org/x/text/encoding"
)

// appendQueryIn is "percent-encode after encoding": it appends the query s,
// encoded in enc, with the bytes of the special-query set escaped. A code point
// that enc cannot write becomes an escaped numeric character reference.
func appendQueryIn(dst []byte, s string, enc encoding.Encoding) []byte {
	e := enc.NewEncoder()
	if b, err := e.String(s); err == nil {
		return appendEncodedBytes(dst, b)
	}
	for _, r := range s {
		e.Reset()
		if b, err := e.String(string(r)); err == nil && (r < utf8.RuneSelf || b != "") {
			dst = appendEncodedBytes(dst, b)
			continue
		}
		dst = append(dst, "%26%23"...)
		dst = strconv.AppendUint(dst, uint64(r), 10)
		dst = append(dst, "%3B"...)
	}
	return dst
}

// appendEncodedBytes escapes bytes that are text of some encoding.
func appendEncodedBytes(dst []byte, s string) []byte {
	for i := range len(s) {
		if encodeSets[s[i]]&setSpecialQuery != 0 {
			dst = appendEscape(dst, s[i])
		} else {
			dst = append(dst, s[i])
		}
	}
	return dst
}
