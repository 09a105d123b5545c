package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"lycosa.dev/internal/rpc"
)

// Main runs the process's command line and returns its exit code. The first
// SIGINT or SIGTERM asks for a clean end, the second ends the process at once.
func Main() int {
	app := System()
	app.Report = reportSignals()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		if app.Terminal {
			// The live line, and the terminal's own ^C on it.
			fmt.Fprint(os.Stderr, "\r\x1b[K")
		}
		fmt.Fprintln(os.Stderr, "lycosa: finishing what is in flight; once more stops at once")
		cancel()
		<-signals
		os.Exit(ExitInterrupted)
	}()
	err := app.Run(ctx, os.Args[1:])
	if err != nil && err.Error() != "" {
		fmt.Fprintf(os.Stderr, "lycosa: %v\n", err)
	}
	return rpc.ExitCode(err)
}
