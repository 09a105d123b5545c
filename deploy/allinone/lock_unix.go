//go:build unix

package allinone

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks the file for this process until it is closed.
func tryLock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
