package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewRegistry returns a metrics registry with the process's and the Go
// runtime's own metrics and lycosa_build_info in it. One a process.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "lycosa_build_info",
		Help:        "Always 1; the version is in the label.",
		ConstLabels: prometheus.Labels{"version": Version()},
	})
	info.Set(1)
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		info,
	)
	return r
}

// DebugOptions configures a DebugServer.
type DebugOptions struct {
	// Addr is the loopback address to listen on, such as 127.0.0.1:9071.
	// Another address is refused: pprof and metrics have no authentication.
	Addr string
	// Gatherer is what /metrics shows; nil leaves /metrics out.
	Gatherer prometheus.Gatherer
	// Health says whether the process works (/healthz); nil is always well.
	Health func(context.Context) error
	// Ready says whether it takes work (/readyz); nil is as Health.
	Ready func(context.Context) error
	// Logger may be nil.
	Logger *slog.Logger
}

// DebugServer serves /metrics, /debug/pprof/, /healthz and /readyz.
type DebugServer struct {
	opt DebugOptions
	lis net.Listener
}

// NewDebugServer opens the listener, so that a port in use is known at once.
// Run serves it; Close lets go of it when Run is never called.
func NewDebugServer(opt DebugOptions) (*DebugServer, error) {
	if err := checkLoopback(opt.Addr); err != nil {
		return nil, err
	}
	lis, err := net.Listen("tcp", opt.Addr)
	if err != nil {
		return nil, fmt.Errorf("debug server: %w", err)
	}
	if opt.Logger == nil {
		opt.Logger = Discard()
	}
	if opt.Ready == nil {
		opt.Ready = opt.Health
	}
	return &DebugServer{opt: opt, lis: lis}, nil
}

// Addr is the address that the server listens on.
func (d *DebugServer) Addr() net.Addr { return d.lis.Addr() }

// Close closes the listener.
func (d *DebugServer) Close() error { return d.lis.Close() }

// Run serves until ctx is done.
func (d *DebugServer) Run(ctx context.Context) error {
	srv := &http.Server{
		Handler:           d.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ErrorLog:          slog.NewLogLogger(d.opt.Logger.Handler(), slog.LevelWarn),
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	err := srv.Serve(d.lis)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("debug server: %w", err)
}

// Handler is what Run serves, for a process that has an HTTP server already.
func (d *DebugServer) Handler() http.Handler {
	mux := http.NewServeMux()
	if d.opt.Gatherer != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(d.opt.Gatherer, promhttp.HandlerOpts{
			ErrorLog: slog.NewLogLogger(d.opt.Logger.Handler(), slog.LevelWarn),
		}))
	}
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /healthz", probe(d.opt.Health))
	mux.HandleFunc("GET /readyz", probe(d.opt.Ready))
	return mux
}

// probeTimeout bounds one health check.
const probeTimeout = 5 * time.Second

func probe(check func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if check != nil {
			ctx, cancel := context.WithTimeout(r.Context(), probeTimeout)
			defer cancel()
			if err := check(ctx); err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
				fmt.Fprintln(w, err)
				return
			}
		}
		fmt.Fprintln(w, "ok")
	}
}

// checkLoopback refuses an address that other machines could reach.
func checkLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("debug address %q: must be host:port: %w", addr, err)
	}
	if host == "localhost" {
		return nil
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("debug address %q: must be a loopback address such as 127.0.0.1, since metrics and pprof have no authentication", addr)
}
