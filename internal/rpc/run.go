package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"
)

// Step is one long-running part of a process.
type Step struct {
	Name string
	// Run works until ctx is done and returns when it has let go of all.
	Run func(ctx context.Context) error
}

// ErrForced is what RunAll returns of steps that outlived their grace.
var ErrForced = errors.New("did not stop in time")

// RunAll starts the steps in order and runs them together. When ctx is done, or
// when one of them returns, it stops them in reverse order: the last is
// cancelled and waited for, then the one before. So a step may use those listed
// before it until it has returned: list the tracer first, then clients, then
// the server, then the service, whose calls in flight come home through the
// server while it drains.
//
// Each step has grace to return in (0 is no limit); after it the next is
// stopped without waiting further and the error wraps ErrForced. A panic in a
// step is an error of that step. The result joins the steps' errors;
// cancellation that RunAll itself caused is none.
func RunAll(ctx context.Context, log *slog.Logger, grace time.Duration, steps ...Step) error {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	type running struct {
		cancel context.CancelFunc
		done   chan struct{}
	}
	var (
		mu   sync.Mutex
		errs []error
	)
	fail := func(name string, err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, fmt.Errorf("%s: %w", name, err))
	}
	base := context.WithoutCancel(ctx)
	started := make([]running, len(steps))
	ended := make(chan struct{}, len(steps))
	for i, step := range steps {
		stepCtx, cancel := context.WithCancel(base)
		r := running{cancel: cancel, done: make(chan struct{})}
		started[i] = r
		go func() {
			defer func() { close(r.done); ended <- struct{}{} }()
			err := runStep(stepCtx, step)
			if err != nil && !(stepCtx.Err() != nil && errors.Is(err, context.Canceled)) {
				fail(step.Name, err)
			}
		}()
	}
	if len(steps) > 0 {
		select {
		case <-ctx.Done():
		case <-ended:
		}
	}
	for i := len(steps) - 1; i >= 0; i-- {
		started[i].cancel()
		if !waitGrace(started[i].done, grace) {
			log.Error("part did not stop in time", "part", steps[i].Name, "grace", grace)
			fail(steps[i].Name, ErrForced)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	return errors.Join(errs...)
}

func runStep(ctx context.Context, step Step) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return step.Run(ctx)
}

func waitGrace(done <-chan struct{}, grace time.Duration) bool {
	if grace <= 0 {
		<-done
		return true
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// Closers closes what was opened, in reverse order: the last opened may use
// what was opened before it. The zero value is ready; not for concurrent use.
type Closers struct{ list []namedCloser }

type namedCloser struct {
	name  string
	close func(ctx context.Context) error
}

// Add has close called at the end; ctx bounds how long it may be graceful.
func (c *Closers) Add(name string, close func(ctx context.Context) error) {
	c.list = append(c.list, namedCloser{name, close})
}

// AddCloser is Add for an io.Closer.
func (c *Closers) AddCloser(name string, closer io.Closer) {
	c.Add(name, func(context.Context) error { return closer.Close() })
}

// Close closes all, each whether or not others failed, and joins the errors.
// A second Close does nothing.
func (c *Closers) Close(ctx context.Context) error {
	var errs []error
	for i := len(c.list) - 1; i >= 0; i-- {
		if err := c.list[i].close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", c.list[i].name, err))
		}
	}
	c.list = nil
	return errors.Join(errs...)
}

// ExitCoder is an error that knows the exit code of the process it ends; code 0
// ends it without a message. An empty Error prints nothing.
type ExitCoder interface {
	error
	ExitCode() int
}

// ExitCode returns the exit code for what a process's run returned: 0 for nil,
// what an ExitCoder in the chain says, else 1.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	if coder, ok := errors.AsType[ExitCoder](err); ok {
		return coder.ExitCode()
	}
	return 1
}

// Main runs a process and exits. The context that run gets is done at the first
// SIGINT or SIGTERM, which asks for a graceful end; the second ends the process
// at once with 128 and the signal's number. The exit code is that of ExitCode.
func Main(name string, run func(ctx context.Context) error) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	os.Exit(runMain(name, run, signals, os.Stderr, os.Exit))
}

func runMain(name string, run func(ctx context.Context) error, signals <-chan os.Signal, stderr io.Writer, exit func(int)) int {
	ctx, cancel := context.WithCancel(context.Background())
	finished, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for n := 0; ; n++ {
			select {
			case <-finished:
				return
			case sig := <-signals:
				if n == 0 {
					fmt.Fprintf(stderr, "%s: %s: finishing what is in flight; once more stops at once\n", name, sig)
					cancel()
					continue
				}
				code := 1
				if s, ok := sig.(syscall.Signal); ok {
					code = 128 + int(s)
				}
				exit(code)
				return
			}
		}
	}()
	err := run(ctx)
	cancel()
	close(finished)
	<-watched
	code := ExitCode(err)
	if err != nil && code != 0 && err.Error() != "" {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
	}
	return code
}
