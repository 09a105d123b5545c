package sieve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Dir is the folder of all runs. It is not safe for concurrent use, but for
// Write and Merge, which may run beside all else.
type Dir struct {
	fs    vfs.FS
	path  string
	cache cache
	next  uint64
}

// OpenDir opens the folder and creates it where there is none. cacheBytes
// bounds the blocks that are kept in memory, of all runs together.
func OpenDir(fs vfs.FS, path string, cacheBytes int) (*Dir, error) {
	if err := fs.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("open the seen set's folder: %w", err)
	}
	if err := syncDir(fs, fs.PathDir(path)); err != nil { // the folder's own name
		return nil, fmt.Errorf("open the seen set's folder: %w", err)
	}
	d := ViewDir(fs, path, cacheBytes)
	names, err := fs.List(path)
	if err != nil {
		return nil, fmt.Errorf("open the seen set's folder: %w", err)
	}
	for _, n := range names {
		if num, ok := runNumber(n); ok {
			d.next = max(d.next, num+1)
		}
	}
	return d, nil
}

// ViewDir is OpenDir for reading only: nothing is made, and nothing may be
// written.
func ViewDir(fs vfs.FS, path string, cacheBytes int) *Dir {
	d := &Dir{fs: fs, path: path, next: 1}
	d.cache.init(cacheBytes)
	return d
}

func runNumber(name string) (uint64, bool) {
	base, ok := strings.CutSuffix(name, ".run")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(base, 10, 64)
	return n, err == nil
}

// Path is where a run's file lies.
func (d *Dir) Path(number uint64) string { return d.fs.PathJoin(d.path, fileName(number)) }

// Open opens a run.
func (d *Dir) Open(number uint64) (*Run, error) {
	d.next = max(d.next, number+1)
	return openRun(d.fs, d.Path(number), number)
}

// Sweep removes the files that are not among those that live: a crash left
// them between being written and being listed.
func (d *Dir) Sweep(live map[uint64]bool) error {
	names, err := d.fs.List(d.path)
	if err != nil {
		return err
	}
	for _, n := range names {
		if num, ok := runNumber(n); ok && !live[num] {
			err = errors.Join(err, d.fs.Remove(d.fs.PathJoin(d.path, n)))
		}
	}
	return err
}

// Remove closes a run and removes its file.
func (d *Dir) Remove(r *Run) error {
	return errors.Join(r.Close(), d.fs.Remove(d.Path(r.Number)))
}

// Number returns a number for a new run.
func (d *Dir) Number() uint64 {
	d.next++
	return d.next - 1
}

// Write makes a run of entries, which it sorts. It is durable, and counts only
// once the caller has listed it.
func (d *Dir) Write(number uint64, entries []Entry) (*Run, error) {
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Key, b.Key) })
	return d.write(number, func(add func(Entry) error) error {
		for _, e := range entries {
			if err := add(e); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *Dir) write(number uint64, fill func(add func(Entry) error) error) (*Run, error) {
	path := d.Path(number)
	f, err := d.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("write a run of the seen set: %w", err)
	}
	w := newWriter(f, number)
	err = fill(w.add)
	if err == nil {
		err = w.finish()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = syncDir(d.fs, d.path)
	}
	var r *Run
	if err == nil {
		r, err = openRun(d.fs, path, number)
	}
	if err != nil {
		return nil, fmt.Errorf("write a run of the seen set: %w", errors.Join(err, d.fs.Remove(path)))
	}
	return r, nil
}

// syncDir makes the names in a folder durable.
func syncDir(fs vfs.FS, path string) error {
	dir, err := fs.OpenDir(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Merge makes one run of several; of a key in more than one the least depth
// counts. pace is called after each chunk read with its size and may wait; its
// error ends the merge.
func (d *Dir) Merge(ctx context.Context, number uint64, runs []*Run, pace func(ctx context.Context, bytes int) error) (*Run, error) {
	return d.write(number, func(add func(Entry) error) error {
		n := 0
		err := eachOf(runs, func(e Entry) error {
			if n++; n%(writeChunk/entryBytes) == 0 {
				if err := pace(ctx, writeChunk); err != nil {
					return err
				}
			}
			return add(e)
		})
		return errors.Join(err, ctx.Err())
	})
}

// eachOf visits the entries of several runs in order, each key once with its
// least depth.
func eachOf(runs []*Run, visit func(Entry) error) error {
	scans := make([]*Scanner, len(runs))
	heads := make([]Entry, len(runs))
	live := make([]bool, len(runs))
	for i, r := range runs {
		scans[i] = r.Scan(0)
		heads[i], live[i] = scans[i].Next()
	}
	for {
		best := -1
		for i := range runs {
			if live[i] && (best < 0 || heads[i].Key < heads[best].Key) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		e := heads[best]
		for i := range runs {
			if live[i] && heads[i].Key == e.Key {
				e.Depth = min(e.Depth, heads[i].Depth)
				heads[i], live[i] = scans[i].Next()
			}
		}
		if err := visit(e); err != nil {
			return err
		}
	}
	for _, s := range scans {
		if s.Err() != nil {
			return s.Err()
		}
	}
	return nil
}

// LinkTo puts a run's file into another folder of the same file system, for a
// snapshot.
func (d *Dir) LinkTo(number uint64, dir string) error {
	return vfs.LinkOrCopy(d.fs, d.Path(number), d.fs.PathJoin(dir, fileName(number)))
}

// cache keeps verified blocks: a fixed number of places, one for each block by
// its hash, the latest wins. Neighbours in a run are neighbours here, so that
// the memory of a few places is taken together, when the first is needed.
type cache struct {
	places  []cached
	chunks  [][]byte // of chunkBlocks places each
	passing []byte   // a block that is not kept
}

const (
	chunkBlocks = 16
	// cacheShare is how many times larger than the cache a run may be to have
	// blocks in it: of a larger one they would be gone before they are asked
	// for again.
	cacheShare = 4
)

type cached struct {
	run   uint64
	block int32
	n     int32 // entries; 0: nothing is here
}

func (c *cache) init(bytes int) {
	c.chunks = make([][]byte, max(1, bytes/(blockBytes*chunkBlocks)))
	c.places = make([]cached, len(c.chunks)*chunkBlocks)
	c.passing = make([]byte, blockBytes)
}

func (c *cache) place(r *Run, block int) (*cached, []byte) {
	h := (r.Number*0x9e3779b97f4a7c15 + uint64(block/chunkBlocks)) * 0xff51afd7ed558ccd
	chunk, at := int((h>>32)*uint64(len(c.chunks))>>32), block%chunkBlocks
	if c.chunks[chunk] == nil {
		c.chunks[chunk] = make([]byte, chunkBlocks*blockBytes)
	}
	return &c.places[chunk*chunkBlocks+at], c.chunks[chunk][at*blockBytes:][:blockBytes:blockBytes]
}

// block returns a verified block and its number of entries. The bytes hold until
// the next call.
func (d *Dir) block(r *Run, block int) ([]byte, int, error) {
	if len(r.index) > cacheShare*len(d.cache.places) {
		n, err := r.read(block, d.cache.passing)
		return d.cache.passing, n, err
	}
	c, b := d.cache.place(r, block)
	if c.run == r.Number && c.block == int32(block) && c.n > 0 {
		return b, int(c.n), nil
	}
	c.n = 0
	n, err := r.read(block, b)
	if err == nil {
		c.run, c.block, c.n = r.Number, int32(block), int32(n)
	}
	return b, n, err
}
