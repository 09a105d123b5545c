package frontier

import (
	"errors"
	"fmt"
	"slices"

	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	"lycosa.dev/scheduler/internal/politeness"
)

// Named groups of a deployment: hosts and networks under one clock, whatever
// job fetches from them. A job may name groups of its own beside them, which
// nest with the deployment's; it cannot say what one of those is.

// ErrGroup: a job defines a group that is the deployment's.
var ErrGroup = errors.New("the group is the deployment's")

// ownGroup tells whether a group is the deployment's.
func (f *Frontier) ownGroup(name string) bool {
	return slices.ContainsFunc(f.groups, func(g politeness.Group) bool { return g.Name == name })
}

// checkGroups refuses a spec that defines groups of the deployment.
func (f *Frontier) checkGroups(spec *jobv1.Spec) error {
	var errs []error
	for i, g := range spec.GetPoliteness().GetGroups() {
		if f.ownGroup(g.GetName()) {
			errs = append(errs, fmt.Errorf("politeness.groups[%d].name: %q is a group of the deployment, which holds for every job; leave it out, or give a group of this job another name: %w",
				i, g.GetName(), ErrGroup))
		}
	}
	return errors.Join(errs...)
}

// noteGroups tells the operator of jobs that define groups which have become the
// deployment's since: its definition counts.
func (f *Frontier) noteGroups() {
	for _, j := range f.order {
		if err := f.checkGroups(j.spec); err != nil {
			f.log.Warn("a job and the deployment define the same group; the deployment's definition counts", "job", j.id, "conflict", err)
		}
	}
}
