package descriptors

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
)

func TestSplit(t *testing.T) {
	for _, limit := range []int{-1, 0, 16, 20, 64, 100, 256, 1024, 4096, 65536, 1 << 20} {
		s := Split(limit)
		all := max(limit, 16)
		if s.Connections < 2 || s.Queries < 2 || s.Queries > 1024 {
			t.Errorf("%d: %+v", limit, s)
		}
		if files := all - s.Connections - s.Queries; files < min(all/2, maxFiles) {
			t.Errorf("%d: %+v leaves %d to files", limit, s, files)
		}
		if next := Split(limit + 1); next.Connections < s.Connections || next.Queries < s.Queries {
			t.Errorf("%d: %+v, one more: %+v", limit, s, next)
		}
	}
	if s := Split(65536); s.Connections < 60000 {
		t.Errorf("of 65536, %+v: files need no more than %d", s, maxFiles)
	}
	if Own() != Split(Limit()) || Limit() < 16 {
		t.Errorf("own %+v of %d", Own(), Limit())
	}
}

func TestExhausted(t *testing.T) {
	for err, want := range map[error]bool{
		nil: false, errors.New("too many open files"): false,
		&net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}: true,
		fmt.Errorf("open: %w", syscall.ENFILE):                                      true,
		syscall.ENOBUFS:                                                             true,
		syscall.ECONNREFUSED:                                                        false,
	} {
		if Exhausted(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}
