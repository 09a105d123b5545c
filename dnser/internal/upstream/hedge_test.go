package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"lycosa.dev/dnser/internal/upstream"
)

// fake is a transport with a delay a server and no sockets.
type fake struct {
	delay map[netip.AddrPort]time.Duration
	reply func(server netip.AddrPort, m *dns.Msg) // nil: an address

	mu   sync.Mutex
	sent []sent
}

type sent struct {
	to   netip.AddrPort
	when time.Time
}

func (f *fake) Exchange(ctx context.Context, _ string, server netip.AddrPort, q *dns.Msg) (*dns.Msg, error) {
	f.mu.Lock()
	f.sent = append(f.sent, sent{server, time.Now()})
	f.mu.Unlock()
	if d := f.delay[server]; d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	m := new(dns.Msg)
	m.SetReply(q)
	m.RecursionAvailable = true
	if f.reply != nil {
		f.reply(server, m)
		return m, nil
	}
	return answerA(m).Reply, nil
}

func (f *fake) count(server netip.AddrPort) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, s := range f.sent {
		if s.to == server {
			n++
		}
	}
	return n
}

var (
	one = netip.MustParseAddrPort("192.0.2.53:53")
	two = netip.MustParseAddrPort("192.0.2.54:53")
)

const hedge = 100 * time.Millisecond

func fakeGroup(f *fake, change func(*upstream.Config)) *upstream.Group {
	cfg := upstream.Config{
		Servers: []netip.AddrPort{one, two}, TryTimeout: time.Second, Rounds: 2, UDPSize: 1232, Hedge: hedge, Transport: f,
	}
	if change != nil {
		change(&cfg)
	}
	return upstream.New(cfg)
}

func TestHedge(t *testing.T) {
	for _, c := range []struct {
		name     string
		one, two time.Duration
		want     netip.AddrPort
		took     time.Duration
		asked    int // of two
	}{
		{"the first is quick", hedge - 1, 0, one, hedge - 1, 0},
		{"the second overtakes", 900 * time.Millisecond, 10 * time.Millisecond, two, hedge + 10*time.Millisecond, 1},
		{"the first wins after all", 150 * time.Millisecond, 900 * time.Millisecond, one, 150 * time.Millisecond, 1},
		{"the first is dead", time.Hour, 20 * time.Millisecond, two, hedge + 20*time.Millisecond, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{delay: map[netip.AddrPort]time.Duration{one: c.one, two: c.two}}
				g := fakeGroup(f, nil)
				begin := time.Now()
				r := mustAnswer(t, g, "x.test")
				if r.Server != c.want || time.Since(begin) != c.took || f.count(two) != c.asked {
					t.Errorf("%v after %v, second asked %d times; want %v after %v, %d", r.Server, time.Since(begin), f.count(two), c.want, c.took, c.asked)
				}
			})
		})
	}
}

// TestHedgeKeepsHealth: a server that is always outrun counts as failed, though
// nobody waits until it has timed out.
func TestHedgeKeepsHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{delay: map[netip.AddrPort]time.Duration{one: time.Hour}}
		g := fakeGroup(f, nil)
		for range 3 {
			mustAnswer(t, g, "x.test")
		}
		if g.Down() != 1 {
			t.Fatalf("%d are down, want 1", g.Down())
		}
		begin := time.Now()
		if r := mustAnswer(t, g, "y.test"); r.Server != two || time.Since(begin) != 0 || f.count(one) != 3 {
			t.Errorf("%v after %v; the one that is down was asked %d times", r.Server, time.Since(begin), f.count(one))
		}
	})
}

func TestHedgesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Both are slow for everyone: hedging would only double the load.
		f := &fake{delay: map[netip.AddrPort]time.Duration{one: 300 * time.Millisecond, two: 300 * time.Millisecond}}
		hedged := 0
		g := fakeGroup(f, func(c *upstream.Config) { c.Hedged = func() { hedged++ } })
		for i := range 200 {
			mustAnswer(t, g, fmt.Sprintf("h%d.test", i))
		}
		if hedged < 16 || hedged > 16+200/10 {
			t.Errorf("%d hedges for 200 questions, want 16 and one in ten", hedged)
		}
	})
}

func TestHedgeFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{delay: map[netip.AddrPort]time.Duration{one: 200 * time.Millisecond}, reply: func(s netip.AddrPort, m *dns.Msg) {
			m.Rcode = dns.RcodeServerFailure
		}}
		g := fakeGroup(f, nil)
		begin := time.Now()
		mustFail(t, g, "x.test", upstream.ServFail)
		if f.count(one) != 2 || f.count(two) != 2 || time.Since(begin) > time.Second {
			t.Errorf("asked %d and %d times in %v, want each once a round", f.count(one), f.count(two), time.Since(begin))
		}
		// A caller that leaves ends both.
		f.delay = map[netip.AddrPort]time.Duration{one: time.Hour, two: time.Hour}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := g.Ask(ctx, "y.test", dns.TypeA, netip.AddrPort{}); err == nil {
			t.Error("an answer from nobody")
		}
	})
}

func TestRateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		g := fakeGroup(f, func(c *upstream.Config) { c.Rate, c.Servers = 50, []netip.AddrPort{one} })
		begin := time.Now()
		var wg sync.WaitGroup
		for i := range 105 {
			wg.Go(func() { mustAnswer(t, g, fmt.Sprintf("h%d.test", i)) })
		}
		wg.Wait()
		// A tenth of a second's worth at once, the others 20 ms apart.
		if took := time.Since(begin); took != 100*20*time.Millisecond {
			t.Errorf("105 questions took %v, want 2s", took)
		}
		for i := range f.sent {
			in := 0
			for _, s := range f.sent {
				if d := s.when.Sub(f.sent[i].when); d >= 0 && d < time.Second {
					in++
				}
			}
			if in > 55 {
				t.Fatalf("%d packets within a second, want 50 and the burst of 5 at most", in)
			}
		}
	})
}

func TestRateIsEachServersOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		g := fakeGroup(f, func(c *upstream.Config) { c.Rate = 10 })
		for i := range 40 {
			mustAnswer(t, g, fmt.Sprintf("h%d.test", i))
		}
		if a, b := f.count(one), f.count(two); a < 15 || b < 15 {
			t.Errorf("%d and %d, want about half each: who has room is asked", a, b)
		}
		if took := f.sent[39].when.Sub(f.sent[0].when); took > 2*time.Second {
			t.Errorf("took %v, want two servers' rates", took)
		}
	})
}

// TestRateLeavesNoRoom: who cannot be asked in time is not asked, and that says
// nothing about server and name.
func TestRateLeavesNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		g := fakeGroup(f, func(c *upstream.Config) { c.Rate, c.Servers = 1, []netip.AddrPort{one} })
		mustAnswer(t, g, "a.test")
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := g.Ask(ctx, "b.test", dns.TypeA, netip.AddrPort{})
		var e *upstream.Error
		if !errors.As(err, &e) || e.Class != upstream.Busy || e.Reason != upstream.ReasonRate || f.count(one) != 1 || g.Down() != 0 {
			t.Errorf("%v, %d packets, %d down", err, f.count(one), g.Down())
		}
	})
}

func ede(code uint16, text string) func(*dns.Msg) {
	return func(m *dns.Msg) {
		m.SetEdns0(1232, false)
		m.IsEdns0().Option = append(m.IsEdns0().Option, &dns.EDNS0_EDE{InfoCode: code, ExtraText: text})
	}
}

func TestReasons(t *testing.T) {
	referral := func(m *dns.Msg) {
		m.RecursionAvailable = false
		m.Ns = append(m.Ns, dnsNS)
	}
	for _, c := range []struct {
		name   string
		rcode  int
		change func(*dns.Msg)
		class  upstream.Class
		reason upstream.Reason
		asked  int
		text   string
	}{
		{"servfail", dns.RcodeServerFailure, nil, upstream.ServFail, upstream.ReasonServFail, 2, "SERVFAIL"},
		{"bogus", dns.RcodeServerFailure, ede(dns.ExtendedErrorCodeDNSBogus, "no signatures\x07"), upstream.ServFail, upstream.ReasonDNSSEC, 1, `DNSSEC Bogus: "no signatures\a"`},
		{"expired", dns.RcodeServerFailure, ede(dns.ExtendedErrorCodeSignatureExpired, ""), upstream.ServFail, upstream.ReasonDNSSEC, 1, "Signature Expired"},
		{"unreachable", dns.RcodeServerFailure, ede(dns.ExtendedErrorCodeNoReachableAuthority, strings.Repeat("x", 1000)), upstream.ServFail, upstream.ReasonUnreachable, 2, strings.Repeat("x", 100)},
		{"not ready", dns.RcodeServerFailure, ede(dns.ExtendedErrorCodeNotReady, ""), upstream.ServFail, upstream.ReasonNotReady, 2, ""},
		{"refused", dns.RcodeRefused, nil, upstream.Refused, upstream.ReasonRefused, 1, "REFUSED"},
		{"a blocked name is no denial", dns.RcodeNameError, ede(dns.ExtendedErrorCodeBlocked, ""), upstream.Refused, upstream.ReasonFiltered, 1, "Blocked"},
		{"a forged address is no answer", dns.RcodeSuccess, func(m *dns.Msg) { answerA(m); ede(dns.ExtendedErrorCodeForgedAnswer, "")(m) }, upstream.Refused, upstream.ReasonFiltered, 1, "Forged Answer"},
		{"referral", dns.RcodeSuccess, referral, upstream.ServFail, upstream.ReasonLame, 1, "does not recurse"},
		{"empty", dns.RcodeSuccess, func(m *dns.Msg) { m.RecursionAvailable = false }, upstream.ServFail, upstream.ReasonLame, 1, "does not recurse"},
		{"format", dns.RcodeFormatError, nil, upstream.ServFail, upstream.ReasonFormat, 4, "FORMERR"},
		{"not implemented", dns.RcodeNotImplemented, nil, upstream.Refused, upstream.ReasonRefused, 2, "NOTIMP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fake{reply: func(_ netip.AddrPort, m *dns.Msg) {
				m.Rcode = c.rcode
				if c.change != nil {
					c.change(m)
				}
			}}
			g := fakeGroup(f, func(cfg *upstream.Config) { cfg.Servers = []netip.AddrPort{one} })
			_, err := g.Ask(t.Context(), "x.test", dns.TypeA, netip.AddrPort{})
			var e *upstream.Error
			if !errors.As(err, &e) || e.Class != c.class || e.Reason != c.reason || f.count(one) != c.asked || !strings.Contains(e.Error(), c.text) || len(e.Error()) > 300 {
				t.Errorf("%v (%+v), asked %d times; want %s, %s, %d", err, e, f.count(one), c.class, c.reason, c.asked)
			}
		})
	}
}

var dnsNS = func() dns.RR {
	rr, err := dns.NewRR("test. 300 IN NS ns.test.")
	if err != nil {
		panic(err)
	}
	return rr
}()

// TestUselessServersAreAskedLast: a server that refuses or does not recurse
// answers at once, and is no better than one that is silent.
func TestUselessServersAreAskedLast(t *testing.T) {
	for _, rcode := range []int{dns.RcodeRefused, dns.RcodeSuccess} {
		f := &fake{reply: func(s netip.AddrPort, m *dns.Msg) {
			if s == two {
				answerA(m)
				return
			}
			m.Rcode, m.RecursionAvailable = rcode, false
			m.Ns = append(m.Ns, dnsNS)
		}}
		g := fakeGroup(f, nil)
		for range 3 {
			mustAnswer(t, g, "x.test")
		}
		if mustAnswer(t, g, "x.test"); f.count(one) != 3 || g.Down() != 1 {
			t.Errorf("rcode %d: asked %d times, %d down; want 3 and 1", rcode, f.count(one), g.Down())
		}
	}
}
