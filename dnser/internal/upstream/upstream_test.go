package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"lycosa.dev/dnser/internal/dnstest"
	"lycosa.dev/dnser/internal/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const addrA = "192.0.2.1"

func answerA(reply *dns.Msg) dnstest.Action {
	reply.Answer = append(reply.Answer, dnstest.RR(reply.Question[0].Name+" 300 IN A "+addrA))
	return dnstest.Action{Reply: reply}
}

func group(servers ...netip.AddrPort) *upstream.Group {
	return upstream.New(upstream.Config{Servers: servers, TryTimeout: 150 * time.Millisecond, Rounds: 2, UDPSize: 1232})
}

func ask(t *testing.T, g *upstream.Group, name string) (upstream.Reply, error) {
	t.Helper()
	return g.Ask(t.Context(), name, dns.TypeA, netip.AddrPort{})
}

func mustAnswer(t *testing.T, g *upstream.Group, name string) upstream.Reply {
	t.Helper()
	r, err := ask(t, g, name)
	if err != nil {
		t.Fatalf("ask %s: %v", name, err)
	}
	if len(r.Msg.Answer) == 0 || !strings.Contains(r.Msg.Answer[0].String(), addrA) {
		t.Fatalf("ask %s: answer %v, want %s", name, r.Msg.Answer, addrA)
	}
	return r
}

func mustFail(t *testing.T, g *upstream.Group, name string, want upstream.Class) {
	t.Helper()
	r, err := ask(t, g, name)
	var e *upstream.Error
	if !errors.As(err, &e) || e.Class != want {
		t.Fatalf("ask %s: %v, %v; want class %s", name, r.Msg, err, want)
	}
}

func TestTruncatedGoesOverTCP(t *testing.T) {
	s := dnstest.Start(t, func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
		if q.Network == "udp" {
			reply.Truncated = true
			return dnstest.Action{Reply: reply}
		}
		return answerA(reply)
	})
	mustAnswer(t, group(s.Addr), "big.test")
	if q := s.Queries(); len(q) != 2 || q[1].Network != "tcp" {
		t.Errorf("asked %v, want udp then tcp", q)
	}
}

func TestTruncatedInTheMiddleOfARecord(t *testing.T) {
	s := dnstest.Start(t, func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
		if q.Network == "tcp" {
			return answerA(reply)
		}
		cut := reply.Copy()
		cut.Truncated = true
		packet := pack(answerA(cut).Reply)
		return dnstest.Action{Raw: [][]byte{packet[:len(packet)-3]}, Silent: true}
	})
	mustAnswer(t, group(s.Addr), "cut.test")
}

func pack(m *dns.Msg) []byte {
	b, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return b
}

// lies are replies that do not belong to the question.
func lies(reply *dns.Msg) [][]byte {
	forge := func(change func(*dns.Msg)) []byte {
		m := reply.Copy()
		m.Answer = []dns.RR{dnstest.RR(m.Question[0].Name + " 300 IN A 203.0.113.66")}
		change(m)
		return pack(m)
	}
	return [][]byte{
		forge(func(m *dns.Msg) { m.Id++ }),
		forge(func(m *dns.Msg) { m.Question[0].Name = "other.test." }),
		forge(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA }),
		forge(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }),
		forge(func(m *dns.Msg) { m.Question = nil }),
		forge(func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }),
		forge(func(m *dns.Msg) { m.Response = false }),
		forge(func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }),
		[]byte("not DNS at all, longer than a header"),
		{},
		{1, 2, 3},
		append([]byte{byte(reply.Id >> 8), byte(reply.Id)}, []byte("\x84\x00\x00\x01\xff\xff\x00\x00\x00\x00garbage")...),
	}
}

func TestWhatDoesNotBelongIsIgnored(t *testing.T) {
	s := dnstest.Start(t, func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
		a := answerA(reply.Copy())
		a.Raw = lies(reply)
		return a
	})
	mustAnswer(t, group(s.Addr), "forged.test")
	if n := s.Asked("forged.test", 0); n != 1 {
		t.Errorf("asked %d times, want 1: a forged packet must not end the wait", n)
	}
}

func TestOnlyLiesIsATimeout(t *testing.T) {
	s := dnstest.Start(t, func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
		return dnstest.Action{Raw: lies(reply), Silent: true}
	})
	mustFail(t, group(s.Addr), "forged.test", upstream.Timeout)
}

func TestLiesOverTCPAreFailures(t *testing.T) {
	s := dnstest.Start(t, func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
		if q.Network == "udp" {
			reply.Truncated = true
		} else {
			reply.Id++
		}
		return dnstest.Action{Reply: reply}
	})
	mustFail(t, group(s.Addr), "tcp.test", upstream.Timeout)
}

func TestServfailThenOK(t *testing.T) {
	s := dnstest.Start(t, func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
		if q.N == 0 {
			reply.Rcode = dns.RcodeServerFailure
			return dnstest.Action{Reply: reply}
		}
		return answerA(reply)
	})
	mustAnswer(t, group(s.Addr), "shaky.test")
}

func TestLossIsRetried(t *testing.T) {
	s := dnstest.Start(t, func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
		if q.N == 0 {
			return dnstest.Action{Silent: true}
		}
		return answerA(reply)
	})
	mustAnswer(t, group(s.Addr), "lossy.test")
}

// TestClasses: a server that tells more than silence is the one told of, and
// each kind of refusal has its class.
func TestClasses(t *testing.T) {
	silent := dnstest.Start(t, func(dnstest.Query, *dns.Msg) dnstest.Action { return dnstest.Action{Silent: true} })
	for rcode, want := range map[int]upstream.Class{
		dns.RcodeServerFailure:  upstream.ServFail,
		dns.RcodeFormatError:    upstream.ServFail,
		dns.RcodeRefused:        upstream.Refused,
		dns.RcodeNotAuth:        upstream.Refused,
		dns.RcodeNotImplemented: upstream.Refused,
		dns.RcodeYXDomain:       upstream.ServFail,
	} {
		t.Run(dns.RcodeToString[rcode], func(t *testing.T) {
			s := dnstest.Start(t, func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
				reply.Rcode = rcode
				return dnstest.Action{Reply: reply}
			})
			mustFail(t, group(s.Addr, silent.Addr), "x.test", want)
			if want == upstream.Refused && rcode != dns.RcodeNotImplemented && len(s.Queries()) != 1 {
				t.Errorf("asked %d times after a refusal, want 1", len(s.Queries()))
			}
		})
	}
	mustFail(t, group(silent.Addr), "x.test", upstream.Timeout)
}

func TestQuestionLeftOutOfARefusal(t *testing.T) {
	s := dnstest.Start(t, func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
		reply.Rcode, reply.Question = dns.RcodeRefused, nil
		return dnstest.Action{Reply: reply}
	})
	mustFail(t, group(s.Addr), "x.test", upstream.Refused)
}

func TestWithoutEDNSForOldServers(t *testing.T) {
	s := dnstest.Start(t, func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
		if q.EDNS {
			reply.Rcode = dns.RcodeFormatError
			return dnstest.Action{Reply: reply}
		}
		return answerA(reply)
	})
	mustAnswer(t, group(s.Addr), "old.test")
	if q := s.Queries(); len(q) != 2 || !q[0].EDNS || q[1].EDNS {
		t.Errorf("asked %v, want with EDNS0 and then without", q)
	}
}

func TestLameServerIsPassedBy(t *testing.T) {
	lame := dnstest.Start(t, func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
		reply.RecursionAvailable = false
		reply.Ns = []dns.RR{dnstest.RR("test. 300 IN NS ns.elsewhere.test.")}
		return dnstest.Action{Reply: reply}
	})
	good := dnstest.Start(t, func(q dnstest.Query, reply *dns.Msg) dnstest.Action { return answerA(reply) })
	if r := mustAnswer(t, group(lame.Addr, good.Addr), "x.test"); r.Server != good.Addr {
		t.Errorf("answered by %v, want %v", r.Server, good.Addr)
	}
	mustFail(t, group(lame.Addr), "x.test", upstream.ServFail)
}

func TestNobodyListens(t *testing.T) {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := netip.MustParseAddrPort(l.LocalAddr().String())
	_ = l.Close()
	good := dnstest.Start(t, func(q dnstest.Query, reply *dns.Msg) dnstest.Action { return answerA(reply) })
	mustAnswer(t, group(dead, good.Addr), "x.test")
	mustFail(t, group(dead), "x.test", upstream.Timeout)
}

func TestServersThatAreDownAreAskedLast(t *testing.T) {
	var dead atomic.Bool
	dead.Store(true)
	first := dnstest.Start(t, func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
		if dead.Load() {
			return dnstest.Action{Silent: true}
		}
		return answerA(reply)
	})
	second := dnstest.Start(t, func(q dnstest.Query, reply *dns.Msg) dnstest.Action { return answerA(reply) })
	now := time.Unix(1_700_000_000, 0)
	g := upstream.New(upstream.Config{
		Servers:    []netip.AddrPort{first.Addr, second.Addr},
		TryTimeout: 50 * time.Millisecond, Rounds: 1, UDPSize: 1232,
		Now: func() time.Time { return now },
	})
	for i := range 3 {
		mustAnswer(t, g, fmt.Sprintf("n%d.test", i))
	}
	if g.Down() != 1 {
		t.Fatalf("%d servers are down after three losses, want 1", g.Down())
	}
	before := len(first.Queries())
	mustAnswer(t, g, "later.test")
	if len(first.Queries()) != before {
		t.Error("the server that is down was asked before one that is well")
	}
	dead.Store(false)
	now = now.Add(2 * time.Second)
	if r := mustAnswer(t, g, "back.test"); r.Server != first.Addr {
		t.Errorf("after its time is over the first server is not asked first: %v", r.Server)
	}
	if g.Down() != 0 {
		t.Error("the server that answers is still down")
	}
}

func TestAvoidAndRotate(t *testing.T) {
	script := func(q dnstest.Query, reply *dns.Msg) dnstest.Action { return answerA(reply) }
	a, b := dnstest.Start(t, script), dnstest.Start(t, script)
	r, err := group(a.Addr, b.Addr).Ask(t.Context(), "x.test", dns.TypeA, a.Addr)
	if err != nil || r.Server != b.Addr {
		t.Errorf("answered by %v, %v; want the other server %v", r.Server, err, b.Addr)
	}
	g := upstream.New(upstream.Config{Servers: []netip.AddrPort{a.Addr, b.Addr}, TryTimeout: time.Second, Rotate: true, UDPSize: 1232})
	seen := map[netip.AddrPort]int{}
	for range 10 {
		seen[mustAnswer(t, g, "x.test").Server]++
	}
	if seen[a.Addr] != 5 || seen[b.Addr] != 5 {
		t.Errorf("rotation is uneven: %v", seen)
	}
}

func TestCancelWakesTheReader(t *testing.T) {
	asked := make(chan struct{}, 10)
	s := dnstest.Start(t, func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
		asked <- struct{}{}
		return dnstest.Action{Silent: true}
	})
	g := upstream.New(upstream.Config{Servers: []netip.AddrPort{s.Addr}, TryTimeout: time.Hour, UDPSize: 1232})
	for range 5 { // more than make a server count as down
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := g.Ask(ctx, "x.test", dns.TypeA, netip.AddrPort{})
			done <- err
		}()
		<-asked
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("after cancelling: %v, want context.Canceled", err)
		}
	}
	if g.Down() != 0 {
		t.Error("giving up counted against the server")
	}
}

func TestSourcePortAndIDAreNew(t *testing.T) {
	s := dnstest.Start(t, func(q dnstest.Query, reply *dns.Msg) dnstest.Action { return answerA(reply) })
	g := group(s.Addr)
	ids := map[uint16]bool{}
	for range 32 {
		ids[mustAnswer(t, g, "x.test").Msg.Id] = true
	}
	ports := map[uint16]bool{}
	for _, q := range s.Queries() {
		ports[q.Source.Port()] = true
	}
	// A random port may come twice; always the same, or counted up in step
	// with a fixed id, must not.
	if len(ports) < 16 || len(ids) < 16 {
		t.Errorf("32 queries used %d ports and %d ids", len(ports), len(ids))
	}
}
