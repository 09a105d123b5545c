package resolver

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lycosa.dev/dnser/internal/upstream"
)

// source is where an answer came from, as a metric label.
type source uint8

const (
	fromCache source = iota
	fromServer
	fromRule
	fromLiteral
	fromStale
	sourceCount
)

var sourceNames = [sourceCount]string{"cache", "server", "rule", "literal", "stale"}

// metrics of the resolver. Labels are bounded: status and source of an answer,
// protocol and outcome of a try.
type metrics struct {
	answers [statusCount][sourceCount]prometheus.Counter
	tries   *prometheus.HistogramVec

	prefetches, hedges prometheus.Counter
	failures           map[upstream.Reason]prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, r *Resolver) *metrics {
	answers := register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lycosa_dnser_answers_total",
		Help: "Names answered, by status and by where the answer came from.",
	}, []string{"status", "source"}))
	m := &metrics{
		tries: register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "lycosa_dnser_upstream_try_seconds",
			Help:    "Time of one try at one server, by protocol and outcome.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"protocol", "outcome"})),
		prefetches: register(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lycosa_dnser_prefetches_total",
			Help: "Names asked again before they expired because they are used often.",
		})),
		hedges: register(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lycosa_dnser_hedges_total",
			Help: "Questions that a second server was asked because the first was slow.",
		})),
		failures: make(map[upstream.Reason]prometheus.Counter),
	}
	failures := register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lycosa_dnser_failures_total",
		Help: "Names that the servers gave no answer for, by reason.",
	}, []string{"reason"}))
	for _, reason := range upstream.Reasons() {
		m.failures[reason] = failures.WithLabelValues(string(reason))
	}
	for s := range m.answers {
		for f := range m.answers[s] {
			m.answers[s][f] = answers.WithLabelValues(statusNames[s], sourceNames[f])
		}
	}
	register(reg, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "lycosa_dnser_cache_entries",
		Help: "Answers kept, expired ones included.",
	}, func() float64 { return float64(r.cache.Len()) }))
	register(reg, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "lycosa_dnser_cache_bytes",
		Help: "Memory that the answers kept take, about.",
	}, func() float64 { return float64(r.cache.Bytes()) }))
	register(reg, prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "lycosa_dnser_cache_evictions_total",
		Help: "Answers dropped for want of room.",
	}, func() float64 { return float64(r.cache.Evicted()) }))
	register(reg, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "lycosa_dnser_names_in_flight",
		Help: "Names being asked.",
	}, func() float64 { return float64(len(r.slots)) }))
	register(reg, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "lycosa_dnser_servers_down",
		Help: "Servers asked last because they have failed in a row.",
	}, func() float64 { return float64(r.group.Down()) }))
	return m
}

// register puts c into reg, or gives the one that is there already: resolvers
// that share a registry count together.
func register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if reg == nil {
		return c
	}
	if err := reg.Register(c); err != nil {
		there, ok := errors.AsType[prometheus.AlreadyRegisteredError](err)
		if !ok {
			panic(err) // two metrics of one name: a fault of the program
		}
		if same, ok := there.ExistingCollector.(C); ok {
			return same
		}
	}
	return c
}

func (m *metrics) observeTry(network, outcome string, took time.Duration) {
	m.tries.WithLabelValues(network, outcome).Observe(took.Seconds())
}
