package job

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"lycosa.dev/internal/config"
	"lycosa.dev/internal/weburl"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

var validName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Stores and handlers that a spec may name.
var (
	storeNames   = []string{"warc", "files"}
	handlerNames = []string{"links", "store", "select"}
)

// Validate checks an effective spec (WithDefaults) and returns all problems
// joined, each named by its field.
func Validate(s *jobv1.Spec) error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
	if !validName.MatchString(s.GetName()) {
		bad("name", "must be 1 to 64 letters, digits, \"-\" or \"_\", is %q", s.GetName())
	}
	for i, seed := range s.GetSeeds() {
		if _, err := ParseSeed(seed); err != nil {
			bad(fmt.Sprintf("seeds[%d]", i), "%v", err)
		}
	}
	if ua := s.GetIdentity().GetUserAgent(); strings.ContainsAny(ua, "\r\n\x00") || ua == "" {
		bad("identity.user_agent", "must be one line of text, is %q", ua)
	}
	if c := s.GetIdentity().GetContact(); c != "" && !isContact(c) {
		bad("identity.contact", "must be a mail address or an http(s) URL that leads to whoever answers for the crawl, is %q", c)
	}
	if s.GetIdentity().GetRobotsAgent() == "" && s.GetPoliteness().GetRobots() != jobv1.RobotsPolicy_ROBOTS_POLICY_IGNORE {
		bad("identity.robots_agent", "is empty: user_agent %q does not begin with a product token (letters, \"-\", \"_\")", s.GetIdentity().GetUserAgent())
	}
	for i, re := range s.GetScope().GetInclude() {
		if _, err := regexp.Compile(re); err != nil {
			bad(fmt.Sprintf("scope.include[%d]", i), "%v", err)
		}
	}
	for i, re := range s.GetScope().GetExclude() {
		if _, err := regexp.Compile(re); err != nil {
			bad(fmt.Sprintf("scope.exclude[%d]", i), "%v", err)
		}
	}
	validateDelays(s, bad)
	validateOverlays(s, bad)
	if h := s.GetHistory(); h.GetKeep().AsDuration() < 0 || h.GetMaxBytes() < 0 {
		bad("history", "keep and max_bytes must not be negative; off: true keeps nothing")
	}
	validateFetch(s, bad)
	validateLimits(s, bad)
	for i, h := range s.GetPipeline() {
		if !oneOf(h.GetHandler(), handlerNames) {
			bad(fmt.Sprintf("pipeline[%d].handler", i), "%s", unknown(h.GetHandler(), handlerNames))
		}
	}
	if s.GetStorage().GetNone() && len(s.GetStorage().GetStores()) > 0 {
		bad("storage.none", "is true although stores are named; take one of the two away")
	}
	for i, st := range s.GetStorage().GetStores() {
		if !oneOf(st, storeNames) {
			bad(fmt.Sprintf("storage.stores[%d]", i), "%s", unknown(st, storeNames))
		}
	}
	if l := s.GetStorage().GetWarcLevel(); l > 9 {
		bad("storage.warc_level", "must be 1 to 9, is %d", l)
	}
	if l := s.GetLimits(); l.GetMaxTotalBytes() < 0 || l.GetMaxPageBytes() < 0 {
		bad("limits", "sizes must not be negative")
	}
	if c := s.GetLimits().GetConcurrency(); c > 100000 {
		bad("limits.concurrency", "must be at most 100000, is %d", c)
	}
	return errors.Join(errs...)
}

// isContact tells whether a person can follow it up.
func isContact(s string) bool {
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return false
	}
	if rest, ok := strings.CutPrefix(s, "mailto:"); ok || !strings.Contains(s, "://") {
		if !ok {
			rest = s
		}
		name, host, found := strings.Cut(rest, "@")
		return found && name != "" && host != ""
	}
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

func validateDelays(s *jobv1.Spec, bad func(field, format string, args ...any)) {
	p := s.GetPoliteness()
	minDelay, maxDelay := p.GetMinDelay().AsDuration(), p.GetMaxDelay().AsDuration()
	for _, d := range []struct {
		field string
		v     *durationpb.Duration
	}{
		{"politeness.min_delay", p.GetMinDelay()}, {"politeness.max_delay", p.GetMaxDelay()},
		{"politeness.address_delay", p.GetAddressDelay()}, {"politeness.max_crawl_delay", p.GetMaxCrawlDelay()},
		{"politeness.back_off", p.GetBackOff()}, {"limits.max_duration", s.GetLimits().GetMaxDuration()},
		{"limits.drain_timeout", s.GetLimits().GetDrainTimeout()},
	} {
		if d.v != nil && d.v.AsDuration() < 0 {
			bad(d.field, "must not be negative, is %s", d.v.AsDuration())
		}
	}
	if minDelay > maxDelay {
		bad("politeness.max_delay", "is %s, below min_delay %s", maxDelay, minDelay)
	}
	if f := p.GetDelayFactor(); !(f >= 0 && f <= 1000) { // NaN is neither
		bad("politeness.delay_factor", "must be 0 to 1000, is %g", f)
	}
	open := len(s.GetFetch().GetAllowNet()) > 0
	if minDelay <= 0 && !open {
		bad("politeness.min_delay", "is 0: hosts outside fetch.allow_net (--allow-net) are always given a delay; the shortest is 1ms")
	}
	if p.GetPerHost() > 1 && !open {
		bad("politeness.per_host", "is %d: more than one fetch of a host at a time is for addresses inside fetch.allow_net (--allow-net) only", p.GetPerHost())
	}
	if maxDelay > 24*time.Hour {
		bad("politeness.max_delay", "must be at most 24h, is %s", maxDelay)
	}
}

func validateFetch(s *jobv1.Spec, bad func(field, format string, args ...any)) {
	for i, cidr := range s.GetFetch().GetAllowNet() {
		if _, err := ParseNet(cidr); err != nil {
			bad(fmt.Sprintf("fetch.allow_net[%d]", i), "%v", err)
		}
	}
	for i, r := range s.GetFetch().GetResolve() {
		if _, _, err := ParseResolve(r); err != nil {
			bad(fmt.Sprintf("fetch.resolve[%d]", i), "%v", err)
		}
	}
	for i, h := range s.GetFetch().GetHeaders() {
		checkHeader(fmt.Sprintf("fetch.headers[%d]", i), h, bad)
	}
	validateIdentity(s.GetFetch(), bad)
}

// ParseNet reads a CIDR, or an address as the CIDR of it alone.
func ParseNet(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("must be a network such as 10.0.0.0/8 or an address, is %q", s)
	}
	return p.Masked(), nil
}

// ParseResolve reads "HOST:ADDR", also "HOST:PORT:ADDR" as curl's --resolve
// (the port is dropped: a host has one set of addresses). The host "*" stands
// for every host, IP literals included as curl 7.88 has it.
func ParseResolve(s string) (host string, addr netip.Addr, err error) {
	host, rest, ok := strings.Cut(s, ":")
	if ok {
		if a, err := parseAddr(rest); err == nil {
			return strings.ToLower(host), a, nil
		}
		if port, after, ok := strings.Cut(rest, ":"); ok && strings.Trim(port, "0123456789") == "" {
			if a, err := parseAddr(after); err == nil {
				return strings.ToLower(host), a, nil
			}
		}
	}
	return "", netip.Addr{}, fmt.Errorf("must be HOST:ADDR such as example.org:127.0.0.1 or *:127.0.0.1, is %q", s)
}

func parseAddr(s string) (netip.Addr, error) {
	return netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
}

// ParseSeed reads a seed: an absolute http or https URL; "example.org/path"
// without a scheme is taken as https.
func ParseSeed(s string) (weburl.URL, error) {
	text := strings.TrimSpace(s)
	if text == "" {
		return weburl.URL{}, errors.New("is empty; give a URL such as https://example.org/")
	}
	if !strings.Contains(text, "://") && !strings.HasPrefix(text, "/") && !strings.Contains(strings.SplitN(text, "/", 2)[0], "@") {
		text = "https://" + text
	}
	u, err := weburl.ParseCanonical(text)
	if err != nil {
		return weburl.URL{}, fmt.Errorf("%q is no URL to crawl: %w", s, err)
	}
	if !u.IsHTTP() {
		return weburl.URL{}, fmt.Errorf("%q has the scheme %s; only http and https are crawled", s, u.Scheme())
	}
	return u, nil
}

func oneOf(s string, names []string) bool {
	for _, n := range names {
		if n == s {
			return true
		}
	}
	return false
}

func unknown(s string, names []string) string {
	msg := fmt.Sprintf("%q is not one of %s", s, strings.Join(names, ", "))
	if near := config.Closest(s, names); near != "" {
		msg += fmt.Sprintf("; did you mean %q?", near)
	}
	return msg
}

// Conflicts tells which changes from an old spec to a new one a crawl with
// URLs cannot take: another scope or another identity would make its results
// neither the one crawl nor the other. Limits, delays, exclusions and seeds may
// change.
// Both specs are effective ones.
func Conflicts(old, next *jobv1.Spec) error {
	var errs []error
	differ := func(field string, a, b any) {
		if fmt.Sprint(a) != fmt.Sprint(b) {
			errs = append(errs, fmt.Errorf("%s: the crawl was begun with %v, this asks for %v", field, a, b))
		}
	}
	kind := func(s *jobv1.Spec) string {
		return enumName(s.GetScope().GetKind().Descriptor().Values().ByNumber(s.GetScope().GetKind().Number()))
	}
	differ("scope.kind", kind(old), kind(next))
	differ("scope.include", old.GetScope().GetInclude(), next.GetScope().GetInclude())
	differ("scope.page_requisites", old.GetScope().GetPageRequisites(), next.GetScope().GetPageRequisites())
	differ("identity.user_agent", old.GetIdentity().GetUserAgent(), next.GetIdentity().GetUserAgent())
	differ("url_rules", old.GetUrlRules(), next.GetUrlRules())
	return errors.Join(errs...)
}
