package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

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
		&sparse{Handler: slog.NewTextHandler(show.Writer(), &slog.HandlerOptions{Level: lvl}), seen: &seen{last: map[string]time.Time{}}},
		slog.NewTextHandler(f, &slog.HandlerOptions{Level: min(lvl, slog.LevelInfo)}),
	})
	return log, func() { _ = f.Close() }, nil
}

// repeatAfter is how long a message that was shown on the terminal is not shown
// again; lycosa.log has every one.
const repeatAfter = time.Minute

// sparse shows a message once in repeatAfter, whatever its attributes are.
type sparse struct {
	slog.Handler
	seen *seen
}

type seen struct {
	mu   sync.Mutex
	last map[string]time.Time // by message; these are constants of the program
}

// Handle implements slog.Handler.
func (s *sparse) Handle(ctx context.Context, r slog.Record) error {
	s.seen.mu.Lock()
	last, again := s.seen.last[r.Message]
	again = again && r.Time.Sub(last) < repeatAfter
	if !again {
		s.seen.last[r.Message] = r.Time
	}
	s.seen.mu.Unlock()
	if again {
		return nil
	}
	return s.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (s *sparse) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &sparse{s.Handler.WithAttrs(attrs), s.seen}
}

// WithGroup implements slog.Handler.
func (s *sparse) WithGroup(name string) slog.Handler {
	return &sparse{s.Handler.WithGroup(name), s.seen}
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
