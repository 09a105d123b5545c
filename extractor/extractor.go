// Package extractor is the service that takes a fetched page, saves it, runs
// the job's pipeline over it, finds its links, judges them by the job's scope
// and hands outcome and links on to the dnser. It answers a page when the
// frontier has them.
package extractor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"lycosa.dev/extractor/internal/crawllog"
	"lycosa.dev/extractor/internal/seen"
	"lycosa.dev/internal/membership"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/service"
	"lycosa.dev/internal/telemetry"
	dnserv1 "lycosa.dev/proto/gen/lycosa/dnser/v1"
	extractorv1 "lycosa.dev/proto/gen/lycosa/extractor/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// Extractor is the service. New makes one, Run works it.
type Extractor struct {
	extractorv1.UnimplementedExtractorServiceServer

	cfg     Config
	deps    service.Deps
	log     *slog.Logger
	tracer  trace.Tracer
	metrics *metrics
	member  *membership.Client
	dnsers  *membership.Pool[dnserv1.ResolveRequest, dnserv1.ResolveResponse]
	seen    *seen.Cache
	kept    kept
	pages   rpc.Gate // those in work

	stopping context.Context // ends when Run begins to stop
	stop     context.CancelFunc
	jobs     *jobs
	spool    string

	mu       sync.Mutex
	crawlLog *crawllog.Log // nil until Run
	running  error
}

var errStarting = errors.New("the extractor is starting")

// New returns an extractor; it does no I/O.
func New(cfg Config, deps service.Deps) (*Extractor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	deps = deps.WithDefaults()
	e := &Extractor{
		cfg: cfg, deps: deps, log: deps.Logger,
		tracer:  deps.TracerProvider.Tracer("lycosa.dev/extractor"),
		metrics: newMetrics(deps.Registerer),
		seen:    seen.New(cfg.CachedLinks),
		spool:   filepath.Join(cfg.Dir, "spool"),
		running: errStarting,
	}
	e.stopping, e.stop = context.WithCancel(context.Background())
	e.member = membership.New(membership.Options{
		Dialer: deps.Dialer, Scheduler: cfg.Scheduler, Logger: deps.Logger,
		Hello: func() *schedulerv1.Hello {
			return &schedulerv1.Hello{
				Kind: schedulerv1.ServiceKind_SERVICE_KIND_EXTRACTOR, Id: cfg.ID, Address: cfg.Address(), Version: telemetry.Version(),
			}
		},
	})
	e.jobs = newJobs(cfg, e.member, deps.Logger)
	e.dnsers = membership.NewPool(membership.PoolOptions[dnserv1.ResolveRequest, dnserv1.ResolveResponse]{
		Client: e.member, Kind: schedulerv1.ServiceKind_SERVICE_KIND_DNSER, Dialer: deps.Dialer,
		Caller: func(conn grpc.ClientConnInterface, instance *schedulerv1.Instance) rpc.CallerOptions[dnserv1.ResolveRequest, dnserv1.ResolveResponse] {
			return rpc.CallerOptions[dnserv1.ResolveRequest, dnserv1.ResolveResponse]{
				Open: func(ctx context.Context) (grpc.BidiStreamingClient[dnserv1.ResolveRequest, dnserv1.ResolveResponse], error) {
					return dnserv1.NewDnserServiceClient(conn).Resolve(ctx)
				},
				Window: cfg.Window,
				SetID:  func(r *dnserv1.ResolveRequest, id uint64) { r.Id = id },
				ID:     func(r *dnserv1.ResolveResponse) uint64 { return r.GetId() },
				Logger: deps.Logger, Name: "dnser " + instance.GetId(),
			}
		},
	})
	return e, nil
}

// Register adds ExtractorService.
func (e *Extractor) Register(r grpc.ServiceRegistrar) {
	extractorv1.RegisterExtractorServiceServer(r, e)
}

// Health is nil while the extractor is joined and has somewhere to send pages.
func (e *Extractor) Health(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.running != nil:
		return e.running
	case !e.member.Joined():
		return fmt.Errorf("not joined to the scheduler at %s", e.cfg.Scheduler)
	case e.dnsers.Len() == 0:
		return errors.New("no dnser has joined")
	}
	return nil
}

// Run works until ctx ends. Then new pages are sent back, those in work come to
// their answers, and the dnsers' streams and the stores are closed. The server
// must outlive Run, for the pages' parts and the answers go through it.
func (e *Extractor) Run(ctx context.Context) error {
	if err := e.open(); err != nil {
		return err
	}
	// The parts outlive ctx: the pages in work need them.
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer e.stop()
	group, base := errgroup.WithContext(base)
	group.Go(func() error { return e.member.Run(base) })
	group.Go(func() error { return e.dnsers.Run(base) })
	group.Go(func() error { return e.jobs.run(base) })
	group.Go(func() error { return e.flushLog(base) })
	select {
	case <-ctx.Done():
	case <-base.Done(): // a part has failed
	}
	e.mu.Lock()
	e.running = errors.New("the extractor has stopped")
	log := e.crawlLog
	e.mu.Unlock()
	e.stop()
	e.member.Drain()
	drain, cancel := context.WithTimeout(base, rpc.DrainTime(e.cfg.Grace))
	if left := e.pages.Close(drain); left > 0 {
		e.log.Warn("pages in work are given up", "pages", left)
	}
	cancel()
	stop()
	err := errors.Join(group.Wait(), e.jobs.close())
	// The log is for people: a crawl is not the worse for a disk that had no
	// room for it.
	if err := log.Close(); err != nil {
		e.log.Error("crawl.log is not complete", "err", err)
	}
	return errors.Join(err, os.RemoveAll(e.spool))
}

func (e *Extractor) open() error {
	// Spool files have no names; what lies here is from a crash in between.
	if err := os.RemoveAll(e.spool); err != nil {
		return fmt.Errorf("extractor: clear the spool: %w", err)
	}
	if err := os.MkdirAll(e.spool, 0o700); err != nil {
		return fmt.Errorf("extractor: %w", err)
	}
	log, err := crawllog.Open(filepath.Join(e.cfg.Dir, "logs", "crawl.log"))
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.crawlLog, e.running = log, nil
	return nil
}

// flushLog writes buffered lines of the crawl log once a second.
func (e *Extractor) flushLog(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := e.crawlLog.Flush(); err != nil {
				e.log.Error("crawl.log cannot be written", "err", err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}
