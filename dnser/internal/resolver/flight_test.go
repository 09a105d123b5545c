package resolver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"lycosa.dev/dnser/internal/dnstest"
	"lycosa.dev/dnser/internal/static"
)

func TestOneQuestionInFlightAName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := &fakeNet{delay: time.Second, script: dnstest.Zone(soa, "x.test. 300 IN A 192.0.2.1")}
		r, stop := run(t, Default(), Deps{Transport: net})
		defer stop()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if a := r.Resolve(t.Context(), "x.test"); a.Status != Resolved {
					t.Errorf("%+v", a)
				}
				if a := r.Lookup(t.Context(), "y.test", Options{Refresh: true}); a.Status != NotExist {
					t.Errorf("%+v", a)
				}
			})
		}
		wg.Wait()
		if net.count("x.test") != 1 {
			t.Errorf("asked %d times, want once", net.count("x.test"))
		}
	})
}

// TestTheAskerLeavesTheQuestionStays: resolve_wait is the asker's patience, not
// the question's.
func TestTheAskerLeavesTheQuestionStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := &fakeNet{delay: time.Second, script: dnstest.Zone(soa, "x.test. 300 IN A 192.0.2.1")}
		r, stop := run(t, Default(), Deps{Transport: net})
		defer stop()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		begin := time.Now()
		got := r.ResolveAll(ctx, []string{"x.test", "192.0.2.7", "x.test", "localhost"}, nil)
		if time.Since(begin) != 500*time.Millisecond {
			t.Errorf("waited %v, want 500ms", time.Since(begin))
		}
		if got[0].Status != Timeout || !got[0].Pending || got[1].Status != Resolved || !got[2].Pending || got[3].Status != Resolved {
			t.Errorf("%+v", got)
		}
		time.Sleep(600 * time.Millisecond)
		if a := r.Resolve(t.Context(), "x.test"); !a.FromCache || a.Status != Resolved {
			t.Errorf("the answer came after its asker had left, and was not kept: %+v", a)
		}
	})
}

func TestConcurrencyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most := 0, 0
		zone := dnstest.Zone(soa, "x.test. 300 IN A 192.0.2.1")
		net := &fakeNet{script: func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			now--
			mu.Unlock()
			return zone(q, reply)
		}}
		cfg := Default()
		cfg.MaxInFlight = 3
		r, stop := run(t, cfg, Deps{Transport: net})
		defer stop()
		var hosts []string
		for i := range 50 {
			hosts = append(hosts, fmt.Sprintf("h%d.test", i))
		}
		for _, a := range r.ResolveAll(t.Context(), hosts, nil) {
			if a.Status != NotExist {
				t.Errorf("%+v", a)
			}
		}
		if most != 6 { // three names, two families
			t.Errorf("%d questions at a time, want 6", most)
		}
		// With every slot taken, who cannot wait is told so.
		net.delay = time.Minute
		for i := range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			r.Resolve(ctx, fmt.Sprintf("slow%d.test", i))
			cancel()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if a := r.Resolve(ctx, "late.test"); a.Status != Timeout || !a.Pending || !strings.Contains(a.Detail, "as may be") {
			t.Errorf("%+v, want a Timeout that tells of the limit", a)
		}
	})
}

func TestStopEndsQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := &fakeNet{script: func(dnstest.Query, *dns.Msg) dnstest.Action { return dnstest.Action{Silent: true} }}
		r, stop := run(t, Default(), Deps{Transport: net})
		answered := make(chan Answer, 1)
		go func() { answered <- r.Resolve(context.Background(), "x.test") }()
		synctest.Wait()
		begin := time.Now()
		stop()
		if a := <-answered; a.Status != Timeout || time.Since(begin) != 0 {
			t.Errorf("after %v: %+v", time.Since(begin), a)
		}
		if a := r.Resolve(context.Background(), "y.test"); a.Status != Timeout || !a.Pending || !strings.Contains(a.Detail, "stopping") {
			t.Errorf("a stopped resolver says %+v", a)
		}
	})
}

func TestPanicIsOneNamesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zone := dnstest.Zone(soa, "x.test. 300 IN A 192.0.2.1")
		net := &fakeNet{script: func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
			if q.Name == "poison.test" {
				panic("poison")
			}
			return zone(q, reply)
		}}
		r, stop := run(t, Default(), Deps{Transport: net})
		defer stop()
		if a := r.Resolve(t.Context(), "poison.test"); a.Status != ServFail {
			t.Errorf("%+v", a)
		}
		if a := r.Resolve(t.Context(), "x.test"); a.Status != Resolved {
			t.Errorf("%+v", a)
		}
	})
}

func TestTheAskersRulesComeFirst(t *testing.T) {
	cfg := Default()
	cfg.Rules = static.New(static.Rule{Host: "a.test", Addrs: addrs("10.0.0.1")})
	own := static.New(static.Rule{Host: "*", Addrs: addrs("10.0.0.2")})
	net := &fakeNet{script: dnstest.Zone(soa, "b.test. 300 IN A 192.0.2.1")}
	r, _ := run(t, cfg, Deps{Transport: net})
	got := r.ResolveAll(t.Context(), []string{"a.test:8080", "b.test"}, own)
	if !slices.Equal(got[0].Addrs, addrs("10.0.0.2")) || !slices.Equal(got[1].Addrs, addrs("10.0.0.2")) {
		t.Errorf("with own rules: %+v", got)
	}
	got = r.ResolveAll(t.Context(), []string{"a.test:8080", "b.test"}, nil)
	if !slices.Equal(got[0].Addrs, addrs("10.0.0.1")) || !slices.Equal(got[1].Addrs, addrs("192.0.2.1")) {
		t.Errorf("without: %+v: a rule of one asker must not reach another", got)
	}
}
