//go:build unix

package cli

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// fileLimit is how many files the process may open.
func fileLimit() (soft, hard uint64, err error) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0, 0, err
	}
	return uint64(r.Cur), uint64(r.Max), nil //nolint:unconvert // signed on some systems
}

// freeBytes is what is free for us on the disk of a folder.
func freeBytes(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", dir, err)
	}
	return uint64(s.Bavail) * uint64(s.Bsize), nil //nolint:unconvert // signed on some systems
}

// memoryBytes is the machine's memory.
func memoryBytes() (uint64, error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, errors.New("unknown on this system")
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var kb uint64
		if strings.HasPrefix(lines.Text(), "MemTotal:") {
			if _, err := fmt.Sscanf(lines.Text(), "MemTotal: %d kB", &kb); err == nil {
				return kb << 10, nil
			}
		}
	}
	return 0, errors.New("unknown on this system")
}
