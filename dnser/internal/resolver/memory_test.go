package resolver

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"lycosa.dev/dnser/internal/dnstest"
)

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemoryIsCounted: what Answer.bytes says is what the heap holds, so that
// MaxBytes means what it says.
func TestMemoryIsCounted(t *testing.T) {
	const names = 8_000
	for _, c := range []struct {
		what   string
		answer func(i int) *Answer
	}{
		{"usual", func(i int) *Answer {
			return &Answer{
				Host: fmt.Sprintf("www.host-%d.example.org", i), Status: Resolved, Server: "192.0.2.53:53",
				Addrs: addrs("192.0.2.1", "2001:db8::1"), Expires: time.Now(),
			}
		}},
		{"denial", func(i int) *Answer {
			return &Answer{Host: fmt.Sprintf("gone-%d.example.org", i), Status: NotExist, Detail: "no such name (NXDOMAIN)"}
		}},
		{"large", func(i int) *Answer {
			a := &Answer{Host: fmt.Sprintf("%d.%s.example", i, strings.Repeat("x", 60)), Status: Resolved, Addrs: make([]netip.Addr, 2*maxAddrs)}
			for j := range maxChain {
				a.CNAMEs = append(a.CNAMEs, fmt.Sprintf("%d.%d.%s.example", i, j, strings.Repeat("y", 60)))
			}
			return a
		}},
	} {
		cfg := Default()
		cfg.Servers, cfg.MaxEntries, cfg.MaxBytes = []netip.AddrPort{serverOne}, names, 0
		r := New(cfg, Deps{})
		before := heapInUse()
		for i := range names {
			a := c.answer(i)
			r.cache.Put(a.Host, a, a.Expires)
		}
		held := float64(heapInUse()-before) / float64(r.cache.Len())
		counted := float64(r.cache.Bytes()) / float64(r.cache.Len())
		t.Logf("%s: %.0f bytes an entry, %.0f counted", c.what, held, counted)
		if held > counted*1.1 || held < counted*0.6 {
			t.Errorf("%s: an entry takes %.0f bytes and counts as %.0f", c.what, held, counted)
		}
		runtime.KeepAlive(r)
	}
}

// TestHostileNamesDoNotFillTheMemory: answers as large as can be stay within
// the limit.
func TestHostileNamesDoNotFillTheMemory(t *testing.T) {
	net := &fakeNet{script: func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
		at := reply.Question[0].Name
		for i := range 12 {
			to := fmt.Sprintf("%d.%s.%s.%s.test.", i, strings.Repeat("y", 60), strings.Repeat("z", 60), strings.TrimSuffix(q.Name, ".test"))
			reply.Answer = append(reply.Answer, dnstest.RR(at+" 300 IN CNAME "+to))
			at = to
		}
		if q.Type == dns.TypeA {
			for i := range 100 {
				reply.Answer = append(reply.Answer, dnstest.RR(fmt.Sprintf("%s 300 IN A 192.0.2.%d", at, i)))
			}
		}
		return dnstest.Action{Reply: reply}
	}}
	cfg := Default()
	cfg.MaxBytes = 1 << 20
	r, _ := run(t, cfg, Deps{Transport: net})
	for i := range 400 {
		if a := r.Resolve(t.Context(), fmt.Sprintf("h%d.test", i)); len(a.Addrs) != maxAddrs || len(a.CNAMEs) != 12 {
			t.Fatalf("%+v", a)
		}
	}
	if n := r.cache.Bytes(); n > cfg.MaxBytes || n < cfg.MaxBytes/2 {
		t.Errorf("%d bytes are held, the limit is %d", n, cfg.MaxBytes)
	}
	if r.cache.Evicted() == 0 {
		t.Error("nothing had to go: the test shows nothing")
	}
}
