package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"lycosa.dev/internal/telemetry"
)

var errBusy = status.Error(codes.ResourceExhausted, "more calls in flight than the server's window allows")

// ItemsOptions configures ServeItems.
type ItemsOptions struct {
	// Window is how many items are handled at once; more are not read from the
	// stream, so that flow control holds the client back. 0 is 64.
	Window int
	// Logger hears of panics; nil discards.
	Logger *slog.Logger
}

// ServeItems serves a stream on which each request is answered by one response
// of the same id, in any order. handle runs in up to Window goroutines; nil
// from it sends nothing. A panic in it becomes the answer that onPanic makes,
// and the stream goes on; with onPanic nil it ends the stream (Internal).
//
// ServeItems returns nil when the client has half-closed, or the server drains
// (see Draining), and everything read is answered; a request not read by then
// is for the client to send again. When the stream breaks it cancels the
// context of the handlers, waits for them and returns the reason.
func ServeItems[Req, Res any](stream grpc.BidiStreamingServer[Req, Res], opt ItemsOptions,
	handle func(ctx context.Context, req *Req) *Res, onPanic func(req *Req, v any) *Res,
) error {
	if opt.Window <= 0 {
		opt.Window = defaultWindow
	}
	if opt.Logger == nil {
		opt.Logger = telemetry.Discard()
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	p := &pool[*Req]{
		window: opt.Window,
		work:   make(chan *Req),
		stop:   make(chan struct{}),
	}
	var sending sync.Mutex // of stream.Send
	p.run = func(req *Req) {
		var answerPanic func(any) *Res
		if onPanic != nil {
			answerPanic = func(v any) *Res { return onPanic(req, v) }
		}
		res, err := guarded(ctx, opt.Logger, func() *Res { return handle(ctx, req) }, answerPanic)
		if err == nil && res != nil {
			sending.Lock()
			err = stream.Send(res)
			sending.Unlock()
		}
		if err != nil {
			cancel(err)
		}
	}
	read := make(chan error, 1)
	go func() {
		for {
			req, err := stream.Recv()
			if err != nil {
				read <- err
				return
			}
			if !p.put(ctx, req) {
				return
			}
		}
	}()
	var err error
	select {
	case err = <-read:
		if errors.Is(err, io.EOF) {
			err = nil
		} else {
			cancel(err)
		}
	case <-Draining(ctx):
	case <-ctx.Done():
	}
	// From here on nothing new is begun; the reader, if it still waits in Recv,
	// is released when the handler of the stream has returned.
	p.end()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return handlerStatus(err)
}

// guarded runs handle and turns a panic in it into the answer of onPanic, or,
// without one, into an error that ends the stream.
func guarded[Res any](ctx context.Context, log *slog.Logger, handle func() *Res, onPanic func(v any) *Res) (res *Res, err error) {
	defer func() {
		if v := recover(); v != nil {
			log.ErrorContext(ctx, "panic while handling an item", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			if onPanic == nil {
				err = status.Errorf(codes.Internal, "panic while handling an item: %v", v)
				return
			}
			res = onPanic(v)
		}
	}()
	return handle(), nil
}

// pool is a set of goroutines that grows with the work up to its window.
type pool[T any] struct {
	window int
	work   chan T // unbuffered: a send succeeds at once only if one is idle
	stop   chan struct{}
	run    func(T)

	mu      sync.Mutex
	workers int
	ended   bool
	wg      sync.WaitGroup
}

// put gives v to an idle goroutine, else to a new one, else waits. It returns
// false when the pool ends or ctx is done first; v is then not begun.
func (p *pool[T]) put(ctx context.Context, v T) bool {
	select {
	case <-p.stop:
		return false
	case p.work <- v:
		return true
	default:
	}
	if p.grow(v) {
		return true
	}
	select {
	case p.work <- v:
		return true
	case <-p.stop:
		return false
	case <-ctx.Done():
		return false
	}
}

// grow starts a goroutine with v as its first work.
func (p *pool[T]) grow(v T) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.workers >= p.window {
		return false
	}
	p.workers++
	p.wg.Go(func() {
		for {
			p.run(v)
			select {
			case <-p.stop:
				return
			default:
			}
			select {
			case v = <-p.work:
			case <-p.stop:
				return
			}
		}
	})
	return true
}

// end begins nothing new and waits for what runs.
func (p *pool[T]) end() {
	p.mu.Lock()
	if !p.ended {
		p.ended = true
		close(p.stop)
	}
	p.mu.Unlock()
	p.wg.Wait()
}
