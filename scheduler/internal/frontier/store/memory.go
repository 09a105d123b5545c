package store

import (
	"bytes"
	"sync"

	"github.com/RaduBerinde/btreemap"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Memory is a Store that keeps nothing beyond the process: for tests and
// simulations. It is the plain meaning of the contract.
type Memory struct {
	mu     sync.RWMutex
	m      *btreemap.BTreeMap[string, []byte]
	fs     vfs.FS
	closed bool
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{fs: vfs.NewMem(), m: btreemap.New[string, []byte](32, func(a, b string) int {
		switch {
		case a < b:
			return -1
		case a > b:
			return 1
		}
		return 0
	})}
}

// Get implements Store.
func (s *Memory) Get(key []byte) ([]byte, bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, false, ErrClosed
	}
	_, v, ok := s.m.Get(string(key))
	return bytes.Clone(v), ok, nil
}

// Scan implements Store.
func (s *Memory) Scan(from, to []byte, visit func(key, value []byte) bool) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return ErrClosed
	}
	upper := btreemap.Max[string]()
	if to != nil {
		upper = btreemap.LT(string(to))
	}
	for k, v := range s.m.Ascend(btreemap.GE(string(from)), upper) {
		if !visit([]byte(k), v) {
			break
		}
	}
	return nil
}

// Apply implements Store.
func (s *Memory) Apply(b *Batch, _ bool) (Pending, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	b.Each(func(op Op) {
		switch {
		case op.To != nil:
			var gone []string
			for k := range s.m.Ascend(btreemap.GE(string(op.Key)), btreemap.LT(string(op.To))) {
				gone = append(gone, k)
			}
			for _, k := range gone {
				s.m.Delete(k)
			}
		case op.Delete:
			s.m.Delete(string(op.Key))
		default:
			s.m.ReplaceOrInsert(string(op.Key), bytes.Clone(op.Value))
		}
	})
	return durableNow{}, nil
}

// Close implements Store. What was stored can be taken over by Reopen.
func (s *Memory) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// Reopen returns a store with the contents of a closed one.
func (s *Memory) Reopen() *Memory {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := NewMemory()
	n.m, n.fs = s.m.Clone(), s.fs
	return n
}

// Files implements Store.
func (s *Memory) Files() (vfs.FS, string) { return s.fs, "memory" }

// durableNow is the Pending of a store that has no disk to wait for.
type durableNow struct{}

func (durableNow) Wait() error { return nil }
