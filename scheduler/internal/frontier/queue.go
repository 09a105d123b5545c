package frontier

import (
	"slices"
	"time"

	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// headsKept is how many URLs of a queue are in memory, for each scheme.
const headsKept = 16

// queue holds the URLs of one host in one job. It is in memory while it has a
// slot; its URLs are always on disk, the first of them in memory as well.
type queue struct {
	job    *job
	host   *host
	subs   [2]sub // by scheme: robots.txt is an origin's
	tasks  []*robotsTask
	told   [2]bool // by scheme: its job has been told the origin's sitemaps
	leased int
	due    int64  // its key in the order of the queues without a slot
	stored bool   // it has records on disk
	served uint64 // when it was last served, for turns
	since  uint64 // leases since it got its slot, for rotation

	idleSince time.Time // zero: not among the idle

	inReady     bool
	capped      bool                // its job's limit holds it, until something is given back
	parked      *limiter            // the shared clock under which it waits; nil: none
	parkedUntil time.Time           // zero: not known
	tickets     map[*limiter]uint64 // its turns under clocks

	level   uint8    // its precedence
	tallies []*tally // of the host and its domain, where the job has budgets

	ending *ending // its URLs are ended instead of fetched
}

// ending says what becomes of a queue's URLs.
type ending struct {
	state   schedulerv1.UrlState
	reason  string
	schemes [2]bool
	host    bool // for the host's sake: it holds for all jobs
}

// sub is the URLs of one scheme, in order. What lies before from is in heads
// or leased; what lies at or behind it is only on disk, and only if more is
// set.
type sub struct {
	heads []*entry
	more  bool
	from  position
}

func (s *sub) empty() bool { return len(s.heads) == 0 && !s.more }

func (q *queue) empty() bool { return q.subs[0].empty() && q.subs[1].empty() }

// insert puts a URL that is on disk into the order in memory.
func (s *sub) insert(e *entry) {
	if s.more && !e.pos.less(s.from) {
		return
	}
	n := len(s.heads)
	if n == 0 || s.heads[n-1].pos.less(e.pos) {
		if n >= headsKept && !s.more {
			s.more, s.from = true, e.pos
			return
		}
		s.heads = append(s.heads, e)
	} else {
		i, _ := slices.BinarySearchFunc(s.heads, e.pos, func(h *entry, p position) int {
			if h.pos.less(p) {
				return -1
			}
			return 1
		})
		s.heads = slices.Insert(s.heads, i, e)
	}
	if len(s.heads) > headsKept {
		last := len(s.heads) - 1
		s.more, s.from = true, s.heads[last].pos
		s.heads[last] = nil
		s.heads = s.heads[:last]
	}
}

// remove takes a URL out of memory, wherever it stands there.
func (s *sub) remove(p position) {
	for i, e := range s.heads {
		if e.pos == p {
			s.heads = slices.Delete(s.heads, i, i+1)
			return
		}
	}
}

// pop takes the first URL.
func (s *sub) pop() *entry {
	e := s.heads[0]
	s.heads[0] = nil
	s.heads = s.heads[1:]
	return e
}

// refill reads the next URLs from disk.
func (f *Frontier) refill(q *queue, scheme uint8) {
	s := &q.subs[scheme]
	if len(s.heads) > 0 || !s.more {
		return
	}
	prefix := subPrefix(q.job.num, q.host.key, scheme)
	from := appendPosition(slices.Clone(prefix), s.from)
	s.more = false
	s.heads = make([]*entry, 0, headsKept)
	err := f.st.Scan(from, after(prefix), func(k, v []byte) bool {
		e, err := decodeQueued(k, v)
		if err != nil {
			f.log.Error("a queued URL's record is damaged", "job", q.job.id, "host", q.host.key, "error", err)
			f.noteBad(k, v)
			return true
		}
		if len(s.heads) == headsKept {
			s.more, s.from = true, e.pos
			return false
		}
		s.heads = append(s.heads, e)
		return true
	})
	if err != nil {
		f.fail(err)
	}
}

// readyList is a queue of queues, first in, first out.
type readyList struct {
	list []*queue
	head int
}

func (r *readyList) push(q *queue) { r.list = append(r.list, q) }

func (r *readyList) pop() *queue {
	if r.head == len(r.list) {
		return nil
	}
	q := r.list[r.head]
	r.list[r.head] = nil
	r.head++
	if r.head == len(r.list) {
		r.list, r.head = r.list[:0], 0
	} else if r.head > 1024 && r.head*2 > len(r.list) {
		n := copy(r.list, r.list[r.head:])
		clear(r.list[n:])
		r.list, r.head = r.list[:n], 0
	}
	return q
}

func (r *readyList) len() int { return len(r.list) - r.head }

// queuedEntry is the entry of a URL that rec says is queued: its queue's own
// where that has it in memory, else the disk's; nil: it cannot be read.
func (f *Frontier) queuedEntry(j *job, rec *urlRecord, key uint64) *entry {
	qk := queuedKey(j.num, rec.host, rec.scheme, rec.pos, key)
	v, ok := f.get(qk)
	if !ok {
		return nil
	}
	e, err := decodeQueued(qk, v)
	if err != nil {
		return nil
	}
	if q := j.queues[rec.host]; q != nil {
		for _, h := range q.subs[rec.scheme].heads {
			if h.pos == e.pos {
				e = h
			}
		}
	}
	return e
}
