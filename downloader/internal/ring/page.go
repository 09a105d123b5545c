package ring

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"lycosa.dev/downloader/internal/bufpool"
	"lycosa.dev/internal/rpc"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	extractorv1 "lycosa.dev/proto/gen/lycosa/extractor/v1"
)

const (
	// streamAbove is how many bytes of a body wait for its end; a longer one is
	// sent while it comes, and can then not be sent again.
	streamAbove = 256 << 10
	// firstPause and longPause bound the wait before a page is sent again.
	firstPause = 50 * time.Millisecond
	longPause  = 5 * time.Second
)

// Page collects what one lease's fetch brings and delivers it. It is the Sink
// of the fetch. One goroutine uses it; Received may be read by others.
type Page struct {
	ring  *Ring
	ctx   context.Context
	lease *crawlv1.Lease

	buffers       []*bufpool.Buffer
	request, head []byte
	chunks        [][]byte
	held          int
	received      atomic.Int64

	link     *link
	call     *call // nil: not begun
	streamed bool  // a part was sent that is not held any more
	tainted  bool  // somebody may still read the buffers
}

// NewPage returns a page for a lease, which is sent on as it is. ctx ends the
// delivery.
func (r *Ring) NewPage(ctx context.Context, lease *crawlv1.Lease) *Page {
	return &Page{ring: r, ctx: ctx, lease: lease}
}

// Received is how many bytes of the response have come.
func (p *Page) Received() int64 { return p.received.Load() }

// Own takes over a buffer.
func (p *Page) Own(b *bufpool.Buffer) { p.buffers = append(p.buffers, b) }

// Head takes the request and the response's header block.
func (p *Page) Head(request, head []byte) error {
	p.request, p.head = request, head
	p.received.Add(int64(len(head)))
	return nil
}

// Body takes the next bytes. It waits for credit where the body is long, so
// that what lies in memory stays bounded.
func (p *Page) Body(b []byte) error {
	p.received.Add(int64(len(b)))
	p.chunks = append(p.chunks, b)
	if p.held += len(b); p.held <= streamAbove {
		return nil
	}
	if p.call == nil {
		if err := p.begin(nil); err != nil {
			return err
		}
	}
	p.streamed = true
	err := p.sendChunks()
	clear(p.chunks)
	p.chunks, p.held = p.chunks[:0], streamAbove
	if errors.Is(err, rpc.ErrAnswered) {
		p.tainted = true
	}
	return err
}

// begin opens a call and sends the page's first part.
func (p *Page) begin(avoid *link) error {
	l, err := p.ring.pick(p.ctx, p.lease.GetHostKey(), avoid)
	if err != nil {
		return err
	}
	p.link = l
	c, err := l.caller.Begin(p.ctx)
	if err != nil {
		return err
	}
	p.call = c
	return c.Send(p.ctx, &extractorv1.ExtractRequest{Part: &extractorv1.ExtractRequest_Head{Head: &extractorv1.PageHead{
		Lease: p.lease, Request: p.request, ResponseHead: p.head,
	}}})
}

// sendChunks sends the chunks held, as credit allows.
func (p *Page) sendChunks() error {
	for _, b := range p.chunks {
		if err := p.link.credit.take(p.ctx, int64(len(b)), p.call.Done()); err != nil {
			return err
		}
		if err := p.call.Send(p.ctx, &extractorv1.ExtractRequest{Part: &extractorv1.ExtractRequest_Chunk{Chunk: b}}); err != nil {
			if !errors.Is(err, rpc.ErrStreamBroken) { // a new stream has its own credit
				p.link.credit.add(int64(len(b)))
			}
			return err
		}
	}
	return nil
}

// Deliver sends what is left of the page with its result and waits for the
// answer. Where the ring does not take the page, and all of it is still held,
// it sends it again until ctx ends. The answer is never nil. The page's memory
// is given back and must not be used any more.
func (p *Page) Deliver(result *crawlv1.FetchResult) *crawlv1.Answer {
	wait := firstPause
	var avoid *link
	for {
		answer, err := p.attempt(result, avoid)
		if err != nil {
			p.tainted = p.tainted || p.call != nil
			answer = &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_RETRY_LATER, Reason: "extractor: " + err.Error()}
		}
		again := answer.GetVerdict() != crawlv1.Verdict_VERDICT_DONE && answer.GetVerdict() != crawlv1.Verdict_VERDICT_NEVER
		if !again || p.streamed || answer.GetStorageUnavailable() || p.ctx.Err() != nil {
			p.end()
			return answer
		}
		avoid, p.link, p.call = p.link, nil, nil
		if pause(p.ctx, max(wait, answer.GetRetryAfter().AsDuration())) != nil {
			p.end()
			return answer
		}
		wait = min(2*wait, longPause)
	}
}

// attempt sends all that is held and waits for the answer. A call that does
// not end with one is given up.
func (p *Page) attempt(result *crawlv1.FetchResult, avoid *link) (*crawlv1.Answer, error) {
	err := error(nil)
	if p.call == nil {
		err = p.begin(avoid)
	}
	if err == nil {
		err = p.sendChunks()
	}
	if err == nil {
		err = p.call.Send(p.ctx, &extractorv1.ExtractRequest{Part: &extractorv1.ExtractRequest_End{End: &extractorv1.PageEnd{Result: result}}})
	}
	if errors.Is(err, rpc.ErrAnswered) {
		p.tainted = true // what is queued is not sent, but the writer may be at it
	} else if err != nil {
		if p.call != nil {
			p.call.Cancel()
		}
		return nil, err
	}
	res, err := p.call.Wait(p.ctx)
	if err != nil {
		return nil, err
	}
	return res.GetAnswer(), nil
}

// Begun tells whether a part of the page was sent, so that its extractor waits
// for the end.
func (p *Page) Begun() bool { return p.call != nil }

// Discard ends a page that nobody is to hear of.
func (p *Page) Discard() {
	if p.call != nil {
		p.call.Cancel()
		p.tainted = true
	}
	p.end()
}

// end gives the memory back.
func (p *Page) end() {
	for _, b := range p.buffers {
		if !p.tainted {
			b.Release()
		}
	}
	p.buffers, p.chunks, p.request, p.head = nil, nil, nil, nil
}
