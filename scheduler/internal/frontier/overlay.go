package frontier

import (
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	specs "lycosa.dev/internal/job"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"

	"lycosa.dev/scheduler/internal/politeness"
)

// Overlays of a job's settings (package job says which wins). What each set of
// overlays that applies somewhere makes of the spec is made once; which set
// applies to a host is remembered for the hosts in memory.

// overlaysKept bounds the hosts whose overlays are remembered.
const overlaysKept = 1 << 16

// overlaid is what a job's overlays make of its spec.
type overlaid struct {
	bySet    map[string]*settings // by the overlays' names
	byHost   map[string]*settings
	prefixes bool // some apply by URL
	excludes bool // some exclude
}

// settings are what holds for a host, or a URL.
type settings struct {
	pol        politeness.Rules
	agent      string                  // by which robots.txt is asked
	request    *crawlv1.RequestOverlay // nil: as the spec says
	budget     budget                  // the host's
	domain     budget                  // of a registrable domain
	precedence int                     // -1: as the spec says
	excludes   []exclusion
}

// exclusion is a rule that keeps URLs out.
type exclusion struct {
	re     *regexp.Regexp
	reason string
}

// overlayPrefix begins the reason of a URL that an overlay's exclusion ended.
const overlayPrefix = "overlay "

func newOverlaid(spec *jobv1.Spec) *overlaid {
	if len(spec.GetOverlays()) == 0 {
		return nil
	}
	o := &overlaid{bySet: map[string]*settings{}, byHost: map[string]*settings{}}
	for _, x := range spec.GetOverlays() {
		o.prefixes = o.prefixes || len(x.GetUrlPrefixes()) > 0
		o.excludes = o.excludes || len(x.GetExclude()) > 0
	}
	return o
}

// settingsOf are a spec's settings with overlays.
func settingsOf(spec *jobv1.Spec, list []*jobv1.Overlay) *settings {
	over := spec
	if len(list) > 0 {
		over = proto.CloneOf(spec)
		over.Politeness = specs.Overlaid(over.Politeness, list)
	}
	s := &settings{pol: politeness.New(over), request: specs.RequestOf(list), precedence: -1, agent: spec.GetIdentity().GetRobotsAgent()}
	if s.agent == "" {
		s.agent = spec.GetIdentity().GetUserAgent()
	}
	if a := s.request.GetRobotsAgent(); a != "" {
		s.agent = a
	}
	s.budget.pages, s.budget.bytes = specs.Budgets(spec, list)
	s.domain.pages, s.domain.bytes = specs.DomainBudgets(spec, list)
	for _, o := range slices.Backward(list) {
		if o.Precedence != nil {
			s.precedence = int(min(o.GetPrecedence(), specs.MaxPrecedence))
		}
		for _, text := range o.GetExclude() {
			if re, err := regexp.Compile(text); err == nil { // others were refused before
				s.excludes = append(s.excludes, exclusion{re, overlayReason(o.GetName(), text)})
			}
		}
	}
	return s
}

func overlayReason(name, rule string) string {
	return overlayPrefix + name + ": " + excludePrefix + rule
}

// of are a job's settings for a host.
func (j *job) of(hostKey string) *settings {
	o := j.overlays
	if o == nil {
		return &j.settings
	}
	if s := o.byHost[hostKey]; s != nil {
		return s
	}
	s := j.settingsOf(specs.OverlaysFor(j.spec, hostKey, ""))
	if len(o.byHost) >= overlaysKept {
		clear(o.byHost)
	}
	o.byHost[hostKey] = s
	return s
}

// ofURL are a job's settings for a URL.
func (j *job) ofURL(hostKey, url string) *settings {
	if j.overlays == nil || !j.overlays.prefixes || url == "" {
		return j.of(hostKey)
	}
	return j.settingsOf(specs.OverlaysFor(j.spec, hostKey, url))
}

// polOf is the politeness of a job for a host.
func (j *job) polOf(hostKey string) *politeness.Rules { return &j.of(hostKey).pol }

// polAfter is the politeness of a job for a host after what was fetched there
// last.
func (j *job) polAfter(h *host) *politeness.Rules { return &j.ofURL(h.key, h.lastURL).pol }

func (j *job) settingsOf(list []*jobv1.Overlay) *settings {
	if len(list) == 0 {
		return &j.settings
	}
	set := strings.Join(overlayNames(list), " ")
	if s := j.overlays.bySet[set]; s != nil {
		return s
	}
	s := settingsOf(j.spec, list)
	j.overlays.bySet[set] = s
	return s
}

func overlayNames(list []*jobv1.Overlay) []string {
	var names []string
	for _, o := range list {
		names = append(names, o.GetName())
	}
	return names
}
