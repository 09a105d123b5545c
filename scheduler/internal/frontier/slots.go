package frontier

import (
	"encoding/binary"
	"slices"
	"time"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// Queues without a slot lie on disk in the order of their due times. A new
// queue is due at once, one that gave up its slot when its clock has run out,
// or behind those that wait.

const (
	// turnLength is the number of leases after which a queue gives its slot to
	// one that waits for one.
	turnLength = 64
	// longWait is the wait for which no slot is kept while others want one.
	longWait = 30 * time.Second
	// idleKept is how long a queue without URLs keeps a slot that nobody wants.
	idleKept = 30 * time.Second
	// dueSlack is how far due times run ahead of the clock where many queues
	// are new at one instant, each with a time of its own.
	dueSlack = time.Second
)

// queueRecord is the due time under which a queue is found in the order.
func encodeQueue(key []byte, due int64) []byte {
	w := newWriter()
	w.int(due)
	return w.seal(key)
}

func decodeQueue(key, value []byte) (int64, error) {
	r, err := open(key, value)
	if err != nil {
		return 0, err
	}
	due := r.int()
	return due, r.err
}

// dueNow is the clock of due times, in nanoseconds: the wall clock, but for
// never having gone back, in this process or before.
func (f *Frontier) dueNow(now time.Time) int64 { return f.dueBase + int64(now.Sub(f.openedAt)) }

// nextDue is a due time of its own for a queue that is due at t.
func (f *Frontier) nextDue(t time.Time) int64 {
	due := f.dueNow(t)
	if due <= f.lastDue && f.lastDue-due < int64(dueSlack) {
		due = f.lastDue + 1
	}
	f.lastDue = max(f.lastDue, due)
	return due
}

// writeQueue puts a queue into the order on disk.
func writeQueue(b *store.Batch, num uint32, host string, due int64) {
	k := queueKey(num, host)
	b.Set(k, encodeQueue(k, due))
	b.Set(inactiveKey(num, due, host), nil)
}

// activate gives free slots to queues that are due.
func (f *Frontier) activate(now time.Time) {
	for _, j := range f.order {
		if j.state != jobRunning || !j.moreInactive {
			continue
		}
		if j.nextDue > f.dueNow(now)+int64(dueSlack) {
			f.dueAt(now.Add(time.Duration(j.nextDue - f.dueNow(now))))
			continue
		}
		if f.active < f.o.MaxActiveHosts {
			f.activateJob(j, now)
		}
	}
}

func (f *Frontier) activateJob(j *job, now time.Time) {
	prefix := numbered(kindInactive, j.num)
	type found struct {
		host string
		due  int64
	}
	var list []found
	room := f.o.MaxActiveHosts - f.active
	complete := true
	j.nextDue = 0
	last := j.inactiveFrom
	err := f.st.Scan(j.inactiveFrom, after(prefix), func(k, _ []byte) bool {
		if len(k) < 14 {
			return true
		}
		due, host := int64(binary.BigEndian.Uint64(k[5:13])), string(k[13:])
		if due >= retiredDue {
			return false
		}
		if due > f.dueNow(now)+int64(dueSlack) {
			j.nextDue = due
			complete = false
			return false
		}
		if len(list) == room {
			complete = false
			return false
		}
		last = append(slices.Clone(k), 0)
		if j.held[host] != nil && j.queues[host] == nil {
			return true // found again when it is released
		}
		if j.queues[host] == nil {
			list = append(list, found{host, due})
		} else if q := j.queues[host]; !q.stored {
			q.stored, q.due = true, due
			q.subs = onDisk()
		}
		return true
	})
	if err != nil {
		f.fail(err)
		return
	}
	j.inactiveFrom = last
	j.moreInactive = !complete
	for _, x := range list {
		q := f.addQueue(j, x.host, now)
		q.stored, q.due = true, x.due
		q.subs = onDisk()
		f.place(q.host, now)
	}
	if j.nextDue > 0 {
		f.dueAt(now.Add(time.Duration(j.nextDue - f.dueNow(now))))
	}
}

// onDisk is what is known of a queue that has just got its slot.
func onDisk() [2]sub { return [2]sub{{more: true}, {more: true}} }

// rotate takes slots from queues that wait long or have had their turn, if
// others want them.
func (f *Frontier) rotate(now time.Time) {
	if f.active < f.o.MaxActiveHosts {
		return
	}
	wanted := false
	for _, j := range f.order {
		wanted = wanted || j.state == jobRunning && j.moreInactive && j.nextDue <= f.dueNow(now)+int64(dueSlack)
	}
	if !wanted {
		return
	}
	quota := max(1, f.o.MaxActiveHosts/8)
	b := f.newBatch()
	for _, j := range f.order {
		for _, q := range j.queues {
			if f.idle(q) { // a change by hand has ended its URLs
				f.retire(b, q)
				f.place(q.host, now)
				continue
			}
			if quota == 0 || !f.mayYield(q, now) {
				continue
			}
			f.demote(b, q, now)
			quota--
		}
	}
	if _, err := f.apply(b, false); err == nil {
		f.activate(now)
	}
}

func (f *Frontier) mayYield(q *queue, now time.Time) bool {
	if q.leased > 0 || len(q.tasks) > 0 || !q.stored || q.host.lookupBusy || q.ending != nil {
		return false
	}
	for _, o := range q.host.origins {
		if o.task != nil {
			return false
		}
	}
	if q.job.held[q.host.key] != nil {
		return true
	}
	if q.parked != nil && q.parkedUntil.After(now.Add(parkedLong)) {
		return true
	}
	return q.since >= turnLength || q.host.next.After(now.Add(longWait)) || q.capped
}

// demote puts a queue back on disk.
func (f *Frontier) demote(b *store.Batch, q *queue, now time.Time) {
	j, key := q.job, q.host.key
	b.Delete(inactiveKey(j.num, q.due, key))
	due := f.nextDue(latest(now, q.host.next, q.parkedUntil))
	writeQueue(b, j.num, key, due)
	f.saveHost(b, q.host, now)
	f.dropQueue(q)
	f.place(q.host, now)
	f.inactiveAdded(j, key, due)
}

// inactiveAdded tells that a queue without a slot was written.
func (f *Frontier) inactiveAdded(j *job, host string, due int64) {
	j.moreInactive = true
	if j.nextDue > due {
		j.nextDue = due
	}
	if k := inactiveKey(j.num, due, host); string(k) < string(j.inactiveFrom) {
		j.inactiveFrom = k
	}
}
