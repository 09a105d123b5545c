package store

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Snapshotter is a store that can be read as it is at one instant, while it
// goes on changing.
type Snapshotter interface {
	// Snapshot returns the store as it is now, for reading: Apply fails. It
	// must be closed before the store is.
	Snapshot() (Store, error)
}

// errSnapshot: a snapshot does not change.
var errSnapshot = errors.New("a snapshot of the frontier's store is for reading only")

// Snapshot implements Snapshotter.
func (s *Memory) Snapshot() (Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	n := NewMemory()
	n.m, n.fs = s.m.Clone(), s.fs
	return n, nil
}

// Snapshot implements Snapshotter.
func (s *Pebble) Snapshot() (Store, error) {
	if s.closed.Load() {
		return nil, ErrClosed
	}
	return &pebbleSnapshot{snap: s.db.NewSnapshot(), of: s}, nil
}

// pebbleSnapshot is a Pebble store at one instant.
type pebbleSnapshot struct {
	snap *pebble.Snapshot
	of   *Pebble
}

// Get implements Store.
func (s *pebbleSnapshot) Get(key []byte) ([]byte, bool, error) {
	v, closer, err := s.snap.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read the frontier's store: %w", classify(err))
	}
	out := bytes.Clone(v)
	return out, true, closer.Close()
}

// Scan implements Store.
func (s *pebbleSnapshot) Scan(from, to []byte, visit func(key, value []byte) bool) error {
	it, err := s.snap.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return fmt.Errorf("read the frontier's store: %w", classify(err))
	}
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			_ = it.Close()
			return fmt.Errorf("read the frontier's store: %w", classify(err))
		}
		if !visit(it.Key(), v) {
			break
		}
	}
	if err := it.Close(); err != nil {
		return fmt.Errorf("read the frontier's store: %w", classify(err))
	}
	return nil
}

// Apply implements Store.
func (s *pebbleSnapshot) Apply(*Batch, bool) (Pending, error) { return nil, errSnapshot }

// Files implements Store.
func (s *pebbleSnapshot) Files() (vfs.FS, string) { return s.of.Files() }

// Close implements Store.
func (s *pebbleSnapshot) Close() error { return s.snap.Close() }
