package rpc

import (
	"context"
	"sync"
	"time"
)

// maxDrain bounds how long what is in flight may take when a service stops.
const maxDrain = 15 * time.Second

// DrainTime is how long a service that has grace to stop in waits for what is
// in flight: it leaves some of the grace for what comes after.
func DrainTime(grace time.Duration) time.Duration {
	if half := grace / 2; half > 0 && half < maxDrain {
		return half
	}
	return maxDrain
}

// Gate counts what is in flight in a service and lets nothing in once it is
// closed. The zero value is open.
type Gate struct {
	mu     sync.Mutex
	inside int
	closed bool
	empty  chan struct{} // set by Close, closed when the last one leaves
}

// Enter says whether one more may come in; who is in must Leave.
func (g *Gate) Enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside++
	return true
}

// Leave is called once for each Enter that said yes.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.empty != nil {
		close(g.empty)
	}
}

// Close waits until nobody is inside or ctx ends and returns who is left. It is
// called once.
func (g *Gate) Close(ctx context.Context) int {
	g.mu.Lock()
	g.closed = true
	g.empty = make(chan struct{})
	empty := g.empty
	if g.inside == 0 {
		close(empty)
	}
	g.mu.Unlock()
	select {
	case <-empty:
		return 0
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inside
}
