package downloader

import (
	"context"
	"fmt"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"lycosa.dev/downloader/internal/fetch"
	"lycosa.dev/downloader/internal/ring"
	"lycosa.dev/internal/telemetry"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	downloaderv1 "lycosa.dev/proto/gen/lycosa/downloader/v1"
)

// readyWait is how long a lease waits for an extractor or its job's spec before
// it is given back unfetched.
const readyWait = 5 * time.Second

// lease is one lease being worked.
type lease struct {
	d        *Downloader
	id       uint64
	m        *crawlv1.Lease
	received time.Time // by the monotonic clock
	ttl      time.Duration
	ctx      context.Context
	cancel   context.CancelFunc
	unwanted atomic.Bool
	stage    atomic.Int32 // downloaderv1.Stage
	took     atomic.Int64 // length of the fetch, once ended
	page     atomic.Pointer[ring.Page]
	renewed  atomic.Int64 // time since received of the last sign of life sent

	mu   sync.Mutex
	feed *feed
}

func newLease(d *Downloader, f *feed, m *crawlv1.Lease) *lease {
	l := &lease{d: d, feed: f, id: m.GetId(), m: m, received: time.Now(), ttl: m.GetDeadline().AsDuration()}
	l.ctx, l.cancel = context.WithCancel(d.base)
	l.stage.Store(int32(downloaderv1.Stage_STAGE_WAITING))
	return l
}

// until is when the lease runs out unless it is renewed again.
func (l *lease) until() time.Time {
	return l.received.Add(time.Duration(l.renewed.Load()) + l.ttl)
}

func (l *lease) wanted() bool { return !l.unwanted.Load() }

// progressDue tells whether a sign of life should be sent now: a little earlier
// than the third of the deadline that is demanded.
func (l *lease) progressDue(now time.Time) bool {
	return now.Sub(l.received)-time.Duration(l.renewed.Load()) > l.ttl/4
}

// report sends a sign of life and, if it could be sent, counts the lease as
// renewed from the moment before.
func (l *lease) report(f *feed) {
	now := time.Since(l.received)
	p := &downloaderv1.Progress{Stage: downloaderv1.Stage(l.stage.Load())}
	if p.Stage == downloaderv1.Stage_STAGE_FETCHED {
		p.FetchDuration = durationpb.New(time.Duration(l.took.Load()))
	}
	if page := l.page.Load(); page != nil {
		p.ReceivedBytes = page.Received()
	}
	if f.send(l.id, &downloaderv1.FetchResponse{Item: &downloaderv1.FetchResponse_Progress{Progress: p}}) == nil {
		l.renewed.Store(int64(now))
	}
}

// moveTo makes f the stream that gets the answer.
func (l *lease) moveTo(f *feed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.feed != f {
		l.feed.remove(l.id)
		l.feed = f
		f.add(l)
	}
}

func (l *lease) stream() *feed {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.feed
}

// run works the lease to its answer. A panic is this lease's alone.
func (l *lease) run() {
	answer := l.safely()
	l.d.metrics.answers.WithLabelValues(verdictLabel(answer.GetAnswer().GetVerdict())).Inc()
	l.d.forget(l, answer)
	f := l.stream()
	f.answer(l.id, answer)
	f.remove(l.id)
}

func (l *lease) safely() (answer *downloaderv1.FetchAnswer) {
	defer func() {
		if v := recover(); v != nil {
			l.d.log.Error("panic while working a lease", "lease", l.id, "url", l.m.GetUrl(), "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			if page := l.page.Load(); page != nil {
				// The extractor must not wait for the rest.
				page.Discard()
			}
			answer = later(fmt.Sprintf("panic in the downloader: %v", v))
			answer.Fetched = l.stage.Load() >= int32(downloaderv1.Stage_STAGE_FETCHING)
		}
	}()
	return l.work()
}

// work fetches and delivers.
func (l *lease) work() *downloaderv1.FetchAnswer {
	settings, err := l.ready()
	if err != nil {
		return later(err.Error())
	}
	ctx, span := l.d.tracer.Start(telemetry.Extract(l.ctx, l.m.GetTraceparent()), "fetch", trace.WithSpanKind(trace.SpanKindConsumer))
	defer span.End()
	m := l.m
	if span.IsRecording() {
		l.describe(span)
		m = proto.CloneOf(l.m) // others may be reading the lease itself
		m.Traceparent = telemetry.Inject(ctx)
	}
	page := l.d.ring.NewPage(l.ctx, m)
	l.page.Store(page)
	res := l.fetch(settings, page)
	l.took.Store(int64(res.Timings.Total))
	early := !backsOff(&res)
	if early {
		l.stage.Store(int32(downloaderv1.Stage_STAGE_FETCHED))
	}
	l.d.metrics.observe(&res)
	if span.IsRecording() {
		describeResult(span, &res)
	}
	answer := &downloaderv1.FetchAnswer{Fetched: res.Written, FetchDuration: durationpb.New(res.Timings.Total)}
	if ours(&res) && !page.Begun() {
		page.Discard()
		answer.Answer = &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_RETRY_LATER, Reason: res.Code + ": " + res.Detail}
		return answer
	}
	if res.Written && early {
		l.report(l.stream()) // politeness counts from here
	}
	answer.Answer = page.Deliver(resultMessage(&res, res.Started.Sub(l.received)))
	if answer.Answer.GetVerdict() != crawlv1.Verdict_VERDICT_DONE {
		span.SetStatus(codes.Error, answer.Answer.GetReason())
	}
	return answer
}

// ready waits until the ring behind can take a page and the job's spec has
// come, and returns the job's settings.
func (l *lease) ready() (*fetch.Settings, error) {
	job := l.d.members.Job(l.m.GetJobId())
	if job == nil || job.GetSpecVersion() < l.m.GetSpecVersion() || !l.d.ring.Connected() {
		ctx, cancel := context.WithTimeout(l.ctx, min(readyWait, l.ttl/4))
		defer cancel()
		var err error
		if job, err = l.d.members.WaitJob(ctx, l.m.GetJobId(), l.m.GetSpecVersion()); err != nil {
			return nil, err
		}
		if err = l.d.ring.Wait(ctx); err != nil {
			return nil, fmt.Errorf("no extractor is connected: %w", err)
		}
	}
	return l.d.profiles.For(job)
}

// fetch makes the exchange.
func (l *lease) fetch(settings *fetch.Settings, page *ring.Page) fetch.Result {
	target, err := fetch.ParseTarget(l.m.GetUrl())
	if err != nil {
		return fetch.Result{Class: fetch.ClassPolicy, Code: "bad-url", Detail: err.Error(), Started: time.Now()}
	}
	req := fetch.Request{
		Target: target, Settings: settings.With(l.m.GetOverlay()), Until: l.until, Wanted: l.wanted,
		Addresses:     make([]netip.Addr, 0, len(l.m.GetAddresses())),
		ETag:          l.m.GetValidators().GetEtag(),
		LastModified:  l.m.GetValidators().GetLastModified(),
		ByteAllowance: l.m.GetByteAllowance(),
	}
	for _, a := range l.m.GetAddresses() {
		if addr, ok := netip.AddrFromSlice(a); ok {
			req.Addresses = append(req.Addresses, addr)
		}
	}
	l.stage.Store(int32(downloaderv1.Stage_STAGE_FETCHING))
	return l.d.engine.Fetch(l.ctx, &req, page)
}

// backsOff tells a result after which the host may want to be left alone for
// longer than its usual delay. How long is known with the outcome: until that
// is committed the host stays taken, or the next fetch could begin before.
func backsOff(res *fetch.Result) bool {
	return res.Class != fetch.ClassResponse || res.Status == 429 || res.Status >= 500
}

// ours tells a fetch that ended for a reason of ours, of which nobody but the
// scheduler needs to know. A kept connection that was stale is told by an
// outcome, since the server may have seen the request.
func ours(res *fetch.Result) bool {
	return res.Class == fetch.ClassCancelled || (res.Class == fetch.ClassNotStarted && res.Code != "stale-connection")
}

func (l *lease) describe(span trace.Span) {
	span.SetAttributes(
		attribute.String("url.full", clip(l.m.GetUrl())),
		attribute.String("lycosa.job", l.m.GetJobId()),
		attribute.String("lycosa.purpose", l.m.GetPurpose().String()),
		attribute.Int64("lycosa.attempt", int64(l.m.GetAttempt())),
	)
}

func describeResult(span trace.Span, res *fetch.Result) {
	span.SetAttributes(
		attribute.String("lycosa.outcome", res.Class.String()),
		attribute.Int("http.response.status_code", res.Status),
		attribute.Int64("lycosa.received_bytes", res.ReceivedBytes),
		attribute.Bool("lycosa.reused_connection", res.Reused),
		attribute.String("network.peer.address", res.Address.String()),
		attribute.Int64("lycosa.first_byte_us", res.Timings.FirstByte.Microseconds()),
	)
	if res.Code != "" {
		span.SetAttributes(attribute.String("lycosa.error", res.Code))
	}
	if res.Truncated != "" {
		span.SetAttributes(attribute.String("lycosa.truncated", string(res.Truncated)))
	}
}

// clip bounds what a URL adds to a span.
func clip(s string) string { return s[:min(len(s), 512)] }
