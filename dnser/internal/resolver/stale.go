package resolver

import (
	"context"
	"time"

	"lycosa.dev/dnser/internal/upstream"
)

// prefetchLead bounds how long before its expiry a name is asked again: the
// last tenth of its time, and no more than this.
const prefetchLead = time.Minute

// fresh is until when the DNS itself lets a be used: before a failure made it
// last longer.
func (a *Answer) fresh() time.Time { return a.Expires.Add(-a.over) }

// stale is what may be told of held after it has expired (RFC 8767): addresses,
// for StaleTTL at a time, until MaxStale after their expiry. A denial is never
// told stale: it would end a host that may be there again.
func (r *Resolver) stale(held *Answer, now time.Time) (Answer, bool) {
	if held == nil || held.Status != Resolved {
		return Answer{}, false
	}
	limit := held.fresh().Add(r.cfg.MaxStale)
	if !now.Before(limit) {
		return Answer{}, false
	}
	a := *held
	a.Stale, a.FromCache = true, true
	a.Expires = now.Add(r.cfg.StaleTTL)
	if limit.Before(a.Expires) {
		a.Expires = limit
	}
	a.over = a.Expires.Sub(held.fresh())
	return a, true
}

// keep puts the servers' answer for name into the cache and returns what those
// who wait are told. A temporary failure does not take the place of addresses:
// they stay until they expire, and then for StaleTTL at a time (the failure
// recheck timer of RFC 8767 section 5: the servers are not asked again before).
func (r *Resolver) keep(name string, a *Answer, stopping bool) *Answer {
	if !a.Status.Temporary() {
		r.cache.Put(name, a, a.Expires)
		return a
	}
	now := r.now()
	held, _ := r.cache.Peek(name)
	if held != nil && held.Status == Resolved && now.Before(held.Expires) {
		b := *held
		b.asked = true
		if !stopping {
			r.cache.Put(name, &b, b.Expires)
		}
		told := b
		told.FromCache = true
		return &told
	}
	if b, ok := r.stale(held, now); ok {
		if !stopping {
			r.cache.Put(name, &b, b.Expires)
		}
		return &b
	}
	if stopping || a.Pending {
		return a
	}
	if held != nil && held.Status == a.Status && a.Status != Timeout {
		// RFC 9520 section 3.2: the servers of a name that fails again are left
		// alone for longer. A timeout may be our own network's, and is not.
		a.fails = min(held.fails+1, 16)
		a.Expires = now.Add(min(r.cfg.FailureTTL<<a.fails, max(r.cfg.MaxFailureTTL, r.cfg.FailureTTL)))
	}
	r.cache.Put(name, a, a.Expires)
	return a
}

// patience limits how long an asker who could be told something stale waits for
// something fresh (the client response timer of RFC 8767 section 5).
func (r *Resolver) patience(ctx context.Context, old *Answer) (context.Context, context.CancelFunc) {
	if old == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, r.cfg.StaleWait)
}

// wantsPrefetch says that a fresh answer is used often and about to expire.
func (r *Resolver) wantsPrefetch(a *Answer, uses uint32, now time.Time) bool {
	if r.cfg.PrefetchUses <= 0 || int64(uses) < int64(r.cfg.PrefetchUses) || a.Status != Resolved || a.Stale || a.asked {
		return false
	}
	return a.Expires.Sub(now) <= min(a.ttl/10, prefetchLead)
}

// prefetch asks for name before it expires, if there is room: no more than a
// quarter of the slots are for names that nobody waits for.
func (r *Resolver) prefetch(name string) {
	if int(r.prefetching.Load()) >= max(cap(r.slots)/4, 1) {
		return
	}
	select {
	case r.slots <- struct{}{}:
	default:
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped || r.flights[name] != nil {
		<-r.slots
		return
	}
	f := &flight{done: make(chan struct{})}
	r.flights[name] = f
	r.prefetching.Add(1)
	r.metrics.prefetches.Inc()
	r.wg.Go(func() {
		defer r.prefetching.Add(-1)
		r.fly(name, f)
	})
}

// reason is the class of a failure as a metric label.
func (a *Answer) reason() upstream.Reason {
	if a.Reason == "" {
		return upstream.ReasonOther
	}
	return a.Reason
}
