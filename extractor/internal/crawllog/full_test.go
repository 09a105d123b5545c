package crawllog

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
)

// disk is a file on a disk with room for so many bytes more.
type disk struct {
	b    []byte
	room int
}

func (d *disk) Write(b []byte) (int, error) {
	n := min(len(b), d.room)
	d.b = append(d.b, b[:n]...)
	d.room -= n
	if n < len(b) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func (*disk) Close() error { return nil }

var whole = regexp.MustCompile(`^2026-11-30T12:00:00\.000Z +0 +- http://a\.test/(\d+) - - - #000 - - - -$`)

// numbers are those of the log's lines, which are all whole.
func numbers(t *testing.T, b []byte) []string {
	t.Helper()
	var out []string
	for line := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n"), "\n") {
		m := whole.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("no whole line: %q", line)
		}
		out = append(out, m[1])
	}
	return out
}

func write(t *testing.T, l *Log, n int) {
	t.Helper()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	if err := l.Write(&crawlv1.Lease{Url: fmt.Sprintf("http://a.test/%d", n)}, &crawlv1.Outcome{}, now); err != nil {
		t.Fatal(err)
	}
}

// Wherever a full disk tears a line, it is completed when there is room again.
func TestLineTornByAFullDiskIsCompleted(t *testing.T) {
	lines := &disk{room: 1 << 20}
	l := &Log{f: lines}
	write(t, l, 0)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for room := range 2*len(lines.b) + 1 {
		d := &disk{room: room}
		l := &Log{f: d}
		write(t, l, 1)
		write(t, l, 2)
		if err := l.Flush(); (err == nil) != (room == 2*len(lines.b)) {
			t.Fatalf("room for %d bytes: %v", room, err)
		}
		write(t, l, 3)
		d.room = 1 << 20
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(numbers(t, d.b)); got != "[1 2 3]" {
			t.Fatalf("room for %d bytes: lines %s", room, got)
		}
	}
}

// What waits while nothing can be written is bounded; what is beyond is lost
// whole, and said.
func TestLinesThatWaitAreBounded(t *testing.T) {
	d := &disk{room: 100}
	l := &Log{f: d}
	write(t, l, 0)
	write(t, l, 1)
	if l.Flush() == nil {
		t.Fatal("the disk is not full")
	}
	const all = 30_000
	for n := 2; n < all; n++ {
		write(t, l, n)
		if len(l.buf) > waitingBytes {
			t.Fatalf("%d bytes wait", len(l.buf))
		}
	}
	d.room = 1 << 30
	err := l.Flush()
	got := numbers(t, d.b)
	if want := fmt.Sprintf("%d lines are lost", all-len(got)); err == nil || !strings.Contains(err.Error(), want) || len(got) < 10_000 || len(got) == all {
		t.Errorf("%v with %d lines there; want %q", err, len(got), want)
	}
	write(t, l, all)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if got := numbers(t, d.b); got[len(got)-1] != fmt.Sprint(all) {
		t.Errorf("the last line is %s", got[len(got)-1])
	}
}
