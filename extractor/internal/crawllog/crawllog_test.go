package crawllog_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"lycosa.dev/extractor/internal/crawllog"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
)

func TestColumns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", "crawl.log")
	l, err := crawllog.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 30, 12, 0, 0, 5e6, time.UTC)
	lease := &crawlv1.Lease{Url: "http://a.test/x", HopPath: "LE", Referrer: "http://a.test/", Shard: 2, Attempt: 2}
	outcome := &crawlv1.Outcome{
		ContentType: "text/html", PayloadDigest: "sha1:ABC", Annotations: []string{"type-sniffed"},
		Fetch: &crawlv1.FetchResult{
			Class: crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP, Status: 200, ReceivedBytes: 1234, Truncated: "length",
			StartedAt: timestamppb.New(now.Add(-time.Second)), Timings: &crawlv1.Timings{Total: durationpb.New(150 * time.Millisecond)},
		},
	}
	if err := l.Write(lease, outcome, now); err != nil {
		t.Fatal(err)
	}
	// Hostile text makes neither columns nor lines.
	evil := &crawlv1.Outcome{ContentType: "a b\nc", Fetch: &crawlv1.FetchResult{
		Class: crawlv1.OutcomeClass_OUTCOME_CLASS_TIMEOUT, Error: "first-byte timeout: nothing came"}}
	if err := l.Write(&crawlv1.Lease{Url: "http://a.test/y"}, evil, now); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	want := []string{
		"2026-11-30T12:00:00.005Z   200       1234 http://a.test/x LE http://a.test/ text/html #002 20261130115959005+150 sha1:ABC - type-sniffed,2t,lengthTrunc",
		"2026-11-30T12:00:00.005Z    -4          - http://a.test/y - - a_b_c #000 - - - first-byte_timeout",
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	for i := range want {
		if lines[i] != want[i] {
			t.Errorf("line %d:\ngot  %s\nwant %s", i, lines[i], want[i])
		}
	}
}

func TestTornLineIsEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "crawl.log")
	if err := os.WriteFile(path, []byte("2026-11-30T12:00:00.005Z   20"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := crawllog.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Write(&crawlv1.Lease{Url: "http://a.test/"}, &crawlv1.Outcome{}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(path)
	if strings.Count(string(b), "\n") != 2 {
		t.Errorf("%q", b)
	}
}
