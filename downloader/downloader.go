// Package downloader is the service that fetches leased URLs and passes what
// came back on to the extractors. It knows nothing of crawling: which URL,
// when, from which addresses and with how many bytes is said by the lease; how,
// by the job's spec in the topology.
//
// A lease is answered when the ring has closed behind it. It belongs to the
// service and not to the stream it came by: a broken stream loses answers, not
// fetches, and the leases still held are reported when the service joins again.
package downloader

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	"lycosa.dev/downloader/internal/cookie"
	"lycosa.dev/downloader/internal/fetch"
	"lycosa.dev/downloader/internal/profile"
	"lycosa.dev/downloader/internal/ring"
	"lycosa.dev/downloader/internal/secret"
	"lycosa.dev/internal/membership"
	"lycosa.dev/internal/service"
	"lycosa.dev/internal/telemetry"
	downloaderv1 "lycosa.dev/proto/gen/lycosa/downloader/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// Downloader is the service. New makes one, Run works it.
type Downloader struct {
	downloaderv1.UnimplementedDownloaderServiceServer

	cfg      Config
	log      *slog.Logger
	tracer   trace.Tracer
	metrics  *metrics
	engine   *fetch.Engine
	profiles *profile.Profiles
	jars     *cookie.Jars
	members  *membership.Client
	ring     *ring.Ring

	work chan *lease     // to an idle worker
	stop chan struct{}   // closed when the workers shall end
	base context.Context // of every lease; ends when leases are given up
	end  context.CancelFunc

	mu     sync.Mutex
	state  state
	leases map[uint64]*lease
	// answered are the answers given last. Of those that a broken stream has
	// lost there are at most as many as leases can be out, and as many again
	// while there is no stream.
	answered answers
	session  uint64        // counts the times that the held leases were announced
	idle     chan struct{} // closed when draining and no lease is held
	workers  sync.WaitGroup
	alive    atomic.Int64 // workers
}

// pageWindow is how many pages may be unanswered on one stream to an extractor:
// as many as one takes by default. More wait here, where they can be sent
// elsewhere.
const pageWindow = 256

type state uint8

const (
	stateNew state = iota
	stateRunning
	stateDraining
	stateStopped
)

// New returns a downloader; it does no I/O.
func New(cfg Config, deps service.Deps) (*Downloader, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	deps = deps.WithDefaults()
	engineCfg, err := cfg.engine()
	if err != nil {
		return nil, err
	}
	engine, err := fetch.New(engineCfg)
	if err != nil {
		return nil, err
	}
	d := &Downloader{
		cfg: cfg, log: deps.Logger, engine: engine,
		tracer: deps.TracerProvider.Tracer("lycosa.dev/downloader"),
		jars:   cookie.NewJars(cfg.CookiesDir),
		work:   make(chan *lease),
		stop:   make(chan struct{}),
		leases: map[uint64]*lease{}, answered: newAnswers(2 * cfg.Capacity),
		idle: make(chan struct{}),
	}
	d.profiles = profile.New(profile.Options{
		Base: engineCfg.Settings, JobNets: cfg.JobNets, Secrets: secret.Store{Dir: cfg.SecretsDir}, Jars: d.jars,
	})
	d.base, d.end = context.WithCancel(context.Background())
	d.members = membership.New(membership.Options{
		Dialer: deps.Dialer, Scheduler: cfg.Scheduler, Hello: d.announce, Logger: deps.Logger,
	})
	d.ring = ring.New(ring.Options{
		Dialer: deps.Dialer, Topology: d.members, Logger: deps.Logger, Window: min(cfg.Capacity, pageWindow),
	})
	if d.metrics, err = newMetrics(deps.Registerer, d); err != nil {
		return nil, err
	}
	return d, nil
}

// Register adds DownloaderService.
func (d *Downloader) Register(r grpc.ServiceRegistrar) {
	downloaderv1.RegisterDownloaderServiceServer(r, d)
}

// Health is nil while the downloader runs. It may be without scheduler or
// extractor meanwhile: both come back by themselves.
func (d *Downloader) Health(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch d.state {
	case stateRunning:
		return nil
	case stateDraining:
		return errors.New("the downloader is draining")
	case stateStopped:
		return errors.New("the downloader has stopped")
	}
	return errors.New("the downloader is starting")
}

// announce is the hello of a new membership. What comes on streams of the one
// before is not taken any more: the scheduler gives what is not announced to
// others.
func (d *Downloader) announce() *schedulerv1.Hello {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.session++
	return d.hello()
}

func (d *Downloader) inSession() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.session
}

// hello announces the downloader with the leases it holds at this moment. mu is
// held.
func (d *Downloader) hello() *schedulerv1.Hello {
	h := &schedulerv1.Hello{
		Kind: schedulerv1.ServiceKind_SERVICE_KIND_DOWNLOADER, Id: d.cfg.ID, Address: d.cfg.Address(),
		Version: telemetry.Version(), Capacity: uint32(d.cfg.Capacity),
	}
	for id, l := range d.leases {
		h.Held = append(h.Held, &schedulerv1.HeldLease{LeaseId: id, Fetched: l.stage.Load() >= int32(downloaderv1.Stage_STAGE_FETCHING)})
	}
	return h
}

// Run joins the scheduler, keeps the streams to the extractors and works
// leases until ctx ends. Then it announces that it is draining, takes no more
// leases, and returns when those it holds are answered or drain_timeout has
// passed. It returns an error if the scheduler refuses it.
func (d *Downloader) Run(ctx context.Context) error {
	// These outlive ctx until the leases are answered.
	late, stopLate := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLate()
	refused := make(chan error, 1)
	var parts sync.WaitGroup
	parts.Go(func() { refused <- d.members.Run(late) })
	parts.Go(func() { _ = d.ring.Run(late) })
	parts.Go(func() { d.engine.Run(late) })
	parts.Go(func() { d.expire(late) })
	parts.Go(func() { d.keepCookies(late) })
	d.setState(stateRunning)

	var err error
	select {
	case <-ctx.Done():
	case err = <-refused:
	}
	d.drain()
	d.setState(stateStopped)
	close(d.stop)
	d.workers.Wait()
	stopLate()
	parts.Wait()
	return err
}

func (d *Downloader) setState(s state) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state = s
}

// drain takes no more leases and waits for those held; what has not ended in
// time is given up.
func (d *Downloader) drain() {
	d.mu.Lock()
	d.state = stateDraining
	held := len(d.leases)
	if held == 0 {
		close(d.idle)
	}
	d.mu.Unlock()
	d.members.Drain()
	d.log.Info("draining", "leases", held, "at_most", d.cfg.DrainTimeout)
	timer := time.NewTimer(d.cfg.DrainTimeout)
	defer timer.Stop()
	select {
	case <-d.idle:
	case <-timer.C:
		d.log.Warn("leases did not end in time and are given up", "drain_timeout", d.cfg.DrainTimeout)
		d.end()
		<-d.idle
	}
	d.end()
}

// expire gives up leases that have taken longer than max_lease.
func (d *Downloader) expire(ctx context.Context) {
	tick := time.NewTicker(min(10*time.Second, max(d.cfg.MaxLease/4, 10*time.Millisecond)))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			d.mu.Lock()
			for _, l := range d.leases {
				if now.Sub(l.received) > d.cfg.MaxLease {
					l.cancel()
				}
			}
			d.mu.Unlock()
		}
	}
}

// saveCookiesEvery is how much of what servers told us a kill can cost.
const saveCookiesEvery = 30 * time.Second

// keepCookies writes the jars to their files from time to time and at the end.
func (d *Downloader) keepCookies(ctx context.Context) {
	tick := time.NewTicker(saveCookiesEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		if err := d.jars.Save(); err != nil {
			d.log.Warn("cookies are not saved", "folder", d.cfg.CookiesDir, "error", err)
		}
	}
}
