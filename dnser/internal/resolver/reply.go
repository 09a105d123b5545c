package resolver

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

const (
	// maxChain is the aliases followed from one name, over all replies.
	maxChain = 16
	// maxAddrs is the addresses kept of one family.
	maxAddrs = 16
)

// view is one reply as seen from the name that was asked.
type view struct {
	addrs   []netip.Addr
	aliases []string // canonical, in order; the last one is where the chain ends
	ttl     time.Duration
	denied  bool // the reply itself says that the chain's end has nothing
	broken  string
}

// readReply walks the alias chain of a valid reply (NOERROR or NXDOMAIN) from
// name to its end and takes the addresses of type qtype there. Records that
// are not on the chain are ignored, in whatever order they stand. ttl is the
// least of the chain's and the addresses', or of the chain's and the denial's
// (RFC 2308 section 5); negative if nothing says how long.
func readReply(m *dns.Msg, name string, qtype uint16) view {
	v := view{ttl: -1}
	lower := func(ttl uint32) {
		if d := seconds(ttl); v.ttl < 0 || d < v.ttl {
			v.ttl = d
		}
	}
	at := dns.Fqdn(name)
	seen := []string{canonical(name)}
	for {
		alias := findAlias(m.Answer, at)
		if alias == nil {
			break
		}
		target := canonical(alias.Target)
		if slices.Contains(seen, target) {
			v.broken = "the aliases go round in a circle at " + target
			return v
		}
		if len(v.aliases) == maxChain {
			v.broken = "more than 16 aliases"
			return v
		}
		lower(alias.Hdr.Ttl)
		v.aliases = append(v.aliases, target)
		seen = append(seen, target)
		at = alias.Target
	}
	if m.Rcode == dns.RcodeSuccess {
		for _, rr := range m.Answer {
			if rr.Header().Rrtype != qtype || !ownedBy(rr, at) || len(v.addrs) == maxAddrs {
				continue
			}
			if a, ok := address(rr); ok && !slices.Contains(v.addrs, a) {
				v.addrs = append(v.addrs, a)
				lower(rr.Header().Ttl)
			}
		}
		if len(v.addrs) > 0 {
			return v
		}
	}
	// RFC 6604 section 3: the code is about the last name of the chain.
	v.denied = m.Rcode == dns.RcodeNameError || len(v.aliases) == 0
	known := false
	for _, rr := range m.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			v.denied = true
			known = true
			lower(min(soa.Minttl, soa.Hdr.Ttl))
		}
	}
	if v.denied && !known {
		v.ttl = -1 // RFC 2308 section 5: not to be kept
	}
	return v
}

func findAlias(answer []dns.RR, owner string) *dns.CNAME {
	for _, rr := range answer {
		if c, ok := rr.(*dns.CNAME); ok && ownedBy(rr, owner) {
			return c
		}
	}
	return nil
}

func ownedBy(rr dns.RR, owner string) bool {
	h := rr.Header()
	return h.Class == dns.ClassINET && strings.EqualFold(h.Name, owner)
}

func address(rr dns.RR) (netip.Addr, bool) {
	switch rr := rr.(type) {
	case *dns.A:
		a, ok := netip.AddrFromSlice(rr.A)
		return a.Unmap(), ok
	case *dns.AAAA:
		a, ok := netip.AddrFromSlice(rr.AAAA)
		return a.Unmap(), ok
	}
	return netip.Addr{}, false
}

// seconds is a TTL as a duration; one with the highest bit set is zero
// (RFC 2181 section 8).
func seconds(ttl uint32) time.Duration {
	if ttl > 1<<31-1 {
		return 0
	}
	return time.Duration(ttl) * time.Second
}
