package politeness

import (
	"net/netip"
	"time"

	specs "lycosa.dev/internal/job"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// Limit is what one clock allows; 0: no limit of that kind.
type Limit struct {
	// Delay is the wait from a fetch's end to the next one's start.
	Delay time.Duration
	// Concurrency is the number of fetches at a time.
	Concurrency int
	// Rate is in bytes a second.
	Rate int64
	// PagesPerDay is counted from midnight UTC.
	PagesPerDay uint64
}

// None tells whether nothing is limited.
func (l Limit) None() bool { return l == Limit{} }

// limitOf takes a spec's limit.
func limitOf(c *jobv1.ClockLimit) Limit {
	l := Limit{Delay: c.GetMinDelay().AsDuration(), Concurrency: int(c.GetConcurrency()),
		Rate: c.GetRateBytes(), PagesPerDay: c.GetPagesPerDay()}
	if l.Delay > 0 && l.Concurrency == 0 {
		l.Concurrency = 1
	}
	return l
}

// Tightest joins two limits: of each kind the one that allows less.
func (l Limit) Tightest(o Limit) Limit {
	l.Delay = max(l.Delay, o.Delay)
	l.Concurrency = least(l.Concurrency, o.Concurrency)
	l.Rate = least(l.Rate, o.Rate)
	l.PagesPerDay = least(l.PagesPerDay, o.PagesPerDay)
	return l
}

// least is the smaller of two limits of which 0 is none.
func least[T int | int64 | uint64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Group is a named clock.
type Group struct {
	Name  string
	Limit Limit
	hosts []string
	nets  []netip.Prefix
}

// Covers tells whether a host with these addresses belongs to the group.
func (g *Group) Covers(hostKey string, addrs []netip.Addr) bool {
	for _, p := range g.hosts {
		if specs.MatchHost(p, hostKey) {
			return true
		}
	}
	for _, n := range g.nets {
		for _, a := range addrs {
			if n.Contains(a) {
				return true
			}
		}
	}
	return false
}

// GroupsOf makes named clocks of their settings.
func GroupsOf(list []*jobv1.ClockGroup) []Group {
	var out []Group
	for _, c := range list {
		g := Group{Name: c.GetName(), Limit: limitOf(c.GetLimit()), hosts: c.GetHosts()}
		for _, s := range c.GetNets() {
			if n, err := specs.ParseNet(s); err == nil {
				g.nets = append(g.nets, n)
			}
		}
		if !g.Limit.None() {
			out = append(out, g)
		}
	}
	return out
}

// AddressLimit is what an address allows: per_address and address_delay, and
// address_limit if one is set.
func (r *Rules) AddressLimit(a netip.Addr) Limit {
	n, delay := r.Address(a)
	return Limit{Delay: delay, Concurrency: n}.Tightest(r.address)
}

// Failure is how failures of one class are waited for and tried again.
type Failure struct {
	// Wait is the first; 0: none.
	Wait time.Duration
	// Tries of a URL.
	Tries uint32
}

func failuresOf(p *jobv1.Politeness, r *Rules) map[jobv1.FailureClass]Failure {
	m := map[jobv1.FailureClass]Failure{}
	for n := range jobv1.FailureClass_name {
		m[jobv1.FailureClass(n)] = Failure{Wait: r.BackOff, Tries: r.MaxTries}
	}
	m[jobv1.FailureClass_FAILURE_CLASS_CONTENT] = Failure{Tries: 1}
	for _, f := range p.GetFailures() {
		x := m[f.GetClass()]
		if f.GetWait() != nil {
			x.Wait = f.GetWait().AsDuration()
		}
		if f.GetMaxTries() > 0 {
			x.Tries = f.GetMaxTries()
		}
		m[f.GetClass()] = x
	}
	return m
}

// Failure returns the rule of a class.
func (r *Rules) Failure(c jobv1.FailureClass) Failure { return r.failures[c] }

// MostTries is the greatest number of tries that any class allows: failures of
// several classes together are tried no more often.
func (r *Rules) MostTries() uint32 {
	n := uint32(1)
	for _, f := range r.failures {
		n = max(n, f.Tries)
	}
	return n
}

// leastDead is the least number of failures in a row after which a host is
// dead: with the default back-off of a minute that doubles, 17 hours.
const leastDead = 10

// DeadAfter is the number of failures in a row, of whatever class, after which
// a host is given up: enough for two of its URLs to have had all their tries.
func (r *Rules) DeadAfter() uint32 { return max(leastDead, 2*r.MostTries()) }

// ClassOf is the failure class of a fetch that failed.
func ClassOf(c crawlv1.OutcomeClass) jobv1.FailureClass {
	switch c {
	case crawlv1.OutcomeClass_OUTCOME_CLASS_DNS:
		return jobv1.FailureClass_FAILURE_CLASS_DNS
	case crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT:
		return jobv1.FailureClass_FAILURE_CLASS_CONNECT
	case crawlv1.OutcomeClass_OUTCOME_CLASS_TLS:
		return jobv1.FailureClass_FAILURE_CLASS_TLS
	case crawlv1.OutcomeClass_OUTCOME_CLASS_TIMEOUT:
		return jobv1.FailureClass_FAILURE_CLASS_TIMEOUT
	case crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP, crawlv1.OutcomeClass_OUTCOME_CLASS_PROTOCOL:
		return jobv1.FailureClass_FAILURE_CLASS_HTTP
	}
	return jobv1.FailureClass_FAILURE_CLASS_CONTENT
}
