package downloader

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"lycosa.dev/downloader/internal/fetch"
	"lycosa.dev/downloader/internal/wire"
	"lycosa.dev/internal/httpwire"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	for in, want := range map[string]time.Duration{
		"120": 2 * time.Minute, "0": 0, "99999999999999": maxRetryAfter,
		"Mon, 30 Nov 2026 10:00:30 GMT": 30 * time.Second, "Monday, 30-Nov-26 10:00:30 GMT": 30 * time.Second,
		"Mon Nov 30 10:00:30 2026": 30 * time.Second, "Mon, 30 Nov 2026 09:00:00 GMT": 0,
		"": -1, "soon": -1, "-5": -1, "1.5": -1,
	} {
		got, ok := retryAfter(in, now)
		if ok != (want >= 0) || (ok && got != want) {
			t.Errorf("%q: %v %v, want %v", in, got, ok, want)
		}
	}
}

func TestResultMessage(t *testing.T) {
	for c := fetch.ClassResponse; c <= fetch.ClassCancelled; c++ {
		if outcomeClasses[c] == crawlv1.OutcomeClass_OUTCOME_CLASS_UNSPECIFIED || c.String() == "unknown" {
			t.Errorf("class %v has no name in the ring", c)
		}
	}
	m := resultMessage(&fetch.Result{
		Class: fetch.ClassResponse, Status: 503, Code: "timeout-idle", Detail: "x", Truncated: fetch.TruncatedTime,
		Notes: wire.NoteInterim, Odd: httpwire.NoteBareLF, Started: time.Unix(5, 6),
		Timings: fetch.Timings{FirstByte: 1500 * time.Millisecond, Total: 2 * time.Second}, RetryAfter: "7",
		Address: netip.MustParseAddrPort("[::ffff:10.0.0.1]:81"), CertError: "expired", TLS: "TLS1.3 X",
	}, time.Millisecond)
	ts := m.GetTimings()
	if m.GetClass() != crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP || m.GetStatus() != 503 || m.GetError() != "" || m.GetTruncated() != "time" ||
		!slices.Equal(m.GetAnnotations(), []string{"interim-response", "bare-lf", "timeout-idle"}) ||
		m.GetStartedAt().AsTime() != time.Unix(5, 6).UTC() || ts.GetFirstByte().AsDuration() != 1500*time.Millisecond ||
		ts.GetTotal().AsDuration() != 2*time.Second || ts.GetQueue().AsDuration() != time.Millisecond || ts.GetConnect() != nil || ts.GetTls() != nil ||
		m.GetRetryAfter().AsDuration() != 7*time.Second || len(m.GetAddress()) != 4 || m.GetPort() != 81 || m.GetTls() != "TLS1.3 X; expired" {
		t.Errorf("%v", m)
	}
	m = resultMessage(&fetch.Result{Class: fetch.ClassConnect, Code: "connect-refused", Detail: "connection refused"}, 0)
	if m.GetClass() != crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT || m.GetStatus() != 0 || m.GetError() != "connect-refused: connection refused" || len(m.GetAddress()) != 0 {
		t.Errorf("%v", m)
	}
}
