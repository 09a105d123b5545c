package dnser

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
)

// metrics of the service; those of the DNS are the resolver's. Labels are
// bounded: verdicts and host statuses of the contract.
type metrics struct {
	items   map[crawlv1.Verdict]prometheus.Counter
	hosts   map[crawlv1.HostStatus]prometheus.Counter
	resolve prometheus.Histogram

	archived, lost prometheus.Counter
}

var verdictNames = map[crawlv1.Verdict]string{
	crawlv1.Verdict_VERDICT_DONE:        "done",
	crawlv1.Verdict_VERDICT_RETRY_LATER: "retry_later",
	crawlv1.Verdict_VERDICT_NEVER:       "never",
}

var hostNames = map[crawlv1.HostStatus]string{
	crawlv1.HostStatus_HOST_STATUS_UNSPECIFIED:         "late",
	crawlv1.HostStatus_HOST_STATUS_RESOLVED:            "resolved",
	crawlv1.HostStatus_HOST_STATUS_NOT_FOUND:           "not_found",
	crawlv1.HostStatus_HOST_STATUS_NOT_FOUND_CONFIRMED: "not_found_confirmed",
	crawlv1.HostStatus_HOST_STATUS_UNAVAILABLE:         "unavailable",
	crawlv1.HostStatus_HOST_STATUS_FORBIDDEN:           "forbidden",
}

func newMetrics(reg prometheus.Registerer) *metrics {
	items := register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lycosa_dnser_items_total",
		Help: "Outcomes passed on to the scheduler, by what became of them.",
	}, []string{"verdict"}))
	hosts := register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lycosa_dnser_hosts_total",
		Help: "Hosts told to the scheduler, by status; late: not answered within resolve_wait.",
	}, []string{"status"}))
	m := &metrics{
		items: map[crawlv1.Verdict]prometheus.Counter{},
		hosts: map[crawlv1.HostStatus]prometheus.Counter{},
		resolve: register(reg, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "lycosa_dnser_item_resolve_seconds",
			Help:    "Time that an item waited for addresses.",
			Buckets: []float64{.00001, .0001, .001, .005, .01, .025, .05, .1, .25, .5, 1},
		})),
	}
	records := register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lycosa_dnser_warc_records_total",
		Help: "DNS records for warc_dir, by what became of them.",
	}, []string{"result"}))
	m.archived, m.lost = records.WithLabelValues("written"), records.WithLabelValues("lost")
	for v, name := range verdictNames {
		m.items[v] = items.WithLabelValues(name)
	}
	for s, name := range hostNames {
		m.hosts[s] = hosts.WithLabelValues(name)
	}
	return m
}

// verdict counts an item; a verdict that is not set, or not known, is treated
// as retry later by whoever gets it.
func (m *metrics) verdict(v crawlv1.Verdict) {
	c, ok := m.items[v]
	if !ok {
		c = m.items[crawlv1.Verdict_VERDICT_RETRY_LATER]
	}
	c.Inc()
}

func (m *metrics) host(s crawlv1.HostStatus) { m.hosts[s].Inc() }

func (m *metrics) late(n int) {
	m.hosts[crawlv1.HostStatus_HOST_STATUS_UNSPECIFIED].Add(float64(n))
}

// register puts c into reg, or gives the one that is there already: instances
// in one process count together.
func register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
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
