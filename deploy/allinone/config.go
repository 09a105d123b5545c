package allinone

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"lycosa.dev/internal/telemetry"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// Config is how a Process is set up. Dir is required; see Default for the rest.
type Config struct {
	// Dir is the folder of everything the process keeps.
	Dir string
	// Listen are addresses at which AdminService is served besides the socket in
	// Dir: "127.0.0.1:7070". Beyond loopback they need TLS and Token.
	Listen []string
	// TLS and Token guard the addresses of Listen; nil and "" are none.
	TLS   *tls.Config
	Token telemetry.Secret
	// Debug is the loopback address of metrics, pprof and health; "" is none.
	Debug string

	// DNS are the servers to ask, ADDR or ADDR:PORT; none: /etc/resolv.conf's.
	DNS []string
	// DNSRecords keeps what the DNS servers answer as WARC records, in the folder
	// of the WARC files (dns-dnser-….warc.gz).
	DNSRecords bool
	// PagesByJob gives each job a folder of its own in that of the pages (store
	// "files"); else the hosts' folders are the jobs' together.
	PagesByJob bool
	// Secrets is the folder of the secrets that jobs name; "" is "secrets" in Dir.
	Secrets string
	// ProxyNet are networks in which the proxies of jobs may lie although they are
	// private, loopback or otherwise special.
	ProxyNet []string
	// AllowNoContact accepts jobs that do not say who answers for them.
	AllowNoContact bool
	// Capacity is how many leases are worked on at a time, over all jobs; a
	// job's own limit is in its spec.
	Capacity int

	// Groups are named groups of hosts and networks that share a clock in all
	// jobs.
	Groups []*jobv1.ClockGroup

	// Logger gets what an operator should know; nil discards.
	Logger *slog.Logger
	// OTLP is host:port of an OTLP gRPC collector; "" is no traces.
	OTLP string
	// TraceRatio is the share of leases that are traced.
	TraceRatio float64
	// SpanProcessor takes the spans in place of the collector (tests).
	SpanProcessor sdktrace.SpanProcessor

	// DrainTimeout is how long leases may take to come home when the process
	// stops.
	DrainTimeout time.Duration
}

// Default returns the settings of a process on dir.
func Default(dir string) Config {
	return Config{
		Dir:          dir,
		Capacity:     4096,
		TraceRatio:   telemetry.DefaultSampleRatio,
		DrainTimeout: 20 * time.Second,
	}
}

// Validate returns all problems.
func (c Config) Validate() error {
	var errs []error
	if c.Dir == "" {
		errs = append(errs, errors.New("dir: is empty; name the folder of the crawl"))
	}
	if c.Capacity < 1 {
		errs = append(errs, fmt.Errorf("capacity: must be at least 1, is %d", c.Capacity))
	}
	if c.TraceRatio < 0 || c.TraceRatio > 1 {
		errs = append(errs, fmt.Errorf("trace ratio: must be 0 to 1, is %v", c.TraceRatio))
	}
	if c.DrainTimeout <= 0 {
		errs = append(errs, fmt.Errorf("drain timeout: must be positive, is %s", c.DrainTimeout))
	}
	return errors.Join(errs...)
}
