// Package dnstest is a name server for tests: scripted, on a loopback port of
// its own, over UDP and TCP, with a log of what it was asked.
package dnstest

import (
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
)

// Query is one question as the server saw it.
type Query struct {
	Name    string // lower case, no trailing dot
	Type    uint16
	Network string // "udp" or "tcp"
	EDNS    bool
	Source  netip.AddrPort
	N       int // how often this name and type were asked before
}

// Action is what the server does with a question. Reply is a message that
// already answers it with NOERROR; Raw, if set, is sent instead.
type Action struct {
	Reply  *dns.Msg
	Raw    [][]byte // packets to send first (UDP only)
	Silent bool     // send nothing
}

// Script decides what to do. It runs on many goroutines at once.
type Script func(q Query, reply *dns.Msg) Action

// Server is a running name server.
type Server struct {
	Addr netip.AddrPort

	mu     sync.Mutex
	log    []Query
	counts map[string]int
}

// Start runs a server until the test ends.
func Start(tb testing.TB, script Script) *Server {
	tb.Helper()
	s := &Server{counts: make(map[string]int)}
	udp, tcp := listen(tb)
	s.Addr = netip.MustParseAddrPort(udp.LocalAddr().String())
	var wg sync.WaitGroup
	tb.Cleanup(wg.Wait) // registered first: runs when both have been told to stop
	for network, srv := range map[string]*dns.Server{
		"udp": {PacketConn: udp},
		"tcp": {Listener: tcp},
	} {
		srv.Handler = dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) { s.handle(network, script, w, m) })
		started := make(chan struct{})
		srv.NotifyStartedFunc = func() { close(started) }
		wg.Go(func() { _ = srv.ActivateAndServe() })
		<-started
		tb.Cleanup(func() {
			if err := srv.Shutdown(); err != nil {
				tb.Errorf("stop the test's name server: %v", err)
			}
		})
	}
	return s
}

// listen takes one port for both protocols.
func listen(tb testing.TB) (net.PacketConn, net.Listener) {
	tb.Helper()
	var lastErr error
	var lc net.ListenConfig
	for range 20 {
		udp, err := lc.ListenPacket(tb.Context(), "udp", "127.0.0.1:0")
		if err != nil {
			tb.Fatalf("listen: %v", err)
		}
		tcp, err := lc.Listen(tb.Context(), "tcp", udp.LocalAddr().String())
		if err == nil {
			return udp, tcp
		}
		lastErr = err
		_ = udp.Close()
	}
	tb.Fatalf("no port is free for both UDP and TCP: %v", lastErr)
	return nil, nil
}

func (s *Server) handle(network string, script Script, w dns.ResponseWriter, m *dns.Msg) {
	if len(m.Question) != 1 {
		return
	}
	q := Query{
		Name:    strings.ToLower(strings.TrimSuffix(m.Question[0].Name, ".")),
		Type:    m.Question[0].Qtype,
		Network: network,
		EDNS:    m.IsEdns0() != nil,
		Source:  netip.MustParseAddrPort(w.RemoteAddr().String()),
	}
	key := q.Name + " " + dns.TypeToString[q.Type]
	s.mu.Lock()
	q.N = s.counts[key]
	s.counts[key]++
	s.log = append(s.log, q)
	s.mu.Unlock()

	reply := new(dns.Msg)
	reply.SetReply(m)
	reply.RecursionAvailable = true
	a := script(q, reply)
	for _, raw := range a.Raw {
		_, _ = w.Write(raw) // the asker may have gone
	}
	if a.Silent {
		return
	}
	_ = w.WriteMsg(a.Reply)
}

// Asked is how often name was asked for a type; a type of 0 is any.
func (s *Server) Asked(name string, qtype uint16) int {
	n := 0
	for _, q := range s.Queries() {
		if q.Name == name && (qtype == 0 || q.Type == qtype) {
			n++
		}
	}
	return n
}

// Queries is a copy of the log.
func (s *Server) Queries() []Query {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Query(nil), s.log...)
}

// RR reads a record in zone file form, and panics if it is none.
func RR(text string) dns.RR {
	rr, err := dns.NewRR(text)
	if err != nil || rr == nil {
		panic("dnstest: bad record: " + text)
	}
	return rr
}

// Zone is a script that answers from records, as a recursive server would:
// alias chains whole, NODATA and NXDOMAIN with soa in the authority section.
func Zone(soa string, records ...string) Script {
	byName := make(map[string][]dns.RR)
	for _, text := range records {
		rr := RR(text)
		n := strings.ToLower(strings.TrimSuffix(rr.Header().Name, "."))
		byName[n] = append(byName[n], rr)
	}
	return func(q Query, reply *dns.Msg) Action {
		name := q.Name
		for range 20 {
			rrs, ok := byName[name]
			if !ok {
				reply.Rcode = dns.RcodeNameError
				break
			}
			var alias *dns.CNAME
			found := false
			for _, rr := range rrs {
				if c, ok := rr.(*dns.CNAME); ok {
					alias = c
				}
				if rr.Header().Rrtype == q.Type {
					reply.Answer = append(reply.Answer, rr)
					found = true
				}
			}
			if found || alias == nil {
				break
			}
			reply.Answer = append(reply.Answer, alias)
			name = strings.ToLower(strings.TrimSuffix(alias.Target, "."))
		}
		if last := len(reply.Answer) - 1; last < 0 || reply.Answer[last].Header().Rrtype != q.Type {
			if soa != "" {
				reply.Ns = append(reply.Ns, RR(soa))
			}
		}
		return Action{Reply: reply}
	}
}
