// Package sieve keeps the set of URLs that a job has seen: 64-bit fingerprints
// with the least depth known of each, exactly, in little memory.
//
// The youngest keys are in a table in memory. When it is full it becomes a run:
// an immutable sorted file. Runs are merged in the background so that each is
// more than four times as large as all younger ones together; at n keys there
// are about log5(n/table) of them, and a look-up reads one block of each at most.
//
// The package writes files and says nothing of which of them count: the
// frontier keeps the list of live runs, and the keys of the table, in its own
// store, in the batches that make the URLs known. A file that no list names is
// rubbish of a crash and is removed when the folder is opened.
//
// Files are written and read through Pebble's file-system seam, as the rest of
// the frontier's files are, so that the tests that cut the power cut it here
// too.
package sieve

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrDamaged: a run does not hold what was written. It is built anew from the
// URLs' records.
var ErrDamaged = errors.New("a run of the seen set is damaged")

// A run is blocks, an index and a footer.
//
//	block   checksum u32 · number of entries u16 · 0 u16 · entries (key u64 · depth u8) …   1024 bytes
//	index   the first key of each block, u64 …
//	footer  magic u64 · keys u64 · blocks u64 · checksum of the index u32 · checksum of the footer u32
//
// All little-endian; the checksum of a block covers its number in the file, so
// that a block in another's place is found out. A look-up reads and verifies one
// block of a run, so that small ones are cheap; an index of small ones still
// takes less than a tenth of a byte of memory a key.
const (
	blockBytes  = 1024
	blockHeader = 8
	entryBytes  = 9
	blockKeys   = (blockBytes - blockHeader) / entryBytes
	footerBytes = 32
	magic       = 0x324e4555524f5359 // "YSORUEN2"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Entry is a key with the least depth known, 255 for all that is deeper.
type Entry struct {
	Key   uint64
	Depth uint8
}

// Run is an immutable sorted file of entries. It is safe for concurrent use;
// Close ends it.
type Run struct {
	// Number names the file.
	Number uint64
	// Count is the number of entries.
	Count uint64

	file  vfs.File
	size  int64
	index []uint64
}

func fileName(n uint64) string { return fmt.Sprintf("%012d.run", n) }

func blockSum(number uint64, b []byte) uint32 {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], number)
	return crc32.Update(crc32.Checksum(n[:], castagnoli), castagnoli, b[4:])
}

// writer writes a run.
type writer struct {
	file  vfs.File
	block []byte
	keys  int
	last  uint64
	run   *Run
	out   []byte // blocks not written yet
}

// writeChunk is how much is written at a time.
const writeChunk = 256 * blockBytes

func newWriter(f vfs.File, number uint64) *writer {
	return &writer{file: f, block: make([]byte, blockBytes), run: &Run{Number: number}, out: make([]byte, 0, writeChunk)}
}

// add appends an entry; its key is greater than all before.
func (w *writer) add(e Entry) error {
	if w.run.Count > 0 && e.Key <= w.last {
		return fmt.Errorf("sieve: key %016x follows %016x in a run", e.Key, w.last)
	}
	if w.keys == 0 {
		w.run.index = append(w.run.index, e.Key)
	}
	at := w.block[blockHeader+entryBytes*w.keys:]
	binary.LittleEndian.PutUint64(at, e.Key)
	at[8] = e.Depth
	w.keys++
	w.last = e.Key
	w.run.Count++
	if w.keys == blockKeys {
		return w.flushBlock()
	}
	return nil
}

func (w *writer) flushBlock() error {
	if w.keys == 0 {
		return nil
	}
	binary.LittleEndian.PutUint16(w.block[4:], uint16(w.keys))
	binary.LittleEndian.PutUint32(w.block, blockSum(uint64(len(w.run.index)-1), w.block))
	w.out = append(w.out, w.block...)
	w.keys = 0
	clear(w.block)
	if len(w.out) >= writeChunk {
		return w.flush()
	}
	return nil
}

func (w *writer) flush() error {
	_, err := w.file.Write(w.out)
	w.out = w.out[:0]
	return err
}

// finish writes what is left and syncs the file.
func (w *writer) finish() error {
	if err := w.flushBlock(); err != nil {
		return err
	}
	start := len(w.out)
	for _, k := range w.run.index {
		w.out = binary.LittleEndian.AppendUint64(w.out, k)
	}
	indexSum := crc32.Checksum(w.out[start:], castagnoli)
	foot := len(w.out)
	w.out = binary.LittleEndian.AppendUint64(w.out, magic)
	w.out = binary.LittleEndian.AppendUint64(w.out, w.run.Count)
	w.out = binary.LittleEndian.AppendUint64(w.out, uint64(len(w.run.index)))
	w.out = binary.LittleEndian.AppendUint32(w.out, indexSum)
	w.out = binary.LittleEndian.AppendUint32(w.out, crc32.Checksum(w.out[foot:], castagnoli))
	if err := w.flush(); err != nil {
		return err
	}
	return w.file.Sync()
}

// openRun reads a run's footer and index.
func openRun(fs vfs.FS, path string, number uint64) (*Run, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	r := &Run{Number: number, file: f}
	if err := r.load(); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func (r *Run) load() error {
	st, err := r.file.Stat()
	if err != nil {
		return err
	}
	r.size = st.Size()
	if r.size < footerBytes {
		return fmt.Errorf("%w: %d bytes", ErrDamaged, r.size)
	}
	var foot [footerBytes]byte
	if _, err := r.file.ReadAt(foot[:], r.size-footerBytes); err != nil {
		return err
	}
	if binary.LittleEndian.Uint64(foot[:]) != magic ||
		binary.LittleEndian.Uint32(foot[28:]) != crc32.Checksum(foot[:28], castagnoli) {
		return fmt.Errorf("%w: its footer is wrong", ErrDamaged)
	}
	r.Count = binary.LittleEndian.Uint64(foot[8:])
	blocks := binary.LittleEndian.Uint64(foot[16:])
	if int64(blocks)*(blockBytes+8)+footerBytes != r.size {
		return fmt.Errorf("%w: %d bytes for %d blocks", ErrDamaged, r.size, blocks)
	}
	raw := make([]byte, 8*blocks)
	if len(raw) > 0 {
		if _, err := r.file.ReadAt(raw, int64(blocks)*blockBytes); err != nil {
			return err
		}
	}
	if crc32.Checksum(raw, castagnoli) != binary.LittleEndian.Uint32(foot[24:]) {
		return fmt.Errorf("%w: its index is wrong", ErrDamaged)
	}
	r.index = make([]uint64, blocks)
	for i := range r.index {
		r.index[i] = binary.LittleEndian.Uint64(raw[8*i:])
	}
	return nil
}

// Bytes is the size of the file.
func (r *Run) Bytes() int64 { return r.size }

// Close closes the file.
func (r *Run) Close() error { return r.file.Close() }

// read reads and verifies a block, and returns its number of entries.
func (r *Run) read(block int, b []byte) (int, error) {
	if _, err := r.file.ReadAt(b, int64(block)*blockBytes); err != nil {
		return 0, fmt.Errorf("read %s: %w", fileName(r.Number), err)
	}
	return r.checkBlock(block, b)
}

// checkBlock verifies a block and returns its number of keys.
func (r *Run) checkBlock(number int, b []byte) (int, error) {
	n := int(binary.LittleEndian.Uint16(b[4:]))
	if binary.LittleEndian.Uint32(b) != blockSum(uint64(number), b) || n == 0 || n > blockKeys {
		return 0, fmt.Errorf("%w: block %d of %s", ErrDamaged, number, fileName(r.Number))
	}
	return n, nil
}

// blockOf is the only block that can hold a key; -1: none. Keys are hashes, so
// that a key's share of all keys tells about where it is. off is how far that
// was from the truth for a key nearby, 0 at first; the next one's is returned.
func (r *Run) blockOf(key uint64, off int) (block, next int) {
	n := len(r.index)
	if n == 0 {
		return -1, 0
	}
	share, _ := bits.Mul64(key, uint64(n))
	lo := min(max(int(share)+off, 0), n-1)
	hi := lo + 1 // block lo begins at or before key, hi behind it
	for step := 1; lo >= 0 && lo < n && r.index[lo] > key; step *= 2 {
		lo, hi = lo-step, lo
	}
	for step := 1; hi < n && r.index[hi] <= key; step *= 2 {
		lo, hi = hi, hi+step
	}
	lo, hi = max(lo, -1), min(hi, n)
	for hi-lo > 1 {
		if m := int(uint(lo+hi) >> 1); r.index[m] <= key {
			lo = m
		} else {
			hi = m
		}
	}
	return lo, lo - int(share)
}

func keyAt(b []byte, i int) uint64  { return binary.LittleEndian.Uint64(b[blockHeader+entryBytes*i:]) }
func depthAt(b []byte, i int) uint8 { return b[blockHeader+entryBytes*i+8] }

// findIn looks a key up in a verified block of n entries, beginning about where
// a hash stands between those at the block's ends.
func findIn(b []byte, n int, key uint64) (uint8, bool) {
	first, last := keyAt(b, 0), keyAt(b, n-1)
	if key < first || key > last {
		return 0, false
	}
	i := 0
	if last > first {
		i = min(n-1, int(float64(key-first)/float64(last-first)*float64(n-1)))
	}
	for i > 0 && keyAt(b, i) > key {
		i--
	}
	for i < n-1 && keyAt(b, i) < key {
		i++
	}
	if keyAt(b, i) == key {
		return depthAt(b, i), true
	}
	return 0, false
}

// Scanner reads a run's entries in order, in chunks of bounded size.
type Scanner struct {
	run   *Run
	buf   []byte
	block int // number of the block at the start of buf
	at    int // offset of the current block in buf
	next  int // index of the next entry in the current block
	n     int // entries in the current block
	err   error
}

// Scan returns a scanner of the entries from a key on.
func (r *Run) Scan(from uint64) *Scanner {
	block, _ := r.blockOf(from, 0)
	s := &Scanner{run: r, block: max(0, block)}
	for s.load() {
		for s.next < s.n && keyAt(s.buf[s.at:], s.next) < from {
			s.next++
		}
		if s.next < s.n {
			break
		}
		s.step()
	}
	return s
}

// load makes the current block ready; false: there is none, or an error.
func (s *Scanner) load() bool {
	if s.err != nil {
		return false
	}
	if s.n > 0 {
		return true
	}
	if s.at >= len(s.buf) {
		s.block += len(s.buf) / blockBytes
		left := len(s.run.index) - s.block
		if left <= 0 {
			return false
		}
		size := min(left*blockBytes, writeChunk)
		if cap(s.buf) < size {
			s.buf = make([]byte, size)
		}
		s.buf, s.at = s.buf[:size], 0
		if _, err := s.run.file.ReadAt(s.buf, int64(s.block)*blockBytes); err != nil && !errors.Is(err, io.EOF) {
			s.err = err
			return false
		}
	}
	s.n, s.err = s.run.checkBlock(s.block+s.at/blockBytes, s.buf[s.at:s.at+blockBytes])
	s.next = 0
	return s.err == nil
}

func (s *Scanner) step() { s.at, s.n, s.next = s.at+blockBytes, 0, 0 }

// Next returns the next entry; false: there is none, see Err.
func (s *Scanner) Next() (Entry, bool) {
	for s.load() {
		if s.next < s.n {
			e := Entry{Key: keyAt(s.buf[s.at:], s.next), Depth: depthAt(s.buf[s.at:], s.next)}
			if s.next++; s.next == s.n {
				s.step()
			}
			return e, true
		}
		s.step()
	}
	return Entry{}, false
}

// Err says why Next ended early; nil: it did not.
func (s *Scanner) Err() error { return s.err }
