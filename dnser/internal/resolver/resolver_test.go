package resolver

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"lycosa.dev/dnser/internal/dnstest"
	"lycosa.dev/dnser/internal/static"
)

func TestZoneOverRealSockets(t *testing.T) {
	s := dnstest.Start(t, dnstest.Zone(soa,
		"both.test. 300 IN A 192.0.2.1", "both.test. 300 IN A 192.0.2.2", "both.test. 100 IN AAAA 2001:db8::1",
		"four.test. 300 IN A 192.0.2.4",
		"six.test. 300 IN AAAA 2001:db8::6",
		"mapped.test. 300 IN AAAA ::ffff:192.0.2.4",
		"www.test. 300 IN CNAME Edge.CDN.test.", "edge.cdn.test. 300 IN CNAME four.test.",
		"dangling.test. 300 IN CNAME gone.test.",
		"mail.test. 300 IN MX 10 four.test.",
		"_srv.x_y.test. 300 IN A 192.0.2.9",
	))
	cfg := Default()
	cfg.Servers = []netip.AddrPort{s.Addr}
	r, _ := run(t, cfg, Deps{})
	for _, c := range []struct {
		host   string
		status Status
		addrs  []netip.Addr
		cnames []string
	}{
		{"both.test", Resolved, addrs("192.0.2.1", "192.0.2.2", "2001:db8::1"), nil},
		{"four.test", Resolved, addrs("192.0.2.4"), nil},
		{"FOUR.test.", Resolved, addrs("192.0.2.4"), nil},
		{"four.test:8080", Resolved, addrs("192.0.2.4"), nil},
		{"six.test", Resolved, addrs("2001:db8::6"), nil},
		{"mapped.test", Resolved, addrs("192.0.2.4"), nil},
		{"www.test", Resolved, addrs("192.0.2.4"), []string{"edge.cdn.test", "four.test"}},
		{"_srv.x_y.test", Resolved, addrs("192.0.2.9"), nil},
		{"dangling.test", NotExist, nil, []string{"gone.test"}},
		{"nothing.test", NotExist, nil, nil},
		{"mail.test", NoAddress, nil, nil},
	} {
		a := r.Resolve(t.Context(), c.host)
		if a.Status != c.status || !slices.Equal(a.Addrs, c.addrs) || !slices.Equal(a.CNAMEs, c.cnames) {
			t.Errorf("%s: %+v, want %s %v %v", c.host, a, c.status, c.addrs, c.cnames)
		}
		if a.Status != Resolved && !a.Confirmed {
			t.Errorf("%s: not confirmed after a second question: %+v", c.host, a)
		}
		if (a.Err() == nil) != (c.status == Resolved) {
			t.Errorf("%s: Err() = %v", c.host, a.Err())
		}
	}
	if n := s.Asked("four.test", dns.TypeA); n != 1 {
		t.Errorf("four.test was asked %d times, want once: the rest is the cache's", n)
	}
}

func TestWithoutAnyServer(t *testing.T) {
	net := &fakeNet{script: func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
		t.Errorf("a server was asked for %s", q.Name)
		return dnstest.Action{Reply: reply}
	}}
	cfg := Default()
	rules, err := static.ParseAll([]string{"ruled.test:10.0.0.2", "192.0.2.99:10.0.0.3"})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Rules = rules
	r, _ := run(t, cfg, Deps{Transport: net})
	for _, c := range []struct {
		host   string
		status Status
		addrs  []netip.Addr
	}{
		{"ruled.test", Resolved, addrs("10.0.0.2")},
		{"RULED.test:81", Resolved, addrs("10.0.0.2")},
		{"192.0.2.99", Resolved, addrs("10.0.0.3")},
		{"192.0.2.1", Resolved, addrs("192.0.2.1")},
		{"192.0.2.1:8080", Resolved, addrs("192.0.2.1")},
		{"[2001:db8::1]", Resolved, addrs("2001:db8::1")},
		{"[2001:db8::1]:443", Resolved, addrs("2001:db8::1")},
		{"2001:db8::1", Resolved, addrs("2001:db8::1")},
		{"[::ffff:127.0.0.1]", Resolved, addrs("127.0.0.1")},
		{"localhost", Resolved, addrs("127.0.0.1", "::1")},
		{"a.LOCALHOST:3000", Resolved, addrs("127.0.0.1", "::1")},
		{"x.invalid", NotExist, nil},
		{"x.onion", NotExist, nil},
		{"", Invalid, nil},
		{".", Invalid, nil},
		{"a..test", Invalid, nil},
		{".test", Invalid, nil},
		{"a b.test", Invalid, nil},
		{"a%2e.test", Invalid, nil},
		{"ü.test", Invalid, nil},
		{"1.2.3", Invalid, nil},
		{"1.2.3.4.5", Invalid, nil},
		{"999.1.1.1", Invalid, nil},
		{"[::1", Invalid, nil},
		{"[fe80::1%25eth0]", Invalid, nil},
		{strings.Repeat("a", 64) + ".test", Invalid, nil},
		{strings.Repeat("a.", 126) + "test", Invalid, nil},
	} {
		a := r.Resolve(t.Context(), c.host)
		if a.Status != c.status || !slices.Equal(a.Addrs, c.addrs) || (c.status != Resolved && a.Detail == "") {
			t.Errorf("%q: %+v, want %s %v", c.host, a, c.status, c.addrs)
		}
	}
}

func TestTimesToLive(t *testing.T) {
	script := dnstest.Zone(soa,
		"short.test. 1 IN A 192.0.2.1", "mid.test. 600 IN A 192.0.2.2", "long.test. 9999999 IN A 192.0.2.3", "huge.test. 4294967295 IN A 192.0.2.3",
		"alias.test. 120 IN CNAME mid.test.", "mail.test. 300 IN MX 10 mid.test.")
	for _, c := range []struct {
		host string
		want time.Duration
	}{
		{"short.test", time.Minute}, // the floor
		{"mid.test", 10 * time.Minute},
		{"long.test", 24 * time.Hour},    // the ceiling
		{"huge.test", time.Minute},       // RFC 2181 section 8: zero, so the floor
		{"alias.test", 2 * time.Minute},  // the least of the chain
		{"gone.test", 90 * time.Second},  // SOA minimum
		{"mail.test", 90 * time.Second},  // the same for NODATA
		{"fail.test", 5 * time.Second},   // failures: short
		{"nosoa.test", 30 * time.Second}, // nothing says how long: the floor
	} {
		synctest.Test(t, func(t *testing.T) {
			net := &fakeNet{script: func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
				switch q.Name {
				case "fail.test":
					reply.Rcode = dns.RcodeServerFailure
					return dnstest.Action{Reply: reply}
				case "nosoa.test":
					reply.Rcode = dns.RcodeNameError
					return dnstest.Action{Reply: reply}
				}
				return script(q, reply)
			}}
			r, stop := run(t, Default(), Deps{Transport: net})
			defer stop()
			a := r.Resolve(t.Context(), c.host)
			if got := time.Until(a.Expires); got != c.want || a.FromCache {
				t.Errorf("%s: kept for %v (%+v), want %v", c.host, got, a, c.want)
			}
			n := net.count(c.host)
			time.Sleep(c.want - 1)
			if b := r.Resolve(t.Context(), c.host); !b.FromCache || b.Status != a.Status || net.count(c.host) != n {
				t.Errorf("%s: asked again before its time: %+v", c.host, b)
			}
			time.Sleep(1)
			if b := r.Resolve(t.Context(), c.host); b.FromCache || net.count(c.host) == n {
				t.Errorf("%s: not asked again after its time: %+v", c.host, b)
			}
		})
	}
}

// TestSecondNegativeAnswer: a host is told as gone only after two denials.
func TestSecondNegativeAnswer(t *testing.T) {
	nx := func(reply *dns.Msg) dnstest.Action {
		reply.Rcode = dns.RcodeNameError
		reply.Ns = append(reply.Ns, dnstest.RR(soa))
		return dnstest.Action{Reply: reply}
	}
	two := Default()
	two.Servers = []netip.AddrPort{serverOne, serverTwo}

	t.Run("another server is asked", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			net := &fakeNet{script: func(q dnstest.Query, reply *dns.Msg) dnstest.Action { return nx(reply) }}
			r, stop := run(t, two, Deps{Transport: net})
			defer stop()
			a := r.Resolve(t.Context(), "gone.test")
			if a.Status != NotExist || !a.Confirmed || a.Server != serverTwo.String() {
				t.Errorf("%+v, want confirmed by %v", a, serverTwo)
			}
			if len(net.asked) != 4 { // A and AAAA, twice
				t.Errorf("asked %d questions, want 4", len(net.asked))
			}
		})
	})
	t.Run("the second finds it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			net := &fakeNet{script: func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
				if q.Source == serverOne {
					return nx(reply)
				}
				return dnstest.Zone(soa, "new.test. 300 IN A 192.0.2.1")(q, reply)
			}}
			r, stop := run(t, two, Deps{Transport: net})
			defer stop()
			if a := r.Resolve(t.Context(), "new.test"); a.Status != Resolved || a.Confirmed {
				t.Errorf("%+v, want resolved", a)
			}
		})
	})
	t.Run("the second fails, the next confirms", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			fail := true
			net := &fakeNet{script: func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
				if q.N > 0 && fail {
					reply.Rcode = dns.RcodeServerFailure
					return dnstest.Action{Reply: reply}
				}
				return nx(reply)
			}}
			r, stop := run(t, Default(), Deps{Transport: net})
			defer stop()
			a := r.Resolve(t.Context(), "gone.test")
			if a.Status != NotExist || a.Confirmed || time.Until(a.Expires) != 30*time.Second {
				t.Errorf("%+v, want an unconfirmed denial, kept shortly", a)
			}
			if b := r.Resolve(t.Context(), "gone.test"); b.Confirmed || !b.FromCache {
				t.Errorf("from the cache: %+v; the same answer told twice is one answer", b)
			}
			fail = false
			n := net.count("gone.test")
			time.Sleep(30 * time.Second)
			if c := r.Resolve(t.Context(), "gone.test"); c.Status != NotExist || !c.Confirmed || net.count("gone.test") != n+1 {
				t.Errorf("after the first denial expired: %+v after %d more questions, want it confirmed by one", c, net.count("gone.test")-n)
			}
		})
	})
	t.Run("asking again by hand confirms", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			net := &fakeNet{script: func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
				if q.N == 1 || q.N == 2 {
					reply.Rcode = dns.RcodeServerFailure
					return dnstest.Action{Reply: reply}
				}
				return nx(reply)
			}}
			r, stop := run(t, Default(), Deps{Transport: net})
			defer stop()
			if a := r.Resolve(t.Context(), "gone.test"); a.Confirmed {
				t.Errorf("%+v", a)
			}
			if a := r.Lookup(t.Context(), "gone.test", Options{Refresh: true}); !a.Confirmed || a.FromCache {
				t.Errorf("%+v, want confirmed", a)
			}
		})
	})
}

func TestFamilies(t *testing.T) {
	type act func(reply *dns.Msg) dnstest.Action
	rr := func(text string) act {
		return func(reply *dns.Msg) dnstest.Action {
			reply.Answer = append(reply.Answer, dnstest.RR(text))
			return dnstest.Action{Reply: reply}
		}
	}
	rcode := func(code int) act {
		return func(reply *dns.Msg) dnstest.Action {
			reply.Rcode = code
			reply.Ns = append(reply.Ns, dnstest.RR(soa))
			return dnstest.Action{Reply: reply}
		}
	}
	nodata, nx, servfail, refused := rcode(dns.RcodeSuccess), rcode(dns.RcodeNameError), rcode(dns.RcodeServerFailure), rcode(dns.RcodeRefused)
	silent := func(*dns.Msg) dnstest.Action { return dnstest.Action{Silent: true} }
	a, aaaa := rr("x.test. 3600 IN A 192.0.2.1"), rr("x.test. 3600 IN AAAA 2001:db8::1")
	for _, c := range []struct {
		name      string
		four, six act
		want      Status
		addrs     int
		most      time.Duration // until the answer
		kept      time.Duration
	}{
		{"both", a, aaaa, Resolved, 2, 0, time.Hour},
		{"four only", a, nodata, Resolved, 1, 0, time.Hour},
		{"six only", nodata, aaaa, Resolved, 1, 0, time.Hour},
		{"four, six denied as a name", a, nx, Resolved, 1, 0, time.Hour},
		{"six dropped", a, silent, Resolved, 1, 200 * time.Millisecond, time.Minute},
		{"four dropped", silent, aaaa, Resolved, 1, 200 * time.Millisecond, time.Minute},
		{"four, six failing", a, servfail, Resolved, 1, 200 * time.Millisecond, time.Minute},
		{"neither", nodata, nodata, NoAddress, 0, 0, 90 * time.Second},
		{"no name", nx, nx, NotExist, 0, 0, 90 * time.Second},
		{"at odds", nx, nodata, NoAddress, 0, 0, 90 * time.Second},
		{"at odds, the other way", nodata, nx, NoAddress, 0, 0, 90 * time.Second},
		{"no name, then silence", nx, silent, NotExist, 0, time.Minute, 90 * time.Second},
		{"silence, then no name", silent, nx, NotExist, 0, time.Minute, 90 * time.Second},
		{"nodata and failure", nodata, servfail, ServFail, 0, 0, 5 * time.Second},
		{"failure and nodata", servfail, nodata, ServFail, 0, 0, 5 * time.Second},
		{"failure and refusal", refused, servfail, ServFail, 0, 0, 5 * time.Second},
		{"refusal", refused, refused, Refused, 0, 0, 5 * time.Second},
		{"silence", silent, silent, Timeout, 0, 12 * time.Second, 5 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := &fakeNet{script: func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
					if q.Type == dns.TypeA {
						return c.four(reply)
					}
					return c.six(reply)
				}}
				r, stop := run(t, Default(), Deps{Transport: net})
				defer stop()
				begin := time.Now()
				a := r.Resolve(t.Context(), "x.test")
				if a.Status != c.want || len(a.Addrs) != c.addrs {
					t.Errorf("%+v, want %s with %d addresses", a, c.want, c.addrs)
				}
				if took := time.Since(begin); took > c.most {
					t.Errorf("took %v, want at most %v", took, c.most)
				}
				if kept := time.Until(a.Expires); c.most < time.Second && kept != c.kept {
					t.Errorf("kept for %v, want %v", kept, c.kept)
				}
				if a.Status.Temporary() && a.Confirmed {
					t.Errorf("a temporary failure is confirmed: %+v", a)
				}
			})
		})
	}
}

func TestDisableIPv6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := &fakeNet{script: dnstest.Zone(soa, "x.test. 300 IN A 192.0.2.1", "x.test. 300 IN AAAA 2001:db8::1", "six.test. 300 IN AAAA 2001:db8::1")}
		cfg := Default()
		cfg.DisableIPv6 = true
		r, stop := run(t, cfg, Deps{Transport: net})
		defer stop()
		if a := r.Resolve(t.Context(), "x.test"); !slices.Equal(a.Addrs, addrs("192.0.2.1")) || time.Until(a.Expires) != 5*time.Minute {
			t.Errorf("%+v", a)
		}
		if a := r.Resolve(t.Context(), "six.test"); a.Status != NoAddress || !a.Confirmed {
			t.Errorf("%+v", a)
		}
		for _, q := range net.asked {
			if q.Type != dns.TypeA {
				t.Errorf("asked for %s", dns.TypeToString[q.Type])
			}
		}
	})
}

// TestAliasChains: a server that knows only its own zone gives one link at a
// time; circles and endless chains end.
func TestAliasChains(t *testing.T) {
	one := func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
		target := ""
		switch {
		case q.Name == "a.test":
			target = "b.test"
		case q.Name == "b.test":
			target = "c.test"
		case q.Name == "loop1.test":
			target = "loop2.test"
		case q.Name == "loop2.test":
			target = "loop1.test"
		case q.Name == "self.test":
			target = "SELF.test"
		case strings.HasPrefix(q.Name, "n"):
			var n int
			_, _ = fmt.Sscanf(q.Name, "n%d.", &n)
			target = fmt.Sprintf("n%d.test", n+1)
		case q.Name == "bad.test":
			target = "1.2.3.4"
		case q.Name == "c.test" && q.Type == dns.TypeA:
			reply.Answer = append(reply.Answer, dnstest.RR("c.test. 77 IN A 192.0.2.3"))
		default:
			reply.Ns = append(reply.Ns, dnstest.RR(soa))
		}
		if target != "" {
			reply.Answer = append(reply.Answer, dnstest.RR(q.Name+". 100 IN CNAME "+target+"."))
		}
		return dnstest.Action{Reply: reply}
	}
	for _, c := range []struct {
		host   string
		want   Status
		cnames int
		detail string
	}{
		{"a.test", Resolved, 2, ""},
		{"loop1.test", ServFail, 0, "circle"},
		{"self.test", ServFail, 0, "circle"},
		{"n1.test", ServFail, 0, "more than 16"},
		{"bad.test", NoAddress, 1, "last label is a number"},
	} {
		synctest.Test(t, func(t *testing.T) {
			net := &fakeNet{script: one}
			r, stop := run(t, Default(), Deps{Transport: net})
			defer stop()
			a := r.Resolve(t.Context(), c.host)
			if a.Status != c.want || (c.want == Resolved && len(a.CNAMEs) != c.cnames) || !strings.Contains(a.Detail, c.detail) {
				t.Errorf("%s: %+v, want %s with %d aliases, %q", c.host, a, c.want, c.cnames, c.detail)
			}
			if len(net.asked) > 2*(maxChain+2)*2 {
				t.Errorf("%s: %d questions", c.host, len(net.asked))
			}
			if c.host == "a.test" && time.Until(a.Expires) != 77*time.Second {
				t.Errorf("kept for %v, want the least of the chain over all replies", time.Until(a.Expires))
			}
		})
	}
}
