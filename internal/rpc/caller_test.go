package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	extractorv1 "lycosa.dev/proto/gen/lycosa/extractor/v1"
)

type (
	extractCaller  = Caller[extractorv1.ExtractRequest, extractorv1.ExtractResponse]
	extractOptions = CallerOptions[extractorv1.ExtractRequest, extractorv1.ExtractResponse]
)

// extractor returns the options of a Caller of Extract; answers with credit are
// partial.
func extractor(conn grpc.ClientConnInterface) extractOptions {
	return extractOptions{
		Open: func(ctx context.Context) (extractClientStream, error) {
			return extractorv1.NewExtractorServiceClient(conn).Extract(ctx)
		},
		Window:     8,
		SetID:      func(r *extractorv1.ExtractRequest, id uint64) { r.Id = id },
		ID:         func(r *extractorv1.ExtractResponse) uint64 { return r.Id },
		Final:      func(r *extractorv1.ExtractResponse) bool { return r.GetAnswer() != nil },
		BackoffMin: time.Millisecond,
	}
}

func run(tb testing.TB, opt extractOptions) *extractCaller {
	c := NewCaller(opt)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := c.Run(ctx); err != nil {
			tb.Error(err)
		}
	})
	tb.Cleanup(func() { cancel(); wg.Wait() })
	return c
}

func answer(id uint64, reason string) *extractorv1.ExtractResponse {
	return &extractorv1.ExtractResponse{Id: id, Item: &extractorv1.ExtractResponse_Answer{Answer: &crawlv1.Answer{Reason: reason}}}
}

// echo answers every chunk with its body, through ServeItems.
func echo(stream extractStream) error {
	return ServeItems(stream, ItemsOptions{Window: 4},
		func(_ context.Context, req *extractorv1.ExtractRequest) *extractorv1.ExtractResponse {
			return answer(req.Id, string(req.GetChunk()))
		}, nil)
}

func TestCallsAreMatched(t *testing.T) {
	over(t, &testService{extract: echo}, func(t *testing.T, ch channel) {
		c := run(t, extractor(ch.conn))
		var wg sync.WaitGroup
		for g := range 20 {
			wg.Go(func() {
				for i := range 50 {
					want := fmt.Sprintf("%d/%d", g, i)
					res, err := c.Call(context.Background(), chunk(0, []byte(want)))
					if err != nil || res.GetAnswer().GetReason() != want {
						t.Errorf("call %s: %v %v", want, res, err)
						return
					}
				}
			})
		}
		wg.Wait()
		if c.InFlight() != 0 {
			t.Errorf("%d calls still hold a place", c.InFlight())
		}
	})
}

// collect gathers requests and lets the test answer them in its own order.
type collect struct {
	requests chan *extractorv1.ExtractRequest
	answers  chan *extractorv1.ExtractResponse
	end      chan error
	opened   atomic.Int64
}

func newCollect() *collect {
	return &collect{
		requests: make(chan *extractorv1.ExtractRequest, 100),
		answers:  make(chan *extractorv1.ExtractResponse, 100),
		end:      make(chan error),
	}
}

func (c *collect) extract(stream extractStream) error {
	c.opened.Add(1)
	go func() {
		for {
			req, err := stream.Recv()
			if err != nil {
				return
			}
			c.requests <- req
		}
	}()
	for {
		select {
		case res := <-c.answers:
			if err := stream.Send(res); err != nil {
				return err
			}
		case err := <-c.end:
			return err
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

type result struct {
	res *extractorv1.ExtractResponse
	err error
}

func start(c *extractCaller, ctx context.Context, body string) <-chan result {
	ch := make(chan result, 1)
	go func() {
		res, err := c.Call(ctx, chunk(0, []byte(body)))
		ch <- result{res, err}
	}()
	return ch
}

func TestWindowHoldsCallsBack(t *testing.T) {
	srv := newCollect()
	over(t, &testService{extract: srv.extract}, func(t *testing.T, ch channel) {
		opt := extractor(ch.conn)
		opt.Window = 2
		c := run(t, opt)
		ctx := context.Background()
		a, b := start(c, ctx, "a"), start(c, ctx, "b")
		first, second := <-srv.requests, <-srv.requests
		third := start(c, ctx, "c")
		short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
		defer cancel()
		if _, err := c.Begin(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Begin beyond the window: %v", err)
		}
		select {
		case r := <-srv.requests:
			t.Fatalf("a call beyond the window was sent: %v", r)
		default:
		}
		// Answers in the other order.
		srv.answers <- answer(second.Id, "")
		srv.answers <- answer(first.Id, "")
		for _, ch := range []<-chan result{a, b} {
			if r := <-ch; r.err != nil {
				t.Error(r.err)
			}
		}
		r := <-srv.requests
		srv.answers <- answer(r.Id, "c")
		if got := <-third; got.err != nil || got.res.GetAnswer().Reason != "c" {
			t.Errorf("third: %v", got)
		}
	})
}

func TestBrokenStream(t *testing.T) {
	srv := newCollect()
	over(t, &testService{extract: srv.extract}, func(t *testing.T, ch channel) {
		var opens atomic.Int64
		opt := extractor(ch.conn)
		opt.OnOpen = func() { opens.Add(1) }
		c := run(t, opt)
		for _, end := range []error{nil, status.Error(codes.Unavailable, "going away")} {
			pending := start(c, context.Background(), "a")
			<-srv.requests
			srv.end <- end
			if r := <-pending; !errors.Is(r.err, ErrStreamBroken) {
				t.Errorf("stream ended with %v: %v", end, r.err)
			}
		}
		// It opens again by itself and the call can be made anew.
		again := start(c, context.Background(), "a")
		req := <-srv.requests
		srv.answers <- answer(req.Id, "")
		if r := <-again; r.err != nil {
			t.Error(r.err)
		}
		if opens.Load() != 3 || c.InFlight() != 0 {
			t.Errorf("opened %d times, %d in flight", opens.Load(), c.InFlight())
		}
	})
}

func TestAbandonedCall(t *testing.T) {
	srv := newCollect()
	over(t, &testService{extract: srv.extract}, func(t *testing.T, ch channel) {
		opt := extractor(ch.conn)
		opt.Window = 1
		opt.Abandon = func(id uint64) *extractorv1.ExtractRequest { return &extractorv1.ExtractRequest{Id: id} }
		c := run(t, opt)
		ctx, cancel := context.WithCancel(context.Background())
		given := start(c, ctx, "a")
		req := <-srv.requests
		cancel()
		if r := <-given; !errors.Is(r.err, context.Canceled) {
			t.Errorf("abandoned: %v", r.err)
		}
		if told := <-srv.requests; told.Id != req.Id || told.Part != nil {
			t.Errorf("the server was told %v", told)
		}
		// Its place is free; its late answer goes nowhere.
		next := start(c, context.Background(), "b")
		req2 := <-srv.requests
		srv.answers <- answer(req.Id, "late")
		srv.answers <- answer(req2.Id, "b")
		if r := <-next; r.err != nil || r.res.GetAnswer().Reason != "b" {
			t.Errorf("next: %v", r)
		}
	})
}

func TestPartials(t *testing.T) {
	srv := newCollect()
	over(t, &testService{extract: srv.extract}, func(t *testing.T, ch channel) {
		ctx := context.Background()
		opt := extractor(ch.conn)
		opt.Partials = 4
		c := run(t, opt)
		call, err := c.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"head", "body", "end"} {
			if err := call.Send(ctx, chunk(0, []byte(part))); err != nil {
				t.Fatal(err)
			}
			if req := <-srv.requests; req.Id != call.ID() || string(req.GetChunk()) != part {
				t.Fatalf("server got %v", req)
			}
		}
		srv.answers <- credit(call.ID(), 1)
		srv.answers <- credit(call.ID(), 2)
		srv.answers <- answer(call.ID(), "done")
		for want := range int64(2) {
			if res, final, err := call.Recv(ctx); err != nil || final || res.GetCreditBytes() != want+1 {
				t.Errorf("partial %d: %v %v %v", want, res, final, err)
			}
		}
		if res, final, err := call.Recv(ctx); err != nil || !final || res.GetAnswer().GetReason() != "done" {
			t.Errorf("final: %v %v %v", res, final, err)
		}
		if err := call.Send(ctx, chunk(0, nil)); !errors.Is(err, ErrAnswered) {
			t.Errorf("Send after the answer: %v", err)
		}

		unread, err := c.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			srv.answers <- credit(unread.ID(), int64(i))
		}
		<-unread.Done()
		if _, err := unread.Wait(ctx); !errors.Is(err, ErrPartialsUnread) {
			t.Errorf("unread partials: %v", err)
		}
	})
}

func TestOnPartialGetsStreamCredit(t *testing.T) {
	srv := newCollect()
	ch := open(t, "inproc", &testService{extract: srv.extract})
	got := make(chan int64, 1)
	opt := extractor(ch.conn)
	opt.OnPartial = func(r *extractorv1.ExtractResponse) { got <- r.GetCreditBytes() }
	run(t, opt)
	srv.answers <- credit(0, 99)
	if n := <-got; n != 99 {
		t.Errorf("credit %d", n)
	}
}

func TestRequestIDs(t *testing.T) {
	srv := newCollect()
	ch := open(t, "inproc", &testService{extract: srv.extract})
	opt := extractor(ch.conn)
	opt.SetID = nil
	opt.RequestID = func(r *extractorv1.ExtractRequest) uint64 { return r.Id }
	c := run(t, opt)
	first, err := c.BeginID(context.Background(), 77)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Call(context.Background(), chunk(77, nil)); !errors.Is(err, ErrDuplicateID) {
		t.Errorf("the same id twice: %v", err)
	}
	first.Cancel()
	again := make(chan result, 1)
	go func() {
		res, err := c.Call(context.Background(), chunk(77, nil))
		again <- result{res, err}
	}()
	<-srv.requests
	first.Cancel() // of a call that is over; must not touch the new one
	srv.answers <- answer(77, "ok")
	if r := <-again; r.err != nil {
		t.Error(r.err)
	}
}

func TestDrainAndStop(t *testing.T) {
	srv := newCollect()
	ch := open(t, "inproc", &testService{extract: srv.extract})
	c := NewCaller(extractor(ch.conn))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	pending := start(c, context.Background(), "a")
	req := <-srv.requests
	drained := make(chan error, 1)
	go func() { drained <- c.Drain(context.Background()) }()
	for { // until Drain has begun
		call, err := c.Begin(canceled())
		if errors.Is(err, ErrStopped) {
			break
		}
		if err == nil {
			call.Cancel()
		}
	}
	select {
	case <-drained:
		t.Error("drained with a call in flight")
	default:
	}
	srv.answers <- answer(req.Id, "")
	if err := <-drained; err != nil {
		t.Error(err)
	}
	if r := <-pending; r.err != nil {
		t.Error(r.err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}

	other := NewCaller(extractor(ch.conn))
	ctx2, cancel2 := context.WithCancel(context.Background())
	go func() { ended <- other.Run(ctx2) }()
	last := start(other, context.Background(), "b")
	<-srv.requests
	cancel2()
	if r := <-last; !errors.Is(r.err, ErrStreamBroken) || !errors.Is(r.err, ErrStopped) {
		t.Errorf("in flight when stopped: %v", r.err)
	}
	<-ended
	if _, err := other.Call(context.Background(), chunk(0, nil)); !errors.Is(err, ErrStopped) {
		t.Errorf("after the end: %v", err)
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// The pauses between attempts double up to the bound, and begin anew after a
// stream that worked.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		begin := time.Now()
		opt := extractor(nil)
		opt.BackoffMin, opt.BackoffMax = 100*time.Millisecond, 400*time.Millisecond
		opt.Open = func(context.Context) (extractClientStream, error) {
			at = append(at, time.Since(begin))
			begin = time.Now()
			if len(at) == 5 {
				return &oneAnswer{}, nil
			}
			return nil, errors.New("refused")
		}
		c := NewCaller(opt)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = c.Run(ctx) }()
		time.Sleep(2 * time.Second)
		cancel()
		<-ended
		for i, want := range []time.Duration{0, 100, 200, 400, 400, 100, 200} {
			want *= time.Millisecond
			if at[i] < want*8/10 || at[i] > want*12/10 {
				t.Errorf("attempt %d came after %v, want about %v", i, at[i], want)
			}
		}
	})
}

// oneAnswer is a stream that answers once and ends.
type oneAnswer struct {
	extractClientStream
	n int
}

func (s *oneAnswer) Recv() (*extractorv1.ExtractResponse, error) {
	if s.n++; s.n > 1 {
		return nil, io.EOF
	}
	return answer(1, ""), nil
}

// Random life: calls, abandonments and broken streams together lose no slot and
// mix no answers up.
func TestCallerUnderFire(t *testing.T) {
	var n atomic.Int64
	svc := &testService{extract: func(stream extractStream) error {
		ctx, cancel := context.WithCancel(stream.Context())
		defer cancel()
		return ServeItems(&limited{extractStream: stream, left: 40, cancel: cancel, ctx: ctx}, ItemsOptions{Window: 4},
			func(ctx context.Context, req *extractorv1.ExtractRequest) *extractorv1.ExtractResponse {
				if n.Add(1)%7 == 0 {
					return nil // never answered: the caller gives up
				}
				return answer(req.Id, string(req.GetChunk()))
			}, nil)
	}}
	over(t, svc, func(t *testing.T, ch channel) {
		opt := extractor(ch.conn)
		opt.BackoffMax = 2 * time.Millisecond
		c := run(t, opt)
		var wg sync.WaitGroup
		var answered, broken, given atomic.Int64
		for g := range 12 {
			wg.Go(func() {
				for i := range 30 {
					want := fmt.Sprintf("%d/%d", g, i)
					ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
					res, err := c.Call(ctx, chunk(0, []byte(want)))
					cancel()
					switch {
					case err == nil && res.GetAnswer().GetReason() == want:
						answered.Add(1)
					case errors.Is(err, ErrStreamBroken):
						broken.Add(1)
					case errors.Is(err, context.DeadlineExceeded):
						given.Add(1)
					default:
						t.Errorf("call %s: %v %v", want, res, err)
					}
				}
			})
		}
		wg.Wait()
		if answered.Load() == 0 || given.Load() == 0 {
			t.Errorf("answered %d, broken %d, given up %d", answered.Load(), broken.Load(), given.Load())
		}
		if c.InFlight() != 0 {
			t.Errorf("%d calls still hold a place", c.InFlight())
		}
	})
}

// limited breaks its stream after some requests.
type limited struct {
	extractStream
	left   int
	ctx    context.Context
	cancel context.CancelFunc
}

func (l *limited) Context() context.Context { return l.ctx }

func (l *limited) Recv() (*extractorv1.ExtractRequest, error) {
	if l.left--; l.left < 0 {
		return nil, status.Error(codes.Aborted, "enough")
	}
	return l.extractStream.Recv()
}

// held is a stream whose first Send waits to be let go.
type held struct {
	grpc.ClientStream
	ctx  context.Context
	wait chan struct{}
	sent chan *extractorv1.ExtractRequest
}

func (h *held) Context() context.Context { return h.ctx }

func (h *held) Send(req *extractorv1.ExtractRequest) error {
	h.sent <- req
	<-h.wait
	return nil
}

func (h *held) Recv() (*extractorv1.ExtractResponse, error) {
	<-h.ctx.Done()
	return nil, h.ctx.Err()
}

func (h *held) CloseSend() error { return nil }

// What Send has taken of a call that ends is either sent or told of, so that
// no credit is lost with it; and who is told that a stream is there finds it.
func TestUnsentIsToldAndReadyIsConnected(t *testing.T) {
	h := &held{wait: make(chan struct{}), sent: make(chan *extractorv1.ExtractRequest, 10)}
	unsent, ready := make(chan *extractorv1.ExtractRequest, 10), make(chan bool, 1)
	var c *extractCaller
	made := make(chan struct{})
	opt := extractor(nil)
	opt.Open = func(ctx context.Context) (extractClientStream, error) { h.ctx = ctx; return h, nil }
	opt.OnUnsent = func(req *extractorv1.ExtractRequest) { unsent <- req }
	opt.OnReady = func() { <-made; ready <- c.Connected() }
	c = run(t, opt)
	close(made)
	if !<-ready {
		t.Error("told of a stream that is not connected")
	}
	ctx := context.Background()
	call, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"first", "second"} {
		if err := call.Send(ctx, chunk(0, []byte(body))); err != nil {
			t.Fatal(err)
		}
	}
	<-h.sent // the writer is at the first
	call.Cancel()
	close(h.wait)
	if req := <-unsent; string(req.GetChunk()) != "second" {
		t.Errorf("told of %q, want the second", req.GetChunk())
	}
}
