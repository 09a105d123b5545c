package resolver

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"lycosa.dev/dnser/internal/dnstest"
)

// everything answers A and AAAA for any name, as an authoritative server.
func everything(q dnstest.Query, reply *dns.Msg) dnstest.Action {
	reply.Authoritative, reply.RecursionAvailable = true, false
	hdr := dns.RR_Header{Name: reply.Question[0].Name, Rrtype: q.Type, Class: dns.ClassINET, Ttl: 300}
	if strings.HasPrefix(q.Name, "gone") {
		reply.Rcode = dns.RcodeNameError
		reply.Ns = append(reply.Ns, dnstest.RR(soa))
		return dnstest.Action{Reply: reply}
	}
	if q.Type == dns.TypeA {
		reply.Answer = append(reply.Answer, &dns.A{Hdr: hdr, A: []byte{192, 0, 2, 1}})
	} else {
		reply.Answer = append(reply.Answer, &dns.AAAA{Hdr: hdr, AAAA: netip.MustParseAddr("2001:db8::1").AsSlice()})
	}
	return dnstest.Action{Reply: reply}
}

// BenchmarkCached: names that the cache knows, 50,000 of them.
func BenchmarkCached(b *testing.B) {
	cfg := Default()
	cfg.Servers = []netip.AddrPort{serverOne}
	r := New(cfg, Deps{})
	hosts := make([]string, 50_000)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("host-%d.test", i)
		a := &Answer{Host: hosts[i], Status: Resolved, Addrs: addrs("192.0.2.1"), Expires: r.now().Add(cfg.MaxTTL)}
		r.cache.Put(hosts[i], a, a.Expires)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i += 7919 {
		if a := r.Resolve(context.Background(), hosts[i%len(hosts)]); !a.FromCache {
			b.Fatalf("%+v", a)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "answers/s")
}

// BenchmarkUncached: every name new, A and AAAA asked over real sockets of a
// server in the same process, 64 askers; gone is four questions a name.
func BenchmarkUncached(b *testing.B) {
	for _, kind := range []string{"host", "gone"} {
		b.Run(kind, func(b *testing.B) {
			s := dnstest.Start(b, everything)
			cfg := Default()
			cfg.Servers = []netip.AddrPort{s.Addr}
			r, _ := run(b, cfg, Deps{})
			var next atomic.Int64
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						a := r.Resolve(context.Background(), fmt.Sprintf("%s-%d.test", kind, i))
						if a.Status != Resolved && !a.Confirmed {
							b.Errorf("%+v", a)
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "answers/s")
		})
	}
}
