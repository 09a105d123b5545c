// Package dnser is the service that resolves the hosts of links before they
// reach the frontier. It takes outcomes and candidates from the extractors,
// adds what the DNS knows of the candidates' hosts, commits all to the
// scheduler, and answers when that has answered.
//
// The DNS itself is package internal/resolver, which knows neither gRPC nor
// jobs; this package is its face: it applies a job's rules and address policy,
// keeps the stream of commits, and maps what came out to the contract.
//
// Invariants: an item is answered only after the scheduler has answered for it
// (or to say that it was not taken); a name that is slow holds an item for at
// most Config.ResolveWait; no address leaves that the job's policy refuses.
package dnser

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"lycosa.dev/dnser/internal/resolver"
	"lycosa.dev/dnser/internal/static"
	"lycosa.dev/dnser/internal/upstream"
	"lycosa.dev/internal/membership"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/service"
	"lycosa.dev/internal/telemetry"
	dnserv1 "lycosa.dev/proto/gen/lycosa/dnser/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// Dnser is the service. New makes one, Run works it.
type Dnser struct {
	dnserv1.UnimplementedDnserServiceServer

	cfg     Config
	deps    service.Deps
	log     *slog.Logger
	tracer  trace.Tracer
	metrics *metrics
	members *membership.Client
	jobs    jobs
	items   rpc.Gate

	// transport carries DNS questions; nil is the network. Tests set it.
	transport upstream.Transport

	opened   chan struct{} // closed when the two below may be used
	resolver *resolver.Resolver
	archive  *archive // nil: none
	commits  *rpc.Caller[schedulerv1.CommitRequest, schedulerv1.CommitResponse]

	mu      sync.Mutex
	running error // nil while Run works, else why it does not
}

var (
	errStarting = errors.New("the dnser is starting")
	errStopped  = errors.New("the dnser has stopped")
)

// New returns a dnser; it does no I/O.
func New(cfg Config, deps service.Deps) (*Dnser, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Dialer == nil {
		return nil, errors.New("dnser: Deps.Dialer is nil; it is needed to reach the scheduler")
	}
	deps = deps.WithDefaults()
	d := &Dnser{
		cfg: cfg, deps: deps, log: deps.Logger,
		tracer:  deps.TracerProvider.Tracer("lycosa.dev/dnser"),
		metrics: newMetrics(deps.Registerer),
		opened:  make(chan struct{}),
		running: errStarting,
	}
	d.members = membership.New(membership.Options{
		Dialer: deps.Dialer, Scheduler: cfg.Scheduler, Logger: deps.Logger,
		Hello: func() *schedulerv1.Hello {
			return &schedulerv1.Hello{
				Kind: schedulerv1.ServiceKind_SERVICE_KIND_DNSER, Id: cfg.ID,
				Address: cfg.Address(), Version: telemetry.Version(),
			}
		},
	})
	return d, nil
}

// Register adds DnserService.
func (d *Dnser) Register(r grpc.ServiceRegistrar) { dnserv1.RegisterDnserServiceServer(r, d) }

// Health is nil while the dnser works and is joined to the scheduler.
func (d *Dnser) Health(context.Context) error {
	d.mu.Lock()
	err := d.running
	d.mu.Unlock()
	if err == nil && !d.members.Joined() {
		err = fmt.Errorf("not joined to the scheduler at %s", d.cfg.Scheduler)
	}
	return err
}

func (d *Dnser) setRunning(err error) {
	d.mu.Lock()
	d.running = err
	d.mu.Unlock()
}

// Run joins the scheduler and works until ctx ends. Then new items are sent
// back, those in flight come home, and the cache is written.
func (d *Dnser) Run(ctx context.Context) error {
	defer d.setRunning(errStopped)
	conn, closer, err := d.deps.Dialer.Dial(ctx, d.cfg.Scheduler)
	if err != nil {
		return fmt.Errorf("dnser: %w", err)
	}
	defer func() { _ = closer.Close() }() // nothing is in flight on it any more
	if err := d.open(schedulerv1.NewSchedulerServiceClient(conn)); err != nil {
		return fmt.Errorf("dnser: %w", err)
	}
	if d.archive != nil {
		defer d.archive.close() // after the resolver has ended
	}
	d.setRunning(nil)

	// The parts outlive ctx: the items in flight need them.
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, base := errgroup.WithContext(base)
	group.Go(func() error { return d.resolver.Run(base) })
	group.Go(func() error { return d.commits.Run(base) })
	group.Go(func() error { return d.members.Run(base) })
	select {
	case <-ctx.Done():
	case <-base.Done(): // a part has failed
	}
	d.setRunning(errStopped)
	d.members.Drain()
	drain, cancel := context.WithTimeout(base, rpc.DrainTime(d.cfg.Grace))
	if left := d.items.Close(drain); left > 0 {
		d.log.Warn("items in flight are given up", "items", left)
	}
	cancel()
	stop()
	return group.Wait()
}

// open makes the parts that need what New may not read.
func (d *Dnser) open(scheduler schedulerv1.SchedulerServiceClient) error {
	servers, problem := d.cfg.servers()
	if problem != nil {
		d.log.Warn("no DNS server is named, asking the local one", "server", localServer, "err", problem)
	}
	rules, err := static.ParseAll(d.cfg.Resolve)
	if err != nil {
		return err
	}
	d.log.Info("DNS servers", "servers", servers, "rules", rules.Len())
	deps := resolver.Deps{Log: d.log, Metrics: d.deps.Registerer, Transport: d.transport}
	if d.cfg.WARCDir != "" {
		if d.archive, err = d.openArchive(); err != nil {
			return err
		}
		deps.Record = d.archive.record
	}
	d.resolver = resolver.New(d.cfg.resolver(servers, rules), deps)
	d.commits = rpc.NewCaller(rpc.CallerOptions[schedulerv1.CommitRequest, schedulerv1.CommitResponse]{
		Open: func(ctx context.Context) (grpc.BidiStreamingClient[schedulerv1.CommitRequest, schedulerv1.CommitResponse], error) {
			return scheduler.Commit(ctx)
		},
		Window: d.cfg.Window,
		SetID:  func(r *schedulerv1.CommitRequest, id uint64) { r.Id = id },
		ID:     (*schedulerv1.CommitResponse).GetId,
		Logger: d.log, Name: "commit",
	})
	close(d.opened)
	return nil
}

// ready waits until the parts are there.
func (d *Dnser) ready(ctx context.Context) error {
	select {
	case <-d.opened:
		return nil
	default:
	}
	select {
	case <-d.opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
