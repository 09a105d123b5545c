package frontier

import (
	"strings"

	"google.golang.org/protobuf/proto"

	specs "lycosa.dev/internal/job"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"

	"lycosa.dev/scheduler/internal/politeness"
)

// Overlays of a job's settings (package job says which wins). The rules of each
// set of overlays that applies somewhere are made once; which set applies to a
// host is remembered for the hosts in memory.

// overlaysKept bounds the hosts whose overlays are remembered.
const overlaysKept = 1 << 16

// overlaid is what a job's overlays make of its politeness.
type overlaid struct {
	bySet    map[string]*politeness.Rules // by the overlays' names
	byHost   map[string]*politeness.Rules
	prefixes bool // some apply by URL
}

func newOverlaid(spec *jobv1.Spec) *overlaid {
	if len(spec.GetOverlays()) == 0 {
		return nil
	}
	o := &overlaid{bySet: map[string]*politeness.Rules{}, byHost: map[string]*politeness.Rules{}}
	for _, x := range spec.GetOverlays() {
		o.prefixes = o.prefixes || len(x.GetUrlPrefixes()) > 0
	}
	return o
}

// polOf is the politeness of a job for a host.
func (j *job) polOf(hostKey string) *politeness.Rules {
	o := j.overlays
	if o == nil {
		return &j.pol
	}
	if r := o.byHost[hostKey]; r != nil {
		return r
	}
	r := j.rulesOf(specs.OverlaysFor(j.spec, hostKey, ""))
	if len(o.byHost) >= overlaysKept {
		clear(o.byHost)
	}
	o.byHost[hostKey] = r
	return r
}

// polAfter is the politeness of a job for a host after what was fetched there
// last.
func (j *job) polAfter(h *host) *politeness.Rules {
	if j.overlays == nil || !j.overlays.prefixes || h.lastURL == "" {
		return j.polOf(h.key)
	}
	return j.rulesOf(specs.OverlaysFor(j.spec, h.key, h.lastURL))
}

func (j *job) rulesOf(list []*jobv1.Overlay) *politeness.Rules {
	if len(list) == 0 {
		return &j.pol
	}
	set := strings.Join(overlayNames(list), " ")
	if r := j.overlays.bySet[set]; r != nil {
		return r
	}
	spec := proto.CloneOf(j.spec)
	spec.Politeness = specs.Overlaid(spec.Politeness, list)
	r := politeness.New(spec)
	j.overlays.bySet[set] = &r
	return &r
}

func overlayNames(list []*jobv1.Overlay) []string {
	var names []string
	for _, o := range list {
		names = append(names, o.GetName())
	}
	return names
}
