package testweb

import (
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// Name is what the name server knows of one name.
type Name struct {
	// Addrs are its A and AAAA records.
	Addrs []string
	// CNAME is the name that it is an alias of.
	CNAME string
	// RCode is the answer's code if not dns.RcodeSuccess, such as
	// dns.RcodeServerFailure.
	RCode int
	// TTL of the records in seconds; 0 is 60.
	TTL uint32
	// Delay is waited before the answer.
	Delay time.Duration
	// Silent never answers.
	Silent bool
}

// Query is one question that the name server was asked.
type Query struct {
	Name string // lower case, without the last dot
	Type uint16
	TCP  bool
	At   time.Time
}

// DNS is a running name server over UDP and TCP on one loopback port. Names
// that nobody set do not exist.
type DNS struct {
	addr netip.AddrPort
	stop chan struct{}

	mu    sync.Mutex
	names map[string]Name
	log   []Query
}

// StartDNS serves until the test ends.
func StartDNS(tb testing.TB) *DNS {
	tb.Helper()
	var udp net.PacketConn
	var tcp net.Listener
	var err error
	for range 20 {
		if udp, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
			break
		}
		if tcp, err = net.Listen("tcp", udp.LocalAddr().String()); err == nil {
			break
		}
		_ = udp.Close()
	}
	if err != nil {
		tb.Fatalf("testweb: no port for the name server: %v", err)
	}
	d := &DNS{addr: netip.MustParseAddrPort(udp.LocalAddr().String()), stop: make(chan struct{}), names: map[string]Name{}}
	var running sync.WaitGroup
	tb.Cleanup(running.Wait) // runs last
	for _, srv := range []*dns.Server{{PacketConn: udp}, {Listener: tcp}} {
		overTCP := srv.Listener != nil
		srv.Handler = dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) { d.answer(overTCP, w, m) })
		started := make(chan struct{})
		srv.NotifyStartedFunc = func() { close(started) }
		running.Go(func() { _ = srv.ActivateAndServe() })
		<-started
		tb.Cleanup(func() { _ = srv.Shutdown() })
	}
	tb.Cleanup(func() { close(d.stop) }) // runs first: delayed answers end
	return d
}

// Addr is where the server listens, as --dns wants it.
func (d *DNS) Addr() string { return d.addr.String() }

// Set says what a name has; a zero Name exists and has no records.
func (d *DNS) Set(name string, n Name) *DNS {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names[canonicalName(name)] = n
	return d
}

// Remove makes a name one that does not exist.
func (d *DNS) Remove(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.names, canonicalName(name))
}

// Queries returns the questions about a name, in order; "" is all.
func (d *DNS) Queries(name string) []Query {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []Query
	for _, q := range d.log {
		if name == "" || q.Name == canonicalName(name) {
			out = append(out, q)
		}
	}
	return out
}

func canonicalName(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

func (d *DNS) lookup(name string) (Name, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, ok := d.names[name]
	return n, ok
}

func (d *DNS) answer(overTCP bool, w dns.ResponseWriter, m *dns.Msg) {
	if len(m.Question) != 1 {
		return
	}
	name, qtype := canonicalName(m.Question[0].Name), m.Question[0].Qtype
	d.mu.Lock()
	d.log = append(d.log, Query{Name: name, Type: qtype, TCP: overTCP, At: time.Now()})
	d.mu.Unlock()

	reply := new(dns.Msg).SetReply(m)
	reply.RecursionAvailable = true
	for hops := 0; ; hops++ {
		n, ok := d.lookup(name)
		if !ok {
			reply.Rcode = dns.RcodeNameError
			reply.Ns = append(reply.Ns, soa())
			break
		}
		if n.Silent {
			return
		}
		if n.Delay > 0 {
			t := time.NewTimer(n.Delay)
			select {
			case <-t.C:
			case <-d.stop:
				t.Stop()
				return
			}
		}
		if n.RCode != dns.RcodeSuccess {
			reply.Rcode = n.RCode
			break
		}
		ttl := n.TTL
		if ttl == 0 {
			ttl = 60
		}
		if n.CNAME != "" && hops < 20 {
			reply.Answer = append(reply.Answer, &dns.CNAME{Hdr: header(name, dns.TypeCNAME, ttl), Target: dns.Fqdn(n.CNAME)})
			name = canonicalName(n.CNAME)
			continue
		}
		found := false
		for _, text := range n.Addrs {
			addr := netip.MustParseAddr(text)
			switch {
			case qtype == dns.TypeA && addr.Is4():
				reply.Answer = append(reply.Answer, &dns.A{Hdr: header(name, dns.TypeA, ttl), A: addr.AsSlice()})
			case qtype == dns.TypeAAAA && addr.Is6():
				reply.Answer = append(reply.Answer, &dns.AAAA{Hdr: header(name, dns.TypeAAAA, ttl), AAAA: addr.AsSlice()})
			default:
				continue
			}
			found = true
		}
		if !found {
			reply.Ns = append(reply.Ns, soa())
		}
		break
	}
	if !overTCP {
		size := dns.MinMsgSize
		if opt := m.IsEdns0(); opt != nil {
			size = int(opt.UDPSize())
		}
		reply.Truncate(size)
	}
	_ = w.WriteMsg(reply) // the asker may have gone
}

func header(name string, rrtype uint16, ttl uint32) dns.RR_Header {
	return dns.RR_Header{Name: dns.Fqdn(name), Rrtype: rrtype, Class: dns.ClassINET, Ttl: ttl}
}

func soa() dns.RR {
	return &dns.SOA{
		Hdr: header(".", dns.TypeSOA, 60), Ns: "ns.test.", Mbox: "nobody.test.",
		Serial: 1, Refresh: 3600, Retry: 600, Expire: 86400, Minttl: 60,
	}
}
