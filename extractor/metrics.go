package extractor

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	pages      *prometheus.CounterVec
	sent       prometheus.Counter // links, by what became of them
	known      prometheus.Counter
	outOfScope prometheus.Counter
	stored     prometheus.Counter
	inWork     prometheus.Gauge
	storeFails prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	links := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lycosa_extractor_links_total", Help: "Links, by what became of them (sent, known, out_of_scope)."}, []string{"fate"})
	m := &metrics{
		sent: links.WithLabelValues("sent"), known: links.WithLabelValues("known"), outOfScope: links.WithLabelValues("out_of_scope"),
		pages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lycosa_extractor_pages_total", Help: "Pages answered, by verdict (done, retry, never)."}, []string{"verdict"}),
		stored: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lycosa_extractor_received_bytes_total", Help: "Body bytes of pages that were stored, as received."}),
		inWork: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lycosa_extractor_pages_in_work", Help: "Pages being worked on."}),
		storeFails: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lycosa_extractor_store_failures_total", Help: "Pages that no store would take."}),
	}
	r.MustRegister(m.pages, links, m.stored, m.inWork, m.storeFails)
	return m
}
