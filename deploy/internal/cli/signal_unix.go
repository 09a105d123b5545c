//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// askForReports asks a process to write its reports.
func askForReports(pid int) error { return syscall.Kill(pid, syscall.SIGUSR1) }

// reportSignals hears of SIGUSR1.
func reportSignals() <-chan os.Signal {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGUSR1)
	return ch
}
