package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"lycosa.dev/dnser/internal/dnstest"
	"lycosa.dev/dnser/internal/upstream"
)

const envFewSockets = "LYCOSA_TEST_FEW_SOCKETS" // address of the name server

// A process without a file descriptor left asks nobody, blames no server, and
// asks as soon as it can.
func TestNoDescriptorLeft(t *testing.T) {
	s := dnstest.Start(t, func(_ dnstest.Query, reply *dns.Msg) dnstest.Action { return answerA(reply) })
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoDescriptorLeftChild$", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), envFewSockets+"="+s.Addr.String())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "asked in the end") {
		t.Fatalf("%v\n%s", err, out)
	}
	if s.Asked("a.test", dns.TypeA) != 0 || s.Asked("b.test", dns.TypeA) != 1 {
		t.Errorf("questions: %v", s.Queries())
	}
}

func TestNoDescriptorLeftChild(t *testing.T) {
	server := os.Getenv(envFewSockets)
	if server == "" {
		t.Skip("runs as a process of its own, started by TestNoDescriptorLeft")
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 32, Max: 32}); err != nil {
		t.Fatal(err)
	}
	g := group(netip.MustParseAddrPort(server))
	var files []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		files = append(files, f)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := g.Ask(ctx, "a.test", dns.TypeA, netip.AddrPort{})
	var e *upstream.Error
	if !errors.As(err, &e) || e.Class != upstream.Busy || e.Reason != upstream.ReasonSockets || g.Down() != 0 {
		t.Errorf("%v, %d down", err, g.Down())
	}
	time.AfterFunc(20*time.Millisecond, func() {
		for _, f := range files {
			f.Close()
		}
	})
	mustAnswer(t, g, "b.test")
	if !t.Failed() {
		fmt.Println("asked in the end")
	}
}
