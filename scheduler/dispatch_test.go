package scheduler

import (
	"testing"
	"time"
)

// A network that cuts every stream after a while costs a short pause each time;
// only a downloader that cannot be reached at all is asked ever more rarely.
func TestPauseBetweenStreams(t *testing.T) {
	var p pause
	for i, want := range []time.Duration{50, 100, 200, 400, 800, 1600, 3200, 5000, 5000} {
		if got := p.next(false); got != want*time.Millisecond {
			t.Errorf("pause %d: %s, want %dms", i, got, want)
		}
	}
	for range 2 {
		if got := p.next(true); got != 50*time.Millisecond {
			t.Errorf("after a stream that brought something: %s, want 50ms", got)
		}
	}
}
