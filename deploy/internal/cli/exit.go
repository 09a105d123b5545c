package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"lycosa.dev/deploy/allinone"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/scheduler"
)

// Exit codes of lycosa; scripts rely on them.
const (
	ExitOK          = 0   // finished: nothing left, or a limit, which is named
	ExitFailure     = 1   // internal failure; for audit, verify and doctor: something was found
	ExitUsage       = 2   // bad usage or spec, a folder or a port that is in use
	ExitNoSeed      = 3   // no seed could be fetched
	ExitStorage     = 4   // storage full or unwritable
	ExitInterrupted = 130 // interrupted, state saved
)

// exitError is an error with the exit code that it means. An empty message
// prints nothing.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// ExitCode is the process's exit code.
func (e *exitError) ExitCode() int { return e.code }

func usage(format string, args ...any) error {
	return &exitError{ExitUsage, fmt.Errorf(format, args...)}
}

// silent is an exit code without a message: all was said.
func silent(code int) error {
	if code == ExitOK {
		return nil
	}
	return &exitError{code: code}
}

// classify gives an error the exit code it means.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[rpc.ExitCoder](err); ok {
		return err
	}
	err = once(err)
	switch {
	case errors.Is(err, allinone.ErrInUse), errors.Is(err, scheduler.ErrLocked):
		return &exitError{ExitUsage, fmt.Errorf("%w; wait for it, or give another --dir", err)}
	case errors.Is(err, scheduler.ErrStorage), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EDQUOT):
		return &exitError{ExitStorage, err}
	case errors.Is(err, syscall.EADDRINUSE):
		return &exitError{ExitUsage, fmt.Errorf("%w; another process listens there: stop it, or give another address", err)}
	case errors.Is(err, context.Canceled):
		return &exitError{ExitInterrupted, errors.New("interrupted")}
	}
	if withStatus, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err); ok {
		st := withStatus.GRPCStatus()
		msg := errors.New(st.Message())
		switch st.Code() {
		case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.OutOfRange:
			return &exitError{ExitUsage, msg}
		case codes.ResourceExhausted:
			return &exitError{ExitStorage, msg}
		case codes.Unauthenticated, codes.PermissionDenied:
			return &exitError{ExitUsage, fmt.Errorf("%w: give the token with --token-file or LYCOSA_TOKEN", msg)}
		case codes.Canceled:
			return &exitError{ExitInterrupted, errors.New("interrupted")}
		}
		return &exitError{ExitFailure, msg}
	}
	return &exitError{ExitFailure, err}
}

// onceError says what its error says, but no line that another line ends with.
type onceError struct {
	error
	text string
}

func (e *onceError) Error() string { return e.text }

func (e *onceError) Unwrap() error { return e.error }

// once takes the repetitions out of joined errors: several parts of a process
// often end for the one reason.
func once(err error) error {
	lines := strings.Split(err.Error(), "\n")
	var kept []string
	for i, line := range lines {
		repeated := false
		for j, other := range lines {
			repeated = repeated || (i != j && strings.HasSuffix(other, line) && (len(other) > len(line) || j < i))
		}
		if !repeated {
			kept = append(kept, line)
		}
	}
	if len(kept) == len(lines) {
		return err
	}
	return &onceError{err, strings.Join(kept, "\n")}
}
