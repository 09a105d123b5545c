package scheduler

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"lycosa.dev/internal/job"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// ChangeOverlays implements ControlService.
func (s *Scheduler) ChangeOverlays(ctx context.Context, req *schedulerv1.ChangeOverlaysRequest) (*schedulerv1.ChangeOverlaysResponse, error) {
	s.overlays.Lock() // two changes at a time would lose one
	defer s.overlays.Unlock()
	st, err := s.jobStatus(ctx, req.GetJobId())
	if err != nil {
		return nil, err
	}
	spec := proto.CloneOf(st.GetSpec())
	named := func(name string) func(*jobv1.Overlay) bool {
		return func(o *jobv1.Overlay) bool { return o.GetName() == name }
	}
	for _, name := range req.GetRemove() {
		i := slices.IndexFunc(spec.Overlays, named(name))
		if i < 0 {
			return nil, status.Errorf(codes.NotFound, "job %q has no overlay %q", req.GetJobId(), name)
		}
		spec.Overlays = slices.Delete(spec.Overlays, i, i+1)
	}
	for _, o := range req.GetSet() {
		if i := slices.IndexFunc(spec.Overlays, named(o.GetName())); i >= 0 {
			spec.Overlays[i] = o
		} else {
			spec.Overlays = append(spec.Overlays, o)
		}
	}
	if err := job.Validate(spec); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	after, _, err := s.f.ApplyJob(ctx, req.GetJobId(), spec, false)
	if err != nil {
		return nil, toStatus(err)
	}
	return &schedulerv1.ChangeOverlaysResponse{Job: s.withProblem(after)}, nil
}
