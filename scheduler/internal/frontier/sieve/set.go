package sieve

import "slices"

// Set is the keys of one job: a table of the youngest and runs, oldest first.
// It is not safe for concurrent use.
type Set struct {
	dir    *Dir
	runs   []*Run
	recent map[uint64]uint8
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

// Find looks a key up; depth is the least that is known.
func (s *Set) Find(key uint64) (depth uint8, ok bool, err error) {
	if d, ok := s.recent[key]; ok { // the least of all: a deeper one is not added
		return d, true, nil
	}
	for i := len(s.runs) - 1; i >= 0; i-- { // the youngest mention is the least
		if d, ok, err := s.findIn(s.runs[i], key); ok || err != nil {
			return d, ok, err
		}
	}
	return 0, false, nil
}

// Knows looks a key up where its least depth does not matter: depth is one that
// was known. It begins with the oldest run, which holds most of the keys.
func (s *Set) Knows(key uint64) (depth uint8, ok bool, err error) {
	if d, ok := s.recent[key]; ok {
		return d, true, nil
	}
	for _, r := range s.runs {
		if d, ok, err := s.findIn(r, key); ok || err != nil {
			return d, ok, err
		}
	}
	return 0, false, nil
}

func (s *Set) findIn(r *Run, key uint64) (depth uint8, ok bool, err error) {
	block := r.blockOf(key)
	if block < 0 {
		return 0, false, nil
	}
	b, n, err := s.dir.block(r, block)
	if err != nil {
		return 0, false, err
	}
	depth, ok = findIn(b, n, key)
	return depth, ok, nil
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

// Due returns the youngest runs that are to be merged into one; nil: none. Each
// run is to be more than twice as large as all younger ones together.
func (s *Set) Due() []*Run {
	first, sum := len(s.runs), uint64(0)
	for i := len(s.runs) - 1; i >= 0; i-- {
		if sum > 0 && s.runs[i].Count <= 2*sum {
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
