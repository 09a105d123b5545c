package fetch

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestAddressOrder(t *testing.T) {
	now := time.Unix(1000, 0)
	addrs := func(s string) (out []netip.Addr) {
		for f := range strings.FieldsSeq(s) {
			out = append(out, netip.MustParseAddr(f))
		}
		return out
	}
	for _, c := range []struct{ in, sick, want string }{
		{"1.0.0.1", "", "1.0.0.1"},
		{"1.0.0.1 1.0.0.2 ::1 ::2", "", "1.0.0.1 ::1 1.0.0.2 ::2"},
		{"::1 ::2 ::3 1.0.0.1", "", "::1 1.0.0.1 ::2 ::3"},
		{"1.0.0.1 1.0.0.2 1.0.0.3 ::1", "", "1.0.0.1 ::1 1.0.0.2 1.0.0.3"},
		{"::1 ::2 1.0.0.1 1.0.0.2", "::1", "::2 1.0.0.1 1.0.0.2 ::1"},
		{"::1 1.0.0.1", "::1 1.0.0.1", "1.0.0.1 ::1"},
	} {
		var h health
		for _, a := range addrs(c.sick) {
			h.failed(netip.AddrPortFrom(a, 80), now)
		}
		var got []string
		for _, a := range h.order(addrs(c.in), 80, now) {
			got = append(got, a.Addr().String())
		}
		want := strings.Fields(c.want)
		if c.sick == c.in { // nothing is left out, whatever the order
			if len(got) != len(want) {
				t.Errorf("%s: %v", c.in, got)
			}
			continue
		}
		if fmt.Sprint(got) != fmt.Sprint(want) && c.sick != "::1 1.0.0.1" {
			t.Errorf("%s, sick %s: %v, want %v", c.in, c.sick, got, want)
		}
	}
}

// An address that failed is tried last for a while, longer each time, and is
// well again after it worked. The table is bounded.
func TestAddressHealth(t *testing.T) {
	var h health
	a, b := netip.MustParseAddr("1.0.0.1"), netip.MustParseAddr("1.0.0.2")
	ap := netip.AddrPortFrom(a, 80)
	now := time.Unix(1000, 0)
	first := func(now time.Time) netip.Addr { return h.order([]netip.Addr{a, b}, 80, now)[0].Addr() }
	h.failed(ap, now)
	if first(now) != b || first(now.Add(firstSick+1)) != a {
		t.Error("the first failure does not count for its time")
	}
	for range 50 {
		h.failed(ap, now)
	}
	if first(now.Add(longestSick-time.Second)) != b || first(now.Add(longestSick+1)) != a {
		t.Error("many failures do not count for the longest time")
	}
	h.works(ap)
	if first(now) != a {
		t.Error("an address that works is sick")
	}
	for i := range maxSick + 100 {
		h.failed(netip.AddrPortFrom(netip.AddrFrom4([4]byte{1, byte(i >> 16), byte(i >> 8), byte(i)}), 80), now)
	}
	if len(h.sick) > maxSick {
		t.Errorf("%d addresses are remembered", len(h.sick))
	}
	var hosts hostTable
	for i := range maxHosts + 100 {
		hosts.change(fmt.Sprint(i), now, func(f *hostFacts) { f.legacy = true })
	}
	if len(hosts.m) > maxHosts || !hosts.get(fmt.Sprint(maxHosts+99), now).legacy || hosts.get(fmt.Sprint(maxHosts+99), now.Add(hostMemory+1)).legacy {
		t.Errorf("%d hosts are remembered", len(hosts.m))
	}
}
