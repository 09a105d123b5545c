// Package service is how a service of the ring becomes a process: the settings
// that all of them have, what each is given, and one straight line from
// settings to serving. The single process gives the same Deps to the same
// services and needs none of the rest.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"

	"lycosa.dev/internal/config"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/telemetry"
	dnserv1 "lycosa.dev/proto/gen/lycosa/dnser/v1"
)

// Deps is what a service is given. The services cannot tell one process from
// many.
type Deps struct {
	// Logger is never nil.
	Logger *slog.Logger
	// Registerer takes the service's metrics.
	Registerer prometheus.Registerer
	// TracerProvider makes the spans of items; never nil.
	TracerProvider trace.TracerProvider
	// Dialer connects to other services by the addresses of the topology.
	Dialer rpc.Dialer
}

// WithDefaults fills what is nil: no log, no metrics, no traces.
func (d Deps) WithDefaults() Deps {
	if d.Logger == nil {
		d.Logger = telemetry.Discard()
	}
	if d.Registerer == nil {
		d.Registerer = prometheus.NewRegistry()
	}
	if d.TracerProvider == nil {
		d.TracerProvider = noop.NewTracerProvider()
	}
	return d
}

// Service is what each module's New returns.
type Service interface {
	// Register adds its RPC services to a server.
	Register(grpc.ServiceRegistrar)
	// Run owns the service's goroutines. When ctx ends it takes nothing new,
	// finishes what is in flight and returns; its server serves until then.
	Run(ctx context.Context) error
	// Health is nil while the service works.
	Health(ctx context.Context) error
}

// Config is what all service binaries have in common.
type Config struct {
	ID         string           `yaml:"id" usage:"stable id of this instance; the scheduler shards by the downloaders' ids"`
	Listen     string           `yaml:"listen" usage:"address to serve gRPC on; beyond loopback it needs TLS and a token"`
	Advertise  string           `yaml:"advertise" usage:"address at which other services reach this one; default: listen"`
	Debug      string           `yaml:"debug" usage:"loopback address of metrics, pprof and health; empty: off"`
	TLS        rpc.TLSFiles     `yaml:"tls" usage:"TLS of the server and of connections to other services"`
	Token      telemetry.Secret `yaml:"token" usage:"token that callers must send and that is sent to other services; better by token_file or environment"`
	TokenFile  string           `yaml:"token_file" usage:"file whose first line is the token"`
	LogLevel   string           `yaml:"log_level" usage:"debug, info, warn or error"`
	LogFormat  string           `yaml:"log_format" usage:"text or json"`
	OTLP       string           `yaml:"otlp" usage:"host:port of an OTLP gRPC collector such as Jaeger (127.0.0.1:4317); empty: no traces"`
	TraceRatio float64          `yaml:"trace_ratio" usage:"share of leases that are traced, 0 to 1"`
	Grace      time.Duration    `yaml:"grace" usage:"how long each part may take to stop when asked to"`
}

// Defaults returns the common settings of a service with its default port
// (design section 7); metrics are on the port 2000 above.
func Defaults(id string, port int) Config {
	return Config{
		ID:         id,
		Listen:     fmt.Sprintf("127.0.0.1:%d", port),
		Debug:      fmt.Sprintf("127.0.0.1:%d", port+2000),
		LogLevel:   "info",
		LogFormat:  "text",
		TraceRatio: telemetry.DefaultSampleRatio,
		Grace:      30 * time.Second,
	}
}

// Address is where other services reach this one.
func (c Config) Address() string {
	if c.Advertise != "" {
		return c.Advertise
	}
	return c.Listen
}

// Validate returns all problems of the common settings.
func (c Config) Validate() error {
	var errs []error
	if c.ID == "" || len(c.ID) > 64 || strings.ContainsAny(c.ID, " \t\r\n/") {
		errs = append(errs, config.Invalid("id", "must be 1 to 64 characters without spaces or slashes, is %q", c.ID))
	}
	if c.TraceRatio < 0 || c.TraceRatio > 1 {
		errs = append(errs, config.Invalid("trace_ratio", "must be 0 to 1, is %v", c.TraceRatio))
	}
	if _, err := telemetry.ParseLevel(c.LogLevel); err != nil {
		errs = append(errs, config.Invalid("log_level", "%v", err))
	}
	errs = append(errs, config.Within("tls", c.TLS.Validate()))
	return errors.Join(errs...)
}

// Run makes a process of a service: logger, tracing, metrics, connections, its
// gRPC server, the service itself. It serves until ctx ends and stops in reverse
// order: while the service drains, its server still carries what it waits for
// (the commits of a scheduler, the answers of the others), and when the server
// closes no answer is owed. kind is the service's name ("dnser"), grpcName the
// full name of the RPC service that health checks ask for.
func Run(ctx context.Context, kind, grpcName string, cfg Config, build func(Deps) (Service, error)) error {
	log, err := telemetry.NewLogger(cfg.LogLevel, cfg.LogFormat, os.Stderr)
	if err != nil {
		return err
	}
	log = log.With("service", kind, "id", cfg.ID)
	token, err := rpc.ReadToken(cfg.Token, cfg.TokenFile)
	if err != nil {
		return err
	}
	serverTLS, err := cfg.TLS.Server()
	if err != nil {
		return err
	}
	clientTLS, err := cfg.TLS.Client()
	if err != nil {
		return err
	}
	tracing, err := telemetry.Setup(ctx, telemetry.Config{
		Service: kind, Instance: cfg.ID, OTLPEndpoint: cfg.OTLP, SampleRatio: cfg.TraceRatio, Insecure: rpc.Loopback(cfg.OTLP),
	})
	if err != nil {
		return err
	}
	registry := telemetry.NewRegistry()
	server := rpc.NewServer(rpc.ServerOptions{
		Logger: log, Registerer: registry, TracerProvider: tracing.TracerProvider, TLS: serverTLS, Token: token,
		// An outcome with its links is validated where it enters the frontier
		// (Commit) and not on its way there as well.
		ValidateStreams: func(method string) bool { return method != dnserv1.DnserService_Resolve_FullMethodName },
	})
	listener, err := server.Listen(cfg.Listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	svc, err := build(Deps{
		Logger: log, Registerer: registry, TracerProvider: tracing.TracerProvider,
		Dialer: rpc.NetDialer(rpc.ClientOptions{TLS: clientTLS, Token: token}),
	})
	if err != nil {
		return err
	}
	svc.Register(server)
	server.AddHealth(grpcName, svc.Health)

	steps := []rpc.Step{{Name: "tracing", Run: tracing.Run}}
	if cfg.Debug != "" {
		debug, err := telemetry.NewDebugServer(telemetry.DebugOptions{Addr: cfg.Debug, Gatherer: registry, Health: svc.Health, Logger: log})
		if err != nil {
			return err
		}
		steps = append(steps, rpc.Step{Name: "debug server", Run: debug.Run})
	}
	steps = append(steps,
		rpc.Step{Name: "gRPC server", Run: func(ctx context.Context) error { return server.Run(ctx, listener) }},
		rpc.Step{Name: kind, Run: svc.Run},
	)
	log.Info("serving", "address", listener.Addr().String(), "version", telemetry.Version())
	return rpc.RunAll(ctx, log, cfg.Grace, steps...)
}
