package frontier

import (
	"context"

	"lycosa.dev/scheduler/internal/frontier/sieve"
)

// filter is a Bloom filter over the keys of all known URLs, in memory that a
// setting bounds. Its "no" saves a look-up in the runs; its "perhaps" says
// nothing. It may only be asked once it holds every known URL: at once in an
// empty frontier, else when fill has read the runs. It grows by filling one of
// twice the size beside it. Guarded by decideMu.
//
// The bits of a key lie in one block of 64 bytes, so that a question costs one
// cache line. At 10 bits a URL one in a hundred new URLs is a "perhaps"; beyond
// that the filter helps less and is never wrong.
type filter struct {
	bits bloom
	next bloom // being filled; nil: none is
	part int   // the part of the keys that next is filled with next
	n    int   // keys in bits, or to be put into next
	max  int   // bytes
}

// bloom is the filter's blocks; nil holds nothing and knows nothing.
type bloom [][8]uint64

const (
	// filterLeast is the size that a filter begins with: 10 bits each for
	// 800,000 URLs.
	filterLeast = 1 << 20
	// filterBits is how many bits a URL shall have.
	filterBits = 10
	// fillParts is the number of parts in which fill reads the keys.
	fillParts = 1024
)

func (b *filter) init(max int) { b.max = max }

// size is the number of bytes for n URLs.
func (b *filter) size(n int) int {
	s := filterLeast
	for s*8 < n*filterBits && s < b.max {
		s *= 2
	}
	return min(s, max(64, b.max))
}

// begin makes the filter valid where nothing is known yet, or starts filling.
func (b *filter) begin(known int) {
	b.n = known
	fresh := make(bloom, b.size(2*known)/64)
	if known == 0 {
		b.bits = fresh
		return
	}
	b.next, b.part = fresh, 0
}

// wantsMore tells that fill has something to do, and begins a larger filter
// where the present one is full.
func (b *filter) wantsMore() bool {
	if b.next == nil && b.bits != nil && b.n*filterBits > len(b.bits)*512 && len(b.bits)*64 < b.max {
		b.next, b.part = make(bloom, b.size(2*b.n)/64), 0
	}
	return b.next != nil
}

func (b *filter) add(t uint64) {
	b.n++
	b.bits.add(t)
	b.next.add(t)
}

// absent tells that a URL is not known. False says nothing.
func (b *filter) absent(t uint64) bool { return b.bits.absent(t) }

// block is where a key's bits lie: eight, one in each word.
func (b bloom) block(t uint64) *[8]uint64 { return &b[(t>>40)%uint64(len(b))] }

func (b bloom) add(t uint64) {
	if b == nil {
		return
	}
	w := b.block(t)
	h := t * 0x9e3779b97f4a7c15
	for i := range w {
		w[i] |= 1 << (h >> 58)
		h = h<<6 | h>>58
	}
}

func (b bloom) absent(t uint64) bool {
	if b == nil {
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

// runFill fills filters, a part at a time between the decider's batches.
func (f *Frontier) runFill(ctx context.Context) {
	for {
		for ctx.Err() == nil && f.fillSome() {
		}
		select {
		case <-ctx.Done():
			return
		case <-f.kickFill:
		}
	}
}

// fillSome puts one part of the known URLs into the filter that is being
// filled; false: none is, or the keys cannot be read.
func (f *Frontier) fillSome() bool {
	f.decideMu.Lock()
	defer f.decideMu.Unlock()
	if f.filter.next == nil || f.broken() {
		return false
	}
	const width = 1 << 64 / fillParts
	from := uint64(f.filter.part) * width
	for _, j := range f.jobList() {
		if j.seenBad {
			return false // it is built anew with the next batch
		}
		add := func(e sieve.Entry) { f.filter.next.add(tag(j, e.Key)) }
		if f.filter.part == 0 {
			j.seen.EachRecent(add) // what comes from now on is added as it comes
		}
		err := j.seen.Each(from, from+width-1, add)
		if err != nil {
			f.log.Error("the seen set cannot be read; it is built anew", "job", j.id, "error", err)
			j.seenBad = true
			return false
		}
	}
	if f.filter.part++; f.filter.part == fillParts {
		f.filter.bits, f.filter.next = f.filter.next, nil
		return false
	}
	return true
}

// jobList is the jobs there are now.
func (f *Frontier) jobList() []*job {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*job(nil), f.order...)
}
