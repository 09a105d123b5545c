package downloader

import (
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"lycosa.dev/downloader/internal/fetch"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
)

// outcomeClasses are the engine's classes as the ring names them. A fetch that
// we broke off is not a try.
var outcomeClasses = map[fetch.Class]crawlv1.OutcomeClass{
	fetch.ClassResponse:   crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP,
	fetch.ClassConnect:    crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT,
	fetch.ClassTLS:        crawlv1.OutcomeClass_OUTCOME_CLASS_TLS,
	fetch.ClassTimeout:    crawlv1.OutcomeClass_OUTCOME_CLASS_TIMEOUT,
	fetch.ClassProtocol:   crawlv1.OutcomeClass_OUTCOME_CLASS_PROTOCOL,
	fetch.ClassPolicy:     crawlv1.OutcomeClass_OUTCOME_CLASS_POLICY,
	fetch.ClassNotStarted: crawlv1.OutcomeClass_OUTCOME_CLASS_NOT_STARTED,
	fetch.ClassCancelled:  crawlv1.OutcomeClass_OUTCOME_CLASS_NOT_STARTED,
}

// resultMessage is what the ring is told of an exchange. queued is how long the
// lease waited before it.
func resultMessage(res *fetch.Result, queued time.Duration) *crawlv1.FetchResult {
	m := &crawlv1.FetchResult{
		Class:         outcomeClasses[res.Class],
		Status:        uint32(res.Status),
		StartedAt:     timestamppb.New(res.Started),
		SentBytes:     res.SentBytes,
		ReceivedBytes: res.ReceivedBytes,
		BodyBytes:     res.BodyBytes,
		Truncated:     string(res.Truncated),
		Annotations:   append(res.Notes.Codes(), res.Odd.Names()...),
		Tls:           res.TLS,
		Timings: &crawlv1.Timings{
			Queue: phase(queued), Connect: phase(res.Timings.Connect), Tls: phase(res.Timings.TLS),
			FirstByte: phase(res.Timings.FirstByte), Body: phase(res.Timings.Body), Total: phase(res.Timings.Total),
		},
		ReusedConnection: res.Reused,
	}
	if res.Address.IsValid() {
		m.Address, m.Port = res.Address.Addr().Unmap().AsSlice(), uint32(res.Address.Port())
	}
	if res.CertError != "" {
		m.Tls += "; " + res.CertError
	}
	switch {
	case res.Class != fetch.ClassResponse:
		m.Error = res.Code + ": " + res.Detail
		m.Status = 0
	case res.Code != "":
		m.Annotations = append(m.Annotations, res.Code)
	}
	if d, ok := retryAfter(res.RetryAfter, time.Now()); ok {
		m.RetryAfter = durationpb.New(d)
	}
	return m
}

func phase(d time.Duration) *durationpb.Duration {
	if d <= 0 {
		return nil
	}
	return durationpb.New(d)
}

// maxRetryAfter bounds what a server may ask for; the frontier has limits of
// its own below it.
const maxRetryAfter = 365 * 24 * time.Hour

// retryAfter reads a Retry-After header (RFC 9110 section 10.2.3): seconds, or
// a date in one of the three forms of section 5.6.7.
func retryAfter(v string, now time.Time) (time.Duration, bool) {
	if v == "" {
		return 0, false
	}
	if n, err := strconv.ParseUint(v, 10, 63); err == nil {
		return time.Duration(min(n, uint64(maxRetryAfter/time.Second))) * time.Second, true
	}
	for _, form := range []string{time.RFC1123, time.RFC850, time.ANSIC} {
		if t, err := time.Parse(form, strings.TrimSpace(v)); err == nil {
			return min(max(t.Sub(now), 0), maxRetryAfter), true
		}
	}
	return 0, false
}
