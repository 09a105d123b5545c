package downloader

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"lycosa.dev/internal/rpc"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	downloaderv1 "lycosa.dev/proto/gen/lycosa/downloader/v1"
)

// progressEvery is how often the leases of a stream are looked over for those
// whose scheduler needs a sign of life.
const progressEvery = 200 * time.Millisecond

// feed is one Fetch stream: where leases come from and their answers go.
type feed struct {
	stream grpc.BidiStreamingServer[downloaderv1.FetchRequest, downloaderv1.FetchResponse]

	session uint64 // of the membership in which it was opened

	sending sync.Mutex // of stream.Send
	over    bool       // the stream has ended; guarded by sending

	mu     sync.Mutex
	leases map[uint64]*lease
	closed bool          // the client sends no more, or we take no more
	empty  chan struct{} // closed when closed and without leases
}

func (f *feed) send(id uint64, res *downloaderv1.FetchResponse) error {
	res.LeaseId = id
	f.sending.Lock()
	defer f.sending.Unlock()
	if f.over {
		return io.ErrClosedPipe
	}
	return f.stream.Send(res)
}

// end makes later sends fail: leases outlive the stream they came by.
func (f *feed) end() {
	f.sending.Lock()
	defer f.sending.Unlock()
	f.over = true
}

func (f *feed) answer(id uint64, a *downloaderv1.FetchAnswer) {
	// A stream that is broken loses the answer; its reader ends it.
	_ = f.send(id, &downloaderv1.FetchResponse{Item: &downloaderv1.FetchResponse_Answer{Answer: a}})
}

func (f *feed) add(l *lease) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leases[l.id] = l
}

func (f *feed) remove(id uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.leases, id)
	f.check()
}

// close ends the feed when its last lease is answered.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.check()
}

func (f *feed) check() {
	if !f.closed || len(f.leases) > 0 {
		return
	}
	select {
	case <-f.empty:
	default:
		close(f.empty)
	}
}

// progress tells the scheduler of the leases that are due for it.
func (f *feed) progress(now time.Time) {
	f.mu.Lock()
	var due []*lease
	for _, l := range f.leases {
		if l.progressDue(now) {
			due = append(due, l)
		}
	}
	f.mu.Unlock()
	for _, l := range due {
		l.report(f)
	}
}

// Fetch serves one stream of leases.
func (d *Downloader) Fetch(stream grpc.BidiStreamingServer[downloaderv1.FetchRequest, downloaderv1.FetchResponse]) error {
	if d.Health(stream.Context()) != nil {
		return status.Error(codes.Unavailable, "the downloader takes no leases now")
	}
	f := &feed{stream: stream, session: d.inSession(), leases: map[uint64]*lease{}, empty: make(chan struct{})}
	defer f.end()
	read := make(chan error, 1)
	go func() { read <- d.read(f) }() // ends with the stream, which ends with this handler
	draining := rpc.Draining(stream.Context())
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-read:
			if !errors.Is(err, io.EOF) {
				return streamEnd(stream.Context(), err)
			}
			read = nil
			f.close()
		case <-draining:
			draining = nil
			f.close()
		case <-f.empty:
			return nil
		case <-d.base.Done():
			// Answers under way are sent by the workers, which end before Run.
			f.close()
			select {
			case <-f.empty:
			case <-stream.Context().Done():
			}
			return nil
		case now := <-tick.C:
			f.progress(now)
		}
	}
}

func streamEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return err
}

// read takes what the scheduler sends until it ends.
func (d *Downloader) read(f *feed) error {
	for {
		req, err := f.stream.Recv()
		if err != nil {
			return err
		}
		switch item := req.GetItem().(type) {
		case *downloaderv1.FetchRequest_Lease:
			d.take(f, item.Lease)
		case *downloaderv1.FetchRequest_CancelLeaseId:
			d.takeBack(item.CancelLeaseId)
		case *downloaderv1.FetchRequest_ResumeLeaseId:
			d.resume(f, item.ResumeLeaseId)
		}
	}
}

// take begins a lease, or answers it at once where that cannot be.
func (d *Downloader) take(f *feed, m *crawlv1.Lease) {
	if reason := unusable(m); reason != "" {
		f.answer(m.GetId(), later(reason))
		return
	}
	l := newLease(d, f, m)
	d.mu.Lock()
	if f.session != d.session {
		// The scheduler has been told since what is held, and this was not.
		d.mu.Unlock()
		l.cancel()
		return
	}
	if a := d.answered.of(l.id); a != nil {
		d.mu.Unlock()
		l.cancel()
		f.answer(l.id, a)
		return
	}
	switch {
	case d.leases[l.id] != nil:
		// The scheduler has lost the stream on which it gave the lease before.
		d.leases[l.id].moveTo(f)
		d.mu.Unlock()
		l.cancel()
		return
	case d.state != stateRunning:
		d.mu.Unlock()
		l.cancel()
		f.answer(l.id, later("the downloader is draining"))
		return
	case len(d.leases) >= d.cfg.Capacity:
		d.mu.Unlock()
		l.cancel()
		f.answer(l.id, later("the downloader holds as many leases as it can"))
		return
	}
	d.leases[l.id] = l
	f.add(l)
	// A worker that waits takes it, or else a new one.
	select {
	case d.work <- l:
	default:
		d.alive.Add(1)
		d.workers.Go(func() { d.worker(l) })
	}
	d.mu.Unlock()
}

// worker works leases until the service stops, or there are more workers than
// leases can be held: one may still be sending an answer while its place is
// taken again.
func (d *Downloader) worker(l *lease) {
	defer d.alive.Add(-1)
	for {
		l.run()
		if d.alive.Load() > int64(d.cfg.Capacity) {
			return
		}
		select {
		case l = <-d.work:
		case <-d.stop:
			return
		}
	}
}

// takeBack marks a lease as no longer wanted; it ends by itself if its request
// has not been written.
func (d *Downloader) takeBack(id uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.leases[id]; l != nil {
		l.unwanted.Store(true)
	}
}

// resume makes f the stream of a lease that was given on one that broke.
func (d *Downloader) resume(f *feed, id uint64) {
	d.mu.Lock()
	l := d.leases[id]
	if l != nil {
		l.moveTo(f)
		d.mu.Unlock()
		l.report(f) // what was to be reported meanwhile went nowhere
		return
	}
	a := d.answered.of(id)
	if a == nil {
		// It never came, or it was given to another process of this id: before
		// the scheduler has let this one join that cannot be told.
		a = later("the downloader does not hold the lease")
		a.Answer.RetryAfter = nil
		a.Fetched = !d.members.Joined()
		d.answered.add(id, a)
	}
	d.mu.Unlock()
	f.answer(id, a)
}

// forget takes an answered lease off the books and remembers the answer.
func (d *Downloader) forget(l *lease, a *downloaderv1.FetchAnswer) {
	l.cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.leases, l.id)
	d.answered.add(l.id, a)
	if d.state == stateDraining && len(d.leases) == 0 {
		select {
		case <-d.idle:
		default:
			close(d.idle)
		}
	}
}

// unusable says why a lease cannot be worked; empty: it can.
func unusable(m *crawlv1.Lease) string {
	switch {
	case m.GetId() == 0:
		return "the lease has no id"
	case m.GetUrl() == "" || m.GetHostKey() == "" || m.GetJobId() == "":
		return "the lease lacks its URL, host key or job"
	case len(m.GetAddresses()) == 0:
		return "the lease names no address"
	case m.GetDeadline().AsDuration() <= 0:
		return "the lease has no deadline"
	}
	for _, a := range m.GetAddresses() {
		if len(a) != 4 && len(a) != 16 {
			return "an address of the lease is neither 4 nor 16 bytes"
		}
	}
	return ""
}

// later gives a lease back unfetched.
func later(reason string) *downloaderv1.FetchAnswer {
	return &downloaderv1.FetchAnswer{Answer: &crawlv1.Answer{
		Verdict: crawlv1.Verdict_VERDICT_RETRY_LATER, Reason: reason, RetryAfter: durationpb.New(time.Second),
	}}
}
