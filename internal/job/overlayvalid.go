package job

import (
	"fmt"
	"regexp"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

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
		for k, h := range o.GetHosts() {
			if err := CheckHostPattern(h); err != nil || strings.Contains(h, "*") {
				bad(fmt.Sprintf("%s.hosts[%d]", field, k), "must be a host such as example.org or example.org:8080 in lower case, is %q; all below a domain: domains", h)
			}
		}
		for k, d := range o.GetDomains() {
			if err := CheckHostPattern(d); err != nil || strings.ContainsAny(d, "*:") {
				bad(fmt.Sprintf("%s.domains[%d]", field, k), "must be a domain such as example.org in lower case, without port, is %q; it stands for all below it as well", d)
			}
		}
		for k, p := range o.GetUrlPrefixes() {
			if _, err := ParseSeed(p); err != nil {
				bad(fmt.Sprintf("%s.url_prefixes[%d]", field, k), "%v", err)
			}
		}
		if len(o.GetUrlPrefixes()) > 0 {
			for _, name := range ofHosts(o) {
				bad(field+"."+name, "cannot be set by URL prefix, it is a host's: use an overlay of its own with hosts or domains. "+
					"By URL prefix: min_delay, max_delay, delay_factor, accept_language, headers, exclude")
			}
		}
		validateOverlaid(s, o, field, bad)
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
		if len(s.GetFetch().GetAllowNet()) > 0 {
			continue
		}
		if o.GetPerHost() > 1 && len(o.GetUrlPrefixes()) == 0 { // else said above
			bad(field+".per_host", "is %d: more than one fetch of a host at a time is for addresses inside fetch.allow_net only", o.GetPerHost())
		}
		if o.GetMinDelay() != nil && o.GetMinDelay().AsDuration() == 0 {
			bad(field+".min_delay", "is 0: fetches without a delay are for addresses inside fetch.allow_net only")
		}
	}
}

// ofHosts names the settings of an overlay that are a host's.
func ofHosts(o *jobv1.Overlay) []string {
	var list []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"per_host", o.GetPerHost() > 0}, {"robots", o.GetRobots() != 0}, {"max_crawl_delay", o.GetMaxCrawlDelay() != nil},
		{"max_tries", o.GetMaxTries() > 0}, {"back_off", o.GetBackOff() != nil}, {"user_agent", o.GetUserAgent() != ""},
		{"max_host_pages", o.GetMaxHostPages() > 0}, {"max_host_bytes", o.GetMaxHostBytes() != 0},
		{"host_limit", o.GetHostLimit() != nil}, {"precedence", o.Precedence != nil},
	} {
		if f.set {
			list = append(list, f.name)
		}
	}
	return list
}

// validateOverlaid checks what an overlay says of requests, budgets, limits and
// exclusions.
func validateOverlaid(s *jobv1.Spec, o *jobv1.Overlay, field string, bad func(field, format string, args ...any)) {
	if ua := o.GetUserAgent(); ua != "" {
		robots := o.GetRobots()
		if robots == jobv1.RobotsPolicy_ROBOTS_POLICY_UNSPECIFIED {
			robots = s.GetPoliteness().GetRobots()
		}
		switch {
		case strings.ContainsAny(ua, "\r\n\x00"):
			bad(field+".user_agent", "must be one line of text, is %q", ua)
		case productToken(ua) == "" && robots != jobv1.RobotsPolicy_ROBOTS_POLICY_IGNORE:
			bad(field+".user_agent", "%q does not begin with a product token (letters, \"-\", \"_\"), by which robots.txt is asked", ua)
		}
	}
	if strings.ContainsAny(o.GetAcceptLanguage(), "\r\n\x00") {
		bad(field+".accept_language", "must be one line of text, is %q", o.GetAcceptLanguage())
	}
	for k, h := range o.GetHeaders() {
		if err := CheckHeader(h); err != nil {
			bad(fmt.Sprintf("%s.headers[%d]", field, k), "%v", err)
		}
	}
	for k, re := range o.GetExclude() {
		if _, err := regexp.Compile(re); err != nil {
			bad(fmt.Sprintf("%s.exclude[%d]", field, k), "%v", err)
		}
	}
	if o.GetMaxHostBytes() < 0 || o.GetMaxDomainBytes() < 0 {
		bad(field, "max_host_bytes and max_domain_bytes must not be negative")
	}
	if (o.GetMaxDomainPages() > 0 || o.GetMaxDomainBytes() > 0) && (len(o.GetDomains()) == 0 || len(o.GetHosts())+len(o.GetUrlPrefixes()) > 0) {
		bad(field, "max_domain_pages and max_domain_bytes are for overlays of domains alone, without hosts and url_prefixes")
	}
	if o.GetPrecedence() > MaxPrecedence {
		bad(field+".precedence", "must be 0 to %d, is %d", MaxPrecedence, o.GetPrecedence())
	}
	if l := o.GetHostLimit(); l != nil {
		validateClock(field+".host_limit", l, bad)
	}
}
