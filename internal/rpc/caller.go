package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"

	"lycosa.dev/internal/telemetry"
)

// Errors of a Caller, beside those of contexts.
var (
	// ErrStreamBroken: the stream ended before the final answer. Whether the
	// other side acted on the call is unknown; it may be made again as a whole.
	ErrStreamBroken = errors.New("stream broken before the answer")
	// ErrStopped: the Caller's Run has ended or Drain was called.
	ErrStopped = errors.New("caller has stopped")
	// ErrAnswered: the final answer came before all was sent; Wait has it.
	ErrAnswered = errors.New("call is answered already")
	// ErrPartialsUnread: more partial answers came than were read in time.
	ErrPartialsUnread = errors.New("partial answers were not read")
	// ErrDuplicateID: a call with this id is in flight.
	ErrDuplicateID = errors.New("a call with this id is in flight")
)

const (
	defaultWindow   = 64
	defaultPartials = 64
	// outQueue bounds the messages that wait for the writer, of all calls.
	outQueue = 32

	defaultBackoffMin = 100 * time.Millisecond
	defaultBackoffMax = 5 * time.Second
)

// CallerOptions configures a Caller. Open and ID are required, and one of SetID
// and RequestID.
type CallerOptions[Req, Res any] struct {
	// Open opens the stream. It is called again, after a pause, whenever the
	// stream has broken.
	Open func(ctx context.Context) (grpc.BidiStreamingClient[Req, Res], error)
	// Window is how many calls may be unanswered at once; Begin and Call wait
	// beyond it. 0 is 64.
	Window int
	// SetID writes the call's id, chosen by the Caller and unique in its life,
	// into a request before it is sent.
	SetID func(*Req, uint64)
	// RequestID reads the id where it is part of the request (a lease's id) and
	// SetID is nil.
	RequestID func(*Req) uint64
	// ID reads an answer's id.
	ID func(*Res) uint64
	// Final says whether a response ends its call; nil: every one does.
	Final func(*Res) bool
	// OnPartial gets every response that is not final, of whichever id, known or
	// not (a credit that belongs to the stream). It runs in the stream's reader
	// and must not block. If it is nil, the partials of a call made by Begin go
	// to its Recv; those of a Call are dropped.
	OnPartial func(*Res)
	// Partials is how many partial answers wait for Recv of one call; one more
	// ends the call with ErrPartialsUnread. 0 is 64.
	Partials int
	// OnOpen is called for each new stream before any call uses it, for state
	// that starts anew with a stream (a credit).
	OnOpen func()
	// OnReady is called when calls can use a new stream: Connected says true.
	OnReady func()
	// OnUnsent gets each request that Send has taken and that is not sent,
	// because its call has ended while the stream goes on (a credit to give
	// back). It must not block.
	OnUnsent func(*Req)
	// Abandon makes the message that tells the other side of a call that was
	// begun and is given up; nil, or a nil message: nobody is told.
	Abandon func(id uint64) *Req
	// BackoffMin and BackoffMax bound the pause before a stream is opened again:
	// doubling, with jitter, back to the start once a response has come. 0 are
	// 100 ms and 5 s.
	BackoffMin, BackoffMax time.Duration
	// Logger hears of broken streams; nil discards. Name tells whose they are.
	Logger *slog.Logger
	Name   string
}

// Caller makes calls on one bidirectional stream, many in flight at once and
// matched by id, and keeps the stream open. Run must be running; every other
// method may be used by many goroutines.
//
// Memory that a request refers to is the receiver's until the final answer.
// After a call that ended otherwise (given up, stream broken) it is nobody's
// to reuse: leave it to the garbage collector.
type Caller[Req, Res any] struct {
	opt   CallerOptions[Req, Res]
	slots chan struct{} // a token for each call in flight
	done  chan struct{} // closed when Run has ended
	drain chan struct{} // closed by Drain
	once  sync.Once     // closes drain

	mu     sync.Mutex
	stream *callerStream[Req, Res] // nil while there is none
	live   chan struct{}           // closed when stream is set; a new one when it breaks
	nextID uint64
}

// callerStream is one life of the stream.
type callerStream[Req, Res any] struct {
	out    chan outgoing[Req, Res]
	wake   chan struct{} // one token: cancels is not empty
	broken chan struct{} // closed with the stream

	// Guarded by Caller.mu.
	calls   map[uint64]*Call[Req, Res]
	cancels []*Req
}

type outgoing[Req, Res any] struct {
	req  *Req
	call *Call[Req, Res]
}

// NewCaller makes a Caller; it does nothing before Run.
func NewCaller[Req, Res any](opt CallerOptions[Req, Res]) *Caller[Req, Res] {
	if opt.Open == nil || opt.ID == nil || (opt.SetID == nil) == (opt.RequestID == nil) {
		panic("rpc.NewCaller: Open, ID and exactly one of SetID and RequestID are required")
	}
	if opt.Window <= 0 {
		opt.Window = defaultWindow
	}
	if opt.Partials <= 0 {
		opt.Partials = defaultPartials
	}
	if opt.BackoffMin <= 0 {
		opt.BackoffMin = defaultBackoffMin
	}
	if opt.BackoffMax < opt.BackoffMin {
		opt.BackoffMax = max(defaultBackoffMax, opt.BackoffMin)
	}
	if opt.Logger == nil {
		opt.Logger = telemetry.Discard()
	}
	return &Caller[Req, Res]{
		opt:   opt,
		slots: make(chan struct{}, opt.Window),
		done:  make(chan struct{}),
		drain: make(chan struct{}),
		live:  make(chan struct{}),
	}
}

// Run keeps the stream open until ctx is done, then ends it; calls in flight
// fail with ErrStreamBroken and ErrStopped. It is called once and returns nil.
func (c *Caller[Req, Res]) Run(ctx context.Context) error {
	defer close(c.done)
	pause := c.opt.BackoffMin
	for ctx.Err() == nil {
		answered, err := c.session(ctx)
		if ctx.Err() != nil {
			break
		}
		if answered {
			pause = c.opt.BackoffMin
		}
		// The jitter keeps the clients of a server that restarts apart.
		wait := time.Duration((0.8 + 0.4*rand.Float64()) * float64(pause))
		c.opt.Logger.Warn("stream ended, opening it again", "stream", c.opt.Name, "reason", err, "wait", wait)
		pause = min(2*pause, c.opt.BackoffMax)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
	return nil
}

// session is one life of the stream. answered says that a response came.
func (c *Caller[Req, Res]) session(parent context.Context) (answered bool, err error) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	stream, err := c.opt.Open(ctx)
	if err != nil {
		return false, err
	}
	s := &callerStream[Req, Res]{
		out:    make(chan outgoing[Req, Res], outQueue),
		wake:   make(chan struct{}, 1),
		broken: make(chan struct{}),
		calls:  map[uint64]*Call[Req, Res]{},
	}
	if c.opt.OnOpen != nil {
		c.opt.OnOpen()
	}
	c.mu.Lock()
	c.stream = s
	close(c.live)
	c.mu.Unlock()
	if c.opt.OnReady != nil {
		c.opt.OnReady()
	}

	var writer sync.WaitGroup
	var sendErr error
	writer.Go(func() {
		if sendErr = c.write(stream, s); sendErr != nil {
			// io.EOF means that the reader is about to see why; any other error
			// the reader would never see.
			if !errors.Is(sendErr, io.EOF) {
				cancel()
			}
		}
	})
	for {
		var res *Res
		if res, err = stream.Recv(); err != nil {
			break
		}
		answered = true
		c.dispatch(s, res)
	}
	cancel()
	close(s.broken)
	writer.Wait()
	if sendErr != nil && !errors.Is(sendErr, io.EOF) {
		err = sendErr
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the server ended it")
	}

	c.mu.Lock()
	c.stream = nil
	c.live = make(chan struct{})
	calls := s.calls
	s.calls = nil
	c.mu.Unlock()
	cause := fmt.Errorf("%w: %w", ErrStreamBroken, err)
	if parent.Err() != nil {
		cause = fmt.Errorf("%w: %w", ErrStreamBroken, ErrStopped)
	}
	for _, call := range calls {
		call.settle(nil, cause)
	}
	return answered, err
}

// write sends what the calls queue, and the messages of Abandon.
func (c *Caller[Req, Res]) write(stream grpc.BidiStreamingClient[Req, Res], s *callerStream[Req, Res]) error {
	for {
		var m outgoing[Req, Res]
		select {
		case m = <-s.out:
		case <-s.wake:
			c.mu.Lock()
			cancels := s.cancels
			s.cancels = nil
			c.mu.Unlock()
			for _, req := range cancels {
				if err := stream.Send(req); err != nil {
					return err
				}
			}
			continue
		case <-s.broken:
			return nil
		}
		// sent is set before the look at done: who abandons a call settles it
		// first and looks at sent then, so no sent call goes unabandoned.
		m.call.sent.Store(true)
		select {
		case <-m.call.done:
			if c.opt.OnUnsent != nil {
				c.opt.OnUnsent(m.req)
			}
			continue
		default:
		}
		if err := stream.Send(m.req); err != nil {
			return err
		}
	}
}

// dispatch gives a response to its call. A response of an unknown id is late:
// its call was given up.
func (c *Caller[Req, Res]) dispatch(s *callerStream[Req, Res], res *Res) {
	if c.opt.Final == nil || c.opt.Final(res) {
		if call := c.take(s, c.opt.ID(res), nil); call != nil {
			call.settle(res, nil)
		}
		return
	}
	if c.opt.OnPartial != nil {
		c.opt.OnPartial(res)
		return
	}
	c.mu.Lock()
	call := s.calls[c.opt.ID(res)]
	c.mu.Unlock()
	if call == nil || call.partials == nil {
		return
	}
	select {
	case call.partials <- res:
	default:
		if c.take(s, call.id, call) != nil {
			call.settle(nil, ErrPartialsUnread)
			c.tellAbandoned(call)
		}
	}
}

// take removes the call of an id from the books, if it is want or want is nil:
// whoever gets it settles it, once.
func (c *Caller[Req, Res]) take(s *callerStream[Req, Res], id uint64, want *Call[Req, Res]) *Call[Req, Res] {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := s.calls[id]
	if want != nil && call != want {
		return nil
	}
	delete(s.calls, id)
	return call
}

// tellAbandoned queues the message of Abandon for a call that was taken and
// settled. The queue is bounded: a stream that does not move for so long is
// about to break, and breaking abandons everything.
func (c *Caller[Req, Res]) tellAbandoned(call *Call[Req, Res]) {
	if c.opt.Abandon == nil || !call.sent.Load() {
		return
	}
	req := c.opt.Abandon(call.id)
	if req == nil {
		return
	}
	c.mu.Lock()
	if len(call.stream.cancels) < 4*c.opt.Window {
		call.stream.cancels = append(call.stream.cancels, req)
	}
	c.mu.Unlock()
	select {
	case call.stream.wake <- struct{}{}:
	default:
	}
}

// Call sends req and waits for its final answer. It returns ctx's error when
// ctx is done first (the call is given up: a late answer is dropped), an error
// that wraps ErrStreamBroken when the stream died, ErrStopped after the end.
func (c *Caller[Req, Res]) Call(ctx context.Context, req *Req) (*Res, error) {
	var id uint64
	if c.opt.RequestID != nil {
		id = c.opt.RequestID(req)
	}
	call, err := c.begin(ctx, id, false)
	if err != nil {
		return nil, err
	}
	if err := call.Send(ctx, req); err != nil && !errors.Is(err, ErrAnswered) {
		call.Cancel()
		return nil, err
	}
	return call.Wait(ctx)
}

// Begin starts a call of several messages. It waits for a free place in the
// window and for a live stream. The call must be ended by Wait, by Recv's final
// answer or by Cancel, or it holds its place until the stream breaks.
func (c *Caller[Req, Res]) Begin(ctx context.Context) (*Call[Req, Res], error) {
	if c.opt.SetID == nil {
		panic("rpc.Caller.Begin: the requests hold the id; use BeginID")
	}
	return c.begin(ctx, 0, true)
}

// BeginID is Begin for a Caller whose requests hold their ids.
func (c *Caller[Req, Res]) BeginID(ctx context.Context, id uint64) (*Call[Req, Res], error) {
	if c.opt.SetID != nil {
		panic("rpc.Caller.BeginID: the Caller chooses the ids; use Begin")
	}
	return c.begin(ctx, id, true)
}

// begin makes a call; partials says that its owner may Recv.
func (c *Caller[Req, Res]) begin(ctx context.Context, id uint64, partials bool) (*Call[Req, Res], error) {
	select {
	case <-c.drain:
		return nil, ErrStopped
	default:
	}
	select {
	case c.slots <- struct{}{}:
	default:
		select {
		case c.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.drain:
			return nil, ErrStopped
		case <-c.done:
			return nil, ErrStopped
		}
	}
	call, err := c.register(ctx, id, partials)
	if err != nil {
		<-c.slots
	}
	return call, err
}

// register enters a call, which holds a slot, on the live stream.
func (c *Caller[Req, Res]) register(ctx context.Context, id uint64, partials bool) (*Call[Req, Res], error) {
	call := &Call[Req, Res]{caller: c, id: id, done: make(chan struct{})}
	if partials && c.opt.Final != nil && c.opt.OnPartial == nil {
		call.partials = make(chan *Res, c.opt.Partials)
	}
	for {
		c.mu.Lock()
		if s := c.stream; s != nil {
			if c.opt.SetID != nil {
				c.nextID++
				call.id = c.nextID
			} else if s.calls[id] != nil {
				c.mu.Unlock()
				return nil, fmt.Errorf("%w: %d", ErrDuplicateID, id)
			}
			call.stream = s
			s.calls[call.id] = call
			c.mu.Unlock()
			return call, nil
		}
		live := c.live
		c.mu.Unlock()
		select {
		case <-live:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.drain:
			return nil, ErrStopped
		case <-c.done:
			return nil, ErrStopped
		}
	}
}

// Drain refuses new calls and waits until none is in flight, or ctx is done.
func (c *Caller[Req, Res]) Drain(ctx context.Context) error {
	c.once.Do(func() { close(c.drain) })
	for got := 0; got < c.opt.Window; got++ {
		select {
		case c.slots <- struct{}{}:
			defer func() { <-c.slots }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// InFlight is how many calls hold a place in the window.
func (c *Caller[Req, Res]) InFlight() int { return len(c.slots) }

// Connected says whether a stream is open.
func (c *Caller[Req, Res]) Connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stream != nil
}
