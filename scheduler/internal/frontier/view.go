package frontier

import (
	"fmt"

	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// view is the store at one instant, read while the frontier goes on. Close
// waits for it; a scan ends early when the frontier is being closed.
type view struct {
	store.Store
	f *Frontier
}

// view takes a view. Called with mu held; it must be closed.
func (f *Frontier) view() (*view, error) {
	if f.err != nil {
		return nil, f.err
	}
	viewer, ok := f.st.(store.Viewer)
	if !ok {
		return nil, fmt.Errorf("%w: the store gives no view of one instant", ErrState)
	}
	s, err := viewer.View()
	if err != nil {
		return nil, err
	}
	f.views.Add(1)
	return &view{Store: s, f: f}, nil
}

// Scan implements store.Store.
func (v *view) Scan(from, to []byte, visit func(key, value []byte) bool) error {
	closing := false
	err := v.Store.Scan(from, to, func(k, val []byte) bool {
		if closing = v.f.closing.Load(); closing {
			return false
		}
		return visit(k, val)
	})
	if closing {
		return ErrClosed
	}
	return err
}

// Close implements store.Store.
func (v *view) Close() error {
	defer v.f.views.Done()
	return v.Store.Close()
}

const (
	// countLimit bounds the URLs of a queue that are counted for a question,
	// countBudget those of all its queues together; a queue's first countLeast
	// are counted in any case.
	countLimit  = 100_000
	countBudget = 1_000_000
	countLeast  = 100
)

// counted answers a question about queues of a job: ask runs under the mutex, and
// the URLs of the queues that it returns are counted beside the work. Errors:
// ErrNoJob, and ask's.
func (f *Frontier) counted(jobID string, ask func(j *job) ([]*schedulerv1.QueueStatus, error)) error {
	num, queues, v, err := f.asked(jobID, ask)
	if err != nil || v == nil {
		return err
	}
	defer v.Close()
	left := uint64(countBudget)
	for _, q := range queues {
		limit := max(countLeast, min(countLimit, left))
		prefix := queuePrefix(num, q.HostKey)
		err := v.Scan(prefix, after(prefix), func(_, _ []byte) bool {
			if q.Queued == limit {
				q.QueuedAtLeast = true
				return false
			}
			q.Queued++
			return true
		})
		if err != nil {
			return err
		}
		left -= min(left, q.Queued)
	}
	return nil
}

// asked asks under the mutex, and takes a view of what was asked; nil: there is
// nothing to count.
func (f *Frontier) asked(jobID string, ask func(j *job) ([]*schedulerv1.QueueStatus, error)) (num uint32, queues []*schedulerv1.QueueStatus, v *view, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j, err := f.find(jobID)
	if err != nil {
		return 0, nil, nil, err
	}
	if queues, err = ask(j); err != nil || len(queues) == 0 {
		return 0, nil, nil, err
	}
	v, err = f.view()
	return j.num, queues, v, err
}

// some is a list of the queue that an answer tells of, if it tells of one.
func some(q *schedulerv1.QueueStatus) []*schedulerv1.QueueStatus {
	if q == nil {
		return nil
	}
	return []*schedulerv1.QueueStatus{q}
}
