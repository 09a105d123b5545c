package fetch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// places bounds the connections that are open at a time, kept ones included, so
// that they never take the file descriptors that files need. Who finds no place
// has a kept connection closed for it, or waits its turn.
type places struct {
	pool    *pool
	waiting atomic.Int32 // kept beside the queue for a look without the lock

	mu    sync.Mutex
	free  int
	queue []chan struct{} // closed when its owner has got a place; first come, first served
}

func newPlaces(n int, p *pool) *places { return &places{free: n, pool: p} }

// try takes a place if there is one.
func (p *places) try() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free == 0 || len(p.queue) > 0 {
		return false
	}
	p.free--
	return true
}

// take takes a place, if need be that of a kept connection. It waits until ctx
// ends or until has come; then it returns false.
func (p *places) take(ctx context.Context, until time.Time) bool {
	turn := make(chan struct{})
	p.mu.Lock()
	if p.free > 0 && len(p.queue) == 0 {
		p.free--
		p.mu.Unlock()
		return true
	}
	p.queue = append(p.queue, turn)
	p.waiting.Add(1)
	p.mu.Unlock()
	// After that, nobody keeps a connection while there is somebody waiting.
	p.pool.yield()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-turn:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	p.mu.Lock()
	for i, other := range p.queue {
		if other == turn {
			p.queue = append(p.queue[:i], p.queue[i+1:]...)
			p.waiting.Add(-1)
			p.mu.Unlock()
			return false
		}
	}
	p.mu.Unlock()
	return true // it has come meanwhile
}

// give gives a place back, or on to whoever waits longest.
func (p *places) give() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		p.free++
		return
	}
	turn := p.queue[0]
	p.queue = p.queue[1:]
	p.waiting.Add(-1)
	close(turn)
}

// wanted tells whether somebody waits for a place.
func (p *places) wanted() bool { return p.waiting.Load() > 0 }

// How long a dial that the system refuses for want of descriptors waits before
// it is tried again.
const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = 500 * time.Millisecond
)

// place takes a place for the exchange's connection. The wait is ours, and counts
// neither as the server's time nor against the limits of the fetch.
func (x *exchange) place(ctx context.Context) *failure {
	p := x.engine.places
	if p.try() {
		return nil
	}
	if !p.take(ctx, time.Now().Add(x.set.ConnectTimeout)) {
		if f := x.permitted(ctx); f != nil {
			return f
		}
		return &failure{ClassNotStarted, codeNoDescriptors, "every connection that the limit of open files allows is in use"}
	}
	x.begun = time.Now()
	x.total = x.begun.Add(x.set.TotalTimeout)
	x.res.Started = x.begun
	if f := x.permitted(ctx); f != nil {
		p.give()
		return f
	}
	return nil
}

// dial is connect, or connectVia, tried again while the system has no
// descriptor left: kept connections make room, then time does.
func (x *exchange) dial(ctx context.Context, connect func() *failure) *failure {
	wait := firstRetry
	until := time.Now().Add(x.set.ConnectTimeout)
	for {
		f := connect()
		if f == nil || f.code != codeNoDescriptors {
			return f
		}
		if x.engine.pool.yield() {
			continue
		}
		if time.Now().Add(wait).After(until) {
			return f
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return f
		}
		wait = min(2*wait, lastRetry)
	}
}
