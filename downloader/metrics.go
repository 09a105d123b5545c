package downloader

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"lycosa.dev/downloader/internal/fetch"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
)

// metrics are what the downloader counts. Labels are bounded: classes and
// verdicts, never hosts or URLs.
type metrics struct {
	fetches   *prometheus.CounterVec
	answers   *prometheus.CounterVec
	truncated *prometheus.CounterVec
	seconds   prometheus.Histogram
	firstByte prometheus.Histogram
	received  prometheus.Counter

	byClass [16]prometheus.Counter
}

func newMetrics(r prometheus.Registerer, d *Downloader) (*metrics, error) {
	m := &metrics{
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lycosa_downloader_fetches_total", Help: "Fetches ended, by the class of their outcome."}, []string{"class"}),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lycosa_downloader_answers_total", Help: "Leases answered, by verdict."}, []string{"verdict"}),
		truncated: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lycosa_downloader_truncated_total", Help: "Bodies that were cut, by reason."}, []string{"reason"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "lycosa_downloader_fetch_seconds", Help: "Length of fetches, from dial to last byte.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10)}),
		firstByte: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "lycosa_downloader_first_byte_seconds", Help: "Time from request to first byte.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8)}),
		received: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lycosa_downloader_received_bytes_total", Help: "Bytes received from servers, above TLS."}),
	}
	for c := fetch.ClassResponse; c <= fetch.ClassCancelled; c++ {
		m.byClass[c] = m.fetches.WithLabelValues(c.String())
	}
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "lycosa_downloader_" + name, Help: help}, f)
	}
	counter := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "lycosa_downloader_" + name, Help: help}, f)
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.fetches, m.answers, m.truncated, m.seconds, m.firstByte, m.received,
		gauge("leases", "Leases held.", func() float64 { d.mu.Lock(); defer d.mu.Unlock(); return float64(len(d.leases)) }),
		gauge("capacity", "Leases that can be held.", func() float64 { return float64(d.cfg.Capacity) }),
		gauge("joined", "1 while joined to the scheduler.", func() float64 { return asFloat(d.members.Joined()) }),
		gauge("extractors_connected", "Extractors with a stream.", func() float64 { _, n, _ := d.ring.Load(); return float64(n) }),
		gauge("pages_unanswered", "Pages on their way through the ring.", func() float64 { _, _, n := d.ring.Load(); return float64(n) }),
		gauge("connections_idle", "Connections kept for the next fetch.", func() float64 { return float64(d.engine.Stats().Idle) }),
		gauge("fetches_waiting", "Fetches that wait for a place for their connection (max_open).", func() float64 { return float64(d.engine.Stats().Waiting) }),
		gauge("fetches_active", "Fetches under way.", func() float64 { return float64(d.engine.Stats().Active) }),
		counter("connections_opened_total", "Connections opened.", func() float64 { return float64(d.engine.Stats().Dials) }),
		counter("connections_reused_total", "Fetches on a kept connection.", func() float64 { return float64(d.engine.Stats().Reuses) }),
		counter("tls_handshakes_total", "TLS sessions made.", func() float64 { return float64(d.engine.Stats().Handshakes) }),
		counter("tls_resumed_total", "TLS sessions made that were resumed.", func() float64 { return float64(d.engine.Stats().Resumed) }),
		counter("connections_stale_total", "Kept connections found closed only by using them.", func() float64 { return float64(d.engine.Stats().Stale) }),
	} {
		errs = append(errs, r.Register(c))
	}
	return m, errors.Join(errs...)
}

func (m *metrics) observe(res *fetch.Result) {
	m.byClass[res.Class].Inc()
	m.received.Add(float64(res.ReceivedBytes))
	if res.Written {
		m.seconds.Observe(res.Timings.Total.Seconds())
	}
	if res.Class == fetch.ClassResponse {
		m.firstByte.Observe(res.Timings.FirstByte.Seconds())
	}
	if res.Truncated != "" {
		m.truncated.WithLabelValues(string(res.Truncated)).Inc()
	}
}

func verdictLabel(v crawlv1.Verdict) string {
	switch v {
	case crawlv1.Verdict_VERDICT_DONE:
		return "done"
	case crawlv1.Verdict_VERDICT_NEVER:
		return "never"
	}
	return "retry_later"
}

func asFloat(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
