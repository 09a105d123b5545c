package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"lycosa.dev/deploy/allinone"
	"lycosa.dev/deploy/internal/progress"
	"lycosa.dev/internal/telemetry"
	"lycosa.dev/scheduler"
)

// crawlLogger makes the log of a crawl: warnings on the terminal, all that
// matters in logs/lycosa.log. The function closes the file.
func (a *App) crawlLogger(l allinone.Layout, level string, show *progress.Reporter) (*slog.Logger, func(), error) {
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
	log := slog.New(fanout{
		slog.NewTextHandler(show.Writer(), &slog.HandlerOptions{Level: lvl}),
		slog.NewTextHandler(f, &slog.HandlerOptions{Level: min(lvl, slog.LevelInfo)}),
	})
	return log, func() { _ = f.Close() }, nil
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
