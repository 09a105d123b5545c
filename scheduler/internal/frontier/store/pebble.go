package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// PebbleOptions configure OpenPebble. The zero value of a field means its
// default.
type PebbleOptions struct {
	// FS is the file system. Default: the operating system's.
	FS vfs.FS
	// CacheBytes is the size of the block cache, the write buffers apart.
	// Default: 64 MiB.
	CacheBytes int64
	// MemTableBytes is the size that a write buffer grows to; there are two
	// mostly, and up to four where the disk is slow. Default: 64 MiB.
	MemTableBytes uint64
	// ReadOnly opens without changing anything; the directory must exist.
	ReadOnly bool
	// Logger takes Pebble's messages. Default: none.
	Logger *slog.Logger
}

// Pebble is the Store of a single process: an LSM tree whose log is synced in
// groups, one sync for all batches that wait.
type Pebble struct {
	db     *pebble.DB
	cache  *pebble.Cache
	fs     vfs.FS
	dir    string
	failed atomic.Pointer[error]
	closed atomic.Bool

	mu      sync.Mutex
	group   *group
	syncing bool // a group is being synced
}

// OpenPebble opens the store in dir and creates it where there is none. The
// errors are ErrLocked, ErrCorrupt, ErrFailed or of the file system.
func OpenPebble(dir string, o PebbleOptions) (s *Pebble, err error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 64 << 20
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 64 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	// Pebble takes the write buffers' memory out of the cache's.
	cacheBytes := o.CacheBytes + 2*int64(o.MemTableBytes)
	s = &Pebble{fs: o.FS, dir: dir, cache: pebble.NewCache(cacheBytes), group: newGroup()}
	log := &pebbleLogger{log: o.Logger, store: s}
	opts := &pebble.Options{
		FS:                          o.FS,
		Cache:                       s.cache,
		MemTableSize:                o.MemTableBytes,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       24,
		LBaseMaxBytes:               128 << 20,
		MaxOpenFiles:                512,
		BytesPerSync:                1 << 20,
		WALBytesPerSync:             0,
		FormatMajorVersion:          pebble.FormatNewest,
		ReadOnly:                    o.ReadOnly,
		ErrorIfNotExists:            o.ReadOnly,
		Logger:                      log,
	}
	// What lies deepest is most of the bytes: larger blocks, which compress
	// better, and no filters there, since what is asked for mostly exists and
	// the filters would not fit into the cache. Files that are no larger keep
	// the indexes and the filters of the others small enough to be read for one
	// record.
	last := len(opts.Levels) - 1
	for i := range opts.Levels {
		l := &opts.Levels[i]
		l.FilterPolicy = bloom.FilterPolicy(10)
		if i >= last-1 {
			l.BlockSize = 16 << 10
		}
		opts.TargetFileSizes[i] = 16 << 20
	}
	opts.Levels[last].FilterPolicy = pebble.NoFilterPolicy
	opts.TargetFileSizes[0], opts.TargetFileSizes[1] = 4<<20, 8<<20 // new files, the first level below
	opts.EventListener = &pebble.EventListener{
		BackgroundError: func(err error) {
			// Pebble repeats flushes and compactions by itself; a full disk is
			// noticed here before the log fails.
			o.Logger.Warn("the frontier's store cannot write in the background", "error", err)
		},
	}
	defer func() {
		// A manifest that cannot be written ends in the logger's Fatalf.
		if r := recover(); r != nil {
			f, ok := r.(storeFailure)
			if !ok {
				panic(r)
			}
			s, err = nil, fmt.Errorf("open the frontier's store in %s: %w: %w", dir, ErrFailed, f.err)
		}
	}()
	if err = look(o.FS, dir, o.ReadOnly); err == nil {
		s.db, err = pebble.Open(dir, opts)
	}
	if err != nil {
		s.cache.Unref()
		return nil, fmt.Errorf("open the frontier's store in %s: %w", dir, classify(err))
	}
	return s, nil
}

// look refuses a folder without a store where one is to be read, and one that
// has lost what names its files: Pebble would begin anew beside them.
func look(fs vfs.FS, dir string, reading bool) error {
	is, err := pebble.Peek(dir, fs)
	switch {
	case errors.Is(err, os.ErrNotExist): // no folder yet
	case err != nil:
		return err
	case is.Exists:
		return nil
	}
	names, _ := fs.List(dir)
	for _, n := range names {
		if strings.HasSuffix(n, ".sst") {
			return fmt.Errorf("%w: there are tables (%s) and no manifest that names them", ErrCorrupt, n)
		}
	}
	if reading {
		return ErrNone
	}
	return nil
}

// classify finds the contract's error in one of Pebble's.
func classify(err error) error {
	switch {
	case pebble.IsCorruptionError(err):
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EACCES) && strings.Contains(err.Error(), "LOCK"),
		strings.Contains(err.Error(), "lock held by current process"):
		return fmt.Errorf("%w: %w", ErrLocked, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EIO), errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w: %w", ErrFailed, err)
	}
	return err
}

// Files implements Store.
func (s *Pebble) Files() (vfs.FS, string) { return s.fs, s.dir }

// Get implements Store.
func (s *Pebble) Get(key []byte) ([]byte, bool, error) {
	if s.closed.Load() {
		return nil, false, ErrClosed
	}
	if v, ok, known, err := s.gathered(key); known || err != nil {
		return v, ok, err
	}
	v, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read the frontier's store: %w", classify(err))
	}
	out := bytes.Clone(v)
	return out, true, closer.Close()
}

// gathered answers a Get from the group, if that knows.
func (s *Pebble) gathered(key []byte) (value []byte, ok, known bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.group.blind {
		return nil, false, false, s.passOn()
	}
	value, deleted, known := s.group.find(key)
	if deleted {
		value = nil
	}
	return value, known && !deleted, known, nil
}

// Scan implements Store.
func (s *Pebble) Scan(from, to []byte, visit func(key, value []byte) bool) error {
	if s.closed.Load() {
		return ErrClosed
	}
	s.mu.Lock()
	if s.group.touches(from, to) {
		if err := s.passOn(); err != nil {
			s.mu.Unlock()
			return err
		}
	}
	s.mu.Unlock()
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return fmt.Errorf("read the frontier's store: %w", classify(err))
	}
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			it.Close()
			return fmt.Errorf("read the frontier's store: %w", classify(err))
		}
		if !visit(it.Key(), v) {
			break
		}
	}
	if err := it.Close(); err != nil {
		return fmt.Errorf("read the frontier's store: %w", classify(err))
	}
	return nil
}

// Apply implements Store.
func (s *Pebble) Apply(b *Batch, durable bool) (Pending, error) {
	if s.closed.Load() {
		return nil, ErrClosed
	}
	if err := s.failure(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.Len() > groupOps || s.group.b.Bytes()+b.Bytes() > groupBytes {
		if err := s.passOn(); err != nil {
			return nil, err
		}
	}
	if b.Len() > groupOps || b.Bytes() > groupBytes {
		if err := s.log(b); err != nil {
			return nil, err
		}
	} else {
		s.group.add(b)
	}
	if !durable {
		return durableNow{}, nil
	}
	return groupPending{s, s.group}, nil
}

// Close implements Store.
func (s *Pebble) Close() (err error) {
	if s.closed.Swap(true) {
		return nil
	}
	defer s.caught(&err)
	defer s.cache.Unref()
	if s.failure() == nil {
		// The log is synced as a whole, with the batches that nobody awaited.
		if err := s.passOnNow(); err != nil {
			_ = s.db.Close()
			return err
		}
		if err := s.db.LogData(nil, pebble.Sync); err != nil && !errors.Is(err, pebble.ErrReadOnly) {
			_ = s.db.Close()
			return s.fail(err)
		}
	}
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close the frontier's store: %w", classify(err))
	}
	return nil
}

// Metrics returns Pebble's own figures, for people.
func (s *Pebble) Metrics() *pebble.Metrics { return s.db.Metrics() }

// Snapshot makes a folder, which must not exist, that holds what was applied,
// durably: a store of its own, with files linked where that can be.
func (s *Pebble) Snapshot(dir string) error {
	if s.closed.Load() {
		return ErrClosed
	}
	if err := s.passOnNow(); err != nil {
		return err
	}
	return s.db.Checkpoint(dir, pebble.WithFlushedWAL())
}

// SyncDir makes the names in a folder durable.
func SyncDir(fs vfs.FS, path string) error {
	d, err := fs.OpenDir(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Settle writes the buffers out and merges the files, as time does by itself:
// for measurements of size.
func (s *Pebble) Settle(ctx context.Context) error {
	return errors.Join(s.passOnNow(), s.db.Flush(), s.db.Compact(ctx, []byte{0}, []byte{0xff}, true))
}

// DiskUsage is about the size on disk of the records in [from, to), buffers
// apart.
func (s *Pebble) DiskUsage(from, to []byte) (uint64, error) { return s.db.EstimateDiskUsage(from, to) }

func (s *Pebble) failure() error {
	if p := s.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// fail makes err the store's end: after a failed write nobody knows what the
// log holds, so that no later batch may be promised.
func (s *Pebble) fail(err error) error {
	err = fmt.Errorf("%w: %w", ErrFailed, err)
	if s.failed.CompareAndSwap(nil, &err) {
		return err
	}
	return s.failure()
}

// caught, deferred, makes an error of what Pebble calls fatal.
func (s *Pebble) caught(err *error) {
	if r := recover(); r != nil {
		f, ok := r.(storeFailure)
		if !ok {
			panic(r)
		}
		*err = s.fail(f.err)
	}
}

// storeFailure carries what Pebble calls fatal to the caller of the store.
type storeFailure struct{ err error }

// pebbleLogger passes Pebble's messages on. Pebble expects Fatalf not to
// return; it is turned into the store's failure instead of the process's end,
// so that the crawl can end with a clear message and exit code.
type pebbleLogger struct {
	log   *slog.Logger
	store *Pebble
}

func (l *pebbleLogger) Infof(format string, args ...any) {
	l.log.Debug("pebble", "message", fmt.Sprintf(format, args...))
}

func (l *pebbleLogger) Errorf(format string, args ...any) {
	l.log.Warn("pebble", "message", fmt.Sprintf(format, args...))
}

func (l *pebbleLogger) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	l.log.Error("the frontier's store failed", "error", err)
	panic(storeFailure{l.store.fail(err)})
}
