package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"

	"lycosa.dev/deploy/allinone"
	"lycosa.dev/deploy/internal/progress"
	"lycosa.dev/internal/telemetry"
	"lycosa.dev/scheduler"
)

// crawlLog is a crawl's log: warnings on the terminal, all that matters in
// logs/lycosa.log.
type crawlLog struct {
	Logger *slog.Logger
	quiet  *atomic.Bool
}

// stopping keeps off the terminal what services say when the others go away in
// order; errors are still shown.
func (l *crawlLog) stopping() { l.quiet.Store(true) }

// crawlLogger makes the log of a crawl in its folder.
func (a *App) crawlLogger(l allinone.Layout, level string, show *progress.Reporter) (*crawlLog, func(), error) {
	lvl, err := telemetry.ParseLevel(level)
	if err != nil {
		return nil, nil, err
	}
	err = os.MkdirAll(l.Logs(), 0o755)
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(l.Log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", scheduler.ErrStorage, err)
	}
	c := &crawlLog{quiet: &atomic.Bool{}}
	c.Logger = slog.New(fanout{
		&quietable{Handler: slog.NewTextHandler(show.Writer(), &slog.HandlerOptions{Level: lvl}), quiet: c.quiet},
		slog.NewTextHandler(f, &slog.HandlerOptions{Level: min(lvl, slog.LevelInfo)}),
	})
	return c, func() { _ = f.Close() }, nil
}

// quietable drops what is below an error once quiet is set.
type quietable struct {
	slog.Handler
	quiet *atomic.Bool
}

func (q *quietable) Enabled(ctx context.Context, l slog.Level) bool {
	return (l >= slog.LevelError || !q.quiet.Load()) && q.Handler.Enabled(ctx, l)
}

func (q *quietable) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &quietable{q.Handler.WithAttrs(attrs), q.quiet}
}

func (q *quietable) WithGroup(name string) slog.Handler {
	return &quietable{q.Handler.WithGroup(name), q.quiet}
}

// fanout gives records to several handlers.
type fanout []slog.Handler

// Enabled implements slog.Handler.
func (f fanout) Enabled(ctx context.Context, l slog.Level) bool {
	for _, h := range f {
		if h.Enabled(ctx, l) {
			return true
		}
	}
	return false
}

// Handle implements slog.Handler.
func (f fanout) Handle(ctx context.Context, r slog.Record) error {
	var errs []error
	for _, h := range f {
		if h.Enabled(ctx, r.Level) {
			errs = append(errs, h.Handle(ctx, r.Clone()))
		}
	}
	return errors.Join(errs...)
}

// WithAttrs implements slog.Handler.
func (f fanout) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := make(fanout, len(f))
	for i, h := range f {
		out[i] = h.WithAttrs(attrs)
	}
	return out
}

// WithGroup implements slog.Handler.
func (f fanout) WithGroup(name string) slog.Handler {
	out := make(fanout, len(f))
	for i, h := range f {
		out[i] = h.WithGroup(name)
	}
	return out
}

// traceRatio reads the share of leases to trace; "" is the default.
func traceRatio(s string, def float64) (float64, error) {
	if s == "" {
		return def, nil
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || v < 0 || v > 1 {
		return 0, usage("LYCOSA_TRACE_RATIO: must be 0 to 1, is %q", s)
	}
	return v, nil
}
