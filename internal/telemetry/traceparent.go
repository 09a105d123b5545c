package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// traceparentLen is the length of a version-00 traceparent:
// version "-" trace-id "-" parent-id "-" trace-flags
// (W3C Trace Context, section 3.2).
const traceparentLen = 55

// Unsampled is the traceparent that Inject writes for every trace that is not
// sampled. Such a trace is recorded nowhere, so its ids serve nobody; what the
// next service must know is only that the decision fell, or it would decide
// anew and traces would begin in their middle. A constant says that without
// formatting or allocating anything.
const Unsampled = "00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-00"

// unsampledSpan is the span that Extract puts into a context for Unsampled.
var unsampledSpan = func() trace.Span {
	sc, ok := ParseTraceparent(Unsampled)
	if !ok {
		panic("telemetry: the constant Unsampled is not a traceparent")
	}
	return trace.SpanFromContext(trace.ContextWithRemoteSpanContext(context.Background(), sc))
}()

// Inject returns the W3C traceparent of the span in ctx, for a message's
// traceparent field: "" without a span (tracing is off), Unsampled when the
// trace is not sampled. The one allocation is the string of a sampled trace.
func Inject(ctx context.Context) string {
	return Traceparent(trace.SpanContextFromContext(ctx))
}

// Traceparent is Inject for a span context at hand.
func Traceparent(sc trace.SpanContext) string {
	if !sc.IsValid() {
		return ""
	}
	if !sc.IsSampled() {
		return Unsampled
	}
	var buf [traceparentLen]byte
	tid, sid := sc.TraceID(), sc.SpanID()
	copy(buf[:], "00-")
	putHex(buf[3:], tid[:])
	buf[35] = '-'
	putHex(buf[36:], sid[:])
	buf[52] = '-'
	flags := [1]byte{byte(sc.TraceFlags())}
	putHex(buf[53:], flags[:])
	return string(buf[:])
}

// Extract returns ctx with the remote span that traceparent names as its
// parent. An empty or malformed traceparent leaves ctx as it is, as the
// specification asks (a trace that cannot be read is a trace that restarts).
func Extract(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	if traceparent == Unsampled {
		return trace.ContextWithSpan(ctx, unsampledSpan)
	}
	sc, ok := ParseTraceparent(traceparent)
	if !ok {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, sc)
}

// ParseTraceparent reads a W3C traceparent, for instance to link a span to the
// trace of another page. It accepts what section 3.2 of the specification
// does: lower-case hex, no all-zero ids, version 00 exactly, and of a later
// version the part that it shares with 00.
func ParseTraceparent(s string) (trace.SpanContext, bool) {
	var none trace.SpanContext
	if len(s) < traceparentLen || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return none, false
	}
	var version, flags [1]byte
	var tid trace.TraceID
	var sid trace.SpanID
	if !getHex(version[:], s[0:2]) || !getHex(tid[:], s[3:35]) || !getHex(sid[:], s[36:52]) || !getHex(flags[:], s[53:55]) {
		return none, false
	}
	switch {
	case version[0] == 0xff:
		return none, false
	case version[0] == 0 && len(s) != traceparentLen:
		return none, false
	case len(s) > traceparentLen && s[traceparentLen] != '-':
		return none, false
	}
	sc := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID:    tid,
		SpanID:     sid,
		TraceFlags: trace.TraceFlags(flags[0]) & trace.FlagsSampled,
		Remote:     true,
	})
	return sc, sc.IsValid()
}

// Sampled says whether the span in ctx is recorded: whether attributes and
// events for it are worth computing.
func Sampled(ctx context.Context) bool {
	return trace.SpanFromContext(ctx).IsRecording()
}

const hexDigits = "0123456789abcdef"

func putHex(dst, src []byte) {
	for i, b := range src {
		dst[2*i] = hexDigits[b>>4]
		dst[2*i+1] = hexDigits[b&15]
	}
}

func getHex(dst []byte, src string) bool {
	for i := range dst {
		hi, lo := hexValue[src[2*i]], hexValue[src[2*i+1]]
		if hi|lo > 15 {
			return false
		}
		dst[i] = hi<<4 | lo
	}
	return true
}

// hexValue maps a lower-case hex digit to its value and any other byte to 0xff.
var hexValue = func() (t [256]byte) {
	for i := range t {
		t[i] = 0xff
	}
	for i := range len(hexDigits) {
		t[hexDigits[i]] = byte(i)
	}
	return t
}()
