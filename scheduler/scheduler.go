// Package scheduler is the service that holds the frontier: which URLs are
// known, which may be fetched now, who fetches them. It takes commits from the
// dnsers, leases URLs to the downloaders that have joined, and answers the
// gateway's questions.
//
// The frontier itself (package internal/frontier) knows no gRPC; this package
// is its face: it keeps the membership, drives one Fetch stream a downloader,
// and maps errors.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"lycosa.dev/internal/service"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
	"lycosa.dev/scheduler/internal/frontier"
)

// Scheduler is the service. New makes one, Run works it.
type Scheduler struct {
	schedulerv1.UnimplementedSchedulerServiceServer
	schedulerv1.UnimplementedControlServiceServer

	cfg    Config
	deps   service.Deps
	log    *slog.Logger
	tracer trace.Tracer

	opened  chan struct{} // closed when f may be used
	f       *frontier.Frontier
	members *members
	spans   *leaseSpans
	dnsers  *clientPool

	// leasing is held for reading from the look at leasingEnded until what was
	// leased is counted as out: when it ends, nobody has an uncounted lease.
	leasing      sync.RWMutex
	leasingEnded bool // for good

	stopping chan struct{} // closed when the Join streams shall end

	overlays sync.Mutex // held while overlays are changed

	mu      sync.Mutex
	running error // nil while Run works, else why it does not
}

var errStarting = errors.New("the scheduler is starting")

// New returns a scheduler; it does no I/O.
func New(cfg Config, deps service.Deps) (*Scheduler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	deps = deps.WithDefaults()
	return &Scheduler{
		cfg: cfg, deps: deps, log: deps.Logger,
		tracer:   deps.TracerProvider.Tracer("lycosa.dev/scheduler"),
		opened:   make(chan struct{}),
		members:  newMembers(),
		spans:    newLeaseSpans(),
		dnsers:   newClientPool(deps.Dialer),
		stopping: make(chan struct{}),
		running:  errStarting,
	}, nil
}

// Register adds SchedulerService and ControlService.
func (s *Scheduler) Register(r grpc.ServiceRegistrar) {
	schedulerv1.RegisterSchedulerServiceServer(r, s)
	schedulerv1.RegisterControlServiceServer(r, s)
}

// Health is nil while the frontier is open and works.
func (s *Scheduler) Health(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

func (s *Scheduler) setRunning(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = err
}

// Run opens the frontier and works until ctx ends, then lets what is in flight
// come home and closes the frontier.
func (s *Scheduler) Run(ctx context.Context) (err error) {
	defer func() { s.setRunning(fmt.Errorf("the scheduler has stopped: %w", errors.Join(err, context.Canceled))) }()
	groups, err := s.cfg.groups()
	if err != nil {
		return err
	}
	store, err := frontier.OpenStoreWith(s.cfg.Dir, s.cfg.StoreCacheBytes, s.cfg.StoreBufferBytes)
	if err != nil {
		return err
	}
	f, err := frontier.Open(ctx, frontier.Options{
		Store: store, Logger: s.log, Registerer: s.deps.Registerer, Lookup: s.lookup, Groups: groups,
		LeaseDeadline: s.cfg.LeaseDeadline, LeaseGrace: s.cfg.LeaseGrace, MaxLease: s.cfg.MaxLease,
		MaxActiveHosts: s.cfg.MaxActiveHosts, DeadLeasesAtStart: s.cfg.SingleProcess, AdoptWait: s.cfg.AdoptWait,
		SeenTable: s.cfg.SeenTableKeys, SeenFilterBytes: s.cfg.SeenFilterBytes, SeenCacheBytes: s.cfg.SeenCacheBytes,
	})
	if err != nil {
		return errors.Join(err, store.Close())
	}
	s.f = f
	close(s.opened)
	s.setRunning(nil)

	// The frontier must outlive the dispatchers: they release what they hold.
	frontierCtx, stopFrontier := context.WithCancel(context.WithoutCancel(ctx))
	defer stopFrontier()
	var group errgroup.Group
	workCtx, stopWork := context.WithCancel(ctx)
	defer stopWork()
	group.Go(func() error {
		defer stopWork()
		if err := s.f.Run(frontierCtx); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		defer stopFrontier()
		return s.dispatchAll(workCtx)
	})
	group.Go(func() error { return s.publish(workCtx) })
	group.Go(func() error { return s.checkpoints(workCtx) })
	err = group.Wait()
	s.members.shutdown()
	s.dnsers.close()
	return errors.Join(err, s.f.Close())
}

// ready waits until the frontier is open.
func (s *Scheduler) ready(ctx context.Context) error {
	select {
	case <-s.opened:
		return nil
	default:
	}
	timer := time.NewTimer(10 * time.Second)
	defer timer.Stop()
	select {
	case <-s.opened:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-timer.C:
		return status.Error(codes.Unavailable, "the scheduler is starting; try again")
	}
}

// toStatus maps the frontier's errors at the edge.
func toStatus(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, frontier.ErrRule):
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.Is(err, frontier.ErrNoJob), errors.Is(err, frontier.ErrNoRule):
		return status.Error(codes.NotFound, err.Error())
	case errors.Is(err, frontier.ErrJobExists):
		return status.Error(codes.AlreadyExists, err.Error())
	case errors.Is(err, frontier.ErrConflict), errors.Is(err, frontier.ErrGroup), errors.Is(err, frontier.ErrState):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, frontier.ErrStorage):
		return status.Error(codes.ResourceExhausted, err.Error())
	case errors.Is(err, frontier.ErrClosed):
		return status.Error(codes.Unavailable, err.Error())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Internal, err.Error())
}
