package warc_test

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"lycosa.dev/internal/warc"
)

// memFS is a file system in memory that knows what is durable: bytes after
// Sync, names after SyncDir. Every operation that changes something has a
// number, and fault decides its fate.
type memFS struct {
	mu    sync.Mutex
	names map[string]*inode // what a running process sees
	disk  map[string]*inode // the names that survive a crash
	op    int
	fault func(op int, what string) error // nil: it works
	dead  bool
}

type inode struct {
	data   []byte
	synced []byte
	open   bool // for writing
}

var (
	errCrash = errors.New("the machine has crashed")
	errShort = errors.New("a short write")
)

func newMemFS() *memFS { return &memFS{names: map[string]*inode{}, disk: map[string]*inode{}} }

// step counts an operation and asks for its fate; the lock is held.
func (m *memFS) step(what string) error {
	if m.dead {
		return errCrash
	}
	m.op++
	if m.fault == nil {
		return nil
	}
	err := m.fault(m.op, what)
	if errors.Is(err, errCrash) {
		m.dead = true
	}
	return err
}

// afterCrash is the file system that a restarted machine finds: of the bytes
// that were not synced the share keep (0 to 1) has reached the disk.
func (m *memFS) afterCrash(keep float64) *memFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := newMemFS()
	for name, in := range m.disk {
		data := slices.Clone(in.synced)
		if extra := len(in.data) - len(in.synced); extra > 0 {
			data = append(data, in.data[len(in.synced):len(in.synced)+int(float64(extra)*keep)]...)
		}
		n.names[name] = &inode{data: data, synced: slices.Clone(data)}
	}
	n.disk = maps.Clone(n.names)
	return n
}

func (m *memFS) MkdirAll(string) error { return nil }

func (m *memFS) Create(name string) (warc.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step("create"); err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	if m.names[name] != nil {
		return nil, fs.ErrExist
	}
	in := &inode{open: true}
	m.names[name] = in
	return &memFile{m: m, in: in, write: true}, nil
}

func (m *memFS) Open(name string) (warc.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names[name] == nil {
		return nil, fs.ErrNotExist
	}
	return &memFile{m: m, in: m.names[name]}, nil
}

func (m *memFS) OpenWrite(name string) (warc.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	in := m.names[name]
	switch {
	case in == nil:
		return nil, fs.ErrNotExist
	case in.open:
		return nil, warc.ErrLocked
	}
	in.open = true
	return &memFile{m: m, in: in, write: true}, nil
}

func (m *memFS) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step("rename"); err != nil {
		return err
	}
	if m.names[to] != nil {
		panic("rename over an existing file: " + to)
	}
	m.names[to] = m.names[from]
	delete(m.names, from)
	return nil
}

func (m *memFS) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step("remove"); err != nil {
		return err
	}
	delete(m.names, name)
	return nil
}

func (m *memFS) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for name := range m.names {
		if filepath.Dir(name) == dir {
			out = append(out, filepath.Base(name))
		}
	}
	return out, nil
}

func (m *memFS) SyncDir(string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step("syncdir"); err != nil {
		return err
	}
	m.disk = maps.Clone(m.names)
	return nil
}

func (m *memFS) files(suffix string) map[string][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string][]byte{}
	for name, in := range m.names {
		if strings.HasSuffix(name, suffix) {
			out[filepath.Base(name)] = slices.Clone(in.data)
		}
	}
	return out
}

type memFile struct {
	m     *memFS
	in    *inode
	pos   int64
	write bool
}

func (f *memFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.pos)
	f.pos += int64(n)
	return n, err
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if off >= int64(len(f.in.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.in.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Write(p []byte) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	switch err := f.m.step("write"); {
	case errors.Is(err, errShort):
		f.in.data = append(f.in.data, p[:len(p)/2]...)
		return len(p) / 2, nil
	case err != nil:
		f.in.data = append(f.in.data, p[:len(p)/3]...)
		return len(p) / 3, &fs.PathError{Op: "write", Path: "x", Err: err}
	}
	f.in.data = append(f.in.data, p...)
	return len(p), nil
}

func (f *memFile) Sync() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.m.step("sync"); err != nil {
		return err
	}
	f.in.synced = slices.Clone(f.in.data)
	return nil
}

func (f *memFile) Truncate(size int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.m.step("truncate"); err != nil {
		return err
	}
	f.in.data = f.in.data[:size]
	f.in.synced = f.in.synced[:min(len(f.in.synced), int(size))]
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return int64(len(f.in.data)), nil
}

func (f *memFile) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.write {
		f.in.open = false
		f.write = false
		return f.m.step("close")
	}
	return nil
}

var errNoSpace = syscall.ENOSPC
