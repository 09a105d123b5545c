package frontier

import (
	"bytes"
	"context"
	"sync"
	"time"

	"lycosa.dev/scheduler/internal/frontier/store"
)

const (
	// housekeeping is how often slots are dealt anew and old clocks forgotten.
	housekeeping = time.Second
	// requeueChunk is the number of URLs that a recrawl queues in one batch.
	requeueChunk = 1000
	// lookupTimeout bounds one question to the dnser.
	lookupTimeout = 30 * time.Second
)

// Run works until ctx ends or the store fails, and returns why. It decides
// candidates, wakes hosts, ends leases and jobs, and asks for addresses; it
// owns all goroutines of the frontier.
func (f *Frontier) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { defer cancel(); f.runDecider(ctx) })
	wg.Go(func() { f.runFill(ctx) })
	wg.Go(func() { f.runMerges(ctx) })
	for range f.o.Lookups {
		wg.Go(func() { f.runLookups(ctx) })
	}
	f.runTicks(ctx)
	cancel()
	wg.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	return context.Cause(ctx)
}

// Close makes all durable and closes the store. Run must have returned.
func (f *Frontier) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == ErrClosed {
		return nil
	}
	failed := f.err
	if failed == nil && !f.readOnly {
		b := f.newBatch()
		now := f.now()
		for _, j := range f.order {
			j.runFor(now, false)
			f.saveCounters(b, j)
		}
		_, failed = f.apply(b, false)
	}
	f.err = ErrClosed
	f.closing.Store(true)
	f.views.Wait()
	for _, j := range f.order {
		if j.seen != nil {
			j.seen.Close()
		}
	}
	if err := f.st.Close(); err != nil && failed == nil {
		return err
	}
	return failed
}

// broken tells whether the frontier has ended.
func (f *Frontier) broken() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err != nil
}

func (f *Frontier) runTicks(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.kickTick:
		case <-timer.C:
		}
		if f.broken() {
			return
		}
		wait := f.tick()
		timer.Reset(wait)
	}
}

// tick does what is due and returns how long nothing will be.
func (f *Frontier) tick() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.usable() != nil {
		return housekeeping
	}
	now := f.now()
	f.timerAt = now.Add(housekeeping)
	f.ticking = true
	defer func() { f.ticking = false }()
	f.setAside()
	f.expire(now)
	f.endJobs(now)
	f.endHolds(now)
	f.sweepSome(now)
	f.saveHistories(now)
	f.requeueSome(now)
	f.bringBack(now)
	f.queueDue(now)
	for _, j := range f.order {
		j.sweepTallies()
	}
	f.retireIdle(now)
	f.activate(now)
	f.wake(now)
	f.wakeClocks(now)
	f.rotate(now)
	f.sweepClocks(now)
	for _, o := range []*outage{&f.hold, &f.network.down} {
		if o.reason == "" {
			continue
		}
		if o.pass(now) {
			f.signalAll()
		} else {
			f.dueAt(o.probe)
		}
	}
	if len(f.closed) > 0 {
		f.dueAt(f.closed[0].at)
	}
	if len(f.waiting) > 0 {
		f.dueAt(f.waiting[0].at)
	}
	if len(f.journal.kept) > 0 || f.journal.stalled {
		f.notify(f.kickDecide)
	}
	return max(0, f.timerAt.Sub(now))
}

// endJobs applies limits of time to the jobs, and ends those that have nothing
// left.
func (f *Frontier) endJobs(now time.Time) {
	b := f.newBatch()
	for _, j := range f.order {
		switch j.state {
		case jobRunning:
			if j.maxTime > 0 {
				if left := j.maxTime - (j.running(now) - j.base.ran); left <= 0 {
					j.stopReason = reasonMaxDuration
					f.enter(b, j, jobStopping, "", now)
				} else {
					f.dueAt(now.Add(left))
				}
			}
		case jobStopping:
			if !now.Before(j.drainUntil) {
				for _, l := range f.leases {
					if l.job == j {
						f.loseAndSave(b, l, now)
					}
				}
			} else {
				f.dueAt(j.drainUntil)
			}
		}
		f.settle(b, j, now)
	}
	_, _ = f.apply(b, false)
}

// requeueSome goes on with recrawls: every URL is queued again that was done in
// an earlier round.
func (f *Frontier) requeueSome(now time.Time) {
	for _, j := range f.order {
		if j.requeue == nil || j.state != jobRunning {
			continue
		}
		var recs []*urlRecord
		prefix := numbered(kindURL, j.num)
		from := j.requeue
		n := 0
		next := []byte(nil)
		err := f.st.Scan(from, after(prefix), func(k, v []byte) bool {
			if n++; n > requeueChunk {
				next = append([]byte(nil), k...)
				return false
			}
			if rec, err := decodeURL(k, v); err == nil && rec.state == stateDone && rec.entry.round != j.round {
				recs = append(recs, rec)
			}
			return true
		})
		if err != nil {
			f.fail(err)
			return
		}
		b := f.newBatch()
		a := admission{f: f, b: b, now: now, stored: map[queueName]bool{}, touched: map[*host]struct{}{}}
		for _, rec := range recs {
			e := rec.entry
			e.attempts, e.failures, e.crashes = 0, 0, 0
			if o := e.outcomeOf(j.id, rec.host); o != nil && len(e.validators) == 0 {
				e.remember(o)
			}
			e.pos = j.position(e.depth, e.priority)
			j.cnt.done--
			j.cnt.queued++
			a.enqueue(j, rec.host, e)
		}
		j.requeue = next
		for h := range a.touched {
			f.place(h, now)
		}
		f.saveJob(b, j)
		f.settle(b, j, now)
		if _, err := f.apply(b, false); err != nil {
			return
		}
		if next != nil {
			f.dueAt(now)
		}
	}
}

// setAside moves damaged records out of the way, but those that were written
// anew since. A damaged URL of a queue is failed, so that its job can end.
func (f *Frontier) setAside() {
	if len(f.damaged) == 0 {
		return
	}
	b := f.newBatch()
	now := f.now()
	done := map[string]bool{}
	for _, d := range f.damaged {
		key, value := d[0], d[1]
		if v, ok := f.get(key); !ok || !bytes.Equal(v, value) || done[string(key)] {
			continue
		}
		done[string(key)] = true
		f.quarantine(b, key, value, errBadRecord)
		f.amends(b, key, now)
	}
	f.damaged = nil
	_, _ = f.apply(b, false)
}

// amends makes up for a record that is set aside, as far as something depends on
// it.
func (f *Frontier) amends(b *store.Batch, key []byte, now time.Time) {
	switch key[0] {
	case kindMeta:
		f.saveMeta(b)
	case kindJob:
		if j := f.jobs[string(key[1:])]; j != nil {
			f.saveJob(b, j)
		}
	case kindCounters:
		if j := f.byNum[jobNumberOf(key)]; j != nil {
			f.saveCounters(b, j)
		}
	case kindQueued:
		num, host, _, pos, k, ok := parseQueuedKey(key)
		if j := f.byNum[num]; ok && j != nil && j.cnt.queued > 0 {
			f.finish(b, j, host, &entry{key: k, pos: pos}, stateQueued, stateFailed, "damaged: its record could not be read", now)
			f.saveCounters(b, j)
			f.settle(b, j, now)
		}
	}
}

func (f *Frontier) runDecider(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.kickDecide:
		}
		if f.broken() {
			return
		}
		f.decideMu.Lock()
		for ctx.Err() == nil {
			n, err := f.decide(decideBatch)
			if n == 0 || err != nil {
				break
			}
		}
		f.decideMu.Unlock()
	}
}

func (f *Frontier) runLookups(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.kickLookup:
		}
		for ctx.Err() == nil && f.lookupOne(ctx) {
		}
	}
}

// lookupOne resolves the first host that waits for it.
func (f *Frontier) lookupOne(ctx context.Context) bool {
	f.mu.Lock()
	if len(f.lookups) == 0 || f.err != nil {
		f.mu.Unlock()
		return false
	}
	h := f.lookups[0]
	f.lookups[0] = nil
	f.lookups = f.lookups[1:]
	if len(f.lookups) > 0 {
		f.notify(f.kickLookup) // another worker may take the next
	}
	jobID, refresh := "", h.refresh
	for _, q := range h.queues {
		if jobID == "" || q.job.state == jobRunning {
			jobID = q.job.id
		}
	}
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	a, err := f.o.Lookup(ctx, hostName(h.key), jobID, refresh)
	f.resolved(h, a, err)
	return true
}
