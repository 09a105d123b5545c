package job

import (
	"net/url"
	"regexp"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// Defaults of a spec, as the comments of lycosa.job.v1 name them.
const (
	DefaultMinDelay         = time.Second
	DefaultMaxDelay         = 30 * time.Second
	DefaultDelayFactor      = 5.0
	DefaultAddressDelay     = 100 * time.Millisecond
	DefaultPerAddress       = 4
	DefaultMaxCrawlDelay    = 300 * time.Second
	DefaultMaxTries         = 3
	DefaultBackOff          = 60 * time.Second
	DefaultMaxPageBytes     = 100 << 20
	DefaultMaxURLLength     = 8192
	DefaultConcurrency      = 128
	DefaultDrainTimeout     = 30 * time.Second
	DefaultConnectTimeout   = 10 * time.Second
	DefaultTLSTimeout       = 10 * time.Second
	DefaultFirstByteTimeout = 30 * time.Second
	DefaultIdleTimeout      = 30 * time.Second
	DefaultTotalTimeout     = 20 * time.Minute
	DefaultWARCFileBytes    = 1 << 30
	DefaultWARCLevel        = 1
	// MaxSeedRedirects is how many redirects of a seed join the scope.
	MaxSeedRedirects = 5
	// MaxHopPath is how many letters of a hop path are kept.
	MaxHopPath = 50
)

// WithDefaults returns the effective spec: a copy of s in which every unset
// field has its default. version is Lycosa's, for the User-Agent. Delays stay
// as given; Validate says which are allowed.
func WithDefaults(s *jobv1.Spec, version string) *jobv1.Spec {
	e := proto.CloneOf(s)
	if e.Identity == nil {
		e.Identity = &jobv1.Identity{}
	}
	if e.Identity.UserAgent == "" {
		e.Identity.UserAgent = "Lycosa/" + version
		if e.Identity.Contact != "" {
			contact := e.Identity.Contact
			if !strings.Contains(contact, "://") {
				contact = "mailto:" + strings.TrimPrefix(contact, "mailto:")
			}
			e.Identity.UserAgent += " (+" + contact + ")"
		}
	}
	if e.Identity.RobotsAgent == "" {
		e.Identity.RobotsAgent = productToken(e.Identity.UserAgent)
	}
	if e.Scope == nil {
		e.Scope = &jobv1.Scope{}
	}
	if e.Scope.Kind == jobv1.ScopeKind_SCOPE_KIND_UNSPECIFIED {
		e.Scope.Kind = jobv1.ScopeKind_SCOPE_KIND_HOST
	}
	setBool(&e.Scope.SeedRedirects, true)

	if e.Limits == nil {
		e.Limits = &jobv1.Limits{}
	}
	set(&e.Limits.MaxPageBytes, DefaultMaxPageBytes)
	set(&e.Limits.MaxUrlLength, DefaultMaxURLLength)
	set(&e.Limits.Concurrency, DefaultConcurrency)
	setDuration(&e.Limits.DrainTimeout, DefaultDrainTimeout)

	if e.Politeness == nil {
		e.Politeness = &jobv1.Politeness{}
	}
	p := e.Politeness
	setDuration(&p.MinDelay, DefaultMinDelay)
	if p.MaxDelay == nil {
		p.MaxDelay = durationpb.New(max(DefaultMaxDelay, p.MinDelay.AsDuration()))
	}
	if p.DelayFactor == nil {
		p.DelayFactor = proto.Float64(DefaultDelayFactor)
	}
	set(&p.PerHost, 1)
	// address_delay and per_address stay unset where they are: the limit then
	// depends on whether the address is inside fetch.allow_net.
	setDuration(&p.MaxCrawlDelay, DefaultMaxCrawlDelay)
	if p.Robots == jobv1.RobotsPolicy_ROBOTS_POLICY_UNSPECIFIED {
		p.Robots = jobv1.RobotsPolicy_ROBOTS_POLICY_OBEY
	}
	set(&p.MaxTries, DefaultMaxTries)
	setDuration(&p.BackOff, DefaultBackOff)

	if e.Fetch == nil {
		e.Fetch = &jobv1.Fetch{}
	}
	setDuration(&e.Fetch.ConnectTimeout, DefaultConnectTimeout)
	setDuration(&e.Fetch.TlsTimeout, DefaultTLSTimeout)
	setDuration(&e.Fetch.FirstByteTimeout, DefaultFirstByteTimeout)
	setDuration(&e.Fetch.IdleTimeout, DefaultIdleTimeout)
	setDuration(&e.Fetch.TotalTimeout, DefaultTotalTimeout)
	fetchDefaults(e.Fetch)

	if e.Links == nil {
		e.Links = &jobv1.Links{}
	}
	setBool(&e.Links.Navigation, true)
	setBool(&e.Links.Embeds, true)
	setBool(&e.Links.Sitemaps, true)
	if e.UrlRules == nil {
		e.UrlRules = &jobv1.UrlRules{}
	}
	if len(e.Pipeline) == 0 {
		e.Pipeline = []*jobv1.Handler{{Handler: "links"}, {Handler: "store"}}
	}
	if e.Storage == nil {
		e.Storage = &jobv1.Storage{}
	}
	if len(e.Storage.Stores) == 0 && !e.Storage.None {
		e.Storage.Stores = []string{"warc"}
	}
	set(&e.Storage.WarcFileBytes, DefaultWARCFileBytes)
	set(&e.Storage.WarcLevel, DefaultWARCLevel)
	orderDefaults(e)
	if e.Name == "" {
		e.Name = NameFor(e.Seeds)
	}
	return e
}

func set[T comparable](field *T, v T) {
	var zero T
	if *field == zero {
		*field = v
	}
}

func setBool(field **bool, v bool) {
	if *field == nil {
		*field = &v
	}
}

func setDuration(field **durationpb.Duration, v time.Duration) {
	if *field == nil {
		*field = durationpb.New(v)
	}
}

var tokenEnd = regexp.MustCompile(`[^A-Za-z_-]`)

// productToken is the first product token of a User-Agent, as RFC 9309 section
// 2.2.1 spells tokens.
func productToken(ua string) string {
	ua = strings.TrimSpace(ua)
	if loc := tokenEnd.FindStringIndex(ua); loc != nil {
		return ua[:loc[0]]
	}
	return ua
}

var notName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// NameFor makes a job's name from its first seed's host; "crawl" where there
// is none.
func NameFor(seeds []string) string {
	for _, s := range seeds {
		if u, err := url.Parse(s); err == nil && u.Hostname() != "" {
			name := strings.Trim(notName.ReplaceAllString(u.Hostname(), "-"), "-")
			if name != "" {
				return name[:min(len(name), 64)]
			}
		}
	}
	return "crawl"
}
