package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestRunAllStopsInReverse(t *testing.T) {
	var order []string
	step := func(name string) Step {
		return Step{name, func(ctx context.Context) error {
			<-ctx.Done()
			order = append(order, name) // one at a time, in RunAll's order
			return ctx.Err()
		}}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := RunAll(ctx, nil, 0, step("tracing"), step("service"), step("server")); err != nil {
		t.Error(err)
	}
	if want := []string{"server", "service", "tracing"}; !reflect.DeepEqual(order, want) {
		t.Errorf("stopped %v, want %v", order, want)
	}
	if err := RunAll(context.Background(), nil, 0); err != nil {
		t.Errorf("without steps: %v", err)
	}
}

func TestRunAllEndsWithItsFirstStep(t *testing.T) {
	broken := errors.New("disk full")
	other := Step{"other", func(ctx context.Context) error { <-ctx.Done(); return errors.New("unclean") }}
	for name, run := range map[string]func(context.Context) error{
		"error": func(context.Context) error { return broken },
		"panic": func(context.Context) error { panic(broken) },
	} {
		err := RunAll(context.Background(), nil, time.Minute, other, Step{"store", run})
		if err == nil || !strings.Contains(err.Error(), "store: ") || !strings.Contains(err.Error(), "disk full") || !strings.Contains(err.Error(), "other: unclean") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := RunAll(context.Background(), nil, time.Minute, Step{"done", func(context.Context) error { return nil }}); err != nil {
		t.Errorf("a step that has finished: %v", err)
	}
}

func TestRunAllGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var clean bool
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := RunAll(ctx, nil, 3*time.Second,
			Step{"clean", func(ctx context.Context) error { <-ctx.Done(); clean = true; return nil }},
			Step{"stuck", func(context.Context) error { <-release; return nil }},
		)
		if !errors.Is(err, ErrForced) || !strings.Contains(err.Error(), "stuck") || !clean {
			t.Errorf("got %v, clean %v", err, clean)
		}
		if d := time.Since(start); d != 4*time.Second {
			t.Errorf("took %v, want a second and the grace", d)
		}
		close(release)
	})
}

func TestClosers(t *testing.T) {
	var order []string
	var c Closers
	for _, name := range []string{"a", "b", "c"} {
		c.Add(name, func(context.Context) error {
			order = append(order, name)
			if name == "b" {
				return errors.New("stuck")
			}
			return nil
		})
	}
	c.AddCloser("d", nopCloser{})
	if err := c.Close(context.Background()); err == nil || err.Error() != "close b: stuck" {
		t.Errorf("got %v", err)
	}
	if fmt.Sprint(order) != "[c b a]" {
		t.Errorf("closed %v", order)
	}
	if err := c.Close(context.Background()); err != nil || len(order) != 3 {
		t.Errorf("closed again: %v %v", err, order)
	}
}

type coded int

func (c coded) Error() string { return "coded" }
func (c coded) ExitCode() int { return int(c) }

func TestMainExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		text string
	}{
		{nil, 0, ""},
		{errors.New("broken"), 1, "lycosa-t: broken\n"},
		{fmt.Errorf("settings: %w", coded(2)), 2, "lycosa-t: settings: coded\n"},
		{coded(0), 0, ""},
	} {
		var stderr bytes.Buffer
		code := runMain("lycosa-t", func(context.Context) error { return c.err }, make(chan os.Signal), &stderr, nil)
		if code != c.code || stderr.String() != c.text {
			t.Errorf("%v: %d %q, want %d %q", c.err, code, stderr.String(), c.code, c.text)
		}
	}
}

func TestMainSignals(t *testing.T) {
	signals := make(chan os.Signal, 2)
	var stderr bytes.Buffer
	code := runMain("t", func(ctx context.Context) error {
		signals <- syscall.SIGTERM
		<-ctx.Done()
		return nil
	}, signals, &stderr, nil)
	if code != 0 || !strings.Contains(stderr.String(), "finishing") {
		t.Errorf("one signal: %d %q", code, stderr.String())
	}

	forced := make(chan int)
	runMain("t", func(ctx context.Context) error {
		signals <- os.Interrupt
		<-ctx.Done()
		signals <- os.Interrupt
		if code := <-forced; code != 130 {
			t.Errorf("two signals: exit code %d, want 130", code)
		}
		return nil
	}, signals, &stderr, func(code int) { forced <- code })
}
