package ring

import (
	"context"
	"sync"

	"lycosa.dev/internal/rpc"
)

// streamCredit is what a stream of pages starts with: bytes of chunks that may
// be on their way (see ExtractorService.Extract).
const streamCredit = 8 << 20

// credit counts how many bytes of chunks the receiver still takes.
type credit struct {
	mu      sync.Mutex
	left    int64
	changed chan struct{} // closed and replaced when there is more; nil if nobody waits
}

// reset starts anew with a stream. Calls of the stream before have ended by
// then, so that none of them takes from the new one.
func (c *credit) reset() { c.set(func() { c.left = streamCredit }) }

// add returns what was consumed.
func (c *credit) add(n int64) { c.set(func() { c.left = min(c.left+n, streamCredit) }) }

func (c *credit) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// take waits until n bytes may be sent by the call that ends with done.
func (c *credit) take(ctx context.Context, n int64, done <-chan struct{}) error {
	for {
		c.mu.Lock()
		select {
		case <-done:
			c.mu.Unlock()
			return rpc.ErrAnswered
		default:
		}
		if c.left >= n {
			c.left -= n
			c.mu.Unlock()
			return nil
		}
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-done:
			return rpc.ErrAnswered
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
