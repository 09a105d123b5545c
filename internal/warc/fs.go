package warc

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// FS is the file system as the writer sees it: small, so that tests can make
// every step of it fail.
type FS interface {
	MkdirAll(dir string) error
	// Create makes a new file for writing and locks it against other processes
	// for as long as it is open. An existing name is fs.ErrExist.
	Create(name string) (File, error)
	// Open opens for reading.
	Open(name string) (File, error)
	// OpenWrite opens an existing file to repair it, with Create's lock. A file
	// that another process holds is ErrLocked.
	OpenWrite(name string) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	// List returns the names in a folder, without order.
	List(dir string) ([]string, error)
	// SyncDir makes created, renamed and removed names durable.
	SyncDir(dir string) error
}

// File is an open file of an FS. Write appends.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.Closer
	Sync() error
	Truncate(size int64) error
	Size() (int64, error)
}

// ErrLocked is a file that another process is writing.
var ErrLocked = errors.New("warc: the file is being written by another process")

// ErrStorageFull is what a [StorageError] matches when there is no space or no quota left.
var ErrStorageFull = errors.New("warc: storage is full")

// StorageError is a failed operation of the file system. Nothing that was
// acknowledged is touched by it.
type StorageError struct {
	// Op is what was tried, Path on which file.
	Op, Path string
	Err      error
}

func (e *StorageError) Error() string {
	what := "warc: " + e.Op + " " + e.Path + ": " + e.Err.Error()
	if e.Full() {
		what += " (free space there, or point the store to another folder)"
	}
	return what
}

// Unwrap returns the cause.
func (e *StorageError) Unwrap() error { return e.Err }

// Full reports whether space or quota has run out.
func (e *StorageError) Full() bool {
	return errors.Is(e.Err, syscall.ENOSPC) || errors.Is(e.Err, syscall.EDQUOT)
}

// Is matches [ErrStorageFull] when Full.
func (e *StorageError) Is(target error) bool { return target == ErrStorageFull && e.Full() }

func storageError(op, path string, err error) error {
	var pe *fs.PathError
	var le *os.LinkError
	switch {
	case errors.As(err, &pe):
		err = pe.Err // the path is said already
	case errors.As(err, &le):
		err = le.Err
	}
	return &StorageError{Op: op, Path: path, Err: err}
}

// OS is the real file system.
func OS() FS { return osFS{} }

type osFS struct{}

type osFile struct{ *os.File }

// errRemoved is a file that somebody has deleted while it was written: what
// goes into it is lost, however durable.
var errRemoved = errors.New("somebody has removed the file")

func (f osFile) Sync() error {
	if err := f.File.Sync(); err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok && sys.Nlink == 0 {
		return errRemoved
	}
	return nil
}

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (osFS) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o755) }

func (osFS) Create(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return locked(f)
}

func (osFS) OpenWrite(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return locked(f)
}

// locked takes the advisory lock, which ends with the process. File systems
// without locks (some network ones) go without.
func locked(f *os.File) (File, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		_ = f.Close()
		return nil, fmt.Errorf("%w: %s", ErrLocked, f.Name())
	}
	return osFile{f}, nil
}

func (osFS) Open(name string) (File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Rename(from, to string) error { return os.Rename(from, to) }
func (osFS) Remove(name string) error     { return os.Remove(name) }

func (osFS) List(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

func (osFS) SyncDir(dir string) error {
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	defer d.Close()
	// Some file systems cannot sync a folder and need not.
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}
