package allinone

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// notJoined is what package membership says while a service is without
// scheduler. In an orderly end, where the scheduler goes before the others, it
// is no news.
const notJoined = "not joined, trying again"

// stopFilter drops notJoined once the process stops.
type stopFilter struct {
	slog.Handler
	stopping *atomic.Bool
}

// Handle implements slog.Handler.
func (f stopFilter) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == notJoined && f.stopping.Load() {
		return nil
	}
	return f.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (f stopFilter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return stopFilter{f.Handler.WithAttrs(attrs), f.stopping}
}

// WithGroup implements slog.Handler.
func (f stopFilter) WithGroup(name string) slog.Handler {
	return stopFilter{f.Handler.WithGroup(name), f.stopping}
}
