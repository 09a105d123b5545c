package job

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// Overlays replace settings for some hosts, domains or URL prefixes. Where
// several apply, the most specific wins, setting by setting: a URL prefix before
// a host, a host before a domain, of two prefixes or domains the longer one, of
// two of the same the later one in the list.

// OverlaysFor lists the overlays of a spec that apply, the most specific first.
// url may be empty: those of the host alone.
func OverlaysFor(spec *jobv1.Spec, hostKey, url string) []*jobv1.Overlay {
	type match struct {
		o    *jobv1.Overlay
		rank int
	}
	var list []match
	for _, o := range spec.GetOverlays() {
		best := -1
		if url != "" {
			for _, p := range o.GetUrlPrefixes() {
				if strings.HasPrefix(url, p) {
					best = max(best, 2<<20+len(p))
				}
			}
		}
		name := hostKey
		if i := strings.LastIndexByte(name, ':'); i > 0 && !strings.HasSuffix(name, "]") {
			name = name[:i]
		}
		for _, h := range o.GetHosts() {
			if strings.EqualFold(h, hostKey) {
				best = max(best, 1<<20)
			}
		}
		for _, d := range o.GetDomains() {
			if d = strings.ToLower(d); name == d || strings.HasSuffix(name, "."+d) {
				best = max(best, len(d))
			}
		}
		if best < 0 {
			continue
		}
		i := 0
		for i < len(list) && list[i].rank > best {
			i++
		}
		list = append(list, match{})
		copy(list[i+1:], list[i:])
		list[i] = match{o, best}
	}
	out := make([]*jobv1.Overlay, len(list))
	for i, m := range list {
		out[i] = m.o
	}
	return out
}

// Overlaid is the politeness of a spec with the overlays that apply, as
// OverlaysFor lists them.
func Overlaid(p *jobv1.Politeness, overlays []*jobv1.Overlay) *jobv1.Politeness {
	out := &jobv1.Politeness{}
	if p != nil {
		out = proto.CloneOf(p)
	}
	for i := len(overlays) - 1; i >= 0; i-- {
		o := overlays[i]
		for _, s := range []struct {
			to   **durationpb.Duration
			from *durationpb.Duration
		}{{&out.MinDelay, o.GetMinDelay()}, {&out.MaxDelay, o.GetMaxDelay()}, {&out.MaxCrawlDelay, o.GetMaxCrawlDelay()}, {&out.BackOff, o.GetBackOff()}} {
			if s.from != nil {
				*s.to = s.from
			}
		}
		if o.DelayFactor != nil {
			out.DelayFactor = o.DelayFactor
		}
		if o.GetPerHost() > 0 {
			out.PerHost = o.GetPerHost()
		}
		if o.GetRobots() != jobv1.RobotsPolicy_ROBOTS_POLICY_UNSPECIFIED {
			out.Robots = o.GetRobots()
		}
		if o.GetMaxTries() > 0 {
			out.MaxTries = o.GetMaxTries()
		}
		if l := o.GetHostLimit(); l != nil {
			out.HostLimit = limited(out.GetHostLimit(), l)
		}
	}
	return out
}

// limited is a limit with those kinds replaced that by names.
func limited(l, by *jobv1.ClockLimit) *jobv1.ClockLimit {
	out := &jobv1.ClockLimit{}
	if l != nil {
		out = proto.CloneOf(l)
	}
	if by.GetMinDelay() != nil {
		out.MinDelay = by.GetMinDelay()
	}
	if n := by.GetConcurrency(); n > 0 {
		out.Concurrency = n
	}
	if n := by.GetRateBytes(); n > 0 {
		out.RateBytes = n
	}
	if n := by.GetPagesPerDay(); n > 0 {
		out.PagesPerDay = n
	}
	return out
}

// RequestOf is what overlays, as OverlaysFor lists them, change in a request;
// nil: nothing.
func RequestOf(overlays []*jobv1.Overlay) *crawlv1.RequestOverlay {
	out := &crawlv1.RequestOverlay{}
	for i := len(overlays) - 1; i >= 0; i-- {
		o := overlays[i]
		if ua := o.GetUserAgent(); ua != "" {
			out.UserAgent, out.RobotsAgent = ua, productToken(ua)
		}
		if l := o.GetAcceptLanguage(); l != "" {
			out.AcceptLanguage = l
		}
		out.Headers = append(WithoutHeaders(out.Headers, o.GetHeaders()), o.GetHeaders()...)
	}
	if proto.Size(out) == 0 {
		return nil
	}
	return out
}

// WithoutHeaders are the header lines of which the name is not that of one of
// others. The list is copied where it changes.
func WithoutHeaders(lines, others []string) []string {
	name := func(line string) string {
		n, _, _ := strings.Cut(line, ":")
		return n
	}
	same := func(line string) bool {
		return slices.ContainsFunc(others, func(o string) bool { return strings.EqualFold(name(o), name(line)) })
	}
	if !slices.ContainsFunc(lines, same) {
		return lines
	}
	return slices.DeleteFunc(slices.Clone(lines), same)
}

// Budgets are a host's budgets by a spec and the overlays that apply to the
// host.
func Budgets(spec *jobv1.Spec, overlays []*jobv1.Overlay) (pages uint64, bytes int64) {
	l := spec.GetLimits()
	return first(overlays, (*jobv1.Overlay).GetMaxHostPages, l.GetMaxHostPages()), first(overlays, (*jobv1.Overlay).GetMaxHostBytes, l.GetMaxHostBytes())
}

// DomainBudgets are a registrable domain's budgets by a spec and the overlays
// that apply to the domain.
func DomainBudgets(spec *jobv1.Spec, overlays []*jobv1.Overlay) (pages uint64, bytes int64) {
	l := spec.GetLimits()
	return first(overlays, (*jobv1.Overlay).GetMaxDomainPages, l.GetMaxDomainPages()), first(overlays, (*jobv1.Overlay).GetMaxDomainBytes, l.GetMaxDomainBytes())
}

// first is the number that the first overlay sets which sets one, the most
// specific; without it is what holds where none does.
func first[N int64 | uint64](overlays []*jobv1.Overlay, of func(*jobv1.Overlay) N, without N) N {
	for _, o := range overlays {
		if n := of(o); n > 0 {
			return n
		}
	}
	return without
}
