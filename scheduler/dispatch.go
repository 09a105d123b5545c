package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	downloaderv1 "lycosa.dev/proto/gen/lycosa/downloader/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

type fetchStream = grpc.BidiStreamingClient[downloaderv1.FetchRequest, downloaderv1.FetchResponse]

// dispatcher hands leases to one downloader for as long as it is joined. It
// never has more leases out than the downloader's capacity, those counted whose
// stream has broken: a new stream begins with asking for them.
type dispatcher struct {
	s        *Scheduler
	out      *outstanding
	id       string
	address  string
	capacity int
	heard    atomic.Bool // the downloader has sent something on this stream
	log      *slog.Logger
}

func newDispatcher(s *Scheduler, mem *member, hello *schedulerv1.Hello) *dispatcher {
	out := &outstanding{mem: mem, leases: map[uint64]bool{}}
	for _, held := range hello.GetHeld() {
		out.add(held.GetLeaseId())
	}
	return &dispatcher{
		s: s, out: out, id: hello.GetId(), address: hello.GetAddress(), capacity: int(hello.GetCapacity()),
		log: s.log.With("downloader", hello.GetId()),
	}
}

// run keeps a Fetch stream to the downloader until ctx ends.
func (d *dispatcher) run(ctx context.Context) {
	defer d.out.clear(d.s.spans)
	var p pause
	for ctx.Err() == nil {
		err := d.session(ctx)
		if ctx.Err() != nil {
			return
		}
		wait := p.next(d.heard.Swap(false))
		d.log.Warn("the stream of leases broke, opening it again", "address", d.address, "wait", wait, "err", err)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// pause is how long the next stream waits: doubling while no stream brings
// anything, short again after one that did. The zero value is ready to use.
type pause struct{ wait time.Duration }

func (p *pause) next(heard bool) time.Duration {
	const firstWait, longWait = 50 * time.Millisecond, 5 * time.Second
	if heard {
		p.wait = 0
	}
	p.wait = min(max(2*p.wait, firstWait), longWait)
	return p.wait
}

// session works one stream.
func (d *dispatcher) session(ctx context.Context) error {
	conn, closer, err := d.s.deps.Dialer.Dial(ctx, d.address)
	if err != nil {
		return err
	}
	defer closer.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := downloaderv1.NewDownloaderServiceClient(conn).Fetch(ctx)
	if err != nil {
		return err
	}
	freed := make(chan struct{}, 1)
	received := make(chan error, 1)
	go func() { received <- d.receive(ctx, stream, freed) }()
	if err = d.resume(stream); err == nil {
		err = d.send(ctx, stream, freed, received)
	}
	cancel()
	if !errors.Is(err, errEnded) {
		// The receiver reads the frontier: it ends before the session does.
		if cause := <-received; errors.Is(err, errSendFailed) {
			err = cause
		}
	}
	return err
}

var (
	errSendFailed = errors.New("send failed")
	errEnded      = errors.New("stream ended") // the receiver has returned
)

// resume asks for the leases that are out already.
func (d *dispatcher) resume(stream fetchStream) error {
	for _, id := range d.out.ids() {
		if err := stream.Send(&downloaderv1.FetchRequest{Item: &downloaderv1.FetchRequest_ResumeLeaseId{ResumeLeaseId: id}}); err != nil {
			return errSendFailed
		}
	}
	return nil
}

// send leases whenever there is room and something is ready. It returns the
// receiver's error when the stream has ended.
func (d *dispatcher) send(ctx context.Context, stream fetchStream, freed <-chan struct{}, received <-chan error) error {
	ready := d.s.f.Ready(d.id)
	for {
		if room := d.capacity - d.out.len(); room > 0 {
			leases, err := d.lease(ctx, room)
			if err != nil && ctx.Err() == nil {
				d.log.Error("leasing failed", "err", err)
			}
			broken := false
			for _, lease := range leases {
				d.s.spans.start(d.s.tracer, lease)
				if err := stream.Send(&downloaderv1.FetchRequest{Item: &downloaderv1.FetchRequest_Lease{Lease: lease}}); err != nil {
					// Leases that were not sent are known to be free again.
					d.s.release(ctx, lease.GetId(), &downloaderv1.FetchAnswer{
						Answer: &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_RETRY_LATER, Reason: "the stream to the downloader broke"}})
					d.out.remove(lease.GetId())
					broken = true
				}
			}
			if broken {
				return errSendFailed // leasing on would go round in circles
			}
			if len(leases) == room {
				continue
			}
		}
		select {
		case <-ready:
		case <-freed:
		case err := <-received:
			return errors.Join(errEnded, err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lease takes leases and counts them as out before any is sent, so that who
// drains sees all of them. Once leasing has ended for good there are none.
func (d *dispatcher) lease(ctx context.Context, room int) ([]*crawlv1.Lease, error) {
	d.s.leasing.RLock()
	defer d.s.leasing.RUnlock()
	if d.s.leasingEnded {
		return nil, nil
	}
	leases, err := d.s.f.Lease(ctx, d.id, room)
	for _, lease := range leases {
		d.out.add(lease.GetId())
	}
	return leases, err
}

func (d *dispatcher) receive(ctx context.Context, stream fetchStream, freed chan<- struct{}) error {
	for {
		res, err := stream.Recv()
		if err != nil {
			return err
		}
		d.heard.Store(true)
		id := res.GetLeaseId()
		if p := res.GetProgress(); p != nil {
			var took *time.Duration
			if p.GetFetchDuration() != nil {
				v := p.GetFetchDuration().AsDuration()
				took = &v
			}
			d.s.f.Renew(id, p.GetStage(), took)
			continue
		}
		ans := res.GetAnswer()
		if !d.out.remove(id) {
			d.log.Warn("answer for a lease that is not out", "lease", id)
			continue
		}
		d.s.spans.end(id, ans.GetAnswer())
		if ans.GetAnswer().GetStorageUnavailable() {
			d.s.f.StorageUnavailable(ans.GetAnswer().GetReason())
		}
		if ans.GetAnswer().GetVerdict() != crawlv1.Verdict_VERDICT_DONE {
			d.s.release(ctx, id, ans)
		}
		select {
		case freed <- struct{}{}:
		default:
		}
	}
}

func (s *Scheduler) release(ctx context.Context, id uint64, ans *downloaderv1.FetchAnswer) {
	if err := s.f.Release(ctx, id, ans); err != nil && ctx.Err() == nil {
		s.log.Error("a lease could not be released, it ends by its deadline", "lease", id, "err", err)
	}
}
