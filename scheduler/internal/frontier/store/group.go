package store

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"
	"github.com/zeebo/xxh3"
)

// Batches that come while a sync is under way are gathered and given to Pebble
// as one, of which the last change of each key is written: what many batches
// change again and again (a job's counters, a host's clock) is logged once a
// sync. Readers see them before: Get looks into the group, Scan passes it on
// first where it touches the range.
//
// Whoever waits first for the sync of a group leads it; when it is synced, one
// of those who wait for the next is woken to lead that.

const (
	// groupBytes is the size above which a group is passed on without a sync.
	groupBytes = 256 << 10
	// groupOps is the number of changes above which a batch is not gathered.
	groupOps = 256
)

// group is batches that were applied and not synced. Guarded by Pebble.mu.
type group struct {
	b       Batch
	last    map[uint64]int32 // the last change of a key, by the key's hash
	blind   bool             // last does not tell all: a range was deleted, or two keys share a hash
	done    chan struct{}    // closed when it is synced
	lead    chan struct{}    // wakes one who waits, to lead
	waiting int
	synced  bool
	err     error // once it is synced
}

func newGroup() *group {
	return &group{last: map[uint64]int32{}, done: make(chan struct{}), lead: make(chan struct{}, 1)}
}

// add appends a batch, in place of what it overwrites.
func (g *group) add(b *Batch) {
	for _, o := range b.ops {
		key, rest := b.buf[o.key:o.value], b.buf[o.value:o.end]
		if o.kind == opDeleteRange {
			g.blind = true
			g.b.add(o.kind, key, rest)
			continue
		}
		h := xxh3.Hash(key)
		if i, ok := g.last[h]; ok && !g.blind {
			was := &g.b.ops[i]
			if bytes.Equal(g.b.buf[was.key:was.value], key) {
				was.kind = opDead
			} else {
				g.blind = true
			}
		}
		g.last[h] = int32(len(g.b.ops))
		g.b.add(o.kind, key, rest)
	}
}

// reset empties the group of what was passed on.
func (g *group) reset() {
	g.b.Reset()
	clear(g.last)
	g.blind = false
}

// find returns what the group says of a key.
func (g *group) find(key []byte) (value []byte, deleted, ok bool) {
	i, ok := g.last[xxh3.Hash(key)]
	if !ok {
		return nil, false, false
	}
	o := g.b.ops[i]
	if !bytes.Equal(g.b.buf[o.key:o.value], key) {
		return nil, false, false
	}
	return bytes.Clone(g.b.buf[o.value:o.end]), o.kind == opDelete, true
}

// touches tells whether the group changes a key in [from, to).
func (g *group) touches(from, to []byte) bool {
	if g.blind {
		return true
	}
	for _, o := range g.b.ops {
		key := g.b.buf[o.key:o.value]
		if bytes.Compare(key, from) >= 0 && (to == nil || bytes.Compare(key, to) < 0) {
			return true
		}
	}
	return false
}

// passOn gives the gathered changes to Pebble without a sync. Called with mu
// held.
func (s *Pebble) passOn() error {
	if s.group.b.Len() == 0 {
		return nil
	}
	err := s.log(&s.group.b)
	s.group.reset()
	return err
}

// passOnNow is passOn for whoever does not hold mu.
func (s *Pebble) passOnNow() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.passOn()
}

// log applies changes without a sync. Called with mu held.
func (s *Pebble) log(b *Batch) error {
	pb, err := s.write(b, false)
	if err != nil {
		return err
	}
	if err := pb.Close(); err != nil {
		return s.fail(err)
	}
	return nil
}

// write applies changes; with sync the caller must call SyncWait of what it
// returns. Called with mu held.
func (s *Pebble) write(b *Batch, sync bool) (pb *pebble.Batch, err error) {
	if err := s.failure(); err != nil {
		return nil, err
	}
	defer s.caught(&err)
	if b.Len() > groupOps {
		b.sort()
	}
	pb = s.db.NewBatchWithSize(b.Bytes() + 16*b.Len() + 64)
	b.Each(func(op Op) {
		if err != nil {
			return
		}
		switch {
		case op.To != nil:
			err = pb.DeleteRange(op.Key, op.To, nil)
		case op.Delete:
			err = pb.Delete(op.Key, nil)
		default:
			err = pb.Set(op.Key, op.Value, nil)
		}
	})
	switch {
	case err != nil:
	case sync:
		err = s.db.ApplyNoSyncWait(pb, pebble.Sync)
	default:
		err = s.db.Apply(pb, pebble.NoSync)
	}
	if err != nil {
		return nil, s.fail(err)
	}
	return pb, nil
}

// groupPending awaits its group's sync.
type groupPending struct {
	store *Pebble
	group *group
}

// Wait implements Pending.
func (p groupPending) Wait() error {
	s, g := p.store, p.group
	s.mu.Lock()
	for s.syncing || s.group != g {
		if g.synced {
			s.mu.Unlock()
			return g.err
		}
		g.waiting++
		s.mu.Unlock()
		select {
		case <-g.done:
			return g.err
		case <-g.lead:
		}
		s.mu.Lock()
		g.waiting--
	}
	s.sync()
	s.mu.Unlock()
	return g.err
}

// sync syncs the group and makes another take its place. Called with mu held,
// which it lets go meanwhile, by the one who leads.
func (s *Pebble) sync() {
	g := s.group
	s.group, s.syncing = newGroup(), true
	var pb *pebble.Batch
	logged := g.b.Len() > 0
	if logged {
		pb, g.err = s.write(&g.b, true)
	}
	s.mu.Unlock()
	switch {
	case g.err != nil:
	case logged:
		g.err = s.synced(pb)
	default: // passed on before: the log is synced as a whole
		g.err = s.syncLog()
	}
	s.mu.Lock()
	s.syncing, g.synced = false, true
	close(g.done)
	if s.group.waiting > 0 {
		select {
		case s.group.lead <- struct{}{}:
		default:
		}
	}
}

// synced awaits the sync of a batch.
func (s *Pebble) synced(pb *pebble.Batch) error {
	if err := pb.SyncWait(); err != nil {
		return s.fail(err)
	}
	if err := pb.Close(); err != nil {
		return s.fail(err)
	}
	return nil
}

// syncLog makes all durable that was applied.
func (s *Pebble) syncLog() (err error) {
	defer s.caught(&err)
	if err := s.failure(); err != nil {
		return err
	}
	if err := s.db.LogData(nil, pebble.Sync); err != nil {
		return s.fail(err)
	}
	return nil
}
