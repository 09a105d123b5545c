package upstream

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errRate: nothing was sent.
var errRate = errors.New("the limit of questions a second to this server leaves no room in time")

// pace is a limit of packets a second: each is due an interval after the one
// before, and may be early by the slack. The zero value has no limit. It is
// guarded by its server's mutex.
type pace struct {
	interval, slack time.Duration
	due             time.Time // of the next packet
}

func newPace(rate int) pace {
	if rate <= 0 {
		return pace{}
	}
	interval := max(time.Second/time.Duration(rate), 1)
	return pace{interval: interval, slack: interval * time.Duration(max(rate/10, 1)-1)}
}

// after is how long a packet must wait at now.
func (p *pace) after(now time.Time) time.Duration {
	return max(p.due.Add(-p.slack).Sub(now), 0)
}

func (p *pace) take(now time.Time) {
	if p.due.Before(now) {
		p.due = now
	}
	p.due = p.due.Add(p.interval)
}

// busy says that a packet to s would have to wait.
func (s *server) busy(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pace.interval > 0 && s.pace.after(now) > 0
}

// wait takes the next place in s's rate and waits for it. Where ctx would end
// before, no place is taken.
func (s *server) wait(ctx context.Context, clock func() time.Time) error {
	s.mu.Lock()
	if s.pace.interval == 0 {
		s.mu.Unlock()
		return nil
	}
	now := clock()
	d := s.pace.after(now)
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
		s.mu.Unlock()
		return errRate
	}
	s.pace.take(now)
	s.mu.Unlock()
	if d == 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return errRate
	}
}

// budget bounds hedges to a share of the questions.
type budget struct {
	mu     sync.Mutex
	tokens int // tenths of a hedge
	filled bool
}

const (
	hedgeCost  = 10
	hedgeBurst = 16 * hedgeCost
)

func (b *budget) question() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.filled {
		b.tokens, b.filled = hedgeBurst, true
	}
	b.tokens = min(b.tokens+1, hedgeBurst)
}

func (b *budget) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tokens < hedgeCost {
		return false
	}
	b.tokens -= hedgeCost
	return true
}
