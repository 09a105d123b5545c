package frontier

import (
	"context"
	"encoding/binary"
	"slices"
)

// filter is a Bloom filter over the keys of all known URLs, in memory of a
// fixed size. Its "no" saves a read of the store; its "perhaps" says nothing.
// It may only be asked once it holds every known URL: at once in an empty
// frontier, else when fill has gone through the store. Guarded by decideMu.
//
// The bits of a key lie in one block of 64 bytes, so that a question costs one
// cache line. At 10 bits a URL one in a hundred new URLs is a "perhaps"; beyond
// that the filter helps less and is never wrong.
type filter struct {
	blocks [][8]uint64
	valid  bool
	from   []byte // where fill goes on
}

const (
	// filterBytes is the filter's size: 10 bits each for 13 million URLs.
	filterBytes = 16 << 20
	// fillChunk is the number of URLs that fill reads at a time.
	fillChunk = 20000
)

func (b *filter) init() {
	b.blocks = make([][8]uint64, filterBytes/64)
	b.from = []byte{kindURL}
}

// block is where a key's bits lie: eight, one in each word.
func (b *filter) block(t uint64) *[8]uint64 { return &b.blocks[(t>>40)%uint64(len(b.blocks))] }

func (b *filter) add(t uint64) {
	w := b.block(t)
	h := t * 0x9e3779b97f4a7c15
	for i := range w {
		w[i] |= 1 << (h >> 58)
		h = h<<6 | h>>58
	}
}

// absent tells that a URL is not known. False says nothing.
func (b *filter) absent(t uint64) bool {
	if !b.valid {
		return false
	}
	w := b.block(t)
	h := t * 0x9e3779b97f4a7c15
	for i := range w {
		if w[i]&(1<<(h>>58)) == 0 {
			return true
		}
		h = h<<6 | h>>58
	}
	return false
}

// fill puts the URLs known before this start into the filter, a chunk at a
// time between the decider's batches.
func (f *Frontier) fill(ctx context.Context) {
	for ctx.Err() == nil {
		f.decideMu.Lock()
		done := f.filter.valid || !f.fillSome()
		f.decideMu.Unlock()
		if done {
			return
		}
	}
}

// fillSome reads one chunk; false: there is no more, or it cannot be read.
func (f *Frontier) fillSome() bool {
	f.mu.Lock()
	jobs := make(map[uint32]*job, len(f.byNum))
	for n, j := range f.byNum {
		jobs[n] = j
	}
	f.mu.Unlock()
	n := 0
	err := f.st.Scan(f.filter.from, after([]byte{kindURL}), func(k, _ []byte) bool {
		if n++; n > fillChunk {
			f.filter.from = slices.Clone(k)
			return false
		}
		if len(k) == 13 {
			if j := jobs[jobNumberOf(k)]; j != nil {
				f.filter.add(tag(j, binary.BigEndian.Uint64(k[5:])))
			}
		}
		return true
	})
	if err != nil {
		return false // the filter stays unasked; others find out what is wrong
	}
	if n > fillChunk {
		return true
	}
	f.filter.valid = true
	return false
}
