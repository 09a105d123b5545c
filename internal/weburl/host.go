package weburl

import (
	"strconv"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"
)

// toASCII is Unicode ToASCII with the flags of the standard's domain parser,
// beStrict false (section 3.3), but for CheckBidi: validBidi does that, because
// the library looks at code points before they are mapped.
var toASCII = idna.New(
	idna.MapForLookup(),
	idna.Transitional(false),
	idna.CheckHyphens(false),
	idna.CheckJoiners(true),
	idna.StrictDomainName(false),
	idna.VerifyDNSLength(false),
)

// Classes of host bytes.
const (
	forbiddenHost   uint8 = 1 << iota // in no host
	forbiddenDomain                   // in no domain of a special URL
)

var hostBytes = func() (t [256]uint8) {
	for c := range 0x20 {
		t[c] |= forbiddenDomain
	}
	t[0x7f] |= forbiddenDomain
	t['%'] |= forbiddenDomain
	for _, c := range []byte("\x00\t\n\r #/:<>?@[\\]^|") {
		t[c] |= forbiddenHost | forbiddenDomain
	}
	return t
}()

func hasHostByte(s string, class uint8) bool {
	for i := range len(s) {
		if hostBytes[s[i]]&class != 0 {
			return true
		}
	}
	return false
}

// parseHost is the standard's host parser (section 3.5); the result is
// serialised. opaque is for schemes that are not special.
func parseHost(in string, opaque bool) (string, error) {
	if strings.HasPrefix(in, "[") {
		if !strings.HasSuffix(in, "]") {
			return "", errIPv6
		}
		addr, ok := parseIPv6(in[1 : len(in)-1])
		if !ok {
			return "", errIPv6
		}
		return string(appendIPv6(make([]byte, 0, 41), addr)), nil
	}
	if opaque {
		if hasHostByte(in, forbiddenHost) {
			return "", errHostByte
		}
		return string(appendEncoded(nil, in, setC0)), nil
	}
	domain, err := parseDomain(percentDecode(in))
	if err != nil {
		return "", err
	}
	if endsInNumber(domain) {
		v4, ok := parseIPv4(domain)
		if !ok {
			return "", errIPv4
		}
		return string(appendIPv4(make([]byte, 0, 15), v4)), nil
	}
	return domain, nil
}

// parseDomain is the domain parser, not strict: an ASCII name is only lower
// cased, whatever its xn-- labels hold, as browsers do.
func parseDomain(domain string) (string, error) {
	var result string
	if isASCII(domain) {
		result = lowerASCII(domain)
	} else {
		// A byte sequence that is not UTF-8 decodes to U+FFFD, which no name may
		// hold; nor may a name hold a label "xn--" without content.
		if strings.ToValidUTF8(domain, "\ufffd") != domain || emptyACE(domain) {
			return "", errDomain
		}
		// Since Unicode 15.1 UTS #46 maps U+1E9E to U+00DF; older tables map it
		// to "ss".
		var err error
		if result, err = toASCII.ToASCII(strings.ReplaceAll(domain, "\u1e9e", "\u00df")); err != nil {
			return "", errDomain
		}
		// Unassigned code points are mapped to U+FFFD.
		if u, err := idna.Punycode.ToUnicode(result); err != nil || strings.ContainsRune(u, '\ufffd') || !validBidi(u) {
			return "", errDomain
		}
	}
	if result == "" {
		return "", errHostMissing
	}
	if hasHostByte(result, forbiddenDomain) {
		return "", errHostByte
	}
	return result, nil
}

// ignored are code points that UTS #46 maps to nothing.
var ignored = strings.NewReplacer("\u00ad", "", "\u200b", "", "\u2060", "", "\ufeff", "")

// emptyACE reports a label that is, mapped, just "xn--".
func emptyACE(domain string) bool {
	dots := func(r rune) bool { return r == '.' || r == '\u3002' }
	for label := range strings.FieldsFuncSeq(norm.NFKC.String(ignored.Replace(domain)), dots) {
		if len(label) == 4 && strings.EqualFold(label, "xn--") {
			return true
		}
	}
	return false
}

// lastLabel is the last label of a domain, a trailing dot not counted.
func lastLabel(domain string) string {
	domain = strings.TrimSuffix(domain, ".")
	return domain[strings.LastIndexByte(domain, '.')+1:]
}

func endsInNumber(domain string) bool {
	last := lastLabel(domain)
	if last == "" {
		return false
	}
	digits := true
	for i := range len(last) {
		digits = digits && isDigit(last[i])
	}
	if digits {
		return true
	}
	_, ok := parseIPv4Number(last)
	return ok
}

// parseIPv4Number reads a decimal, octal (0…) or hexadecimal (0x…) number;
// numbers above 32 bits stay above.
func parseIPv4Number(s string) (uint64, bool) {
	if s == "" {
		return 0, false
	}
	base := uint64(10)
	if len(s) >= 2 && s[0] == '0' {
		if s[1]|0x20 == 'x' {
			s, base = s[2:], 16
		} else {
			s, base = s[1:], 8
		}
	}
	var n uint64
	for i := range len(s) {
		d := uint64(unhex[s[i]])
		if d >= base {
			return 0, false
		}
		if n = n*base + d; n > 1<<33 {
			n = 1 << 33
		}
	}
	return n, true
}

func parseIPv4(s string) (uint32, bool) {
	parts := strings.Split(strings.TrimSuffix(s, "."), ".")
	if len(parts) > 4 {
		return 0, false
	}
	var v4 uint64
	for i, part := range parts {
		n, ok := parseIPv4Number(part)
		if !ok {
			return 0, false
		}
		if i < len(parts)-1 {
			if n > 255 {
				return 0, false
			}
			v4 += n << (8 * (3 - i))
			continue
		}
		if n >= 1<<(8*(5-len(parts))) {
			return 0, false
		}
		v4 += n
	}
	return uint32(v4), true
}

func appendIPv4(dst []byte, v uint32) []byte {
	for shift := 24; shift >= 0; shift -= 8 {
		dst = strconv.AppendUint(dst, uint64(v>>shift&0xff), 10)
		if shift > 0 {
			dst = append(dst, '.')
		}
	}
	return dst
}

// parseIPv6 is the standard's IPv6 parser: no zone, IPv4 in the last two pieces.
func parseIPv6(s string) (addr [8]uint16, ok bool) {
	piece, compress, i := 0, -1, 0
	if strings.HasPrefix(s, ":") {
		if !strings.HasPrefix(s, "::") {
			return addr, false
		}
		i, piece, compress = 2, 1, 1
	}
	for i < len(s) {
		if piece == 8 {
			return addr, false
		}
		if s[i] == ':' {
			if compress >= 0 {
				return addr, false
			}
			i++
			piece++
			compress = piece
			continue
		}
		value, length := 0, 0
		for length < 4 && i < len(s) && isHex(s[i]) {
			value = value<<4 + int(unhex[s[i]])
			i++
			length++
		}
		if i < len(s) && s[i] == '.' {
			if length == 0 || piece > 6 {
				return addr, false
			}
			v4, ok := parseDottedQuad(s[i-length:])
			if !ok {
				return addr, false
			}
			addr[piece], addr[piece+1] = uint16(v4>>16), uint16(v4)
			piece += 2
			break
		}
		if i < len(s) {
			if s[i] != ':' || i+1 == len(s) {
				return addr, false
			}
			i++
		}
		addr[piece] = uint16(value)
		piece++
	}
	if compress < 0 {
		return addr, piece == 8
	}
	tail := piece - compress
	for k := range tail {
		from, to := piece-1-k, 7-k
		if from != to {
			addr[to], addr[from] = addr[from], 0
		}
	}
	return addr, true
}

// parseDottedQuad reads exactly four decimal numbers without leading zeros.
func parseDottedQuad(s string) (uint32, bool) {
	parts := strings.Split(s, ".")
	if len(parts) != 4 {
		return 0, false
	}
	var v uint32
	for _, p := range parts {
		if p == "" || len(p) > 3 || len(p) > 1 && p[0] == '0' {
			return 0, false
		}
		n := uint32(0)
		for i := range len(p) {
			if !isDigit(p[i]) {
				return 0, false
			}
			n = n*10 + uint32(p[i]-'0')
		}
		if n > 255 {
			return 0, false
		}
		v = v<<8 | n
	}
	return v, true
}

// appendIPv6 writes the address in brackets, its longest run of two or more
// zero pieces compressed.
func appendIPv6(dst []byte, a [8]uint16) []byte {
	start, size := -1, 1
	for i := 0; i < 8; {
		j := i
		for j < 8 && a[j] == 0 {
			j++
		}
		if j-i > size {
			start, size = i, j-i
		}
		i = max(j, i+1)
	}
	dst = append(dst, '[')
	for i := 0; i < 8; i++ {
		if i == start {
			if i == 0 {
				dst = append(dst, ':')
			}
			dst = append(dst, ':')
			i += size - 1
			continue
		}
		dst = strconv.AppendUint(dst, uint64(a[i]), 16)
		if i < 7 {
			dst = append(dst, ':')
		}
	}
	return append(dst, ']')
}
