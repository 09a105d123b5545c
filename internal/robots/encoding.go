package robots

import "strings"

// Percent-encoding before comparison.
//
// RFC 9309, section 2.2.2 wants octets outside ASCII and reserved characters
// percent-encoded in rule and URL, and in the URI encoded unreserved octets
// decoded. It leaves open whether a rule's encoded octets are decoded as well:
// Google's matcher does not (and expects a URL that is encoded already), others
// do. So there are three forms:
//
//   - literal: hex digits in upper case, characters that no URI may hold
//     encoded, the marks - . _ ~ decoded (RFC 3986, section 2.4 on "~"). A
//     rule's octets outside ASCII are encoded, a URL's are left.
//   - decoded, of URLs: also encoded letters and digits decoded.
//   - folded: everything that some reading holds to be the same made equal,
//     delimiters included, unless they would cut the path or query
//     differently ("/" in a path; "&", "=", "+", ";" in a query).
//
// An Allow rule is compared literal with the literal and the decoded URL; a
// Disallow rule also folded with the folded URL.
//
// "*" and "$" of a URL and a "$" that is not at a rule's end are written %2A
// and %24 in all forms, so in a compiled pattern "*" is always the wildcard.

type form uint8

const (
	formLiteral form = iota
	formDecoded
	formFolded
)

const upperHex = "0123456789ABCDEF"

// plainURL marks the octets that are the same in every form of a URL.
var plainURL = func() (t [256]bool) {
	for c := range 128 {
		t[c] = c > ' ' && c != 0x7f && !strings.ContainsRune("%*$\"<>\\^`{|}", rune(c))
	}
	return t
}()

// isPlain tells whether all forms of the URL are the URL itself.
func isPlain(s string) bool {
	for i := range len(s) {
		if !plainURL[s[i]] {
			return false
		}
	}
	return true
}

// appendForm appends s in a form. pattern says that s is a rule's value
// (without the "$" of its end), where "*" is kept.
func appendForm(dst []byte, s string, f form, pattern bool) []byte {
	query := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			o := unhex(s[i+1])<<4 | unhex(s[i+2])
			i += 2
			if decodes(o, f, query) {
				dst = append(dst, o)
			} else {
				dst = appendEscaped(dst, o)
			}
		case c == '%':
			dst = append(dst, c)
		case c == '*' && pattern:
			dst = append(dst, c)
		case c >= 0x80:
			if pattern || f == formFolded {
				dst = appendEscaped(dst, c)
			} else {
				dst = append(dst, c)
			}
		case !plainURL[c]:
			dst = appendEscaped(dst, c)
		default:
			if c == '?' {
				query = true
			}
			dst = append(dst, c)
		}
	}
	return dst
}

// decodes tells whether an encoded octet is written bare in a form.
func decodes(o byte, f form, query bool) bool {
	switch {
	case o == '-' || o == '.' || o == '_' || o == '~':
		return true
	case isAlpha(o) || isDigit(o):
		return f != formLiteral
	case f != formFolded:
		return false
	case query:
		return strings.IndexByte("!'(),:@[]/?", o) >= 0
	default:
		return strings.IndexByte("!'(),:@[]&=+;", o) >= 0
	}
}

// escapedLen is the length of a rule's value as RFC 9309 counts it for the
// longest match: octets, those outside ASCII percent-encoded.
func escapedLen(s string) int {
	n := len(s)
	for i := range len(s) {
		if s[i] >= 0x80 {
			n += 2
		}
	}
	return n
}

// EscapePattern writes a rule's value as it is compared: octets outside ASCII
// percent-encoded, hex digits in upper case.
func EscapePattern(s string) string {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			out = appendEscaped(out, unhex(s[i+1])<<4|unhex(s[i+2]))
			i += 2
		case c >= 0x80:
			out = appendEscaped(out, c)
		default:
			out = append(out, c)
		}
	}
	return string(out)
}

func appendEscaped(dst []byte, c byte) []byte {
	return append(dst, '%', upperHex[c>>4], upperHex[c&15])
}

func isHex(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

func unhex(c byte) byte {
	if isDigit(c) {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
