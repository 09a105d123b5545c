package job

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// Defaults of what keeps a crawl going and what keeps it out of endless sites.
const (
	DefaultRecrawlInterval    = 24 * time.Hour
	DefaultMinRecrawlInterval = time.Hour
	DefaultMaxRecrawlInterval = 720 * time.Hour
	DefaultRecrawlFactor      = 2.0
	DefaultMaxRepeats         = 3
	DefaultMaxPathSegments    = 30
	DefaultMaxQueryParameters = 24
	DefaultMaxQueriesOfPath   = 20000
	DefaultCalendarYears      = 50
	DefaultMaxRedirects       = 20
	DefaultMaxMisses          = 50
	// DefaultPrecedence is the precedence of hosts that no rule names.
	DefaultPrecedence = 1
	// MaxPrecedence is the last precedence of hosts.
	MaxPrecedence = 3
)

func orderDefaults(e *jobv1.Spec) {
	if e.Order == nil {
		e.Order = &jobv1.Order{}
	}
	set(&e.Order.Strategy, jobv1.OrderStrategy_ORDER_STRATEGY_PRIORITY)
	if e.Recrawl == nil {
		e.Recrawl = &jobv1.Recrawl{}
	}
	r := e.Recrawl
	set(&r.Policy, jobv1.RecrawlPolicy_RECRAWL_POLICY_NEVER)
	setDuration(&r.Interval, DefaultRecrawlInterval)
	setDuration(&r.MinInterval, DefaultMinRecrawlInterval)
	setDuration(&r.MaxInterval, DefaultMaxRecrawlInterval)
	if r.Factor == nil {
		r.Factor = proto.Float64(DefaultRecrawlFactor)
	}
	if e.Traps == nil {
		e.Traps = &jobv1.Traps{}
	}
	t := e.Traps
	for field, v := range map[**uint32]uint32{
		&t.MaxRepeats: DefaultMaxRepeats, &t.MaxPathSegments: DefaultMaxPathSegments, &t.MaxQueryParameters: DefaultMaxQueryParameters,
		&t.MaxQueriesOfPath: DefaultMaxQueriesOfPath, &t.CalendarYears: DefaultCalendarYears, &t.MaxRedirects: DefaultMaxRedirects, &t.MaxMisses: DefaultMaxMisses,
	} {
		if *field == nil {
			*field = proto.Uint32(v)
		}
	}
}

// validateLimits checks clocks, failure rules, budgets, order and recrawl.
func validateLimits(s *jobv1.Spec, bad func(field, format string, args ...any)) {
	p := s.GetPoliteness()
	for field, l := range map[string]*jobv1.ClockLimit{"host_limit": p.GetHostLimit(), "address_limit": p.GetAddressLimit(),
		"domain_limit": p.GetDomainLimit(), "job_limit": p.GetJobLimit()} {
		validateClock("politeness."+field, l, bad)
	}
	validateGroups("politeness.groups", p.GetGroups(), bad)
	classes := map[jobv1.FailureClass]bool{}
	for i, f := range p.GetFailures() {
		at := fmt.Sprintf("politeness.failures[%d]", i)
		if f.GetClass() == jobv1.FailureClass_FAILURE_CLASS_UNSPECIFIED {
			bad(at+".class", "is not set; name one of dns, connect, tls, timeout, http, content")
		}
		if classes[f.GetClass()] {
			bad(at+".class", "is given twice")
		}
		classes[f.GetClass()] = true
		if d := f.GetWait().AsDuration(); d < 0 || d > 24*time.Hour {
			bad(at+".wait", "must be 0 to 24h, is %s", d)
		}
	}
	if l := s.GetLimits(); l.GetMaxHostBytes() < 0 || l.GetMaxDomainBytes() < 0 {
		bad("limits", "sizes must not be negative")
	}
	for i, r := range s.GetOrder().GetPrecedence() {
		at := fmt.Sprintf("order.precedence[%d]", i)
		if r.GetPrecedence() > MaxPrecedence {
			bad(at+".precedence", "must be 0 to %d, is %d", MaxPrecedence, r.GetPrecedence())
		}
		for j, h := range r.GetHosts() {
			if err := CheckHostPattern(h); err != nil {
				bad(fmt.Sprintf("%s.hosts[%d]", at, j), "%v", err)
			}
		}
	}
	validateRecrawl(s.GetRecrawl(), bad)
}

func validateClock(at string, l *jobv1.ClockLimit, bad func(field, format string, args ...any)) {
	if d := l.GetMinDelay().AsDuration(); d < 0 || d > 24*time.Hour {
		bad(at+".min_delay", "must be 0 to 24h, is %s", d)
	}
	if l.GetRateBytes() < 0 {
		bad(at+".rate_bytes", "must not be negative, is %d", l.GetRateBytes())
	}
}

func validateRecrawl(r *jobv1.Recrawl, bad func(field, format string, args ...any)) {
	if r.GetPolicy() <= jobv1.RecrawlPolicy_RECRAWL_POLICY_NEVER {
		return
	}
	const shortest = time.Second
	if d := r.GetInterval().AsDuration(); d < shortest {
		bad("recrawl.interval", "must be at least %s, is %s", shortest, d)
	}
	low, high := r.GetMinInterval().AsDuration(), r.GetMaxInterval().AsDuration()
	if low < shortest {
		bad("recrawl.min_interval", "must be at least %s, is %s", shortest, low)
	}
	if high < low {
		bad("recrawl.max_interval", "is %s, below min_interval %s", high, low)
	}
	if f := r.GetFactor(); f < 1 || f > 100 {
		bad("recrawl.factor", "must be 1 to 100, is %g", f)
	}
}
