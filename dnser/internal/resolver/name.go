package resolver

import (
	"net/netip"
	"strconv"
	"strings"
)

const (
	maxNameBytes  = 253 // RFC 1035 section 2.3.4, without the root's dot
	maxLabelBytes = 63
)

// hostOf is a host or host key without its port, if it has one. An IPv6 literal
// in brackets loses them.
func hostOf(host string) string {
	if strings.HasPrefix(host, "[") {
		end := strings.IndexByte(host, ']')
		if end > 0 && (end == len(host)-1 || isPort(host[end+1:])) {
			return host[1:end]
		}
		return host
	}
	i := strings.IndexByte(host, ':')
	if i < 0 || !isPort(host[i:]) {
		return host // no port, or a bare IPv6 literal
	}
	return host[:i]
}

func isPort(s string) bool {
	if s == "" || s[0] != ':' {
		return false
	}
	_, err := strconv.ParseUint(s[1:], 10, 16)
	return err == nil
}

// canonical is the name in lower case without a trailing dot. It copies only
// when something changes.
func canonical(name string) string {
	return strings.TrimSuffix(strings.ToLower(name), ".")
}

// literal reads an IP address. Zones are not for names of the web.
func literal(name string) (netip.Addr, bool) {
	if name == "" || (name[0] > '9' && !strings.Contains(name, ":")) {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(name)
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, false
	}
	return a.Unmap(), true
}

// checkName says what is wrong with a canonical name, or "" if it can be asked.
// The characters are those that WHATWG lets into a host: any printable ASCII
// but the forbidden domain code points.
func checkName(name string) string {
	if name == "" {
		return "the name is empty"
	}
	if len(name) > maxNameBytes {
		return "the name is longer than 253 bytes"
	}
	label, digits := 0, true
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c == '.' {
			if label == 0 {
				return "the name has an empty label"
			}
			label, digits = 0, true
			continue
		}
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`#/:<>?@[\]^|%"`, c) >= 0 {
			return "the name has a character that no host has: " + strconv.QuoteRune(rune(c))
		}
		if label++; label > maxLabelBytes {
			return "a label is longer than 63 bytes"
		}
		digits = digits && c >= '0' && c <= '9'
	}
	if label == 0 {
		return "the name has an empty label"
	}
	if digits {
		return "the last label is a number: neither a name nor an IPv4 address"
	}
	return ""
}

var loopback = []netip.Addr{
	netip.AddrFrom4([4]byte{127, 0, 0, 1}),
	netip.IPv6Loopback(),
}

// special answers the names that are not for the DNS to answer: localhost is
// the loopback (RFC 6761 section 6.3; whether it may be used is for the address
// policy to say), invalid never exists (section 6.4), onion is not of the DNS
// (RFC 7686 section 2).
func special(name string) (addrs []netip.Addr, status Status, detail string) {
	last := name[strings.LastIndexByte(name, '.')+1:]
	switch last {
	case "localhost":
		return loopback, Resolved, ""
	case "invalid":
		return nil, NotExist, "names under .invalid never exist (RFC 6761)"
	case "onion":
		return nil, NotExist, "names under .onion are not in the DNS (RFC 7686)"
	}
	return nil, Unknown, ""
}
