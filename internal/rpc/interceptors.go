package rpc

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"buf.build/go/protovalidate"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/auth"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	validation "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/protovalidate"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/selector"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"lycosa.dev/internal/telemetry"
)

// traceparentKey is the metadata key of the trace context of a unary call.
const traceparentKey = "traceparent"

// chain is an ordered pair of interceptor lists, the first outermost.
type chain struct {
	unary  []grpc.UnaryServerInterceptor
	stream []grpc.StreamServerInterceptor
}

func (c *chain) add(u grpc.UnaryServerInterceptor, s grpc.StreamServerInterceptor) {
	if u != nil {
		c.unary = append(c.unary, u)
	}
	if s != nil {
		c.stream = append(c.stream, s)
	}
}

// serverChain is what a networked server puts before its handlers. Recovery
// stands inside logging and metrics, so that a panic is logged and counted as
// the Internal error that it becomes, and outside validation, which runs code
// of the rules.
func serverChain(opt ServerOptions, m *metrics) chain {
	var c chain
	c.add(m.unary, m.stream)
	quiet := selector.MatchFunc(func(_ context.Context, call interceptors.CallMeta) bool {
		return !isInfrastructure(call.FullMethod())
	})
	logOpts := []logging.Option{
		logging.WithLogOnEvents(logging.FinishCall),
		logging.WithLevels(logLevel),
		logging.WithDisableLoggingFields(logging.SystemTag[0], logging.ComponentFieldKey, logging.MethodTypeFieldKey),
	}
	streamLogOpts := append(logOpts[:len(logOpts):len(logOpts)], logging.WithLogOnEvents(logging.StartCall, logging.FinishCall))
	logger := middlewareLogger(opt.Logger)
	c.add(
		selector.UnaryServerInterceptor(logging.UnaryServerInterceptor(logger, logOpts...), quiet),
		selector.StreamServerInterceptor(logging.StreamServerInterceptor(logger, streamLogOpts...), quiet),
	)
	c.add(recoveryInterceptors(opt.Logger, m))
	if opt.Token != "" {
		check := tokenCheck(opt.Token)
		guarded := selector.MatchFunc(func(_ context.Context, call interceptors.CallMeta) bool {
			return !strings.HasPrefix(call.FullMethod(), "/grpc.health.")
		})
		c.add(
			selector.UnaryServerInterceptor(auth.UnaryServerInterceptor(check), guarded),
			selector.StreamServerInterceptor(auth.StreamServerInterceptor(check), guarded),
		)
	}
	if opt.TracerProvider != nil {
		c.add(traceUnary(opt.TracerProvider.Tracer("lycosa.dev/internal/rpc")), nil)
	}
	validate := opt.ValidateStreams
	if validate == nil {
		validate = func(string) bool { return true }
	}
	c.add(validationInterceptors(validate))
	return c
}

// localInterceptors is what an in-process channel puts before its handlers:
// what guards (recovery, validation), without what reports each call.
func localInterceptors(opt ServerOptions) (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	opt = opt.withDefaults()
	var c chain
	c.add(recoveryInterceptors(opt.Logger, newMetrics(opt.Registerer)))
	if opt.TracerProvider != nil {
		c.add(traceUnary(opt.TracerProvider.Tracer("lycosa.dev/internal/rpc")), nil)
	}
	validate := opt.ValidateStreams
	if validate == nil {
		validate = func(string) bool { return false }
	}
	c.add(validationInterceptors(validate))
	return chainUnary(c.unary), chainStream(c.stream)
}

func chainUnary(list []grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		for i := len(list) - 1; i >= 0; i-- {
			ic, next := list[i], handler
			handler = func(ctx context.Context, req any) (any, error) { return ic(ctx, req, info, next) }
		}
		return handler(ctx, req)
	}
}

func chainStream(list []grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		for i := len(list) - 1; i >= 0; i-- {
			ic, next := list[i], handler
			handler = func(srv any, ss grpc.ServerStream) error { return ic(srv, ss, info, next) }
		}
		return handler(srv, ss)
	}
}

func isInfrastructure(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.") || strings.HasPrefix(method, "/grpc.reflection.")
}

// logLevel keeps ordinary calls out of the log at its usual level: what fails
// by the server's fault is an error, by the caller's or the weather's a
// warning.
func logLevel(code codes.Code) logging.Level {
	switch code {
	case codes.OK, codes.Canceled:
		return logging.LevelDebug
	case codes.Internal, codes.Unknown, codes.DataLoss, codes.Unimplemented:
		return logging.LevelError
	}
	return logging.LevelWarn
}

func middlewareLogger(log *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(ctx context.Context, level logging.Level, msg string, fields ...any) {
		log.Log(ctx, slog.Level(level), msg, fields...)
	})
}

func recoveryInterceptors(log *slog.Logger, m *metrics) (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	handle := recovery.WithRecoveryHandlerContext(func(ctx context.Context, v any) error {
		method, _ := grpc.Method(ctx)
		m.panics.Inc()
		log.ErrorContext(ctx, "panic in a handler", "method", method, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		return recovered(method, v)
	})
	return recovery.UnaryServerInterceptor(handle), recovery.StreamServerInterceptor(handle)
}

// validationInterceptors checks the shape of every unary request, and of every
// message of the streams that the selector names, by the rules in the protos.
func validationInterceptors(streams func(method string) bool) (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	u := validation.UnaryServerInterceptor(protovalidate.GlobalValidator)
	s := selector.StreamServerInterceptor(
		validation.StreamServerInterceptor(protovalidate.GlobalValidator),
		selector.MatchFunc(func(_ context.Context, call interceptors.CallMeta) bool { return streams(call.FullMethod()) }),
	)
	return u, s
}

// tokenCheck compares digests, so that neither the token's length nor its
// beginning shows in the time taken.
func tokenCheck(token telemetry.Secret) auth.AuthFunc {
	want := sha256.Sum256([]byte(token.Reveal()))
	return func(ctx context.Context) (context.Context, error) {
		given, err := auth.AuthFromMD(ctx, "bearer")
		if err != nil {
			return nil, status.Error(codes.Unauthenticated, "this server needs a token: send the header authorization: Bearer <token>")
		}
		got := sha256.Sum256([]byte(given))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			return nil, status.Error(codes.Unauthenticated, "wrong token")
		}
		return ctx, nil
	}
}

// traceUnary makes a span for each unary call; streams make theirs by hand, an
// item each.
func traceUnary(tracer trace.Tracer) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if isInfrastructure(info.FullMethod) {
			return handler(ctx, req)
		}
		if v := metadata.ValueFromIncomingContext(ctx, traceparentKey); len(v) > 0 {
			ctx = telemetry.Extract(ctx, v[0])
		}
		ctx, span := tracer.Start(ctx, strings.TrimPrefix(info.FullMethod, "/"), trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		res, err := handler(ctx, req)
		if err != nil && span.IsRecording() {
			code := status.Code(err)
			span.SetAttributes(attribute.String("rpc.grpc.status_code", code.String()))
			span.SetStatus(otelcodes.Error, code.String())
		}
		return res, err
	}
}

// injectUnary sends the trace context of a unary call along.
func injectUnary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoker(withTraceparent(ctx), method, req, reply, cc, opts...)
}

func withTraceparent(ctx context.Context) context.Context {
	if tp := telemetry.Inject(ctx); tp != "" {
		return metadata.AppendToOutgoingContext(ctx, traceparentKey, tp)
	}
	return ctx
}

// metrics are the chassis' own numbers, labelled by method and code: both sets
// are fixed by the protos.
type metrics struct {
	handled *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	streams *prometheus.GaugeVec
	panics  prometheus.Counter
}

// newMetrics registers the metrics, or takes up those which another server of
// this process registered.
func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		handled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lycosa_rpc_handled_total",
			Help: "Calls that have ended, streams among them, by method and status code.",
		}, []string{"method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "lycosa_rpc_unary_seconds",
			Help:    "Time that unary calls took.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9),
		}, []string{"method"}),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "lycosa_rpc_open_streams",
			Help: "Streams that are open now.",
		}, []string{"method"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lycosa_rpc_panics_total",
			Help: "Panics in handlers; each is a bug.",
		}),
	}
	if reg == nil {
		return m
	}
	m.handled = register(reg, m.handled)
	m.seconds = register(reg, m.seconds)
	m.streams = register(reg, m.streams)
	m.panics = register(reg, m.panics)
	return m
}

func register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	err := reg.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing
		}
	}
	return c
}

func (m *metrics) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	start := time.Now()
	res, err := handler(ctx, req)
	m.seconds.WithLabelValues(info.FullMethod).Observe(time.Since(start).Seconds())
	m.handled.WithLabelValues(info.FullMethod, status.Code(err).String()).Inc()
	return res, err
}

func (m *metrics) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	open := m.streams.WithLabelValues(info.FullMethod)
	open.Inc()
	err := handler(srv, ss)
	open.Dec()
	m.handled.WithLabelValues(info.FullMethod, status.Code(err).String()).Inc()
	return err
}

// drainKey is the context key of the channel that Draining returns.
type drainKey struct{}

var never = make(chan struct{})

// Draining returns a channel that is closed when the server of the call in ctx
// begins to shut down: time for a long stream to take nothing new, finish what
// it has and return. ServeItems and ServeCalls obey it by themselves. Outside a
// call of this package's servers it is never closed.
func Draining(ctx context.Context) <-chan struct{} {
	if ch, ok := ctx.Value(drainKey{}).(<-chan struct{}); ok {
		return ch
	}
	return never
}

// drainStream puts the server's drain channel into the context of streams.
func drainStream(drain <-chan struct{}) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		return handler(srv, &contextStream{ss, context.WithValue(ss.Context(), drainKey{}, drain)})
	}
}

type contextStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *contextStream) Context() context.Context { return s.ctx }
