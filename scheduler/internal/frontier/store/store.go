// Package store is the seam between the frontier and what keeps it: an ordered
// map from keys to values, changed by atomic batches.
//
// The seam is narrow on purpose. Everything the frontier means (queues, clocks,
// URL states) is in the records and their keys, which belong to package
// frontier; a store only promises the four things below, and the contract suite
// in storetest checks them against every implementation.
//
//  1. A batch is applied whole or not at all, also across a crash.
//  2. Batches become durable in the order in which they were applied: after a
//     crash the store holds a prefix of them, and that prefix contains every
//     batch whose Wait returned nil.
//  3. A batch is visible to readers when Apply returns, before it is durable.
//  4. Scan sees the keys in the order of their bytes, as of its start.
package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Errors that every implementation reports, wrapped with what and where.
var (
	// ErrCorrupt: what is on disk cannot be read as a store.
	ErrCorrupt = errors.New("the frontier's files are damaged")
	// ErrNone: the directory holds no store, and one was to be read.
	ErrNone = errors.New("nothing has been written to the frontier yet")
	// ErrLocked: another process has the directory open.
	ErrLocked = errors.New("the frontier is in use by another process")
	// ErrFailed: a write failed (disk full, read-only, I/O error). The store
	// takes no more writes; what was durable stays so.
	ErrFailed = errors.New("the frontier's storage failed")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the frontier's store is closed")
)

// Store is an ordered map with atomic batches. All methods are safe for
// concurrent use.
type Store interface {
	// Get returns a copy of the value, and whether there is one.
	Get(key []byte) (value []byte, ok bool, err error)
	// Scan calls visit for each key in [from, to) in order until it returns
	// false. Key and value are valid during the call only. A nil to means the
	// end. visit must not call Apply of the same store.
	Scan(from, to []byte, visit func(key, value []byte) bool) error
	// Apply applies the batch. With durable set the caller must call Wait on
	// what it returns; the batch is durable when Wait returns nil. Otherwise
	// it becomes durable with the next durable batch. The batch may be reused
	// when Apply returned.
	Apply(b *Batch, durable bool) (Pending, error)
	// Files is where the frontier keeps sorted files of its own beside the
	// store: a file system and a folder that is the store's. They are locked,
	// copied and lost together.
	Files() (fs vfs.FS, dir string)
	// Close makes all that was applied durable and releases the files.
	Close() error
}

// Pending is a batch on its way to the disk.
type Pending interface {
	// Wait returns when the batch is durable, or why it is not. It is to be
	// called exactly once.
	Wait() error
}

// Op is one change of a batch.
type Op struct {
	// Key is set, or deleted where Delete is set.
	Key []byte
	// Value is the new value.
	Value []byte
	// Delete says that the key goes away.
	Delete bool
	// To makes the deletion one of the range [Key, To).
	To []byte
}

// Batch is a list of changes that belong together. The zero value is an empty
// batch. It copies what it is given.
type Batch struct {
	buf []byte
	ops []opRef
}

// opRef locates an operation's bytes in the buffer.
type opRef struct {
	key, value, end int
	kind            opKind
}

type opKind uint8

const (
	opSet opKind = iota
	opDelete
	opDeleteRange
	opDead // a later change of the same key takes its place
)

// Set makes value the key's value.
func (b *Batch) Set(key, value []byte) { b.add(opSet, key, value) }

// Delete removes the key.
func (b *Batch) Delete(key []byte) { b.add(opDelete, key, nil) }

// DeleteRange removes all keys in [from, to).
func (b *Batch) DeleteRange(from, to []byte) { b.add(opDeleteRange, from, to) }

func (b *Batch) add(kind opKind, key, value []byte) {
	start := len(b.buf)
	b.buf = append(b.buf, key...)
	mid := len(b.buf)
	b.buf = append(b.buf, value...)
	b.ops = append(b.ops, opRef{key: start, value: mid, end: len(b.buf), kind: kind})
}

// Len returns the number of changes.
func (b *Batch) Len() int { return len(b.ops) }

// Bytes returns the size of keys and values.
func (b *Batch) Bytes() int { return len(b.buf) }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { b.buf, b.ops = b.buf[:0], b.ops[:0] }

// sort puts the changes into the order of their keys, those of one key in the
// order added: a write buffer takes neighbours faster. A batch with a deleted
// range stays as it is.
func (b *Batch) sort() {
	order := make([]sortRef, len(b.ops))
	for i, o := range b.ops {
		if o.kind == opDeleteRange {
			return
		}
		var start [8]byte
		copy(start[:], b.buf[o.key:o.value])
		order[i] = sortRef{binary.BigEndian.Uint64(start[:]), int32(i)}
	}
	slices.SortFunc(order, func(x, y sortRef) int {
		if x.start != y.start {
			return cmp.Compare(x.start, y.start)
		}
		o, p := b.ops[x.op], b.ops[y.op]
		return cmp.Or(bytes.Compare(b.buf[o.key:o.value], b.buf[p.key:p.value]), cmp.Compare(x.op, y.op))
	})
	sorted := make([]opRef, len(b.ops))
	for i, r := range order {
		sorted[i] = b.ops[r.op]
	}
	b.ops = sorted
}

// sortRef stands for a change while they are sorted.
type sortRef struct {
	start uint64 // the first bytes of its key
	op    int32
}

// Each calls visit for every change in the order added. The slices belong to
// the batch.
func (b *Batch) Each(visit func(Op)) {
	for _, o := range b.ops {
		if o.kind == opDead {
			continue
		}
		op := Op{Key: b.buf[o.key:o.value:o.value]}
		rest := b.buf[o.value:o.end:o.end]
		switch o.kind {
		case opSet:
			op.Value = rest
		case opDelete:
			op.Delete = true
		case opDeleteRange:
			op.Delete, op.To = true, rest
		}
		visit(op)
	}
}
