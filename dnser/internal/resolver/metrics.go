package resolver

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// source is where an answer came from, as a metric label.
type source uint8

const (
	fromCache source = iota
	fromServer
	fromRule
	fromLiteral
	sourceCount
)

var sourceNames = [sourceCount]string{"cache", "server", "rule", "literal"}

// metrics of the resolver. Labels are bounded: status and source of an answer,
// protocol and outcome of a try.
type metrics struct {
	answers [statusCount][sourceCount]prometheus.Counter
	tries   *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer, r *Resolver) *metrics {
	answers := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lycosa_dnser_answers_total",
		Help: "Names answered, by status and by where the answer came from.",
	}, []string{"status", "source"})
	m := &metrics{
		tries: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "lycosa_dnser_upstream_try_seconds",
			Help:    "Time of one try at one server, by protocol and outcome.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"protocol", "outcome"}),
	}
	for s := range m.answers {
		for f := range m.answers[s] {
			m.answers[s][f] = answers.WithLabelValues(statusNames[s], sourceNames[f])
		}
	}
	if reg == nil {
		return m
	}
	reg.MustRegister(answers, m.tries,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "lycosa_dnser_cache_entries",
			Help: "Answers kept, expired ones included.",
		}, func() float64 { return float64(r.cache.Len()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "lycosa_dnser_cache_evictions_total",
			Help: "Answers dropped for want of room.",
		}, func() float64 { return float64(r.cache.Evicted()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "lycosa_dnser_names_in_flight",
			Help: "Names being asked.",
		}, func() float64 { return float64(len(r.slots)) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "lycosa_dnser_servers_down",
			Help: "Servers asked last because they have failed in a row.",
		}, func() float64 { return float64(r.group.Down()) }),
	)
	return m
}

func (m *metrics) observeTry(network, outcome string, took time.Duration) {
	m.tries.WithLabelValues(network, outcome).Observe(took.Seconds())
}
