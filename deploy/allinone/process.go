package allinone

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"lycosa.dev/dnser"
	"lycosa.dev/downloader"
	"lycosa.dev/extractor"
	"lycosa.dev/gateway"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/service"
	"lycosa.dev/internal/telemetry"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	"lycosa.dev/scheduler"
)

// inproc makes the in-process address of a service.
func inproc(name string) string { return rpc.LocalScheme + name }

// Process is the five services in one process. New makes one, Run works it
// once, Close lets go of the folder.
type Process struct {
	cfg      Config
	layout   Layout
	log      *slog.Logger
	stopping *atomic.Bool
	lock     *os.File
	registry *prometheus.Registry
	local    *rpc.Local
	tracing  *telemetry.Telemetry
	admin    gatewayv1.AdminServiceClient

	scheduler *scheduler.Scheduler
	steps     []rpc.Step // in order of start; stopped in reverse
	listeners []net.Listener
	grace     time.Duration
}

// New takes the folder's lock, makes the services and opens the listeners, so
// that a folder in use and a port in use are known before anything runs. It
// creates the folder where there is none. Errors: ErrInUse, scheduler.ErrStorage
// where the folder cannot be written.
func New(ctx context.Context, cfg Config) (_ *Process, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	log := cfg.Logger
	if log == nil {
		log = telemetry.Discard()
	}
	stopping := &atomic.Bool{}
	log = slog.New(stopFilter{log.Handler(), stopping})
	p := &Process{cfg: cfg, layout: Layout(cfg.Dir), log: log, stopping: stopping, grace: cfg.DrainTimeout + 15*time.Second}
	defer func() {
		if err != nil {
			_ = p.Close()
		}
	}()
	for _, dir := range []string{cfg.Dir, p.layout.Logs(), p.layout.Reports()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, storageError(err)
		}
	}
	if p.lock, err = lock(p.layout); err != nil {
		if errors.Is(err, ErrInUse) {
			return nil, err
		}
		return nil, storageError(err)
	}
	p.tracing, err = telemetry.Setup(ctx, telemetry.Config{
		Service: "lycosa", OTLPEndpoint: cfg.OTLP, SampleRatio: cfg.TraceRatio,
		Insecure: rpc.Loopback(cfg.OTLP), Processor: cfg.SpanProcessor,
	})
	if err != nil {
		return nil, err
	}
	p.registry = telemetry.NewRegistry()
	p.local = rpc.NewLocal(rpc.ServerOptions{Logger: log, Registerer: p.registry})
	if err := p.wire(); err != nil {
		return nil, err
	}
	conn, _, err := p.local.Dial(ctx, inproc("gateway"))
	if err != nil {
		return nil, err
	}
	p.admin = gatewayv1.NewAdminServiceClient(conn)
	return p, nil
}

// storageError marks an error of the file system as scheduler.ErrStorage.
func storageError(err error) error { return fmt.Errorf("%w: %w", scheduler.ErrStorage, err) }

// wire makes the services and their servers in the order in which they start.
func (p *Process) wire() error {
	deps := func(name string) service.Deps {
		return service.Deps{
			Logger: p.log.With("service", name), Registerer: p.registry,
			TracerProvider: p.tracing.TracerProvider, Dialer: p.local,
		}
	}
	add := func(name string, svc service.Service, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		p.local.Register(name, svc.Register)
		p.steps = append(p.steps, rpc.Step{Name: name, Run: svc.Run})
		return nil
	}
	p.steps = append(p.steps,
		rpc.Step{Name: "tracing", Run: p.tracing.Run},
		rpc.Step{Name: "in-process calls", Run: p.local.Run})

	dc := dnser.Default()
	dc.Listen, dc.Scheduler, dc.DNS, dc.CacheFile = inproc("dnser"), inproc("scheduler"), p.cfg.DNS, p.layout.DNSCache()
	if p.cfg.DNSRecords {
		dc.WARCDir = p.layout.WARC()
	}
	ds, err := dnser.New(dc, deps("dnser"))
	if err := add("dnser", ds, err); err != nil {
		return err
	}
	ec := extractor.Default()
	ec.Listen, ec.Scheduler, ec.Dir = inproc("extractor"), inproc("scheduler"), p.cfg.Dir
	ec.PagesByJob = p.cfg.PagesByJob
	es, err := extractor.New(ec, deps("extractor"))
	if err := add("extractor", es, err); err != nil {
		return err
	}
	lc := downloader.Default()
	lc.Listen, lc.Scheduler, lc.Capacity = inproc("downloader"), inproc("scheduler"), p.cfg.Capacity
	lc.CookiesDir, lc.ProxyNet, lc.SecretsDir = p.layout.Cookies(), p.cfg.ProxyNet, p.cfg.Secrets
	if lc.SecretsDir == "" {
		lc.SecretsDir = p.layout.Secrets()
	}
	// The scheduler stops before and has waited: what is still out then has
	// nobody to answer to.
	lc.DrainTimeout = time.Second
	ls, err := downloader.New(lc, deps("downloader"))
	if err := add("downloader", ls, err); err != nil {
		return err
	}
	sc := scheduler.Default()
	sc.Listen, sc.Dir, sc.SingleProcess, sc.DrainTimeout = inproc("scheduler"), p.layout.Frontier(), true, p.cfg.DrainTimeout
	sc.Groups = p.cfg.Groups
	if p.scheduler, err = scheduler.New(sc, deps("scheduler")); err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	if err := add("scheduler", p.scheduler, nil); err != nil {
		return err
	}
	gc := gateway.Default()
	gc.Listen, gc.Scheduler, gc.AllowNoContact = inproc("gateway"), inproc("scheduler"), p.cfg.AllowNoContact
	if len(p.cfg.Listen) > 0 {
		gc.Advertise = p.cfg.Listen[0]
	}
	gs, err := gateway.New(gc, deps("gateway"))
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	p.local.Register("gateway", gs.Register)
	if err := p.serve(gs); err != nil {
		return err
	}
	return add("gateway", gs, nil)
}

// serve opens the doors: the socket in the folder, the addresses asked for, and
// the debug server.
func (p *Process) serve(gs *gateway.Gateway) error {
	open := func(addr string, opt rpc.ServerOptions) error {
		server := rpc.NewServer(opt)
		lis, err := server.Listen(addr)
		if err != nil {
			return err
		}
		p.listeners = append(p.listeners, lis)
		gs.Register(server)
		server.AddHealth(gatewayv1.AdminService_ServiceDesc.ServiceName, gs.Health)
		p.steps = append(p.steps, rpc.Step{Name: "server at " + addr, Run: func(ctx context.Context) error { return server.Run(ctx, lis) }})
		return nil
	}
	opt := rpc.ServerOptions{Logger: p.log, TracerProvider: p.tracing.TracerProvider, DrainTimeout: 5 * time.Second}
	if path, ok := socketPath(p.layout); ok {
		if err := open("unix:"+path, opt); err != nil {
			return fmt.Errorf("the crawl's own socket: %w", err)
		}
	} else {
		p.log.Warn("the folder's path is too long for a socket in it: other commands cannot reach this process", "path", p.layout.Socket())
	}
	opt.TLS, opt.Token, opt.Registerer = p.cfg.TLS, p.cfg.Token, p.registry
	for _, addr := range p.cfg.Listen {
		if err := open(addr, opt); err != nil {
			return err
		}
	}
	if p.cfg.Debug != "" {
		debug, err := telemetry.NewDebugServer(telemetry.DebugOptions{
			Addr: p.cfg.Debug, Gatherer: p.registry, Health: p.Health, Logger: p.log,
		})
		if err != nil {
			return err
		}
		p.steps = append(p.steps, rpc.Step{Name: "debug server", Run: debug.Run})
	}
	return nil
}

// maxSocketPath is what sun_path of sockaddr_un holds on the systems with the
// least room, its zero byte left out.
const maxSocketPath = 103

// socketPath returns the shorter of the socket's absolute and relative path,
// and whether it fits into an address.
func socketPath(l Layout) (string, bool) {
	path := l.Socket()
	if abs, err := filepath.Abs(path); err == nil && len(abs) < len(path) {
		path = abs
	}
	return path, len(path) <= maxSocketPath
}

// SocketPath is where a process on the folder serves AdminService; "" if the
// folder's path is too long for that.
func SocketPath(l Layout) string {
	if path, ok := socketPath(l); ok {
		return path
	}
	return ""
}

// Run works until ctx ends or a part fails, and then stops all in order.
// Errors: scheduler.ErrStorage, ErrCorrupt and ErrLocked among others.
func (p *Process) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { p.stopping.Store(true) })
	defer stop()
	steps := make([]rpc.Step, len(p.steps))
	for i, s := range p.steps {
		steps[i] = rpc.Step{Name: s.Name, Run: func(ctx context.Context) error {
			defer p.stopping.Store(true) // the others follow
			return s.Run(ctx)
		}}
	}
	return rpc.RunAll(ctx, p.log, p.grace, steps...)
}

// Health is nil while the scheduler works.
func (p *Process) Health(ctx context.Context) error { return p.scheduler.Health(ctx) }

// Admin asks the process's gateway, without sockets.
func (p *Process) Admin() gatewayv1.AdminServiceClient { return p.admin }

// EachURL visits every URL of a job; see scheduler.EachURL.
func (p *Process) EachURL(ctx context.Context, jobID string, visit func(*scheduler.URLInfo) error) error {
	return p.scheduler.EachURL(ctx, jobID, visit)
}

// Dial makes a channel to a service of the process by its name.
func (p *Process) Dial(ctx context.Context, name string) (grpc.ClientConnInterface, error) {
	conn, _, err := p.local.Dial(ctx, inproc(name))
	return conn, err
}

// Addresses are where AdminService is served over sockets.
func (p *Process) Addresses() []net.Addr {
	addrs := make([]net.Addr, 0, len(p.listeners))
	for _, l := range p.listeners {
		addrs = append(addrs, l.Addr())
	}
	return addrs
}

// Close lets go of the listeners and of the folder. Run must have returned, or
// never been called.
func (p *Process) Close() error {
	for _, l := range p.listeners {
		_ = l.Close() // closed already where Run has served it
	}
	p.listeners = nil
	if p.lock == nil {
		return nil
	}
	err := p.lock.Close()
	p.lock = nil
	return err
}
