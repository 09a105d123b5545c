package scheduler

import (
	"context"
	"maps"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"lycosa.dev/internal/telemetry"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
)

// outstanding is the leases of one downloader that have no answer yet, on
// whichever stream they were given; it keeps the member's count with it.
type outstanding struct {
	mem    *member
	mu     sync.Mutex
	leases map[uint64]bool
}

func (o *outstanding) len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.leases)
}

func (o *outstanding) add(id uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.leases[id] {
		o.leases[id] = true
		o.mem.inflight.Add(1)
	}
}

func (o *outstanding) ids() []uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Keys(o.leases))
}

// remove tells whether the lease was there.
func (o *outstanding) remove(id uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.leases[id] {
		return false
	}
	delete(o.leases, id)
	o.mem.inflight.Add(-1)
	return true
}

// clear forgets all when the downloader has left.
func (o *outstanding) clear(spans *leaseSpans) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id := range o.leases {
		spans.end(id, &crawlv1.Answer{Reason: "the downloader left before the answer"})
	}
	o.mem.inflight.Add(-int64(len(o.leases)))
	clear(o.leases)
}

// leaseSpans holds the spans of the leases that are out and traced: one trace a
// lease, begun here and carried round the ring in the messages.
type leaseSpans struct {
	mu    sync.Mutex
	spans map[uint64]trace.Span
}

func newLeaseSpans() *leaseSpans { return &leaseSpans{spans: map[uint64]trace.Span{}} }

// start begins a lease's trace and puts its traceparent into the lease.
func (l *leaseSpans) start(tracer trace.Tracer, lease *crawlv1.Lease) {
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindProducer)}
	if found, ok := telemetry.ParseTraceparent(lease.GetFoundByTraceparent()); ok {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: found}))
	}
	ctx, span := tracer.Start(context.Background(), "lease", options...)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(
		attribute.String("url.full", lease.GetUrl()), attribute.String("lycosa.job", lease.GetJobId()),
		attribute.Int64("lycosa.attempt", int64(lease.GetAttempt())), attribute.Int64("lycosa.shard", int64(lease.GetShard())),
	)
	lease.Traceparent = telemetry.Inject(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spans[lease.GetId()] = span
}

func (l *leaseSpans) end(id uint64, ans *crawlv1.Answer) {
	l.mu.Lock()
	span := l.spans[id]
	delete(l.spans, id)
	l.mu.Unlock()
	if span == nil {
		return
	}
	if ans.GetVerdict() != crawlv1.Verdict_VERDICT_DONE {
		span.SetStatus(codes.Error, ans.GetReason())
	}
	span.End()
}
