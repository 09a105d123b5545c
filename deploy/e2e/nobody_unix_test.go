//go:build unix

package e2e

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// asNobody makes a child run without root's rights, for which no folder is
// read-only. For other users it changes nothing.
func asNobody(t testing.TB) func(*exec.Cmd) {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	if err := os.Chmod(binDir, 0o755); err != nil {
		t.Fatal(err)
	}
	return func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		c.Dir = "/"
	}
}
