package rpc

import (
	"context"
	"sync/atomic"
)

// Call is one call of a Caller.
type Call[Req, Res any] struct {
	caller   *Caller[Req, Res]
	stream   *callerStream[Req, Res]
	id       uint64
	sent     atomic.Bool
	partials chan *Res // nil when partials go elsewhere

	done chan struct{} // closed when settled
	res  *Res          // set before done is closed
	err  error         // set before done is closed
}

// ID is the call's id.
func (c *Call[Req, Res]) ID() uint64 { return c.id }

// Done is closed when the call has ended, in whichever way.
func (c *Call[Req, Res]) Done() <-chan struct{} { return c.done }

func (c *Call[Req, Res]) settle(res *Res, err error) {
	c.res, c.err = res, err
	<-c.caller.slots // first, so that who sees the end finds the place free
	close(c.done)
}

// Send queues a message of the call for the stream's writer, waiting for room.
// Messages of one call go out in the order of their Sends.
func (c *Call[Req, Res]) Send(ctx context.Context, req *Req) error {
	if set := c.caller.opt.SetID; set != nil {
		set(req, c.id)
	}
	m := outgoing[Req, Res]{req, c}
	select {
	case <-c.done:
		return c.ended()
	default:
	}
	select {
	case c.stream.out <- m:
		return nil
	default:
	}
	select {
	case c.stream.out <- m:
		return nil
	case <-c.done:
		return c.ended()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ended is Send's error on a call that is over.
func (c *Call[Req, Res]) ended() error {
	if c.err != nil {
		return c.err
	}
	return ErrAnswered
}

// Recv returns the call's partial answers in order and then its final one. When
// ctx is done the call goes on; Cancel gives it up.
func (c *Call[Req, Res]) Recv(ctx context.Context) (res *Res, final bool, err error) {
	select {
	case res = <-c.partials:
		return res, false, nil
	default:
	}
	select {
	case res = <-c.partials:
		return res, false, nil
	case <-c.done:
		select { // partials that came before the end
		case res = <-c.partials:
			return res, false, nil
		default:
		}
		return c.res, c.err == nil, c.err
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

// Wait waits for the final answer, passing over partial ones, and gives the
// call up when ctx is done first.
func (c *Call[Req, Res]) Wait(ctx context.Context) (*Res, error) {
	for {
		select {
		case <-c.done:
			return c.res, c.err
		case <-c.partials:
		case <-ctx.Done():
			c.abandon(ctx.Err())
			return c.res, c.err
		}
	}
}

// Cancel gives the call up, unless it has ended: its place is free, late
// answers are dropped, and the other side is told if Abandon says how.
func (c *Call[Req, Res]) Cancel() { c.abandon(context.Canceled) }

func (c *Call[Req, Res]) abandon(err error) {
	if c.caller.take(c.stream, c.id, c) == nil {
		<-c.done // settled, or about to be
		return
	}
	c.settle(nil, err)
	c.caller.tellAbandoned(c)
}
