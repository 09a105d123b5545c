package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lycosa.dev/internal/testweb"
)

// TestFullLogs: there is no room for the logs, and room for all else. The crawl
// is whole, and every line of crawl.log that another follows.
func TestFullLogs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	logs := filepath.Join(dir, "logs")
	if err := os.Mkdir(logs, 0o755); err != nil {
		t.Fatal(err)
	}
	smallDisk(t, logs, "16k")
	s := newSite(t, []string{"a.test", "b.test"}, testweb.Graph{Pages: 80, Links: 6, BodyBytes: 2000})
	args := polite(dir, "--scope", "any", s.seed)
	mustLycosa(t, 2*time.Minute, args...)
	s.checkExact(t, dir)
	mustLycosa(t, time.Minute, "audit", dir)
	read := func() []string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(logs, "crawl.log"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(string(b), "\n")
	}
	first := read()
	if n := len(first); n >= len(s.want) {
		t.Fatalf("%d lines: the disk was never full", n)
	}

	// With room a new round begins a line of its own.
	if err := mount("-o", "remount,size=4m", logs); err != nil {
		t.Fatal(err)
	}
	mustLycosa(t, 2*time.Minute, append(args, "--recrawl")...)
	torn := 0
	lines := read()
	for i, line := range lines[:len(lines)-1] {
		if len(strings.Fields(line)) == 12 {
			continue
		}
		if torn++; i != len(first)-1 {
			t.Errorf("line %d is torn: %q", i+1, line)
		}
	}
	if n := len(lines) - len(first); torn > 1 || n < len(s.want) || lines[len(lines)-1] != "" {
		t.Errorf("%d torn lines and %d new ones for %d pages, the last %q", torn, n, len(s.want), lines[len(lines)-1])
	}
}
