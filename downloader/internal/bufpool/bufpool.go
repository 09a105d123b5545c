// Package bufpool holds the memory that pages lie in from the socket to the
// end of the ring. A page's bytes are read once into a buffer of this package
// and never copied: they are scanned, hashed and compressed where they lie. So
// a buffer outlives the fetch, and goes back to the pool only when the page's
// final answer has come.
package bufpool

import "sync"

const (
	// Size is the capacity of an ordinary buffer. A header block and an
	// ordinary page (about 20 KB) fit into one.
	Size = 32 << 10
	// SmallSize is the capacity of a small buffer: a request fits into one.
	SmallSize = 2 << 10
)

// Buffer is a piece of memory with one owner at a time.
type Buffer struct {
	// B is the whole memory: Size or SmallSize bytes of arbitrary content.
	B []byte
}

var (
	pool  = sync.Pool{New: func() any { return &Buffer{B: make([]byte, Size)} }}
	small = sync.Pool{New: func() any { return &Buffer{B: make([]byte, SmallSize)} }}
)

// Get returns a buffer of Size bytes.
func Get() *Buffer { return pool.Get().(*Buffer) }

// GetSmall returns a buffer of SmallSize bytes.
func GetSmall() *Buffer { return small.Get().(*Buffer) }

// Release gives the buffer back. Nobody may hold a reference into it any more.
// A nil buffer is left alone.
func (b *Buffer) Release() {
	switch {
	case b == nil:
	case len(b.B) == Size:
		pool.Put(b)
	case len(b.B) == SmallSize:
		small.Put(b)
	}
}
