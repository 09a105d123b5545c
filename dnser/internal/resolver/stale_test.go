package resolver

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"lycosa.dev/dnser/internal/dnstest"
)

// moods of a server in these tests.
const (
	well int32 = iota
	failing
	silent
	denying
)

func moody(mood *atomic.Int32) dnstest.Script {
	zone := dnstest.Zone(soa, "x.test. 600 IN A 192.0.2.1", "x.test. 600 IN AAAA 2001:db8::1")
	return func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
		switch mood.Load() {
		case failing:
			reply.Rcode = dns.RcodeServerFailure
			return dnstest.Action{Reply: reply}
		case silent:
			return dnstest.Action{Silent: true}
		case denying:
			reply.Rcode = dns.RcodeNameError
			reply.Ns = append(reply.Ns, dnstest.RR(soa))
			return dnstest.Action{Reply: reply}
		}
		return zone(q, reply)
	}
}

func TestStaleWhileTheServersFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mood atomic.Int32
		net := &fakeNet{script: moody(&mood)}
		r, stop := run(t, Default(), Deps{Transport: net})
		defer stop()
		want := r.Resolve(t.Context(), "x.test")
		mood.Store(failing)
		time.Sleep(10 * time.Minute) // expired
		n := net.count("x.test")
		a := r.Resolve(t.Context(), "x.test")
		if a.Status != Resolved || !a.Stale || !a.FromCache || !slices.Equal(a.Addrs, want.Addrs) || time.Until(a.Expires) != 30*time.Second {
			t.Fatalf("%+v, want the old addresses for 30s", a)
		}
		if net.count("x.test") == n {
			t.Fatal("the servers were not asked first")
		}
		// The failure recheck timer: no question for 30 s.
		n = net.count("x.test")
		time.Sleep(30*time.Second - 1)
		if a := r.Resolve(t.Context(), "x.test"); !a.Stale || a.Status != Resolved || net.count("x.test") != n {
			t.Errorf("%+v, asked %d times more", a, net.count("x.test")-n)
		}
		time.Sleep(1)
		if a := r.ResolveAll(t.Context(), []string{"x.test"}, nil)[0]; !a.Stale || net.count("x.test") == n {
			t.Errorf("after it, the servers are asked again: %+v", a)
		}
		// The bound: a day after the addresses expired they are told no more.
		time.Sleep(24*time.Hour - 30*time.Second - 5*time.Second)
		if a := r.Resolve(t.Context(), "x.test"); !a.Stale || time.Until(a.Expires) != 5*time.Second {
			t.Errorf("within a day: %+v", a)
		}
		time.Sleep(5 * time.Second)
		if a := r.Resolve(t.Context(), "x.test"); a.Status != ServFail || a.Stale {
			t.Errorf("after a day: %+v, want the failure", a)
		}
	})
}

func TestStaleWhileRefreshing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mood atomic.Int32
		net := &fakeNet{script: moody(&mood)}
		r, stop := run(t, Default(), Deps{Transport: net})
		defer stop()
		r.Resolve(t.Context(), "x.test")
		time.Sleep(10 * time.Minute)
		net.delay = time.Second
		begin := time.Now()
		for _, a := range r.ResolveAll(t.Context(), []string{"x.test", "x.test"}, nil) {
			if !a.Stale || a.Status != Resolved {
				t.Errorf("%+v, want the old addresses", a)
			}
		}
		if got := time.Since(begin); got != 200*time.Millisecond {
			t.Errorf("waited %v, want 200ms", got)
		}
		time.Sleep(time.Second)
		if a := r.Resolve(t.Context(), "x.test"); a.Stale || !a.FromCache || time.Until(a.Expires) < 9*time.Minute {
			t.Errorf("the question went on, and its answer was not kept: %+v", a)
		}
	})
}

func TestStaleEndsWithADenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mood atomic.Int32
		r, stop := run(t, Default(), Deps{Transport: &fakeNet{script: moody(&mood)}})
		defer stop()
		r.Resolve(t.Context(), "x.test")
		mood.Store(denying)
		time.Sleep(10 * time.Minute)
		if a := r.Resolve(t.Context(), "x.test"); a.Status != NotExist || !a.Confirmed || a.Stale {
			t.Errorf("%+v, want the denial", a)
		}
		// A denial itself is not told once it has expired.
		mood.Store(failing)
		time.Sleep(2 * time.Minute)
		if a := r.Resolve(t.Context(), "x.test"); a.Status != ServFail {
			t.Errorf("%+v, want the failure", a)
		}
	})
}

// TestFailedRefreshKeepsAddresses: a question asked before its time takes
// nothing away.
func TestFailedRefreshKeepsAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mood atomic.Int32
		r, stop := run(t, Default(), Deps{Transport: &fakeNet{script: moody(&mood)}})
		defer stop()
		before := r.Resolve(t.Context(), "x.test")
		mood.Store(failing)
		if a := r.Lookup(t.Context(), "x.test", Options{Refresh: true}); a.Status != Resolved || a.Stale || !a.FromCache || !a.Expires.Equal(before.Expires) {
			t.Errorf("%+v", a)
		}
	})
}

func TestNoStaleWithoutTheSetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mood atomic.Int32
		cfg := Default()
		cfg.MaxStale = 0
		r, stop := run(t, cfg, Deps{Transport: &fakeNet{script: moody(&mood)}})
		defer stop()
		r.Resolve(t.Context(), "x.test")
		mood.Store(failing)
		time.Sleep(10 * time.Minute)
		if a := r.Resolve(t.Context(), "x.test"); a.Status != ServFail {
			t.Errorf("%+v", a)
		}
	})
}

func TestStaleOutlivesTheProcess(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var mood atomic.Int32
		r, stop := run(t, kept(dir), Deps{Transport: &fakeNet{script: moody(&mood)}})
		r.Resolve(t.Context(), "x.test")
		stop()
		mood.Store(failing)
		time.Sleep(time.Hour)
		r, stop = run(t, kept(dir), Deps{Transport: &fakeNet{script: moody(&mood)}})
		synctest.Wait()
		if a := r.Resolve(t.Context(), "x.test"); !a.Stale || a.Status != Resolved {
			t.Errorf("%+v", a)
		}
		// What is written now must not make it live longer.
		r.mu.Lock()
		r.changed = true
		r.mu.Unlock()
		stop()
		time.Sleep(23*time.Hour + 10*time.Minute)
		r, stop = run(t, kept(dir), Deps{Transport: &fakeNet{script: moody(&mood)}})
		defer stop()
		synctest.Wait()
		if a := r.Resolve(t.Context(), "x.test"); a.Status != ServFail {
			t.Errorf("a day after it has expired: %+v", a)
		}
	})
}

func TestPrefetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mood atomic.Int32
		net := &fakeNet{script: moody(&mood)}
		r, stop := run(t, Default(), Deps{Transport: net})
		defer stop()
		use := func(want int) Answer {
			t.Helper()
			a := r.Resolve(t.Context(), "x.test")
			synctest.Wait()
			if n := net.count("x.test"); n != want {
				t.Fatalf("asked %d times, want %d", n, want)
			}
			return a
		}
		use(1)
		use(1)
		use(1)
		time.Sleep(9*time.Minute - 1) // 10 minutes to live: the last is for prefetching
		use(1)
		time.Sleep(1)
		if a := use(2); !a.FromCache {
			t.Errorf("who asked did not wait: %+v", a)
		}
		if a := use(2); time.Until(a.Expires) != 10*time.Minute {
			t.Errorf("%+v, want a new answer", a)
		}
		// Seldom asked for: not asked before it is needed.
		time.Sleep(10*time.Minute - time.Second)
		use(2)
		time.Sleep(time.Second)
		use(3)

		// One that fails is not tried at every use.
		for range 3 {
			use(3)
		}
		mood.Store(failing)
		time.Sleep(10*time.Minute - time.Second)
		n := net.count("x.test")
		r.Resolve(t.Context(), "x.test")
		synctest.Wait()
		n2 := net.count("x.test")
		if n2 == n {
			t.Error("not prefetched")
		}
		if a := use(n2); a.Status != Resolved || a.Stale {
			t.Errorf("%+v", a)
		}
	})
}

// TestPrefetchLeavesRoom: names that nobody waits for take a quarter of the
// slots.
func TestPrefetchLeavesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := &fakeNet{script: func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
			reply.Answer = append(reply.Answer, dnstest.RR(q.Name+". 600 IN A 192.0.2.1"))
			return dnstest.Action{Reply: reply}
		}}
		cfg := Default()
		cfg.MaxInFlight, cfg.PrefetchUses = 8, 1
		r, stop := run(t, cfg, Deps{Transport: net})
		defer stop()
		for i := range 50 {
			r.Resolve(t.Context(), fmt.Sprintf("h%d.test", i))
		}
		time.Sleep(10*time.Minute - time.Second)
		net.delay = 100 * time.Millisecond
		for i := range 50 {
			r.Resolve(t.Context(), fmt.Sprintf("h%d.test", i))
		}
		if n := len(r.slots); n != 2 {
			t.Errorf("%d slots are taken, want 2", n)
		}
	})
}

// TestFailuresAreKeptLonger: a name whose servers go on failing is asked less
// and less often (RFC 9520); one that is not answered may be our network's.
func TestFailuresAreKeptLonger(t *testing.T) {
	for _, c := range []struct {
		mood int32
		want []time.Duration
	}{
		{failing, []time.Duration{5, 10, 20, 40, 60, 60}},
		{silent, []time.Duration{5, 5, 5}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var mood atomic.Int32
			mood.Store(c.mood)
			r, stop := run(t, Default(), Deps{Transport: &fakeNet{script: moody(&mood)}})
			defer stop()
			for i, seconds := range c.want {
				a := r.Resolve(t.Context(), "x.test")
				if got := time.Until(a.Expires); got != seconds*time.Second || !a.Status.Temporary() || a.FromCache {
					t.Fatalf("failure %d: kept for %v (%+v), want %ds", i+1, got, a, seconds)
				}
				time.Sleep(time.Until(a.Expires))
			}
		})
	}
}
