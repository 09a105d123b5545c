package rpc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"

	"google.golang.org/grpc"

	"lycosa.dev/internal/telemetry"
)

// defaultQueue is how many messages of one call wait for its handler.
const defaultQueue = 64

// CallsOptions configures ServeCalls. ID is required.
type CallsOptions[Req, Res any] struct {
	// Window is how many calls are handled at once; 0 is 64. Calls beyond it
	// cannot wait, since the messages of those before them come behind: see
	// Busy.
	Window int
	// Queue is how many messages of one call wait for its handler; 0 is 64.
	// When it is full the stream is not read until the handler takes one, so a
	// handler that waits should not wait for another call.
	Queue int
	// ID reads a request's id.
	ID func(*Req) uint64
	// First says that a request begins a call; nil: any does whose id has no
	// call. A request that belongs to no call is dropped.
	First func(*Req) bool
	// Busy answers a call beyond the window, which is dropped; nil ends the
	// stream with ResourceExhausted.
	Busy func(first *Req) *Res
	// OnDrop gets each request that no handler received: of a call that was
	// answered early, or is none. It must not block; what it returns is sent (a
	// credit given back), nil sends nothing.
	OnDrop func(*Req) *Res
	// Logger hears of panics; nil discards.
	Logger *slog.Logger
}

// ServerCall is one call of several messages, as its handler sees it.
type ServerCall[Req, Res any] struct {
	id    uint64
	first *Req
	queue chan *Req
	done  chan struct{}   // closed when the handler has returned
	eof   <-chan struct{} // closed when nothing more will come on the stream
	send  func(*Res) error
}

// ID is the call's id.
func (c *ServerCall[Req, Res]) ID() uint64 { return c.id }

// First is the request that began the call; Recv does not return it again.
func (c *ServerCall[Req, Res]) First() *Req { return c.first }

// Recv returns the call's next request: io.EOF when the client has half-closed
// and no more are there, ctx's error when it is done.
func (c *ServerCall[Req, Res]) Recv(ctx context.Context) (*Req, error) {
	select {
	case req := <-c.queue:
		return req, nil
	default:
	}
	select {
	case req := <-c.queue:
		return req, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.eof:
		select {
		case req := <-c.queue:
			return req, nil
		default:
			return nil, io.EOF
		}
	}
}

// Send sends a response that is not the call's last. It may be used by several
// goroutines.
func (c *ServerCall[Req, Res]) Send(res *Res) error { return c.send(res) }

// ServeCalls serves a stream on which a call is several messages under one id:
// its handler gets the first at once and the others by Recv, may Send any
// number of responses, and returns the last (nil sends none). Panics are as in
// ServeItems.
//
// When the server drains, no new call is begun (each is answered by Busy, if
// there is one, else dropped), those that run get the rest of their messages,
// and ServeCalls returns nil when they have ended. It also returns nil when the
// client has half-closed and all is answered. When the stream breaks it cancels
// the handlers' context, waits for them and returns the reason.
func ServeCalls[Req, Res any](stream grpc.BidiStreamingServer[Req, Res], opt CallsOptions[Req, Res],
	handle func(ctx context.Context, call *ServerCall[Req, Res]) *Res, onPanic func(first *Req, v any) *Res,
) error {
	if opt.Window <= 0 {
		opt.Window = defaultWindow
	}
	if opt.Queue <= 0 {
		opt.Queue = defaultQueue
	}
	if opt.Logger == nil {
		opt.Logger = telemetry.Discard()
	}
	if opt.OnDrop == nil {
		opt.OnDrop = func(*Req) *Res { return nil }
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	s := &callServer[Req, Res]{
		opt:    opt,
		stream: stream,
		cancel: cancel,
		eof:    make(chan struct{}),
		idle:   make(chan struct{}),
		calls:  map[uint64]*ServerCall[Req, Res]{},
	}
	// More than Window goroutines never run: begin admits no more calls. One
	// that has answered and is on its way back to the pool may still count,
	// hence the doubled bound; put never waits.
	s.pool = &pool[*ServerCall[Req, Res]]{window: 2 * opt.Window, work: make(chan *ServerCall[Req, Res]), stop: make(chan struct{})}
	s.pool.run = func(call *ServerCall[Req, Res]) {
		var answerPanic func(any) *Res
		if onPanic != nil {
			answerPanic = func(v any) *Res { return onPanic(call.first, v) }
		}
		res, err := guarded(ctx, opt.Logger, func() *Res { return handle(ctx, call) }, answerPanic)
		s.finish(call, res, err)
	}
	read := make(chan error, 1)
	go func() { read <- s.read(ctx) }()

	draining := Draining(ctx)
	var err error
wait:
	for {
		select {
		case err = <-read:
			if errors.Is(err, io.EOF) {
				err = nil
			} else {
				cancel(err)
			}
			break wait
		case <-draining:
			draining = nil
			s.startDrain()
		case <-s.idle:
			break wait
		case <-ctx.Done():
			break wait
		}
	}
	s.pool.end()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return handlerStatus(err)
}

// callServer is the state of one ServeCalls.
type callServer[Req, Res any] struct {
	opt    CallsOptions[Req, Res]
	stream grpc.BidiStreamingServer[Req, Res]
	pool   *pool[*ServerCall[Req, Res]]
	cancel context.CancelCauseFunc
	eof    chan struct{} // closed when the client has half-closed
	idle   chan struct{} // closed when draining and no call runs

	sending sync.Mutex // of stream.Send

	mu       sync.Mutex
	calls    map[uint64]*ServerCall[Req, Res]
	draining bool
}

func (s *callServer[Req, Res]) send(res *Res) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.stream.Send(res)
}

// read gives requests to their calls until the stream ends.
func (s *callServer[Req, Res]) read(ctx context.Context) error {
	for {
		req, err := s.stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				close(s.eof)
			}
			return err
		}
		id := s.opt.ID(req)
		s.mu.Lock()
		call := s.calls[id]
		s.mu.Unlock()
		switch {
		case call != nil:
			select {
			case call.queue <- req:
				// The handler may have returned, and its queue been emptied, in
				// between.
				select {
				case <-call.done:
					s.empty(call)
				default:
				}
			case <-call.done:
				s.drop(req)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		case s.opt.First == nil || s.opt.First(req):
			if err := s.begin(ctx, id, req); err != nil {
				return err
			}
		default:
			s.drop(req)
		}
	}
}

// drop tells of a request that no handler gets.
func (s *callServer[Req, Res]) drop(req *Req) {
	if res := s.opt.OnDrop(req); res != nil {
		if err := s.send(res); err != nil {
			s.cancel(err)
		}
	}
}

// begin starts a call, or turns it away.
func (s *callServer[Req, Res]) begin(ctx context.Context, id uint64, first *Req) error {
	call := &ServerCall[Req, Res]{
		id:    id,
		first: first,
		queue: make(chan *Req, s.opt.Queue),
		done:  make(chan struct{}),
		eof:   s.eof,
		send:  s.send,
	}
	s.mu.Lock()
	draining, full := s.draining, len(s.calls) >= s.opt.Window
	if !draining && !full {
		s.calls[id] = call
	}
	s.mu.Unlock()
	if !draining && !full {
		if !s.pool.put(ctx, call) {
			return context.Canceled // the stream is ending
		}
		return nil
	}
	s.drop(first)
	if s.opt.Busy != nil {
		if res := s.opt.Busy(first); res != nil {
			return s.send(res)
		}
		return nil
	}
	if draining {
		return nil
	}
	return errBusy
}

// finish takes a call whose handler has returned off the books and answers it.
func (s *callServer[Req, Res]) finish(call *ServerCall[Req, Res], res *Res, err error) {
	s.mu.Lock()
	delete(s.calls, call.id)
	s.mu.Unlock()
	close(call.done)
	s.empty(call)
	if err == nil && res != nil {
		err = s.send(res)
	}
	if err != nil {
		s.cancel(err)
	}
	s.mu.Lock()
	s.checkIdle()
	s.mu.Unlock()
}

// empty drops what waits for a handler that has returned.
func (s *callServer[Req, Res]) empty(call *ServerCall[Req, Res]) {
	for {
		select {
		case req := <-call.queue:
			s.drop(req)
		default:
			return
		}
	}
}

func (s *callServer[Req, Res]) startDrain() {
	s.mu.Lock()
	s.draining = true
	s.checkIdle()
	s.mu.Unlock()
}

// checkIdle closes idle when draining is over. mu is held. The calls map may
// grow empty while an answer is still being sent; pool.end waits for that.
func (s *callServer[Req, Res]) checkIdle() {
	if !s.draining || len(s.calls) > 0 {
		return
	}
	select {
	case <-s.idle:
	default:
		close(s.idle)
	}
}
