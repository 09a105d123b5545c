package proxy

import (
	"testing"
	"time"
)

// Proxies of a rule take turns; one that fails is left out for 5 s, then twice
// as long each time, to 5 minutes; one that works again counts as new; and a
// host with proxies never goes without.
func TestPickTakesTurnsByHealth(t *testing.T) {
	a, b := &Upstream{Scheme: "http", Addr: "a:1"}, &Upstream{Scheme: "socks5h", Addr: "b:1"}
	rules := Rules{
		{Host: "direct.test"},
		{Host: "*.name.test", Upstreams: []*Upstream{a}, RemoteDNS: true},
		{Host: "*.test", Upstreams: []*Upstream{a, b}},
	}
	now := time.Unix(1000, 0)
	picks := func(n int) (as, bs int) {
		for range n {
			switch u, remote := rules.Pick("x.test", now); {
			case u == a && !remote:
				as++
			case u == b && remote:
				bs++
			default:
				t.Fatalf("%v, remote %v", u, remote)
			}
		}
		return as, bs
	}
	if as, bs := picks(10); as != 5 || bs != 5 {
		t.Errorf("in turn: %d and %d", as, bs)
	}
	for _, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute} {
		a.Failed(now)
		now = now.Add(want - time.Nanosecond)
		if as, _ := picks(4); as != 0 {
			t.Errorf("%v: a proxy that was put aside was used before", want)
		}
		now = now.Add(time.Nanosecond)
		if as, _ := picks(4); as == 0 {
			t.Errorf("%v: a proxy that was put aside was not used again", want)
		}
	}
	a.Works()
	a.Failed(now)
	now = now.Add(firstAside)
	if as, _ := picks(4); as == 0 {
		t.Error("a proxy that had worked was put aside for longer than the first time")
	}
	a.Failed(now)
	b.Failed(now)
	if as, bs := picks(4); as+bs != 4 {
		t.Error("without a proxy")
	}
	if u, _ := rules.Pick("direct.test", now); u != nil {
		t.Errorf("direct.test goes by %v", u)
	}
	if u, _ := rules.Pick("elsewhere.example", now); u != nil {
		t.Errorf("a host of no rule goes by %v", u)
	}
	if u, remote := rules.Pick("h.name.test:8080", now); u != a || !remote {
		t.Errorf("h.name.test: %v, remote %v", u, remote)
	}
}
