//go:build unix

package descriptors

import "syscall"

// unlimited is taken where the system names no limit or a fantastic one.
const unlimited = 1 << 20

// Limit is how many descriptors this process may hold. Go has raised the soft
// limit to the hard one by the time it is asked.
func Limit() int {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 1024 // the least that systems of today give
	}
	cur := uint64(r.Cur) //nolint:unconvert // signed on some systems
	return int(min(cur, unlimited))
}
