package job

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

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
	}
	return out
}

func validateOverlays(s *jobv1.Spec, bad func(field, format string, args ...any)) {
	seen := map[string]bool{}
	for i, o := range s.GetOverlays() {
		field := fmt.Sprintf("overlays[%d]", i)
		if !validName.MatchString(o.GetName()) {
			bad(field+".name", "must be 1 to 64 letters, digits, \"-\" or \"_\", is %q", o.GetName())
		}
		if seen[o.GetName()] {
			bad(field+".name", "%q is there twice", o.GetName())
		}
		seen[o.GetName()] = true
		if len(o.GetHosts())+len(o.GetDomains())+len(o.GetUrlPrefixes()) == 0 {
			bad(field, "applies to nothing: give hosts, domains or url_prefixes")
		}
		for k, p := range o.GetUrlPrefixes() {
			if _, err := ParseSeed(p); err != nil {
				bad(fmt.Sprintf("%s.url_prefixes[%d]", field, k), "%v", err)
			}
		}
		if len(o.GetUrlPrefixes()) > 0 && (o.GetPerHost() > 0 || o.GetRobots() != 0 || o.GetMaxCrawlDelay() != nil || o.GetMaxTries() > 0 || o.GetBackOff() != nil) {
			bad(field, "by URL prefix only min_delay, max_delay and delay_factor can be set; the others are a host's")
		}
		for _, d := range []struct {
			name string
			v    *durationpb.Duration
		}{{"min_delay", o.GetMinDelay()}, {"max_delay", o.GetMaxDelay()}, {"max_crawl_delay", o.GetMaxCrawlDelay()}, {"back_off", o.GetBackOff()}} {
			if d.v != nil && (d.v.CheckValid() != nil || d.v.AsDuration() < 0) {
				bad(field+"."+d.name, "must not be negative")
			}
		}
		if o.DelayFactor != nil && o.GetDelayFactor() < 0 {
			bad(field+".delay_factor", "must not be negative")
		}
		if o.GetMinDelay() != nil && o.GetMaxDelay() != nil && o.GetMaxDelay().AsDuration() < o.GetMinDelay().AsDuration() {
			bad(field+".max_delay", "must be at least min_delay")
		}
		if len(s.GetFetch().GetAllowNet()) == 0 && (o.GetPerHost() > 1 || o.GetMinDelay() != nil && o.GetMinDelay().AsDuration() == 0) {
			bad(field, "delays of 0 and more than one fetch of a host at a time are for addresses inside fetch.allow_net only")
		}
	}
}
