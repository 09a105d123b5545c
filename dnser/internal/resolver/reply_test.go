package resolver

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"lycosa.dev/dnser/internal/dnstest"
	"lycosa.dev/dnser/internal/upstream"
)

func TestReadReplyOrderAndStrangers(t *testing.T) {
	m := new(dns.Msg)
	m.SetQuestion("www.test.", dns.TypeA)
	for _, rr := range []string{
		"stranger.test. 5 IN A 203.0.113.66", // not on the chain
		"end.test. 50 IN A 192.0.2.1",        // before the aliases that lead to it
		"MID.test. 60 IN CNAME end.test.",
		"end.test. 50 IN AAAA 2001:db8::1", // another type
		"www.test. 70 IN CNAME mid.test.",
		"end.test. 40 CH A 203.0.113.67", // another class
		"END.test. 45 IN A 192.0.2.1",    // the same again
	} {
		m.Answer = append(m.Answer, dnstest.RR(rr))
	}
	v := readReply(m, "www.test", dns.TypeA)
	if len(v.addrs) != 1 || v.addrs[0] != netip.MustParseAddr("192.0.2.1") || len(v.aliases) != 2 || v.ttl != 50*time.Second {
		t.Errorf("%+v", v)
	}
	m.Rcode = dns.RcodeNameError
	if v := readReply(m, "www.test", dns.TypeA); len(v.addrs) > 0 || !v.denied {
		t.Errorf("a denial with addresses: %+v", v)
	}
}

func TestAddressesAreBounded(t *testing.T) {
	m := new(dns.Msg)
	m.SetQuestion("many.test.", dns.TypeA)
	for i := range 500 {
		m.Answer = append(m.Answer, &dns.A{
			Hdr: dns.RR_Header{Name: "many.test.", Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60},
			A:   []byte{192, 0, byte(i >> 8), byte(i)},
		})
	}
	if v := readReply(m, "many.test", dns.TypeA); len(v.addrs) != maxAddrs {
		t.Errorf("%d addresses kept, want %d", len(v.addrs), maxAddrs)
	}
}

func TestChainInOneReplyIsBounded(t *testing.T) {
	m := new(dns.Msg)
	m.SetQuestion("n0.test.", dns.TypeA)
	for i := range 40 {
		m.Answer = append(m.Answer, dnstest.RR(fmt.Sprintf("n%d.test. 60 IN CNAME n%d.test.", i, i+1)))
	}
	if v := readReply(m, "n0.test", dns.TypeA); v.broken == "" || len(v.aliases) > maxChain {
		t.Errorf("%+v, want it broken off after %d aliases", v, maxChain)
	}
}

// rawNet answers with the packet whatever the question is, as if it had passed
// the checks of the network.
type rawNet struct{ packet []byte }

func (n rawNet) Exchange(_ context.Context, _ string, _ netip.AddrPort, q *dns.Msg) (*dns.Msg, error) {
	m := new(dns.Msg)
	if err := m.Unpack(n.packet); err != nil {
		return nil, err
	}
	m.Id, m.Response, m.Opcode, m.Question = q.Id, true, dns.OpcodeQuery, q.Question
	return m, nil
}

// FuzzAnswer: whatever a server says, there is an answer within bounds.
func FuzzAnswer(f *testing.F) {
	seed := func(rcode int, records ...string) {
		m := new(dns.Msg)
		m.SetQuestion("www.test.", dns.TypeA)
		m.Rcode = rcode
		for _, r := range records {
			m.Answer = append(m.Answer, dnstest.RR(r))
		}
		m.Ns = append(m.Ns, dnstest.RR(soa))
		packet, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packet, "www.test")
	}
	seed(dns.RcodeSuccess, "www.test. 70 IN CNAME end.test.", "end.test. 60 IN A 192.0.2.1", "end.test. 60 IN AAAA ::ffff:192.0.2.1")
	seed(dns.RcodeSuccess, "www.test. 70 IN CNAME www.test.")
	seed(dns.RcodeSuccess, "www.test. 70 IN CNAME elsewhere.test.")
	seed(dns.RcodeSuccess, `www.test. 70 IN CNAME a\.b\000\255.test.`)
	seed(dns.RcodeNameError)
	seed(dns.RcodeServerFailure)
	extended := new(dns.Msg)
	extended.SetQuestion("www.test.", dns.TypeA)
	extended.Rcode = dns.RcodeServerFailure
	extended.SetEdns0(1232, false)
	extended.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeDNSBogus, ExtraText: "\x00\xff\n"}}
	packet, err := extended.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packet, "www.test")
	cfg := Default()
	cfg.Servers = []netip.AddrPort{serverOne}
	f.Fuzz(func(t *testing.T, packet []byte, host string) {
		r := New(cfg, Deps{Transport: rawNet{packet}})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		now := time.Now()
		a := r.Resolve(ctx, host)
		cancel()
		if err := r.Run(ctx); err != nil { // waits for the goroutines
			t.Fatal(err)
		}
		if (a.Status == Resolved) != (len(a.Addrs) > 0) || a.Status == Unknown || a.Pending {
			t.Errorf("%+v", a)
		}
		if len(a.Addrs) > 2*maxAddrs || len(a.CNAMEs) > maxChain {
			t.Errorf("beyond the bounds: %+v", a)
		}
		for _, ip := range a.Addrs {
			if !ip.IsValid() || ip.Is4In6() {
				t.Errorf("address %v", ip)
			}
		}
		if kept := a.Expires.Sub(now); kept <= 0 || kept > cfg.MaxTTL+time.Minute {
			t.Errorf("kept for %v: %+v", kept, a)
		}
		if a.Status.Temporary() != (a.Reason != "") || a.Reason != "" && !slices.Contains(upstream.Reasons(), a.Reason) {
			t.Errorf("reason %q: %+v", a.Reason, a)
		}
		if len(a.Detail) > 1500 || strings.ContainsFunc(a.Detail, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			t.Errorf("detail of %d bytes: %q", len(a.Detail), a.Detail)
		}
		if a.Confirmed && !a.Status.Negative() {
			t.Errorf("confirmed without a denial: %+v", a)
		}
	})
}

func FuzzName(f *testing.F) {
	for _, s := range []string{"a.test:80", "[::1]:80", "1.2.3.4", "::1", "[", "a:", ":80", "xn--a.test.", "a..b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, host string) {
		name := canonical(hostOf(host))
		if checkName(name) != "" {
			return
		}
		if _, ok := dns.IsDomainName(name); !ok {
			t.Errorf("%q passes and is no domain name", name)
		}
		m := new(dns.Msg)
		m.SetQuestion(dns.Fqdn(name), dns.TypeA)
		if _, err := m.Pack(); err != nil {
			t.Errorf("%q passes and cannot be asked: %v", name, err)
		}
	})
}
