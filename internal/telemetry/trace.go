package telemetry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Defaults of Config.
const (
	DefaultSampleRatio = 0.01
	DefaultQueueSpans  = 2048
	// shutdownTimeout bounds the last flush when its context has no deadline.
	shutdownTimeout = 5 * time.Second
)

// Config says where spans go and how many of them.
type Config struct {
	// Service is the service's name ("scheduler"), the resource's service.name
	// with "lycosa-" before it.
	Service string
	// Instance tells instances of one service apart; "" leaves it out.
	Instance string
	// OTLPEndpoint is the collector's host:port for OTLP over gRPC. "" turns
	// tracing off: the provider is a no-op and costs next to nothing.
	OTLPEndpoint string
	// SampleRatio is the share of new traces that are recorded, 0 to 1; a trace
	// that came from another service keeps the decision made there.
	SampleRatio float64
	// Insecure sends without TLS, for a collector on loopback.
	Insecure bool
	// QueueSpans bounds the spans that wait for the exporter; when it is full
	// further spans are dropped, never waited for. 0 is DefaultQueueSpans.
	QueueSpans int
	// BatchTimeout is the longest that a span waits for its batch; 0 is the
	// SDK's default (5 s).
	BatchTimeout time.Duration
	// Processor, if set, takes the place of the OTLP exporter (tests).
	Processor sdktrace.SpanProcessor
}

// Telemetry holds the tracer provider of one service.
type Telemetry struct {
	// TracerProvider is never nil.
	TracerProvider trace.TracerProvider

	sdk *sdktrace.TracerProvider
}

// Setup makes the tracer provider that cfg describes. It sets no globals and
// does not wait for the collector: spans are dropped while it is away. Call
// Shutdown in the end.
func Setup(ctx context.Context, cfg Config) (*Telemetry, error) {
	if cfg.SampleRatio < 0 || cfg.SampleRatio > 1 || cfg.SampleRatio != cfg.SampleRatio {
		return nil, fmt.Errorf("trace sample ratio %v: must be between 0 and 1", cfg.SampleRatio)
	}
	if cfg.OTLPEndpoint == "" && cfg.Processor == nil {
		return &Telemetry{TracerProvider: noop.NewTracerProvider()}, nil
	}
	processor := cfg.Processor
	if processor == nil {
		opts := []otlptracegrpc.Option{otlptracegrpc.WithEndpoint(cfg.OTLPEndpoint)}
		if cfg.Insecure {
			opts = append(opts, otlptracegrpc.WithInsecure())
		}
		exporter, err := otlptrace.New(ctx, otlptracegrpc.NewClient(opts...))
		if err != nil {
			return nil, fmt.Errorf("OTLP exporter to %s: %w", cfg.OTLPEndpoint, err)
		}
		queue := cfg.QueueSpans
		if queue <= 0 {
			queue = DefaultQueueSpans
		}
		batch := []sdktrace.BatchSpanProcessorOption{
			sdktrace.WithMaxQueueSize(queue),
			sdktrace.WithMaxExportBatchSize(min(queue, sdktrace.DefaultMaxExportBatchSize)),
		}
		if cfg.BatchTimeout > 0 {
			batch = append(batch, sdktrace.WithBatchTimeout(cfg.BatchTimeout))
		}
		processor = sdktrace.NewBatchSpanProcessor(exporter, batch...)
	}
	attrs := []attribute.KeyValue{
		attribute.String("service.name", "lycosa-"+cfg.Service),
		attribute.String("service.version", Version()),
	}
	if cfg.Instance != "" {
		attrs = append(attrs, attribute.String("service.instance.id", cfg.Instance))
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(resource.NewSchemaless(attrs...)),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.SampleRatio))),
		sdktrace.WithSpanProcessor(processor),
	)
	return &Telemetry{TracerProvider: provider, sdk: provider}, nil
}

// Enabled says whether spans go anywhere.
func (t *Telemetry) Enabled() bool { return t.sdk != nil }

// Tracer returns a tracer of the provider.
func (t *Telemetry) Tracer(name string) trace.Tracer { return t.TracerProvider.Tracer(name) }

// Flush sends what is batched, for tests and before a snapshot.
func (t *Telemetry) Flush(ctx context.Context) error {
	if t.sdk == nil {
		return nil
	}
	return t.sdk.ForceFlush(ctx)
}

// Shutdown sends what is batched and releases the exporter. Without a deadline
// on ctx it takes five seconds at most.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	if t.sdk == nil {
		return nil
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, shutdownTimeout)
		defer cancel()
	}
	if err := t.sdk.Shutdown(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("shut tracing down: %w", err)
	}
	return nil
}

// Run waits until ctx is done and then shuts down: the form in which tracing
// joins the steps of a service's main (rpc.RunAll). What could not be sent is
// no failure of the service and is not returned as one.
func (t *Telemetry) Run(ctx context.Context) error {
	<-ctx.Done()
	_ = t.Shutdown(context.WithoutCancel(ctx))
	return nil
}
