package weburl

import "unicode/utf8"

// FromHeader prepares a reference that stood in a header field (Location,
// Refresh, Link). Fields have no encoding: what is UTF-8 is taken for it, and
// the bytes of anything else are percent-encoded one by one, as browsers do, so
// that the server gets back the bytes that it has sent. It returns ref itself
// where there is nothing to do.
func FromHeader(ref []byte) []byte {
	if utf8.Valid(ref) {
		return ref
	}
	out := make([]byte, 0, len(ref)+16)
	for _, c := range ref {
		if c < 0x80 {
			out = append(out, c)
		} else {
			out = append(out, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return out
}
