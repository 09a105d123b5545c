package gateway

import "github.com/prometheus/client_golang/prometheus"

// metrics are what the chassis' metrics of the RPCs do not say.
type metrics struct {
	refused  *prometheus.CounterVec
	watchers prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lycosa_gateway_refused_total",
			Help: "Requests refused before the scheduler was asked, by reason.",
		}, []string{"reason"}),
		watchers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lycosa_gateway_watchers",
			Help: "WatchJob streams that are open.",
		}),
	}
	r.MustRegister(m.refused, m.watchers)
	return m
}

// Reasons of refusals, the label's values.
const (
	refusedSpec    = "spec"
	refusedContact = "contact"
	refusedRequest = "request"
)
