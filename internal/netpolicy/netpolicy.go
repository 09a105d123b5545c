// Package netpolicy says which addresses and ports a crawl may connect to.
//
// A crawler follows names that strangers chose. Without a policy a link to
// http://169.254.169.254/ or a name that resolves to 10.0.0.1 would make it a
// way into the network it runs in. So every address that is not part of the
// public Internet is refused, once when a name is resolved and once more on the
// address that is really dialled, unless the operator opened its network
// (--allow-net). The package holds no state: a Policy is a value, and its zero
// value refuses all that is not public.
package netpolicy

import (
	"fmt"
	"net/netip"
	"strings"
)

// Policy decides about addresses. The zero value allows the public Internet
// only. It is safe for concurrent use as long as AllowNets is not changed.
type Policy struct {
	// AllowNets are networks whose addresses are allowed whatever they are.
	// IPv4 networks also cover the IPv4-mapped IPv6 form of their addresses.
	AllowNets []netip.Prefix
}

// Refusal is the error of Check and CheckPort: a fact about an address, to be
// reported as the outcome of a fetch.
type Refusal struct {
	// Target is the address or port that was refused.
	Target string
	// Reason is a short stable word or two, such as "loopback" or "metadata".
	Reason string
}

// Error says what was refused and why, and for an address what would allow it.
func (r *Refusal) Error() string {
	text := "not allowed to connect to " + r.Target + " (" + r.Reason + ")"
	if n := r.opener(); n != "" {
		text += "; if it is meant to be crawled: --allow-net " + n + ", fetch.allow_net in a spec"
	}
	return text
}

// opener is the network that would have to be opened for the target: that of
// its kind where the kind has one, else the address alone. Empty: a port, or an
// address that nobody means to crawl.
func (r *Refusal) opener() string {
	a, err := netip.ParseAddr(r.Target)
	if err != nil || a.IsUnspecified() || a.IsMulticast() || r.Reason == "metadata" {
		return ""
	}
	a = a.WithZone("").Unmap()
	for _, n := range []string{"127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"} {
		if p := netip.MustParsePrefix(n); p.Contains(a) {
			return n
		}
	}
	return netip.PrefixFrom(a, a.BitLen()).String()
}

// Allowed tells whether addr lies in one of the networks the operator opened.
// Such addresses are under the operator's own care: delays of zero and many
// connections a host are possible only there.
func (p Policy) Allowed(addr netip.Addr) bool {
	addr = addr.WithZone("")
	plain := addr.Unmap()
	for _, n := range p.AllowNets {
		if n.Contains(plain) || (addr != plain && n.Contains(addr)) {
			return true
		}
	}
	return false
}

// Check returns nil if addr may be connected to, and a *Refusal otherwise.
func (p Policy) Check(addr netip.Addr) error {
	reason := Classify(addr)
	if reason == "" || (addr.IsValid() && p.Allowed(addr)) {
		return nil
	}
	return &Refusal{Target: addr.String(), Reason: reason}
}

// ParseNet reads one network as a user writes it: a CIDR or a bare address,
// which means that address alone. Host bits after the prefix are dropped.
func ParseNet(s string) (netip.Prefix, error) {
	s = strings.TrimSpace(s)
	if p, err := netip.ParsePrefix(s); err == nil {
		return p.Masked(), nil
	}
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.Prefix{}, fmt.Errorf("network %q: want a CIDR such as 10.0.0.0/8 or fd00::/8, or one address", s)
}

// ParseNets reads a list of networks, each as ParseNet does. Elements may hold
// several networks separated by commas; empty ones are skipped.
func ParseNets(list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, item := range list {
		for s := range strings.SplitSeq(item, ",") {
			if strings.TrimSpace(s) == "" {
				continue
			}
			p, err := ParseNet(s)
			if err != nil {
				return nil, err
			}
			out = append(out, p)
		}
	}
	return out, nil
}

// NetsValue is a repeatable command line flag that collects networks, for
// flag.Var and anything else with the same Set and String methods.
type NetsValue []netip.Prefix

// Set adds the networks in s, as ParseNets reads them.
func (v *NetsValue) Set(s string) error {
	nets, err := ParseNets([]string{s})
	if err != nil {
		return err
	}
	*v = append(*v, nets...)
	return nil
}

// String lists the networks, separated by commas.
func (v *NetsValue) String() string {
	if v == nil {
		return ""
	}
	parts := make([]string, len(*v))
	for i, p := range *v {
		parts[i] = p.String()
	}
	return strings.Join(parts, ",")
}
