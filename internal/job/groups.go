package job

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// ParseGroups decodes a deployment's named groups strictly, in the form in which
// a job file has them below politeness ("groups: [{name: ..., hosts: [...],
// limit: {...}}]"); file is the name that errors show.
func ParseGroups(file string, data []byte) ([]*jobv1.ClockGroup, error) {
	p := &jobv1.Politeness{}
	if err := parse(file, data, "a file of groups", p.ProtoReflect()); err != nil {
		return nil, err
	}
	list := p.GetGroups()
	if p.Groups = nil; !proto.Equal(p, &jobv1.Politeness{}) {
		return nil, fmt.Errorf("%s: a file of groups holds \"groups\" and nothing else", file)
	}
	if err := CheckGroups(list); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return list, nil
}

// CheckGroups returns all problems of a deployment's groups.
func CheckGroups(list []*jobv1.ClockGroup) error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
	validateGroups("groups", list, bad)
	for i, g := range list {
		if l := g.GetLimit(); l.GetMinDelay().AsDuration() == 0 && l.GetConcurrency() == 0 && l.GetRateBytes() == 0 && l.GetPagesPerDay() == 0 {
			bad(fmt.Sprintf("groups[%d].limit", i), "limits nothing; set min_delay, concurrency, rate_bytes or pages_per_day")
		}
	}
	return errors.Join(errs...)
}

func validateGroups(field string, list []*jobv1.ClockGroup, bad func(field, format string, args ...any)) {
	names := map[string]bool{}
	for i, g := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		if !validName.MatchString(g.GetName()) {
			bad(at+".name", "must be 1 to 64 letters, digits, \"-\" or \"_\", is %q", g.GetName())
		}
		if names[g.GetName()] {
			bad(at+".name", "%q is the name of another group", g.GetName())
		}
		names[g.GetName()] = true
		if len(g.GetHosts())+len(g.GetNets()) == 0 {
			bad(at, "has neither hosts nor nets: nothing belongs to it")
		}
		for j, h := range g.GetHosts() {
			if err := CheckHostPattern(h); err != nil {
				bad(fmt.Sprintf("%s.hosts[%d]", at, j), "%v", err)
			}
		}
		for j, n := range g.GetNets() {
			if _, err := ParseNet(n); err != nil {
				bad(fmt.Sprintf("%s.nets[%d]", at, j), "%v", err)
			}
		}
		validateClock(at+".limit", g.GetLimit(), bad)
	}
}
