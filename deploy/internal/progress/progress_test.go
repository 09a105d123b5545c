package progress

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

func TestSanitise(t *testing.T) {
	for in, want := range map[string]string{
		"plain":             "plain",
		"a\x1b[2Jb":         `a\x1b[2Jb`,
		"a\r\nb\tc":         "a  b c",
		"bell\x07 del\x7f":  `bell\x07 del\x7f`,
		"c1 \u009b31m":      `c1 \x9b31m`,
		"rtl \u202e.exe":    `rtl \u202e.exe`,
		"broken \xff\xfe":   `broken \xff\xfe`,
		"zero\u200bwidth":   `zero\u200bwidth`,
		"Grüße 你好":          "Grüße 你好",
		"line\u2028break":   `line\u2028break`,
		"real \ufffd there": "real \ufffd there",
	} {
		if got := Sanitise(in); got != want {
			t.Errorf("Sanitise(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[float64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 999_960: "1.0 MB", 3.21e9: "3.2 GB"} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%g) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[float64]string{0: "0.0", 41.26: "41.3", 1234.4: "1,234"} {
		if got := Rate(n); got != want {
			t.Errorf("Rate(%g) = %q, want %q", n, got, want)
		}
	}
	if got := Cut("abcdef", 4); got != "abc…" {
		t.Errorf("Cut: %q", got)
	}
}

// clock is moved by hand.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func status(pages, bytes uint64, at time.Duration) *schedulerv1.JobStatus {
	return &schedulerv1.JobStatus{
		JobId: "j", State: schedulerv1.JobState_JOB_STATE_RUNNING, Running: durationpb.New(at), ActiveHosts: 2, Round: 1,
		Counters: &schedulerv1.Counters{Done: pages, Pages: pages, ReceivedBytes: bytes, Queued: 1500, Leased: 1, Pending: 30, FetchErrors: 4},
	}
}

func TestLines(t *testing.T) {
	var out, errOut bytes.Buffer
	c := &clock{time.Unix(1000, 0)}
	r := New(Options{Mode: Lines, Out: &out, Err: &errOut, Now: c.now})
	for i := range 21 {
		r.Update(status(uint64(i)*10, uint64(i)*1000, time.Duration(i)*time.Second))
		c.t = c.t.Add(time.Second)
	}
	want := "10s  100 done  1,501 queued  30 pending  10.0 pages/s  1.0 kB/s  2 hosts  4 errors\n" +
		"20s  200 done  1,501 queued  30 pending  10.0 pages/s  1.0 kB/s  2 hosts  4 errors\n"
	if errOut.String() != want || out.Len() > 0 {
		t.Errorf("lines\n%q\nwant\n%q", errOut.String(), want)
	}
}

func TestRatesForgetThePast(t *testing.T) {
	var r rates
	now := time.Unix(0, 0)
	var s Sample
	for i := range 60 {
		pages := uint64(100)
		if i < 10 {
			pages = uint64(i) * 10
		}
		s = Sample{Pages: pages}
		r.add(now, &s)
		now = now.Add(time.Second)
	}
	if s.PagesPerSecond != 0 {
		t.Errorf("%g pages/s a while after the last", s.PagesPerSecond)
	}
	if len(r.points) > 12 {
		t.Errorf("%d points are kept", len(r.points))
	}
}

func TestLive(t *testing.T) {
	var errOut bytes.Buffer
	r := New(Options{Mode: Live, Err: &errOut, Width: func() int { return 30 }})
	st := status(1, 1, time.Second)
	st.Problem = "evil \x1b]0;title\x07"
	r.Update(st)
	first := errOut.String()
	if !strings.HasPrefix(first, "\r\x1b[K1s  1 done") || strings.Contains(first, "\n") || len([]rune(strings.TrimPrefix(first, clearLine))) > 29 {
		t.Errorf("live line %q", first)
	}
	errOut.Reset()
	slog.New(slog.NewTextHandler(r.Writer(), nil)).Warn("careful")
	if got := errOut.String(); !strings.HasPrefix(got, clearLine+"time=") {
		t.Errorf("a log line does not take the live line away: %q", got)
	}
	errOut.Reset()
	r.Clear()
	if errOut.Len() > 0 {
		t.Errorf("nothing stands there and %q was written", errOut.String())
	}
	if line := newSample(st, time.Now()).Line(); strings.ContainsAny(line, "\x1b\x07") {
		t.Errorf("raw text of the web: %q", line)
	}
}

func TestSummary(t *testing.T) {
	s := Summary{
		Job: "j", State: "finished", Reason: "empty", Message: "finished: all \x1b[1m", Elapsed: 12.3, Pages: 1234, Bytes: 5e6,
		PagesPerSecond: 100.3, Hosts: 2, StatusClasses: ClassMap([]uint64{0, 0, 1200, 30, 4}), Done: 1234, Excluded: 3, Failed: 1,
		FetchErrors: 2, Results: map[string]string{"warc": "crawl/warc", "reports": "crawl/reports"},
	}
	var out bytes.Buffer
	if err := New(Options{Out: &out}).Summarise(s); err != nil {
		t.Fatal(err)
	}
	want := `ended    finished: all \x1b[1m
pages    1,234  (2xx 1,200, 3xx 30, 4xx 4)
bytes    5.0 MB received
hosts    2
time     12s, 100 pages/s
URLs     1,234 done, 3 excluded, 1 failed, 0 left
errors   2 fetches failed and were tried again or given up
warc     crawl/warc
reports  crawl/reports
`
	if out.String() != want {
		t.Errorf("summary\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	if err := New(Options{Mode: QuietJSON, Out: &out}).Summarise(s); err != nil {
		t.Fatal(err)
	}
	var back Summary
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back.Type != "summary" || back.StatusClasses["2xx"] != 1200 {
		t.Errorf("%v, %+v", err, back)
	}
}
