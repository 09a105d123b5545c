package extractor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"lycosa.dev/extractor/internal/page"
	"lycosa.dev/extractor/internal/store"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/telemetry"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	extractorv1 "lycosa.dev/proto/gen/lycosa/extractor/v1"
)

// creditStep is how many consumed bytes are returned in one message: an eighth
// of a stream's credit of 8 MiB.
const creditStep = 1 << 20

type extractCall = rpc.ServerCall[extractorv1.ExtractRequest, extractorv1.ExtractResponse]

// Extract implements ExtractorService.
func (e *Extractor) Extract(stream grpc.BidiStreamingServer[extractorv1.ExtractRequest, extractorv1.ExtractResponse]) error {
	s := &session{e: e}
	return rpc.ServeCalls(stream, rpc.CallsOptions[extractorv1.ExtractRequest, extractorv1.ExtractResponse]{
		Window: e.cfg.Window,
		ID:     func(r *extractorv1.ExtractRequest) uint64 { return r.GetId() },
		First:  func(r *extractorv1.ExtractRequest) bool { return r.GetHead() != nil },
		Busy: func(first *extractorv1.ExtractRequest) *extractorv1.ExtractResponse {
			return answer(first.GetId(), retry("the extractor is busy", 100*time.Millisecond))
		},
		// Chunks that no page receives are consumed all the same.
		OnDrop: func(r *extractorv1.ExtractRequest) *extractorv1.ExtractResponse { return s.consume(len(r.GetChunk())) },
		Logger: e.log,
	}, s.handle, func(first *extractorv1.ExtractRequest, v any) *extractorv1.ExtractResponse {
		e.metrics.pages.WithLabelValues("retry").Inc()
		return answer(first.GetId(), retry(fmt.Sprintf("extractor: panic: %v", v), time.Second))
	})
}

// session is what the pages of one stream share.
type session struct {
	e *Extractor
	// consumed counts chunk bytes whose credit has not been returned.
	consumed atomic.Int64
}

func answer(id uint64, a *crawlv1.Answer) *extractorv1.ExtractResponse {
	return &extractorv1.ExtractResponse{Id: id, Item: &extractorv1.ExtractResponse_Answer{Answer: a}}
}

func retry(reason string, after time.Duration) *crawlv1.Answer {
	return &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_RETRY_LATER, Reason: reason, RetryAfter: durationpb.New(after)}
}

func never(reason string) *crawlv1.Answer {
	return &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_NEVER, Reason: reason}
}

// handle takes one page to its answer.
func (s *session) handle(ctx context.Context, call *extractCall) *extractorv1.ExtractResponse {
	e := s.e
	if !e.pages.Enter() {
		e.metrics.pages.WithLabelValues("retry").Inc()
		return answer(call.ID(), retry("the extractor stops", time.Second))
	}
	defer e.pages.Leave()
	e.metrics.inWork.Inc()
	defer e.metrics.inWork.Dec()
	head := call.First().GetHead()
	if tp := head.GetLease().GetTraceparent(); tp != "" {
		spanCtx, span := e.tracer.Start(telemetry.Extract(ctx, tp), "extract")
		defer span.End()
		ctx = spanCtx
	}
	var body page.Body
	defer body.Close()
	result, err := s.receive(ctx, call, &body)
	var ans *crawlv1.Answer
	if err != nil {
		ans = e.failure(err)
	} else {
		ans = e.page(ctx, head, result, body)
	}
	verdict := map[crawlv1.Verdict]string{crawlv1.Verdict_VERDICT_DONE: "done", crawlv1.Verdict_VERDICT_NEVER: "never"}[ans.GetVerdict()]
	if verdict == "" {
		verdict = "retry"
	}
	e.metrics.pages.WithLabelValues(verdict).Inc()
	return answer(call.ID(), ans)
}

// consume counts chunk bytes that are off the stream and returns the credit
// that is to be sent for them and those before, nil while it is little.
func (s *session) consume(bytes int) *extractorv1.ExtractResponse {
	n := s.consumed.Add(int64(bytes))
	if n < creditStep || !s.consumed.CompareAndSwap(n, 0) {
		return nil // if another was faster, it has counted these bytes too
	}
	return &extractorv1.ExtractResponse{Item: &extractorv1.ExtractResponse_CreditBytes{CreditBytes: n}}
}

// errGivenUp: the downloader has given the page up.
var errGivenUp = errors.New("the downloader has given the page up")

// receive takes the page's parts and returns credit for them.
func (s *session) receive(ctx context.Context, call *extractCall, body *page.Body) (*crawlv1.FetchResult, error) {
	for {
		part, err := call.Recv(ctx)
		if err != nil {
			return nil, err
		}
		if end := part.GetEnd(); end != nil {
			if end.GetResult().GetClass() == crawlv1.OutcomeClass_OUTCOME_CLASS_UNSPECIFIED {
				return nil, errGivenUp
			}
			return end.GetResult(), nil
		}
		chunk := part.GetChunk()
		failed := body.Append(chunk, int64(s.e.cfg.SpoolBytes), s.e.spool)
		if credit := s.consume(len(chunk)); credit != nil {
			if err := call.Send(credit); err != nil {
				return nil, err
			}
		}
		if failed != nil {
			return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, failed)
		}
	}
}

// failure is the answer for what is our own trouble.
func (e *Extractor) failure(err error) *crawlv1.Answer {
	if errors.Is(err, errNoSuchJob) {
		return never(err.Error())
	}
	ans := retry(err.Error(), time.Second)
	if errors.Is(err, store.ErrUnavailable) {
		e.metrics.storeFails.Inc()
		e.log.Error("a page cannot be stored", "err", err)
		ans.StorageUnavailable = true
	}
	return ans
}

// page works on a page alone: one that comes again while its first try is in
// work waits for it.
func (e *Extractor) page(ctx context.Context, head *extractorv1.PageHead, result *crawlv1.FetchResult, body page.Body) (ans *crawlv1.Answer) {
	end, ans, err := e.kept.begin(ctx, head.GetLease().GetId())
	switch {
	case err != nil:
		return e.failure(err)
	case ans != nil:
		return ans
	}
	defer func() { end(ans) }() // nil where a handler panics: it is tried again
	return e.work(ctx, head, result, body)
}

// work runs the pipeline over a page and hands on what came of it.
func (e *Extractor) work(ctx context.Context, head *extractorv1.PageHead, result *crawlv1.FetchResult, body page.Body) *crawlv1.Answer {
	lease := head.GetLease()
	specCtx, cancel := context.WithTimeout(ctx, e.cfg.SpecWait)
	c, err := e.jobs.use(specCtx, lease.GetJobId(), lease.GetSpecVersion())
	cancel()
	if err != nil {
		return e.failure(err)
	}
	defer func() {
		if err := c.release(); err != nil {
			e.log.Error("closing a job's stores failed", "job", lease.GetJobId(), "err", err)
		}
	}()
	p, err := page.New(lease, result, head.GetRequest(), head.GetResponseHead(), c.limits)
	if err != nil {
		return never(err.Error())
	}
	p.Body = body
	if p.HasResponse() {
		p.SetContentType()
	}
	e.kept.take(c.stores, p)
	// The sink below always gets the page last, whatever way the pipeline took.
	if err := c.pipeline.Run(ctx, p); err != nil {
		e.kept.put(c.stores, p)
		return e.failure(err)
	}
	if len(p.Stored) == 0 && p.SkippedBy == "" {
		p.SkippedBy = "pipeline"
	}
	e.metrics.stored.Add(float64(p.Body.Size()))
	ans := e.sink(ctx, c, p)
	if !finalAnswer(ans) {
		e.kept.put(c.stores, p)
	}
	return ans
}
