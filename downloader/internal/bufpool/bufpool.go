// Package bufpool holds the memory that pages lie in from the socket to the
// end of the ring. A page's bytes are read once into a buffer of this package
// and never copied: they are scanned, hashed and compressed where they lie. So
// a buffer outlives the fetch, and goes back to the pool only when the page's
// final answer has come.
package bufpool

import "sync"

// Size is the capacity of a buffer. A header block and an ordinary page (about
// 20 KB) fit into one.
const Size = 32 << 10

// Buffer is a piece of memory with one owner at a time.
type Buffer struct {
	// B has length Size.
	B []byte
}

var pool = sync.Pool{New: func() any { return &Buffer{B: make([]byte, Size)} }}

// Get returns a buffer with arbitrary content.
func Get() *Buffer { return pool.Get().(*Buffer) }

// Release gives the buffer back. Nobody may hold a reference into it any more.
// A nil buffer is left alone.
func (b *Buffer) Release() {
	if b != nil {
		pool.Put(b)
	}
}
