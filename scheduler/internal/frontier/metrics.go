package frontier

import "github.com/prometheus/client_golang/prometheus"

// metrics of the frontier. Labels are bounded: no job, host or URL.
type metrics struct {
	leases, batches, bad, commits, decided, fresh prometheus.Counter
	outcomes                                      *prometheus.CounterVec
	decideSeconds                                 prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "lycosa_scheduler_" + name, Help: help})
	}
	m := &metrics{
		leases:  counter("leases_total", "Leases granted."),
		batches: counter("store_batches_total", "Batches applied to the frontier's store."),
		bad:     counter("bad_records_total", "Damaged records set aside."),
		commits: counter("commits_total", "Commits taken."),
		decided: counter("candidates_decided_total", "Candidates decided, new or known."),
		fresh:   counter("candidates_new_total", "Candidates that were new."),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lycosa_scheduler_outcomes_total", Help: "Outcomes committed, by class."}, []string{"class"}),
		decideSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "lycosa_scheduler_decide_seconds", Help: "Time to decide a batch of candidates.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8)}),
	}
	if r != nil {
		r.MustRegister(m.leases, m.batches, m.bad, m.commits, m.decided, m.fresh, m.outcomes, m.decideSeconds)
	}
	return m
}
