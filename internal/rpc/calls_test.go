package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	extractorv1 "lycosa.dev/proto/gen/lycosa/extractor/v1"
)

type extractCall = ServerCall[extractorv1.ExtractRequest, extractorv1.ExtractResponse]

func pageOptions() CallsOptions[extractorv1.ExtractRequest, extractorv1.ExtractResponse] {
	return CallsOptions[extractorv1.ExtractRequest, extractorv1.ExtractResponse]{
		Window: 4,
		Queue:  2,
		ID:     func(r *extractorv1.ExtractRequest) uint64 { return r.Id },
		First:  func(r *extractorv1.ExtractRequest) bool { return r.GetHead() != nil },
	}
}

func head() *extractorv1.ExtractRequest {
	return &extractorv1.ExtractRequest{Part: &extractorv1.ExtractRequest_Head{Head: &extractorv1.PageHead{Lease: &crawlv1.Lease{}}}}
}

func end() *extractorv1.ExtractRequest {
	return &extractorv1.ExtractRequest{Part: &extractorv1.ExtractRequest_End{End: &extractorv1.PageEnd{}}}
}

// gather reads a page's chunks, returns credit for each, and answers with all.
func gather(ctx context.Context, call *extractCall) *extractorv1.ExtractResponse {
	var all string
	for {
		req, err := call.Recv(ctx)
		if err != nil {
			return answer(call.ID(), "broken: "+err.Error())
		}
		if req.GetEnd() != nil {
			return answer(call.ID(), all)
		}
		all += string(req.GetChunk())
		if err := call.Send(credit(call.ID(), int64(len(req.GetChunk())))); err != nil {
			return nil
		}
	}
}

func TestCallsOfManyMessages(t *testing.T) {
	svc := &testService{extract: func(stream extractStream) error {
		return ServeCalls(stream, pageOptions(), gather, nil)
	}}
	over(t, svc, func(t *testing.T, ch channel) {
		var credits atomic.Int64
		opt := extractor(ch.conn)
		opt.Window = 4
		opt.OnPartial = func(r *extractorv1.ExtractResponse) { credits.Add(r.GetCreditBytes()) }
		c := run(t, opt)
		var wg sync.WaitGroup
		var bytes atomic.Int64
		for g := range 8 {
			wg.Go(func() {
				ctx := context.Background()
				for i := range 10 {
					call, err := c.Begin(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					want := ""
					_ = call.Send(ctx, head())
					for j := range i {
						part := fmt.Sprintf("%d.%d.%d ", g, i, j)
						want += part
						if err := call.Send(ctx, chunk(0, []byte(part))); err != nil {
							t.Error(err)
						}
					}
					_ = call.Send(ctx, end())
					bytes.Add(int64(len(want)))
					if res, err := call.Wait(ctx); err != nil || res.GetAnswer().GetReason() != want {
						t.Errorf("page %d.%d: %v %v, want %q", g, i, res, err, want)
					}
				}
			})
		}
		wg.Wait()
		if credits.Load() != bytes.Load() {
			t.Errorf("credit for %d of %d bytes", credits.Load(), bytes.Load())
		}
	})
}

// A call that is answered early, one beyond the window and one without a
// beginning: every message that no handler got is dropped exactly once.
func TestCallsDropWhatNobodyGets(t *testing.T) {
	var dropped atomic.Int64
	gate := make(chan struct{})
	svc := &testService{extract: func(stream extractStream) error {
		opt := pageOptions()
		opt.Window = 1
		opt.OnDrop = func(*extractorv1.ExtractRequest) *extractorv1.ExtractResponse { dropped.Add(1); return nil }
		opt.Busy = func(first *extractorv1.ExtractRequest) *extractorv1.ExtractResponse { return answer(first.Id, "busy") }
		return ServeCalls(stream, opt, func(_ context.Context, call *extractCall) *extractorv1.ExtractResponse {
			<-gate
			return answer(call.ID(), "early")
		}, nil)
	}}
	over(t, svc, func(t *testing.T, ch channel) {
		dropped.Store(0)
		stream := openExtract(t, context.Background(), ch.conn)
		send := func(id uint64, req *extractorv1.ExtractRequest) {
			req.Id = id
			if err := stream.Send(req); err != nil {
				t.Fatal(err)
			}
		}
		expect := func(id uint64, reason string) {
			res, err := stream.Recv()
			if err != nil || res.Id != id || res.GetAnswer().Reason != reason {
				t.Fatalf("got %v %v, want %d %s", res, err, id, reason)
			}
		}
		send(1, head())
		send(1, chunk(1, nil)) // waits in the queue
		send(2, head())        // beyond the window: dropped
		expect(2, "busy")
		send(2, chunk(2, nil)) // of no call: dropped
		send(9, chunk(9, nil)) // of no call: dropped
		gate <- struct{}{}
		expect(1, "early") // its queued chunk: dropped
		send(1, chunk(1, nil))
		send(3, head())
		gate <- struct{}{}
		expect(3, "early")
		_ = stream.CloseSend()
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if n := dropped.Load(); n != 5 {
			t.Errorf("%d messages dropped, want 5", n)
		}
	})
}

func TestCallsBeyondTheWindowEndTheStream(t *testing.T) {
	svc := &testService{extract: func(stream extractStream) error {
		opt := pageOptions()
		opt.Window = 1
		return ServeCalls(stream, opt, gather, nil)
	}}
	over(t, svc, func(t *testing.T, ch channel) {
		stream := openExtract(t, context.Background(), ch.conn)
		for id := range uint64(2) {
			req := head()
			req.Id = id
			_ = stream.Send(req)
		}
		var err error
		for err == nil { // the first call may still answer that it was broken
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.ResourceExhausted {
			t.Errorf("got %v", err)
		}
	})
}

// While draining, a call in flight gets the rest of its messages and its
// answer; then the stream ends.
func TestCallsDrain(t *testing.T) {
	began := make(chan struct{}, 8)
	svc := &testService{extract: func(stream extractStream) error {
		return ServeCalls(stream, pageOptions(), func(ctx context.Context, call *extractCall) *extractorv1.ExtractResponse {
			began <- struct{}{}
			return gather(ctx, call)
		}, nil)
	}}
	over(t, svc, func(t *testing.T, ch channel) {
		stream := openExtract(t, context.Background(), ch.conn)
		req := head()
		req.Id = 1
		_ = stream.Send(req)
		<-began
		var stopping sync.WaitGroup
		stopping.Go(ch.stop)
		for {
			s, err := extractorv1.NewExtractorServiceClient(ch.conn).Extract(canceledSoon(t))
			if err == nil {
				_, err = s.Recv()
			}
			if status.Code(err) == codes.Unavailable {
				break
			}
		}
		_ = stream.Send(chunk(1, []byte("rest")))
		last := end()
		last.Id = 1
		_ = stream.Send(last)
		if res, err := stream.Recv(); err != nil || res.GetCreditBytes() != 4 {
			t.Errorf("credit: %v %v", res, err)
		}
		if res, err := stream.Recv(); err != nil || res.GetAnswer().GetReason() != "rest" {
			t.Errorf("answer: %v %v", res, err)
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("end: %v", err)
		}
		stopping.Wait()
	})
}

func TestCallHalfClosed(t *testing.T) {
	svc := &testService{extract: func(stream extractStream) error {
		return ServeCalls(stream, pageOptions(), gather, nil)
	}}
	over(t, svc, func(t *testing.T, ch channel) {
		stream := openExtract(t, context.Background(), ch.conn)
		_ = stream.Send(head())
		_ = stream.CloseSend()
		if res, err := stream.Recv(); err != nil || res.GetAnswer().GetReason() != "broken: EOF" {
			t.Errorf("got %v %v", res, err)
		}
	})
}

// canceledSoon bounds a call that only probes whether the server still takes
// calls.
func canceledSoon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}
