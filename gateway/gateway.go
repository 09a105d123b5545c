// Package gateway is the control room: the service that people ask. It checks
// what they send, puts it to the scheduler, and says in words what came of it.
// It holds no state of its own.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"lycosa.dev/internal/membership"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/service"
	"lycosa.dev/internal/telemetry"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// Gateway is the service. New makes one, Run works it.
type Gateway struct {
	gatewayv1.UnimplementedAdminServiceServer

	cfg     Config
	deps    service.Deps
	log     *slog.Logger
	metrics *metrics
	members *membership.Client

	opened  chan struct{} // closed when control may be used
	control schedulerv1.ControlServiceClient

	mu      sync.Mutex
	running error // nil while Run works, else why it does not
	// streams end when this closes, so that a stop need not wait for watchers.
	stopping chan struct{}
	asked    rpc.Gate // the questions in flight
}

var (
	errStarting = errors.New("the gateway is starting")
	errStopped  = errors.New("the gateway has stopped")
)

// New returns a gateway; it does no I/O.
func New(cfg Config, deps service.Deps) (*Gateway, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Dialer == nil {
		return nil, errors.New("gateway: Deps.Dialer is nil; it is needed to reach the scheduler")
	}
	deps = deps.WithDefaults()
	g := &Gateway{
		cfg: cfg, deps: deps, log: deps.Logger,
		metrics:  newMetrics(deps.Registerer),
		opened:   make(chan struct{}),
		running:  errStarting,
		stopping: make(chan struct{}),
	}
	g.members = membership.New(membership.Options{
		Dialer: deps.Dialer, Scheduler: cfg.Scheduler, Logger: deps.Logger,
		Hello: func() *schedulerv1.Hello {
			return &schedulerv1.Hello{
				Kind: schedulerv1.ServiceKind_SERVICE_KIND_GATEWAY, Id: cfg.ID,
				Address: cfg.Address(), Version: telemetry.Version(),
			}
		},
	})
	return g, nil
}

// Register adds AdminService.
func (g *Gateway) Register(r grpc.ServiceRegistrar) { gatewayv1.RegisterAdminServiceServer(r, g) }

// Health is nil while the gateway works and is joined to the scheduler.
func (g *Gateway) Health(context.Context) error {
	g.mu.Lock()
	err := g.running
	g.mu.Unlock()
	if err == nil && !g.members.Joined() {
		err = fmt.Errorf("not joined to the scheduler at %s", g.cfg.Scheduler)
	}
	return err
}

func (g *Gateway) setRunning(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running = err
}

// Run connects to the scheduler, joins it, so that it is listed among the
// instances, and answers until ctx ends; then what it was asked before is
// answered. Watchers and an audit are not waited for: they end as unavailable.
func (g *Gateway) Run(ctx context.Context) error {
	defer g.setRunning(errStopped)
	stop := sync.OnceFunc(func() { close(g.stopping) })
	defer stop()
	conn, closer, err := g.deps.Dialer.Dial(ctx, g.cfg.Scheduler)
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	g.control = schedulerv1.NewControlServiceClient(conn)
	close(g.opened)
	g.setRunning(nil)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return g.members.Run(ctx) })
	err = group.Wait()
	g.setRunning(errStopped)
	stop()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), rpc.DrainTime(g.cfg.Grace))
	defer cancel()
	if left := g.asked.Close(drain); left > 0 {
		g.log.Warn("questions in flight are given up", "questions", left)
	}
	return errors.Join(err, closer.Close())
}
