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
	fetch.ClassContent:    crawlv1.OutcomeClass_OUTCOME_CLASS_CONTENT,
	fetch.ClassPolicy:     crawlv1.OutcomeClass_OUTCOME_CLASS_POLICY,
	fetch.ClassNotStarted: crawlv1.OutcomeClass_OUTCOME_CLASS_NOT_STARTED,
	fetch.ClassCancelled:  crawlv1.OutcomeClass_OUTCOME_CLASS_NOT_STARTED,
}

// resultMemory holds a FetchResult with what every one of them refers to, so
// that a page costs one allocation for it and not ten.
type resultMemory struct {
	result    crawlv1.FetchResult
	timings   crawlv1.Timings
	started   timestamppb.Timestamp
	durations [6]durationpb.Duration
}

// resultMessage is what the ring is told of an exchange. queued is how long the
// lease waited before it.
func resultMessage(res *fetch.Result, queued time.Duration) *crawlv1.FetchResult {
	mem := new(resultMemory)
	m := &mem.result
	m.Class = outcomeClasses[res.Class]
	m.Status = uint32(res.Status)
	m.SentBytes, m.ReceivedBytes, m.BodyBytes = res.SentBytes, res.ReceivedBytes, res.BodyBytes
	m.Truncated = string(res.Truncated)
	m.Annotations = append(res.Notes.Codes(), res.Odd.Names()...)
	m.Tls, m.Protocol = res.TLS, res.Protocol
	m.ReusedConnection = res.Reused
	mem.started.Seconds, mem.started.Nanos = res.Started.Unix(), int32(res.Started.Nanosecond())
	m.StartedAt = &mem.started
	m.Timings = &mem.timings
	for i, p := range [...]struct {
		dst **durationpb.Duration
		d   time.Duration
	}{
		{&m.Timings.Queue, queued},
		{&m.Timings.Connect, res.Timings.Connect},
		{&m.Timings.Tls, res.Timings.TLS},
		{&m.Timings.FirstByte, res.Timings.FirstByte},
		{&m.Timings.Body, res.Timings.Body},
		{&m.Timings.Total, res.Timings.Total},
	} {
		if p.d > 0 { // a phase that did not occur stays unset
			d := &mem.durations[i]
			d.Seconds, d.Nanos = int64(p.d/time.Second), int32(p.d%time.Second)
			*p.dst = d
		}
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
