package telemetry

import (
	"fmt"
	"log/slog"
)

// redacted is what a secret shows of itself.
const redacted = "***"

// Secret is a string that must not be seen: every way of printing, logging or
// marshalling it shows "***" (and nothing when it is empty). Reveal is the only
// way to the value, so a reader finds each use of it by that name.
type Secret string

// Reveal returns the value itself.
func (s Secret) Reveal() string { return string(s) }

// Redacted returns what may be shown in place of the value. The config package
// recognises secrets by this method.
func (s Secret) Redacted() string {
	if s == "" {
		return ""
	}
	return redacted
}

// String implements fmt.Stringer.
func (s Secret) String() string { return s.Redacted() }

// GoString implements fmt.GoStringer.
func (s Secret) GoString() string { return fmt.Sprintf("telemetry.Secret(%q)", s.Redacted()) }

// Format implements fmt.Formatter, so that verbs which fmt does not route
// through String (such as %d) show no more than the others.
func (s Secret) Format(f fmt.State, verb rune) {
	switch {
	case verb == 'v' && f.Flag('#'):
		fmt.Fprint(f, s.GoString())
	case verb == 'q':
		fmt.Fprintf(f, "%q", s.Redacted())
	default:
		fmt.Fprint(f, s.Redacted())
	}
}

// MarshalText implements encoding.TextMarshaler, and so hides the value from
// JSON, YAML and the like.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.Redacted()), nil }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.Redacted()) }
