// Package ring passes fetched pages on to the extractors and brings back their
// answers: the downloader's next hop.
//
// A Ring keeps one stream to each extractor of the topology. A Page is the sink
// of one fetch: small bodies wait in it until the fetch has ended and can then
// be sent again, to another extractor too, if the first does not take them;
// large ones are streamed while they come, in bounded memory.
//
// Ownership: what a page refers to lies in pooled buffers. They go back to the
// pool when the extractor has answered. After an attempt that ended without an
// answer they are left to the garbage collector, since a reader in this process
// may still look at them.
package ring

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/grpc"

	"lycosa.dev/internal/rpc"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	extractorv1 "lycosa.dev/proto/gen/lycosa/extractor/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// Topology says which extractors there are.
type Topology interface {
	// Instances returns the instances of one kind that take work.
	Instances(schedulerv1.ServiceKind) []*schedulerv1.Instance
	// Changed returns a channel closed at the next change.
	Changed() <-chan struct{}
}

// Options configures a Ring; all but Logger are needed.
type Options struct {
	Dialer   rpc.Dialer
	Topology Topology
	Logger   *slog.Logger
	// Window is how many pages may be unanswered on one stream.
	Window int
}

// Ring holds the streams. Its methods are safe for concurrent use.
type Ring struct {
	opt Options

	mu      sync.Mutex
	links   map[string]*link // by address; those of the topology
	changed chan struct{}    // closed and replaced when a link comes or connects
}

type (
	caller = rpc.Caller[extractorv1.ExtractRequest, extractorv1.ExtractResponse]
	call   = rpc.Call[extractorv1.ExtractRequest, extractorv1.ExtractResponse]
)

// link is the stream to one extractor.
type link struct {
	id     string
	caller *caller
	credit credit
	cancel context.CancelFunc
	drain  context.CancelFunc
}

// New returns a Ring without links; Run makes them.
func New(opt Options) *Ring {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	return &Ring{opt: opt, links: map[string]*link{}, changed: make(chan struct{})}
}

// Run keeps a stream to every extractor of the topology until ctx ends. The
// stream to one that has left ends when its last page is answered.
func (r *Ring) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, l := range r.links {
			l.cancel()
		}
		clear(r.links)
	}()
	for {
		changed := r.opt.Topology.Changed()
		r.follow(ctx, &wg)
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// follow makes the links those of the topology.
func (r *Ring) follow(ctx context.Context, wg *sync.WaitGroup) {
	want := map[string]string{}
	for _, i := range r.opt.Topology.Instances(schedulerv1.ServiceKind_SERVICE_KIND_EXTRACTOR) {
		want[i.GetAddress()] = i.GetId()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for addr, l := range r.links {
		if id, ok := want[addr]; !ok || id != l.id {
			delete(r.links, addr)
			l.drain()
		}
	}
	for addr, id := range want {
		if r.links[addr] == nil {
			l, err := r.open(ctx, wg, id, addr)
			if err != nil {
				r.opt.Logger.Error("an extractor's address cannot be dialled", "extractor", id, "address", addr, "err", err)
				continue
			}
			r.links[addr] = l
		}
	}
}

// open starts the stream to an extractor, which lives until ctx ends or it is
// drained.
func (r *Ring) open(ctx context.Context, wg *sync.WaitGroup, id, addr string) (*link, error) {
	conn, closer, err := r.opt.Dialer.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	client := extractorv1.NewExtractorServiceClient(conn)
	l := &link{id: id}
	l.caller = rpc.NewCaller(rpc.CallerOptions[extractorv1.ExtractRequest, extractorv1.ExtractResponse]{
		Open: func(ctx context.Context) (grpc.BidiStreamingClient[extractorv1.ExtractRequest, extractorv1.ExtractResponse], error) {
			return client.Extract(ctx)
		},
		Window:    r.opt.Window,
		SetID:     func(m *extractorv1.ExtractRequest, id uint64) { m.Id = id },
		ID:        (*extractorv1.ExtractResponse).GetId,
		Final:     func(m *extractorv1.ExtractResponse) bool { return m.GetAnswer() != nil },
		OnPartial: func(m *extractorv1.ExtractResponse) { l.credit.add(m.GetCreditBytes()) },
		OnOpen:    func() { l.credit.reset() },
		OnReady:   r.wake, // not before: who is woken looks for a link that is connected
		OnUnsent:  func(m *extractorv1.ExtractRequest) { l.credit.add(int64(len(m.GetChunk()))) },
		Abandon:   abandon,
		Logger:    r.opt.Logger, Name: "extractor " + id,
	})
	ctx, l.cancel = context.WithCancel(ctx)
	draining, drain := context.WithCancel(ctx)
	l.drain = drain
	wg.Go(func() { defer closeQuietly(closer); _ = l.caller.Run(ctx) })
	wg.Go(func() {
		// Ends with the ring, or when the extractor has left and all is answered.
		<-draining.Done()
		_ = l.caller.Drain(ctx)
		l.cancel()
	})
	return l, nil
}

// abandon ends a page that was begun and is given up: its extractor would wait
// for the end as long as the stream lives.
func abandon(id uint64) *extractorv1.ExtractRequest {
	return &extractorv1.ExtractRequest{Id: id, Part: &extractorv1.ExtractRequest_End{End: &extractorv1.PageEnd{Result: &crawlv1.FetchResult{}}}}
}

func closeQuietly(c io.Closer) { _ = c.Close() }

// wake tells who waits in pick that something has changed.
func (r *Ring) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.changed)
	r.changed = make(chan struct{})
}

// Wait returns when an extractor is connected, or ctx's error.
func (r *Ring) Wait(ctx context.Context) error {
	_, err := r.pick(ctx, "", nil)
	return err
}

// Connected tells whether an extractor is connected now.
func (r *Ring) Connected() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		if l.caller.Connected() {
			return true
		}
	}
	return false
}

// pick returns the extractor for a host: always the same one while the
// extractors stay the same, because its cache knows the links of the host's
// pages; the next in the host's own order while that is away. One in avoid is
// taken only if there is no other.
func (r *Ring) pick(ctx context.Context, hostKey string, avoid *link) (*link, error) {
	for {
		r.mu.Lock()
		var best, last *link
		var bestScore uint64
		for _, l := range r.links {
			if !l.caller.Connected() {
				continue
			}
			if l == avoid {
				last = l
			} else if s := score(hostKey, l.id); best == nil || s > bestScore {
				best, bestScore = l, s
			}
		}
		if best == nil {
			best = last
		}
		changed := r.changed
		r.mu.Unlock()
		if best != nil {
			return best, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// score orders extractors for a host (rendezvous hashing).
func score(hostKey, id string) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(hostKey)
	_, _ = d.WriteString("\x00")
	_, _ = d.WriteString(id)
	return d.Sum64()
}

// Load describes the links for metrics.
func (r *Ring) Load() (links, connected, pages int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		links++
		if l.caller.Connected() {
			connected++
		}
		pages += l.caller.InFlight()
	}
	return links, connected, pages
}

// pause waits between two attempts.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
