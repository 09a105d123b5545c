package frontier

import (
	"context"
	"fmt"
	"slices"
	"time"

	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// Queues that somebody has told to be left alone. A held queue is never ready
// and gets no slot; its URLs wait on disk, and new ones join them. A job waits
// for blocked queues, and says so; it ends where only retired ones are left. All
// of a job's holds are in memory: they are made by hand.

const (
	queueBlocked = schedulerv1.QueueState_QUEUE_STATE_BLOCKED
	queueRetired = schedulerv1.QueueState_QUEUE_STATE_RETIRED

	// deletedReason is why a URL ended whose queue was deleted.
	deletedReason = "deleted by hand"
	// byHandChunk bounds the URLs that a change by hand ends in one batch.
	byHandChunk = 512
)

// held is a decision to leave a queue alone.
type held struct {
	state  schedulerv1.QueueState // blocked or retired
	until  time.Time              // zero: until it is released
	since  time.Time
	reason string
}

func (h *held) encode(key []byte) []byte {
	w := newWriter()
	w.uint(uint64(h.state))
	w.int(unixNano(h.until))
	w.int(unixNano(h.since))
	w.str(h.reason)
	return w.seal(key)
}

func decodeHeld(key, value []byte) (*held, error) {
	r, err := open(key, value)
	if err != nil {
		return nil, err
	}
	h := &held{state: schedulerv1.QueueState(r.uint()), until: fromUnixNano(r.int()), since: fromUnixNano(r.int()), reason: r.str()}
	if r.err == nil && h.state != queueBlocked && h.state != queueRetired {
		return nil, fmt.Errorf("%w: queue state %d", errBadRecord, h.state)
	}
	return h, r.err
}

// why says it in words.
func (h *held) why() string {
	text := "blocked by hand"
	if h.state == queueRetired {
		text = "retired by hand"
	}
	if h.reason != "" {
		text += ": " + h.reason
	}
	return text
}

func (h *held) proto() *schedulerv1.QueueHold {
	return &schedulerv1.QueueHold{State: h.state, Until: timestamp(h.until), Reason: h.reason, Since: timestamp(h.since)}
}

// loadHolds reads the holds of all jobs.
func (f *Frontier) loadHolds() error {
	return f.st.Scan([]byte{kindHold}, after([]byte{kindHold}), func(k, v []byte) bool {
		if len(k) < 6 {
			return true
		}
		j := f.byNum[jobNumberOf(k)]
		if j == nil {
			return true
		}
		h, err := decodeHeld(k, v)
		if err != nil {
			f.noteBad(k, v)
			return true
		}
		j.held[string(k[5:])] = h
		return true
	})
}

// UpdateQueue blocks, retires, releases or deletes a job's queue of a host.
// until is for blocking; zero: until it is released. It returns how many URLs
// were dropped, and is durable then. Errors: ErrNoJob, ErrState.
func (f *Frontier) UpdateQueue(ctx context.Context, jobID, hostKey string, action schedulerv1.QueueAction, until time.Time, reason string) (*schedulerv1.QueueStatus, uint64, error) {
	var dropped uint64
	if action == schedulerv1.QueueAction_QUEUE_ACTION_DELETE {
		n, err := f.deleteQueue(ctx, jobID, hostKey)
		if err != nil {
			return nil, n, err
		}
		dropped = n
	}
	_, err := f.control(func(b *store.Batch, now time.Time) (*job, error) {
		j, err := f.find(jobID)
		if err != nil {
			return nil, err
		}
		switch action {
		case schedulerv1.QueueAction_QUEUE_ACTION_BLOCK:
			if !until.IsZero() && !until.After(now) {
				return nil, fmt.Errorf("queue %s: block until %s: that is not in the future: %w", hostKey, until.UTC().Format(time.RFC3339), ErrState)
			}
			f.holdQueue(b, j, hostKey, &held{state: queueBlocked, until: until, since: now, reason: reason}, now)
		case schedulerv1.QueueAction_QUEUE_ACTION_RETIRE:
			f.holdQueue(b, j, hostKey, &held{state: queueRetired, since: now, reason: reason}, now)
		case schedulerv1.QueueAction_QUEUE_ACTION_RELEASE:
			switch {
			case j.held[hostKey] != nil:
				f.releaseQueue(b, j, hostKey, now)
			case f.reviveQueue(b, j, hostKey, now):
			default:
				return nil, fmt.Errorf("queue %s of job %q is neither blocked nor retired by hand, and its host is not given up as dead: %w", hostKey, jobID, ErrState)
			}
		case schedulerv1.QueueAction_QUEUE_ACTION_DELETE:
		default:
			return nil, fmt.Errorf("queue %s: unknown action %d: %w", hostKey, action, ErrState)
		}
		return j, nil
	})
	if err != nil {
		return nil, dropped, err
	}
	var q *schedulerv1.QueueStatus
	err = f.counted(jobID, func(j *job) ([]*schedulerv1.QueueStatus, error) {
		q = f.queueStatus(j, hostKey, f.now())
		return some(q), nil
	})
	return q, dropped, err
}

// holdQueue leaves a queue alone from now on. Its slot goes to another.
func (f *Frontier) holdQueue(b *store.Batch, j *job, host string, h *held, now time.Time) {
	j.held[host] = h
	key := holdKey(j.num, host)
	b.Set(key, h.encode(key))
	if !h.until.IsZero() {
		f.dueAt(h.until)
	}
	q := j.queues[host]
	if q == nil {
		return
	}
	for _, t := range slices.Clone(q.tasks) {
		if !t.leased {
			f.closeTask(t)
			f.place(t.origin.host, now)
		}
	}
	if f.mayYield(q, now) {
		f.demote(b, q, now)
	}
	f.place(q.host, now)
}

// releaseQueue lets a held queue go on.
func (f *Frontier) releaseQueue(b *store.Batch, j *job, host string, now time.Time) {
	delete(j.held, host)
	b.Delete(holdKey(j.num, host))
	if q := j.queues[host]; q != nil {
		f.place(q.host, now)
		return
	}
	key := queueKey(j.num, host)
	if v, ok := f.get(key); ok {
		if due, err := decodeQueue(key, v); err == nil {
			f.inactiveAdded(j, host, due)
			f.dueAt(now)
		}
	}
}

// endHolds releases the queues whose time has come, and ends the jobs that
// have only retired queues left.
func (f *Frontier) endHolds(now time.Time) {
	b := f.newBatch()
	for _, j := range f.order {
		for host, h := range j.held {
			switch {
			case h.until.IsZero():
			case h.until.After(now):
				f.dueAt(h.until)
			default:
				f.releaseQueue(b, j, host, now)
			}
		}
		if j.state == jobRunning && f.onlyHeld(j, queueRetired) {
			f.enter(b, j, jobFinished, reasonRetired, now)
		}
	}
	_, _ = f.apply(b, false)
}

// onlyHeld tells whether all that a job has left is in queues that are held:
// all of them in the state given, if one is.
func (f *Frontier) onlyHeld(j *job, state schedulerv1.QueueState) bool {
	if len(j.held) == 0 || j.leased > 0 || j.cnt.leased > 0 || j.cnt.pending > 0 || j.cnt.queued == 0 || j.requeue != nil {
		return false
	}
	for _, q := range j.queues {
		if j.held[q.host.key] == nil && !q.empty() {
			return false
		}
	}
	only := true
	prefix := numbered(kindQueue, j.num)
	err := f.st.Scan(prefix, after(prefix), func(k, _ []byte) bool {
		host := k[len(prefix):]
		if q := j.queues[string(host)]; q != nil && q.empty() {
			return true // it is about to be forgotten
		}
		h := j.held[string(host)]
		only = h != nil && (state == schedulerv1.QueueState_QUEUE_STATE_UNSPECIFIED || h.state == state)
		return only
	})
	return err == nil && only
}

// blockedLeft tells whether a blocked queue may hold URLs.
func (f *Frontier) blockedLeft(j *job) bool {
	for host, h := range j.held {
		if h.state == queueBlocked {
			if _, ok := f.get(queueKey(j.num, host)); ok {
				return true
			}
		}
	}
	return false
}

// forgetControl deletes what a job has besides its URLs for control and for
// explanations.
func forgetControl(b *store.Batch, j *job) {
	for _, kind := range []byte{kindHold, kindSweep, kindStep, kindGeneration, kindMark} {
		prefix := numbered(kind, j.num)
		b.DeleteRange(prefix, after(prefix))
	}
}

// deleteQueue ends the URLs that a queue holds when it is called.
func (f *Frontier) deleteQueue(ctx context.Context, jobID, host string) (uint64, error) {
	var dropped, last uint64
	first := true
	for {
		if err := ctx.Err(); err != nil {
			return dropped, err
		}
		n := 0
		_, err := f.control(func(b *store.Batch, now time.Time) (*job, error) {
			j, err := f.find(jobID)
			if err != nil {
				return nil, err
			}
			if first {
				last, first = j.cnt.seq, false
			}
			var list []*entry
			prefix := queuePrefix(j.num, host)
			err = f.st.Scan(prefix, after(prefix), func(k, v []byte) bool {
				if e, err := decodeQueued(k, v); err == nil && e.pos.given() <= last {
					list = append(list, e)
				}
				return len(list) < byHandChunk
			})
			if err != nil {
				return nil, err
			}
			for _, e := range list {
				f.endQueued(b, j, host, e, deletedReason, now)
			}
			n = len(list)
			if q := j.queues[host]; q != nil {
				f.retireEmpty(b, q)
				f.place(q.host, now)
			}
			f.saveCounters(b, j)
			f.settle(b, j, now)
			return j, nil
		})
		dropped += uint64(n)
		if err != nil || n < byHandChunk {
			return dropped, err
		}
	}
}

// endQueued ends a queued URL by a decision by hand.
func (f *Frontier) endQueued(b *store.Batch, j *job, host string, e *entry, reason string, now time.Time) {
	if q := j.queues[host]; q != nil {
		q.subs[e.scheme()].remove(e.pos)
	}
	b.Delete(queuedKey(j.num, host, e.scheme(), e.pos, e.key))
	f.finish(b, j, host, e, stateQueued, stateExcluded, reason, now)
}
