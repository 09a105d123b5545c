package politeness

import (
	"net/netip"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

func TestDelayIsClamped(t *testing.T) {
	r := New(&jobv1.Spec{})
	for _, c := range []struct{ took, want time.Duration }{
		{0, time.Second},
		{-time.Hour, time.Second},
		{100 * time.Millisecond, time.Second},
		{time.Second, 5 * time.Second},
		{6 * time.Second, 30 * time.Second},
		{1<<63 - 1, 30 * time.Second},
	} {
		if got := r.Delay(c.took, false); got != c.want {
			t.Errorf("after %s: wait %s, want %s", c.took, got, c.want)
		}
	}
	if got := r.Longest(45*time.Second, false); got != 45*time.Second {
		t.Errorf("longest with a Crawl-delay: %s", got)
	}
}

func TestZeroDelayOnlyInsideAllowNet(t *testing.T) {
	r := New(&jobv1.Spec{
		Politeness: &jobv1.Politeness{MinDelay: durationpb.New(0), MaxDelay: durationpb.New(0), PerHost: 8},
		Fetch:      &jobv1.Fetch{AllowNet: []string{"127.0.0.0/8"}},
	})
	in, out := netip.MustParseAddr("127.0.0.9"), netip.MustParseAddr("192.0.2.1")
	if !r.Inside([]netip.Addr{in}) || r.Inside([]netip.Addr{in, out}) || r.Inside(nil) {
		t.Error("inside")
	}
	if n, d := r.Host(true); n != 8 || d != 0 {
		t.Errorf("inside: %d, %s", n, d)
	}
	// Elsewhere the defaults hold: the job's zero was not meant for strangers.
	if n, d := r.Host(false); n != 1 || d != time.Second {
		t.Errorf("outside: %d, %s", n, d)
	}
	if d := r.Delay(2*time.Second, false); d != 10*time.Second {
		t.Errorf("outside, after 2s: %s", d)
	}
	if d := r.Longest(0, false); d != 30*time.Second {
		t.Errorf("outside, longest: %s", d)
	}
	if n, d := r.Address(in); n != 0 || d != 0 {
		t.Errorf("address inside: %d, %s", n, d)
	}
	if n, d := r.Address(out); n != 4 || d != 100*time.Millisecond {
		t.Errorf("address outside: %d, %s", n, d)
	}
}

func TestBackOffDoublesToADay(t *testing.T) {
	last := time.Duration(0)
	for n := uint32(1); n < 100; n++ {
		w := BackOffAfter(time.Minute, n, 0)
		if w < last || w > MaxBackOff {
			t.Fatalf("failure %d: %s after %s", n, w, last)
		}
		last = w
	}
	if last != MaxBackOff || BackOffAfter(time.Minute, 1, 0) != time.Minute || BackOffAfter(time.Minute, 3, 0) != 4*time.Minute {
		t.Fatal("doubling")
	}
	if w := BackOffAfter(time.Minute, 1, 0.999); w < time.Minute || w > 75*time.Second {
		t.Fatalf("jitter: %s", w)
	}
}
