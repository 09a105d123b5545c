package netpolicy

import (
	"encoding/binary"
	"net/netip"
	"strconv"
)

// Classify says why addr is not a public unicast address, in a word or two, or
// returns "" if it is one. The ranges are those of the IANA IPv4 and IPv6
// Special-Purpose Address Registries, plus the metadata services that clouds
// put elsewhere. An IPv6 form that carries an IPv4 address (mapped) is judged
// as the IPv4 address that would be connected to; the translation and tunnel
// forms are refused whatever they carry, since what they reach depends on the
// local network.
func Classify(addr netip.Addr) string {
	if !addr.IsValid() {
		return "no address"
	}
	if addr.Zone() != "" {
		return "scoped address"
	}
	addr = addr.Unmap()
	if addr.Is4() {
		return classify4(addr.As4())
	}
	return classify6(addr.As16())
}

func classify4(b [4]byte) string {
	switch b[0] {
	case 0:
		if b == [4]byte{} {
			return "unspecified"
		}
		return "this network"
	case 10:
		return "private"
	case 100:
		if b[1]&0xc0 == 64 {
			if b == [4]byte{100, 100, 100, 200} {
				return "metadata"
			}
			return "carrier-grade NAT"
		}
	case 127:
		return "loopback"
	case 168:
		// The platform endpoint of one large cloud has a public address.
		if b == [4]byte{168, 63, 129, 16} {
			return "metadata"
		}
	case 169:
		if b[1] == 254 {
			switch b {
			case [4]byte{169, 254, 169, 254}, [4]byte{169, 254, 169, 253},
				[4]byte{169, 254, 170, 2}, [4]byte{169, 254, 170, 23}:
				return "metadata"
			}
			return "link-local"
		}
	case 172:
		if b[1]&0xf0 == 16 {
			return "private"
		}
	case 192:
		switch {
		case b[1] == 168:
			return "private"
		case b[1] == 0 && b[2] == 0:
			if b[3] == 192 {
				return "metadata"
			}
			return "IETF protocol assignment"
		case b[1] == 0 && b[2] == 2:
			return "documentation"
		case b[1] == 88 && b[2] == 99:
			return "6to4 relay"
		}
	case 198:
		switch {
		case b[1]&0xfe == 18:
			return "benchmarking"
		case b[1] == 51 && b[2] == 100:
			return "documentation"
		}
	case 203:
		if b[1] == 0 && b[2] == 113 {
			return "documentation"
		}
	}
	switch {
	case b == [4]byte{255, 255, 255, 255}:
		return "broadcast"
	case b[0] >= 240:
		return "reserved"
	case b[0] >= 224:
		return "multicast"
	}
	return ""
}

func classify6(b [16]byte) string {
	hi := binary.BigEndian.Uint64(b[:8])
	lo := binary.BigEndian.Uint64(b[8:])
	switch {
	case hi == 0 && lo == 0:
		return "unspecified"
	case hi == 0 && lo == 1:
		return "loopback"
	case hi == 0 && lo>>32 == 0:
		return "IPv4-compatible" // RFC 4291 2.5.5.1, deprecated
	case hi == 0 && lo>>32 == 0xffff0000:
		return "IPv4-translated" // RFC 2765, ::ffff:0:a.b.c.d
	case hi == 0x0064ff9b_00000000 && lo>>32 == 0:
		return "NAT64"
	case hi>>16 == 0x0064ff9b_0001:
		return "local NAT64"
	case b[0] == 0xff:
		return "multicast"
	case b[0] == 0xfe && b[1]&0xc0 == 0x80:
		return "link-local"
	case b[0] == 0xfe && b[1]&0xc0 == 0xc0:
		return "site-local"
	case hi == 0xfd00_0ec2_0000_0000:
		return "metadata"
	case b[0]&0xfe == 0xfc:
		return "private"
	case hi>>61 != 1:
		return "not global unicast" // outside 2000::/3
	case hi>>48 == 0x2002:
		return "6to4"
	case hi>>32 == 0x2001_0000:
		return "Teredo"
	case hi>>32 == 0x2001_0db8 || hi>>44 == 0x3fff0:
		return "documentation"
	case hi>>16 == 0x2001_0002_0000:
		return "benchmarking"
	case hi>>41 == 0x2001_0000>>9:
		return "IETF protocol assignment" // 2001::/23
	case lo>>32&^0x0300_0000 == 0x0000_5efe:
		// ISATAP (RFC 5214 6.1): the IPv4 address of the tunnel's end is in
		// the interface identifier.
		if r := classify4([4]byte(b[12:])); r != "" {
			return "ISATAP of " + r
		}
	}
	return ""
}

// CheckPort returns a *Refusal if port belongs to a service that is not the
// web, so that nobody can make the crawler talk to a mail server or a database
// by a link: the "bad ports" of the WHATWG Fetch standard, section 2.9 (port
// blocking).
func CheckPort(port uint16) error {
	if !badPort(port) {
		return nil
	}
	return &Refusal{Target: "port " + strconv.Itoa(int(port)), Reason: "blocked port"}
}

func badPort(port uint16) bool {
	switch port {
	case 0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95,
		101, 102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179,
		389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601,
		636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566,
		6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080:
		return true
	}
	return false
}
