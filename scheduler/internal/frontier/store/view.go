package store

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Viewer is a store that can be read as it is at one instant, while it
// goes on changing.
type Viewer interface {
	// View returns the store as it is now, for reading: Apply fails. It
	// must be closed before the store is.
	View() (Store, error)
}

// errView: a view does not change.
var errView = errors.New("a view of the frontier's store is for reading only")

// View implements Viewer.
func (s *Memory) View() (Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	n := NewMemory()
	n.m, n.fs = s.m.Clone(), s.fs
	return n, nil
}

// View implements Viewer.
func (s *Pebble) View() (Store, error) {
	if s.closed.Load() {
		return nil, ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.passOn(); err != nil {
		return nil, err
	}
	return &pebbleView{snap: s.db.NewSnapshot(), of: s}, nil
}

// pebbleView is a Pebble store at one instant.
type pebbleView struct {
	snap *pebble.Snapshot
	of   *Pebble
}

// Get implements Store.
func (s *pebbleView) Get(key []byte) ([]byte, bool, error) {
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
func (s *pebbleView) Scan(from, to []byte, visit func(key, value []byte) bool) error {
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
func (s *pebbleView) Apply(*Batch, bool) (Pending, error) { return nil, errView }

// Files implements Store.
func (s *pebbleView) Files() (vfs.FS, string) { return s.of.Files() }

// Close implements Store.
func (s *pebbleView) Close() error { return s.snap.Close() }
