package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a child that the test owns: it is dead when the test ends.
type process struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd
	out  lockedBuffer // standard output
	err  lockedBuffer // standard error
	done chan struct{}
}

// lockedBuffer may be read while the child writes.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// startProcess starts a child; prepare may change the command before.
func startProcess(t testing.TB, prepare func(*exec.Cmd), path string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: path[strings.LastIndexByte(path, '/')+1:], cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	if prepare != nil {
		prepare(p.cmd)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", p.name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(p.kill)
	return p
}

// kill ends the child as SIGKILL does and waits until it is gone.
func (p *process) kill() {
	select {
	case <-p.done:
		return
	default:
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// signal sends a signal.
func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatalf("signal %s: %v", p.name, err)
	}
}

// running says whether the child lives.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// exitsWithin waits for the child's own end; it fails the test with all
// goroutines' stacks in the output if the child does not end in time.
func (p *process) exitsWithin(d time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(d):
		p.signal(syscall.SIGQUIT)
		select {
		case <-p.done:
		case <-time.After(5 * time.Second):
			p.kill()
		}
		p.t.Fatalf("%s did not end within %s\nstdout: %s\nstderr: %s", p.name, d, ends(p.out.String()), ends(p.err.String()))
	}
	return p.cmd.ProcessState.ExitCode()
}

// ends shortens a long text to its beginning and its end.
func ends(s string) string {
	const half = 6000
	if len(s) <= 2*half {
		return s
	}
	return s[:half] + "\n[...]\n" + s[len(s)-half:]
}

// result is what a finished child said.
type result struct {
	code     int
	out, err string
}

// lycosa runs the command to its end.
func lycosa(t testing.TB, limit time.Duration, args ...string) result {
	t.Helper()
	p := startProcess(t, nil, binary(t, "lycosa"), args...)
	code := p.exitsWithin(limit)
	return result{code: code, out: p.out.String(), err: p.err.String()}
}

// mustLycosa runs the command and fails the test if it does not exit 0.
func mustLycosa(t testing.TB, limit time.Duration, args ...string) result {
	t.Helper()
	r := lycosa(t, limit, args...)
	if r.code != 0 {
		t.Fatalf("lycosa %s: exit code %d\nstdout: %s\nstderr: %s", strings.Join(args, " "), r.code, ends(r.out), ends(r.err))
	}
	return r
}

// eventually waits until f is true, asking often.
func eventually(t testing.TB, limit time.Duration, what string, f func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}
