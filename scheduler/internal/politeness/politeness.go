// Package politeness computes how long a host waits: after a fetch, after a
// failure, and where nobody knows what happened (design section 8). It holds
// no state.
package politeness

import (
	"math"
	"net/netip"
	"time"

	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// MaxBackOff is the longest wait after failures of a host.
const MaxBackOff = 24 * time.Hour

// Defaults of a job's delays.
const (
	defaultMinDelay = time.Second
	defaultMaxDelay = 30 * time.Second
	defaultFactor   = 5
)

// Rules are a job's politeness in the form the clocks use.
type Rules struct {
	MinDelay      time.Duration
	MaxDelay      time.Duration
	Factor        float64
	PerHost       int
	MaxCrawlDelay time.Duration
	MaxTries      uint32
	BackOff       time.Duration
	IgnoreRobots  bool

	// HostLimit, DomainLimit and JobLimit are further limits of those clocks.
	HostLimit   Limit
	DomainLimit Limit
	JobLimit    Limit
	// Groups are named clocks.
	Groups []Group

	address         Limit
	failures        map[jobv1.FailureClass]Failure
	addressDelay    time.Duration
	perAddress      int
	addressDelaySet bool
	perAddressSet   bool
	allow           []netip.Prefix
}

// New takes the rules of an effective spec; what is unset gets its default.
func New(spec *jobv1.Spec) Rules {
	p := spec.GetPoliteness()
	r := Rules{
		MinDelay:      defaultMinDelay,
		MaxDelay:      defaultMaxDelay,
		Factor:        defaultFactor,
		PerHost:       max(1, int(p.GetPerHost())),
		MaxCrawlDelay: 300 * time.Second,
		MaxTries:      max(1, p.GetMaxTries()),
		BackOff:       60 * time.Second,
		IgnoreRobots:  p.GetRobots() == jobv1.RobotsPolicy_ROBOTS_POLICY_IGNORE,
		addressDelay:  100 * time.Millisecond,
		perAddress:    4,
	}
	if p.GetMinDelay() != nil {
		r.MinDelay = p.GetMinDelay().AsDuration()
	}
	if p.GetMaxDelay() != nil {
		r.MaxDelay = p.GetMaxDelay().AsDuration()
	}
	r.MaxDelay = max(r.MaxDelay, r.MinDelay)
	if p != nil && p.DelayFactor != nil {
		r.Factor = p.GetDelayFactor()
	}
	if p.GetMaxCrawlDelay() != nil {
		r.MaxCrawlDelay = p.GetMaxCrawlDelay().AsDuration()
	}
	if p.GetMaxTries() == 0 {
		r.MaxTries = 3
	}
	if p.GetBackOff().AsDuration() > 0 {
		r.BackOff = p.GetBackOff().AsDuration()
	}
	if p.GetAddressDelay() != nil {
		r.addressDelay, r.addressDelaySet = p.GetAddressDelay().AsDuration(), true
	}
	if p.GetPerAddress() > 0 {
		r.perAddress, r.perAddressSet = int(p.GetPerAddress()), true
	}
	r.HostLimit, r.DomainLimit, r.JobLimit = limitOf(p.GetHostLimit()), limitOf(p.GetDomainLimit()), limitOf(p.GetJobLimit())
	r.address, r.Groups = limitOf(p.GetAddressLimit()), GroupsOf(p.GetGroups())
	r.failures = failuresOf(p, &r)
	for _, s := range spec.GetFetch().GetAllowNet() {
		if n, err := netip.ParsePrefix(s); err == nil {
			r.allow = append(r.allow, n)
		} else if a, err := netip.ParseAddr(s); err == nil {
			r.allow = append(r.allow, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return r
}

// Inside tells whether all the addresses lie in the job's allow_net: only
// there may delays be 0 and a host be fetched from several times at once.
func (r *Rules) Inside(addrs []netip.Addr) bool {
	if len(r.allow) == 0 || len(addrs) == 0 {
		return false
	}
	for _, a := range addrs {
		if !r.inside(a) {
			return false
		}
	}
	return true
}

func (r *Rules) inside(a netip.Addr) bool {
	for _, n := range r.allow {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

// Host returns the fetches at a time and the shortest delay for a host, by
// whether it is inside allow_net.
func (r *Rules) Host(inside bool) (perHost int, minDelay time.Duration) {
	if inside {
		return r.PerHost, r.MinDelay
	}
	minDelay, _, _ = r.delays(false)
	return 1, minDelay
}

// delays are the bounds and the factor of the wait after a fetch. A job that
// asks for no delay means its own network: hosts elsewhere get the defaults.
func (r *Rules) delays(inside bool) (least, most time.Duration, factor float64) {
	if inside || r.MinDelay > 0 {
		return r.MinDelay, r.MaxDelay, r.Factor
	}
	return defaultMinDelay, max(r.MaxDelay, defaultMaxDelay), max(r.Factor, defaultFactor)
}

// Delay is the wait after a fetch that took d, robots' Crawl-delay apart.
func (r *Rules) Delay(d time.Duration, inside bool) time.Duration {
	least, most, factor := r.delays(inside)
	scaled := float64(max(0, d)) * factor
	wait := most
	if scaled < float64(most) {
		wait = time.Duration(scaled)
	}
	return max(wait, least)
}

// Longest is the wait after a fetch of unknown length.
func (r *Rules) Longest(crawlDelay time.Duration, inside bool) time.Duration {
	least, most, factor := r.delays(inside)
	if factor == 0 {
		return max(least, crawlDelay)
	}
	return max(most, crawlDelay, least)
}

// Address returns the fetches at a time (0: no limit) and the delay of an
// address.
func (r *Rules) Address(a netip.Addr) (perAddress int, delay time.Duration) {
	perAddress, delay = r.perAddress, r.addressDelay
	if r.inside(a) {
		if !r.perAddressSet {
			perAddress = 0
		}
		if !r.addressDelaySet {
			delay = 0
		}
	}
	return perAddress, delay
}

// AddressDelay is the longest delay that any address has under the rules.
func (r *Rules) AddressDelay() time.Duration { return r.addressDelay }

// BackOffAfter is the wait after the nth failure in a row (n >= 1): first,
// doubled each time, at most a day, and up to a quarter more by jitter, a
// number in [0, 1).
func BackOffAfter(first time.Duration, n uint32, jitter float64) time.Duration {
	wait := float64(first) * math.Pow(2, float64(min(n, 40)-1))
	wait = min(wait*(1+jitter/4), float64(MaxBackOff))
	return time.Duration(wait)
}
