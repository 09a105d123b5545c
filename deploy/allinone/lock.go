package allinone

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// ErrInUse says that another process works on the folder; test with errors.Is.
var ErrInUse = errors.New("the folder is in use by another lycosa")

// errLocked is what tryLock returns of a file that is locked.
var errLocked = errors.New("locked")

// lock takes the folder's lock and writes the process's id into it. The file
// stays when the lock is let go: removing it would let two processes hold locks
// on two files of one name.
func lock(l Layout) (*os.File, error) {
	f, err := os.OpenFile(l.Lock(), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := tryLock(f); err != nil {
		pid := readPID(f)
		_ = f.Close()
		if !errors.Is(err, errLocked) {
			return nil, fmt.Errorf("lock %s: %w", l.Lock(), err)
		}
		if pid != 0 {
			return nil, fmt.Errorf("%w (process %d): %s", ErrInUse, pid, string(l))
		}
		return nil, fmt.Errorf("%w: %s", ErrInUse, string(l))
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func readPID(r io.ReaderAt) int {
	buf := make([]byte, 32)
	n, _ := r.ReadAt(buf, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil {
		return 0
	}
	return pid
}

// Owner returns the id of the process that works on the folder; 0 if none does.
func Owner(l Layout) int {
	f, err := os.OpenFile(l.Lock(), os.O_RDWR, 0)
	if err != nil {
		return 0
	}
	defer f.Close()
	if tryLock(f) == nil {
		return 0
	}
	return readPID(f)
}
