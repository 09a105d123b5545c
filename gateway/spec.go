package gateway

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"lycosa.dev/internal/job"
	"lycosa.dev/internal/telemetry"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// yamlName is the name of a spec sent as YAML in messages.
const yamlName = "spec_yaml"

// readSpec takes a spec in either form and refuses what the scheduler would
// refuse, with every problem at once.
func (g *Gateway) readSpec(spec *jobv1.Spec, yaml string) (*jobv1.Spec, error) {
	switch {
	case spec != nil && yaml != "":
		return nil, g.refuse(refusedRequest, codes.InvalidArgument, "spec and spec_yaml are both given; give one")
	case spec == nil && strings.TrimSpace(yaml) == "":
		return nil, g.refuse(refusedRequest, codes.InvalidArgument, "no spec is given: set spec or spec_yaml")
	case spec == nil:
		parsed, err := job.ParseYAML(yamlName, []byte(yaml))
		if err != nil {
			return nil, g.refuse(refusedSpec, codes.InvalidArgument, "%v", err)
		}
		spec = parsed
	}
	effective := job.WithDefaults(spec, telemetry.Version())
	if err := job.Validate(effective); err != nil {
		return nil, g.refuse(refusedSpec, codes.InvalidArgument, "%v", err)
	}
	if effective.GetIdentity().GetContact() == "" && !g.cfg.AllowNoContact {
		return nil, g.refuse(refusedContact, codes.InvalidArgument,
			"identity.contact: is empty; give a URL or mail address of whoever answers for the crawl, so that servers' owners can reach them")
	}
	// The scheduler fills in the defaults: they are its version's.
	return spec, nil
}

func (g *Gateway) refuse(reason string, code codes.Code, format string, args ...any) error {
	g.metrics.refused.WithLabelValues(reason).Inc()
	return status.Errorf(code, format, args...)
}
