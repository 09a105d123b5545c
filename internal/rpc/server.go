package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"lycosa.dev/internal/telemetry"
)

// Defaults of ServerOptions.
const (
	// DefaultMaxMessageBytes bounds one message. Bodies travel in chunks far
	// below it; a page's links in one message may be many.
	DefaultMaxMessageBytes = 16 << 20
	DefaultDrainTimeout    = 20 * time.Second
	DefaultHealthInterval  = 5 * time.Second
)

const (
	// HTTP/2 flow control windows. Fixed windows of this size carry pages over
	// a local network without grpc-go's bandwidth probing, whose pings cost more
	// than they find there.
	streamWindow = 1 << 20
	connWindow   = 4 << 20
	ioBuffer     = 64 << 10

	// A peer that is silent this long is asked, and after the timeout gone.
	keepaliveTime    = 20 * time.Second
	keepaliveTimeout = 10 * time.Second
	// How often a service that was not healthy yet is asked.
	startInterval = 200 * time.Millisecond

	// Clients may ask no more often than this.
	keepaliveMinTime = 10 * time.Second
)

// ServerOptions configures a Server, and as far as it applies a Local. The zero
// value serves loopback without TLS, token, log or metrics.
type ServerOptions struct {
	// Logger gets one line a failed unary call, two a stream at debug level,
	// and panics with their stacks. nil discards.
	Logger *slog.Logger
	// Registerer gets the chassis' metrics (lycosa_rpc_...). Servers of one
	// process share them. nil leaves them unregistered.
	Registerer prometheus.Registerer
	// TracerProvider traces unary calls; nil does not. Streams are traced item
	// by item by their services.
	TracerProvider trace.TracerProvider
	// TLS makes the server speak TLS; see TLSFiles.
	TLS *tls.Config
	// Token must come with every call but health checks; "" asks for none.
	Token telemetry.Secret
	// MaxMessageBytes bounds a message in each direction; 0 is
	// DefaultMaxMessageBytes.
	MaxMessageBytes int
	// DrainTimeout bounds the graceful part of the end; 0 is
	// DefaultDrainTimeout.
	DrainTimeout time.Duration
	// HealthInterval is how often the checks of AddHealth run; 0 is
	// DefaultHealthInterval.
	HealthInterval time.Duration
	// ValidateStreams says of which streaming methods ("/pkg.Service/Method")
	// each message is validated by its proto's rules. nil is all for a Server,
	// none for a Local. Unary requests always are. An invalid message ends its
	// stream with InvalidArgument.
	ValidateStreams func(fullMethod string) bool
	// GRPC are further options, for instance an HTTP handler's needs.
	GRPC []grpc.ServerOption
}

func (o ServerOptions) withDefaults() ServerOptions {
	if o.Logger == nil {
		o.Logger = telemetry.Discard()
	}
	if o.MaxMessageBytes == 0 {
		o.MaxMessageBytes = DefaultMaxMessageBytes
	}
	if o.DrainTimeout == 0 {
		o.DrainTimeout = DefaultDrainTimeout
	}
	if o.HealthInterval == 0 {
		o.HealthInterval = DefaultHealthInterval
	}
	return o
}

// Server is a gRPC server with recovery, logging, metrics, token, validation,
// health and reflection. Register services, then Run it once.
type Server struct {
	opt    ServerOptions
	grpc   *grpc.Server
	health *health.Server
	drain  chan struct{}
	once   sync.Once // closes drain

	checks map[string]func(context.Context) error // service -> check; fixed before Run
}

// NewServer makes a server without services of its own besides health and
// reflection. It opens nothing.
func NewServer(opt ServerOptions) *Server {
	opt = opt.withDefaults()
	s := &Server{
		opt:    opt,
		health: health.NewServer(),
		drain:  make(chan struct{}),
		checks: map[string]func(context.Context) error{},
	}
	c := serverChain(opt, newMetrics(opt.Registerer))
	c.add(nil, drainStream(s.drain))
	options := []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(c.unary...),
		grpc.ChainStreamInterceptor(c.stream...),
		grpc.MaxRecvMsgSize(opt.MaxMessageBytes),
		grpc.MaxSendMsgSize(opt.MaxMessageBytes),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.ReadBufferSize(ioBuffer),
		grpc.WriteBufferSize(ioBuffer),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveMinTime, PermitWithoutStream: true}),
		// A stopped server has run its handlers to their end: nothing of them
		// touches what the process releases next.
		grpc.WaitForHandlers(true),
	}
	if opt.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(opt.TLS)))
	}
	s.grpc = grpc.NewServer(append(options, opt.GRPC...)...)
	healthpb.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	return s
}

// RegisterService implements grpc.ServiceRegistrar. A service starts as not
// serving if AddHealth watches it, else as serving.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	s.grpc.RegisterService(desc, impl)
	s.health.SetServingStatus(desc.ServiceName, healthpb.HealthCheckResponse_SERVING)
}

// AddHealth has check polled while the server runs: an error makes the service
// of that full name ("lycosa.dnser.v1.DnserService") not serving, and the
// server as a whole (the empty name). Call it before Run.
func (s *Server) AddHealth(service string, check func(ctx context.Context) error) {
	s.checks[service] = check
	s.health.SetServingStatus(service, healthpb.HealthCheckResponse_NOT_SERVING)
	s.health.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
}

// GRPC is the server beneath, for a process that serves more than gRPC on one
// port; such a process calls Drain, and stops it itself.
func (s *Server) GRPC() *grpc.Server { return s.grpc }

// Drain tells clients and streams that the end is near: health goes to not
// serving, and the channel of Draining closes. Run calls it.
func (s *Server) Drain() {
	s.once.Do(func() {
		s.health.Shutdown()
		close(s.drain)
	})
}

// Listen opens addr ("127.0.0.1:7071", "unix:/path"), after CheckListen.
func (s *Server) Listen(addr string) (net.Listener, error) {
	return Listen(addr, s.opt.TLS, s.opt.Token)
}

// Listen opens addr for a server with this TLS configuration and token, after
// CheckListen. A unix socket gets mode 0600; one that a dead process left is
// replaced.
func Listen(addr string, tlsConf *tls.Config, token telemetry.Secret) (net.Listener, error) {
	if err := CheckListen(addr, tlsConf, token); err != nil {
		return nil, err
	}
	path, unix := strings.CutPrefix(addr, "unix:")
	if !unix {
		lis, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w", addr, err)
		}
		return lis, nil
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
			_ = conn.Close()
			return nil, fmt.Errorf("listen on %s: another process serves there", addr)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("listen on %s: remove the old socket: %w", addr, err)
		}
	}
	lis, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = lis.Close()
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return lis, nil
}

// Run serves lis until ctx is done, then drains: clients are told, streams see
// Draining, calls finish. After DrainTimeout it cuts off what is left. It
// returns nil after an end that ctx asked for, in either way.
func (s *Server) Run(ctx context.Context, lis net.Listener) error {
	poll, stopPolling := context.WithCancel(context.WithoutCancel(ctx))
	var polling sync.WaitGroup
	polling.Go(func() { s.pollHealth(poll) })
	defer polling.Wait()
	defer stopPolling()

	served := make(chan error, 1)
	go func() { served <- s.grpc.Serve(lis) }()
	select {
	case err := <-served:
		s.Drain()
		s.grpc.Stop()
		if err == nil || errors.Is(err, grpc.ErrServerStopped) {
			return nil // the owner of GRPC() stopped it
		}
		return fmt.Errorf("serve %s: %w", lis.Addr(), err)
	case <-ctx.Done():
	}
	stopPolling()
	s.Drain()
	forced := time.AfterFunc(s.opt.DrainTimeout, func() {
		s.opt.Logger.Warn("calls did not end in time and are cut off", "address", lis.Addr().String(), "drain_timeout", s.opt.DrainTimeout)
		s.grpc.Stop()
	})
	s.grpc.GracefulStop()
	forced.Stop()
	if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve %s: %w", lis.Addr(), err)
	}
	return nil
}

// pollHealth runs the checks at once and then every HealthInterval, more often
// until all are healthy for the first time.
func (s *Server) pollHealth(ctx context.Context) {
	if len(s.checks) == 0 {
		return
	}
	tick := time.NewTicker(s.opt.HealthInterval)
	defer tick.Stop()
	last := map[string]string{}
	wasHealthy := false
	for {
		all := healthpb.HealthCheckResponse_SERVING
		for service, check := range s.checks {
			state, text := healthpb.HealthCheckResponse_SERVING, ""
			if err := s.runCheck(ctx, check); err != nil {
				state, text = healthpb.HealthCheckResponse_NOT_SERVING, err.Error()
				all = state
			}
			if ctx.Err() != nil {
				return
			}
			s.health.SetServingStatus(service, state)
			if before, polled := last[service]; !polled || before != text {
				switch {
				case !polled && text != "":
					s.opt.Logger.Info("service is starting", "service", service, "reason", text)
				case text != "":
					s.opt.Logger.Warn("service is not healthy", "service", service, "reason", text)
				case polled:
					s.opt.Logger.Info("service is healthy", "service", service)
				}
				last[service] = text
			}
		}
		s.health.SetServingStatus("", all)
		// Who waits for a start shall not wait for our interval.
		var soon <-chan time.Time
		if wasHealthy = wasHealthy || all == healthpb.HealthCheckResponse_SERVING; !wasHealthy {
			soon = time.After(startInterval)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-soon:
		}
	}
}

func (s *Server) runCheck(ctx context.Context, check func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.HealthInterval)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic in the health check: %v", v)
		}
	}()
	return check(ctx)
}
