package resolver

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"lycosa.dev/dnser/internal/dnstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	serverOne = netip.MustParseAddrPort("192.0.2.53:53")
	serverTwo = netip.MustParseAddrPort("192.0.2.54:53")
)

const soa = "test. 3600 IN SOA ns.test. admin.test. 1 7200 900 1209600 90"

// fakeNet is a transport without sockets, so that a test may own the time.
type fakeNet struct {
	script dnstest.Script
	delay  time.Duration

	mu    sync.Mutex
	asked []fakeQuery
}

type fakeQuery struct {
	server netip.AddrPort
	dnstest.Query
}

func (f *fakeNet) Exchange(ctx context.Context, network string, server netip.AddrPort, q *dns.Msg) (*dns.Msg, error) {
	question := q.Question[0]
	query := dnstest.Query{Name: canonical(question.Name), Type: question.Qtype, Network: network, Source: server}
	f.mu.Lock()
	for _, a := range f.asked {
		if a.Name == query.Name && a.Type == query.Type {
			query.N++
		}
	}
	f.asked = append(f.asked, fakeQuery{server, query})
	f.mu.Unlock()
	if f.delay > 0 {
		select {
		case <-time.After(f.delay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	reply := new(dns.Msg)
	reply.SetReply(q)
	reply.RecursionAvailable = true
	a := f.script(query, reply)
	if a.Silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return a.Reply, nil
}

// count is how often A was asked for name.
func (f *fakeNet) count(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, q := range f.asked {
		if q.Name == name && q.Type == dns.TypeA {
			n++
		}
	}
	return n
}

// run starts a resolver and gives it and a function that stops it and waits;
// the test's end stops it too.
func run(t testing.TB, cfg Config, deps Deps) (*Resolver, func()) {
	t.Helper()
	if len(cfg.Servers) == 0 {
		cfg.Servers = []netip.AddrPort{serverOne}
	}
	r := New(cfg, deps)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	stop := sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return r, stop
}

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}
