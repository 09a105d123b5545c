// Package telemetry is what every service reports through: its logger, its
// traces, its metrics registry, and the debug HTTP server that shows them.
//
// Nothing here is global. A service is handed a logger, a TracerProvider and a
// prometheus.Registerer, so several services live in one process, and several
// processes in one test, without seeing each other.
//
// Spans are made by hand, one for each item of a stream (a lease is one trace
// across all services), so the trace context rides in the messages themselves:
// Inject writes it as a W3C traceparent, Extract reads it.
package telemetry
