package sieve

import "slices"

// Set is the keys of one job: a table of the youngest and runs, oldest first.
// It is not safe for concurrent use.
type Set struct {
	dir    *Dir
	runs   []*Run
	recent map[uint64]uint8
	left   []int32 // Find's
}

// NewSet returns the set of the keys in runs.
func NewSet(dir *Dir, runs []*Run) *Set {
	return &Set{dir: dir, runs: runs, recent: map[uint64]uint8{}}
}

// Depth is a depth as the set keeps it.
func Depth(d uint32) uint8 { return uint8(min(d, 255)) }

// Add puts a key into the table; a key that is there keeps the least depth.
func (s *Set) Add(e Entry) {
	if d, ok := s.recent[e.Key]; ok {
		e.Depth = min(d, e.Depth)
	}
	s.recent[e.Key] = e.Depth
}

// Lookup is a key that is looked up, and what was found.
type Lookup struct {
	Key   uint64
	Depth uint8 // see Find
	Found bool
}

// Find looks keys up, which come sorted, so that a run is gone through in one
// direction. Depth is the least that is known; with anyDepth one that was known,
// which costs less.
func (s *Set) Find(list []Lookup, anyDepth bool) error {
	left := s.left[:0]
	for i := range list {
		l := &list[i]
		// A mention in the table is the least of all: a deeper one is not added.
		if l.Depth, l.Found = s.recent[l.Key]; !l.Found {
			left = append(left, int32(i))
		}
	}
	s.left = left
	for i := range s.runs {
		// The youngest mention is the least; the oldest run holds most of the keys.
		r := s.runs[i]
		if !anyDepth {
			r = s.runs[len(s.runs)-1-i]
		}
		var err error
		if left, err = s.findIn(r, list, left); err != nil {
			return err
		}
	}
	return nil
}

// findIn looks those that are left up in a run, and returns those that are left
// then.
func (s *Set) findIn(r *Run, list []Lookup, left []int32) ([]int32, error) {
	still := left[:0]
	var block, off int
	for _, i := range left {
		l := &list[i]
		if block, off = r.blockOf(l.Key, off); block >= 0 {
			b, n, err := s.dir.block(r, block)
			if err != nil {
				return nil, err
			}
			l.Depth, l.Found = findIn(b, n, l.Key)
		}
		if !l.Found {
			still = append(still, i)
		}
	}
	return still, nil
}

// Recent is the number of keys in the table.
func (s *Set) Recent() int { return len(s.recent) }

// Runs returns the runs, oldest first.
func (s *Set) Runs() []*Run { return slices.Clone(s.runs) }

// Count is the number of entries; a key whose depth was lowered may count
// more than once.
func (s *Set) Count() uint64 {
	n := uint64(len(s.recent))
	for _, r := range s.runs {
		n += r.Count
	}
	return n
}

// Flush writes the table as a run. The run counts, and the table is empty, once
// the caller has listed it and calls Flushed.
func (s *Set) Flush() (*Run, error) {
	list := make([]Entry, 0, len(s.recent))
	for k, d := range s.recent {
		list = append(list, Entry{Key: k, Depth: d})
	}
	return s.dir.Write(s.dir.Number(), list)
}

// Flushed takes the run of the table among the runs.
func (s *Set) Flushed(r *Run) {
	s.runs = append(s.runs, r)
	s.recent = make(map[uint64]uint8, len(s.recent))
}

// mergeRatio makes look-ups of known keys find most of them in the first run
// that they read.
const mergeRatio = 4

// Due returns the youngest runs that are to be merged into one; nil: none. Each
// run is to be more than mergeRatio times as large as all younger ones together.
func (s *Set) Due() []*Run {
	first, sum := len(s.runs), uint64(0)
	for i := len(s.runs) - 1; i >= 0; i-- {
		if sum > 0 && s.runs[i].Count <= mergeRatio*sum {
			first = i
		}
		sum += s.runs[i].Count
	}
	if first == len(s.runs) {
		return nil
	}
	return slices.Clone(s.runs[first:])
}

// Merged takes a run in place of those it was merged of; younger ones may have
// come meanwhile. False: they are not there any more.
func (s *Set) Merged(of []*Run, into *Run) bool {
	i := slices.Index(s.runs, of[0])
	if i < 0 || len(s.runs)-i < len(of) {
		return false
	}
	s.runs = slices.Concat(s.runs[:i], []*Run{into}, s.runs[i+len(of):])
	return true
}

// Each visits the entries of the runs whose key is in [from, to], to
// inclusive; a key may come more than once. Those in the table are EachRecent's.
func (s *Set) Each(from, to uint64, visit func(Entry)) error {
	for _, r := range s.runs {
		sc := r.Scan(from)
		for e, ok := sc.Next(); ok && e.Key <= to; e, ok = sc.Next() {
			visit(e)
		}
		if sc.Err() != nil {
			return sc.Err()
		}
	}
	return nil
}

// EachRecent visits the entries of the table, in no order.
func (s *Set) EachRecent(visit func(Entry)) {
	for k, d := range s.recent {
		visit(Entry{Key: k, Depth: d})
	}
}

// Check reads all runs through and returns how many keys there are; a key
// counts once.
func (s *Set) Check() (keys uint64, err error) {
	inRuns := 0
	err = eachOf(s.runs, func(e Entry) error {
		keys++
		if _, ok := s.recent[e.Key]; ok {
			inRuns++
		}
		return nil
	})
	return keys + uint64(len(s.recent)-inRuns), err
}

// Drop closes all runs and returns them; the set is empty.
func (s *Set) Drop() []*Run {
	runs := s.runs
	s.runs, s.recent = nil, map[uint64]uint8{}
	return runs
}

// Close closes the files.
func (s *Set) Close() {
	for _, r := range s.runs {
		_ = r.Close()
	}
}
