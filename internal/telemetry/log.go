package telemetry

import (
	"fmt"
	"io"
	"log/slog"
)

// Log formats for NewLogger.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// NewLogger returns a logger that writes lines of the given format ("text" or
// "json", "" is text) at the given level ("debug", "info", "warn", "error", ""
// is info) and above to w.
func NewLogger(level, format string, w io.Writer) (*slog.Logger, error) {
	lvl, err := ParseLevel(level)
	if err != nil {
		return nil, err
	}
	opt := &slog.HandlerOptions{Level: lvl}
	switch format {
	case FormatText, "":
		return slog.New(slog.NewTextHandler(w, opt)), nil
	case FormatJSON:
		return slog.New(slog.NewJSONHandler(w, opt)), nil
	}
	return nil, fmt.Errorf("log format %q: must be text or json", format)
}

// ParseLevel reads a log level by name; "" is info.
func ParseLevel(level string) (slog.Level, error) {
	switch level {
	case "debug":
		return slog.LevelDebug, nil
	case "info", "":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("log level %q: must be debug, info, warn or error", level)
}

// Discard returns a logger that writes nothing.
func Discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
