//go:build linux

package fetch_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lycosa.dev/downloader/internal/fetch"
	"lycosa.dev/internal/descriptors"
)

// The environment of the process with few descriptors.
const (
	envFewServer = "LYCOSA_TEST_FEW_SERVER" // address of the web server
	envFewTaken  = "LYCOSA_TEST_FEW_TAKEN"  // how many are left when the fetches begin; 0: all
)

// With 64 file descriptors, 300 hosts are fetched by 128 workers, twice each,
// and not one fetch fails: kept connections make room, and those who find none
// wait. The same where files have taken all but 12, so that the system really
// refuses sockets.
func TestFewDescriptors(t *testing.T) {
	s := serve(t, func(c *peer, _ int) {
		for c.request() != "" {
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	for _, left := range []int{0, 12} {
		t.Run(fmt.Sprintf("left %d", left), func(t *testing.T) {
			before := s.requests.Load()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFewDescriptorsChild$", "-test.v", "-test.timeout=60s")
			cmd.Env = append(os.Environ(), envFewServer+"="+s.addr.String(), envFewTaken+"="+strconv.Itoa(left))
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "600 fetched") {
				t.Fatalf("%v\n%s", err, out)
			}
			if n := s.requests.Load() - before; n != 600 {
				t.Errorf("%d requests for 600 fetches", n)
			}
		})
	}
}

// TestFewDescriptorsChild is the process with few descriptors.
func TestFewDescriptorsChild(t *testing.T) {
	server := os.Getenv(envFewServer)
	if server == "" {
		t.Skip("runs as a process of its own, started by TestFewDescriptors")
	}
	addr := netip.MustParseAddrPort(server)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 64, Max: 64}); err != nil {
		t.Fatal(err)
	}
	if n := descriptors.Limit(); n != 64 {
		t.Fatalf("the limit is %d", n)
	}
	e := engine(t, config())
	if left, _ := strconv.Atoi(os.Getenv(envFewTaken)); left > 0 {
		defer takeAllBut(t, left)()
	}
	var failed sync.Map
	work := make(chan int)
	var wg sync.WaitGroup
	for range 128 {
		wg.Go(func() {
			for i := range work {
				req := &fetch.Request{
					Target:    fetch.Target{Authority: fmt.Sprintf("h%d.test", i%300), Host: "h.test", Port: addr.Port(), Path: "/"},
					Addresses: []netip.Addr{addr.Addr()},
				}
				if res := e.Fetch(context.Background(), req, &release{}); res.Class != fetch.ClassResponse {
					failed.Store(i, res)
				}
			}
		})
	}
	for i := range 600 {
		work <- i
	}
	close(work)
	wg.Wait()
	failed.Range(func(i, res any) bool { t.Errorf("%d: %+v", i, res); return true })
	if idle, allowed := e.Stats().Idle, descriptors.Own().Connections; idle > int64(allowed) {
		t.Errorf("%d connections are kept, %d are allowed to be open", idle, allowed)
	}
	if !t.Failed() {
		fmt.Println("600 fetched")
	}
}

// takeAllBut opens files until only n descriptors are left, and returns what
// closes them.
func takeAllBut(t *testing.T, n int) func() {
	t.Helper()
	var files []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			if !descriptors.Exhausted(err) {
				t.Fatal(err)
			}
			break
		}
		files = append(files, f)
	}
	for _, f := range files[:n] {
		f.Close()
	}
	files = files[n:]
	return func() {
		for _, f := range files {
			f.Close()
		}
	}
}

// A fetch that finds no place says so, in words of ours, and is no try of the
// server's.
func TestNoPlaceIsNoTry(t *testing.T) {
	asked := make(chan struct{})
	s := serve(t, func(c *peer, _ int) {
		c.request()
		close(asked)
		c.wait()
	})
	cfg := config()
	cfg.MaxOpen = 1
	cfg.ConnectTimeout, cfg.FirstByteTimeout = 200*time.Millisecond, 5*time.Second
	e := engine(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { e.Fetch(ctx, request(t, s, "/slow"), &release{}) })
	<-asked
	res := e.Fetch(t.Context(), request(t, s, "/none"), &release{})
	cancel()
	wg.Wait()
	if res.Class != fetch.ClassNotStarted || res.Code != "no-file-descriptors" || res.Written {
		t.Errorf("%+v", res)
	}
	if s.conns.Load() != 1 {
		t.Errorf("%d connections, one is allowed", s.conns.Load())
	}
}

// panicking is a Sink with a fault.
type panicking struct{ release }

func (*panicking) Head(_, _ []byte) error { panic("a fault of the sink") }

// A fault in a fetch, which is that page's alone, takes no place with it.
func TestPanicGivesThePlaceBack(t *testing.T) {
	s := serve(t, func(c *peer, _ int) {
		for c.request() != "" {
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	cfg := config()
	cfg.MaxOpen, cfg.ConnectTimeout = 1, 5*time.Second
	e := engine(t, cfg)
	for range 3 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the fault is swallowed")
				}
			}()
			e.Fetch(t.Context(), request(t, s, "/"), &panicking{})
		}()
	}
	if res := e.Fetch(t.Context(), request(t, s, "/"), &release{}); res.Class != fetch.ClassResponse {
		t.Errorf("%+v", res)
	}
}
