package scheduler

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"lycosa.dev/internal/job"
	"lycosa.dev/internal/telemetry"
	"lycosa.dev/internal/weburl"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// ApplyJob implements ControlService.
func (s *Scheduler) ApplyJob(ctx context.Context, req *schedulerv1.ApplyJobRequest) (*schedulerv1.ApplyJobResponse, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	spec := job.WithDefaults(req.GetSpec(), telemetry.Version())
	if err := job.Validate(spec); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	id := req.GetJobId()
	if id == "" {
		id = spec.GetName()
	}
	_, created, err := s.f.ApplyJob(ctx, id, spec, req.GetCreateOnly())
	if err != nil {
		return nil, toStatus(err)
	}
	if seeds := spec.GetSeeds(); len(seeds) > 0 {
		if _, err := s.addSeeds(ctx, id, seeds, spec, false); err != nil {
			return nil, err
		}
	}
	if req.GetStart() {
		if _, err := s.f.SetJobState(ctx, id, schedulerv1.JobWish_JOB_WISH_START); err != nil {
			return nil, toStatus(err)
		}
	}
	st, err := s.f.Job(ctx, id)
	if err != nil {
		return nil, toStatus(err)
	}
	return &schedulerv1.ApplyJobResponse{Job: s.withProblem(st), Created: created}, nil
}

// ListJobs implements ControlService.
func (s *Scheduler) ListJobs(ctx context.Context, _ *schedulerv1.ListJobsRequest) (*schedulerv1.ListJobsResponse, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	jobs, err := s.f.Jobs(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	for _, j := range jobs {
		s.withProblem(j)
	}
	return &schedulerv1.ListJobsResponse{Jobs: jobs}, nil
}

// ShowJob implements ControlService.
func (s *Scheduler) ShowJob(ctx context.Context, req *schedulerv1.ShowJobRequest) (*schedulerv1.ShowJobResponse, error) {
	st, err := s.jobStatus(ctx, req.GetJobId())
	if err != nil {
		return nil, err
	}
	return &schedulerv1.ShowJobResponse{Job: st}, nil
}

func (s *Scheduler) jobStatus(ctx context.Context, id string) (*schedulerv1.JobStatus, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	st, err := s.f.Job(ctx, id)
	if err != nil {
		return nil, toStatus(err)
	}
	return s.withProblem(st), nil
}

// withProblem adds what the frontier cannot know: that nobody is there to
// work.
func (s *Scheduler) withProblem(st *schedulerv1.JobStatus) *schedulerv1.JobStatus {
	if st.GetTrouble() != schedulerv1.Trouble_TROUBLE_UNSPECIFIED || st.GetState() != schedulerv1.JobState_JOB_STATE_RUNNING {
		return st
	}
	for _, x := range []struct {
		kind    schedulerv1.ServiceKind
		trouble schedulerv1.Trouble
	}{
		{schedulerv1.ServiceKind_SERVICE_KIND_DOWNLOADER, schedulerv1.Trouble_TROUBLE_NO_DOWNLOADER},
		{schedulerv1.ServiceKind_SERVICE_KIND_EXTRACTOR, schedulerv1.Trouble_TROUBLE_NO_EXTRACTOR},
		{schedulerv1.ServiceKind_SERVICE_KIND_DNSER, schedulerv1.Trouble_TROUBLE_NO_DNSER},
	} {
		if len(s.members.addresses(x.kind)) == 0 {
			st.Trouble, st.Problem = x.trouble, "no "+kindName(x.kind)+" has joined"
			break
		}
	}
	return st
}

// SetJobState implements ControlService.
func (s *Scheduler) SetJobState(ctx context.Context, req *schedulerv1.SetJobStateRequest) (*schedulerv1.SetJobStateResponse, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	st, err := s.f.SetJobState(ctx, req.GetJobId(), req.GetWish())
	if err != nil {
		return nil, toStatus(err)
	}
	return &schedulerv1.SetJobStateResponse{Job: s.withProblem(st)}, nil
}

// DeleteJob implements ControlService.
func (s *Scheduler) DeleteJob(ctx context.Context, req *schedulerv1.DeleteJobRequest) (*schedulerv1.DeleteJobResponse, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if err := s.f.DeleteJob(ctx, req.GetJobId()); err != nil {
		return nil, toStatus(err)
	}
	return &schedulerv1.DeleteJobResponse{}, nil
}

// AddSeeds implements ControlService.
func (s *Scheduler) AddSeeds(ctx context.Context, req *schedulerv1.AddSeedsRequest) (*schedulerv1.AddSeedsResponse, error) {
	st, err := s.jobStatus(ctx, req.GetJobId())
	if err != nil {
		return nil, err
	}
	return s.addSeeds(ctx, req.GetJobId(), req.GetUrls(), st.GetSpec(), true)
}

// addSeeds adds seeds. byHand: somebody names them now, so that those which
// were tried in vain are tried again.
func (s *Scheduler) addSeeds(ctx context.Context, id string, urls []string, spec *jobv1.Spec, byHand bool) (*schedulerv1.AddSeedsResponse, error) {
	canon := weburl.NewCanonicalizer(job.Rules(spec))
	res := &schedulerv1.AddSeedsResponse{}
	var cands []*crawlv1.Candidate
	for _, raw := range urls {
		u, err := job.ParseSeed(raw)
		if err != nil {
			res.Rejected = append(res.Rejected, &schedulerv1.RejectedSeed{Url: raw, Reason: err.Error()})
			continue
		}
		u = canon.Canonical(u)
		cands = append(cands, &crawlv1.Candidate{Url: u.String(), HostKey: u.HostKey(), Seed: true, Rule: "seed"})
	}
	if len(cands) == 0 {
		return res, nil
	}
	if !byHand {
		added, known, err := s.f.AddSeeds(ctx, id, cands)
		res.Added, res.Known = uint32(added), uint32(known)
		return res, toStatus(err)
	}
	sum, err := s.f.AddSeedsByHand(ctx, id, cands)
	if err != nil {
		return nil, toStatus(err)
	}
	res.Added, res.Known, res.QueuedAgain = uint32(sum.Added), uint32(sum.Known), uint32(sum.Queued)
	return res, nil
}

// WatchJob implements ControlService.
func (s *Scheduler) WatchJob(req *schedulerv1.WatchJobRequest, stream grpc.ServerStreamingServer[schedulerv1.WatchJobResponse]) error {
	ctx := stream.Context()
	interval := time.Second
	if req.GetInterval() != nil {
		interval = max(req.GetInterval().AsDuration(), 100*time.Millisecond)
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	last := schedulerv1.JobState_JOB_STATE_UNSPECIFIED
	due := true
	for {
		changed := s.f.Changed()
		st, err := s.jobStatus(ctx, req.GetJobId())
		if err != nil {
			return err
		}
		if due || st.GetState() != last {
			if err := stream.Send(&schedulerv1.WatchJobResponse{Job: st}); err != nil {
				return err
			}
			last = st.GetState()
		}
		if last == schedulerv1.JobState_JOB_STATE_FINISHED || last == schedulerv1.JobState_JOB_STATE_FAILED {
			return nil
		}
		due = false
		select {
		case <-tick.C:
			due = true
		case <-changed:
		case <-s.stopping:
			return status.Error(codes.Unavailable, "the scheduler stops")
		case <-ctx.Done():
			return nil
		}
	}
}

// Explain implements ControlService.
func (s *Scheduler) Explain(ctx context.Context, req *schedulerv1.ExplainRequest) (*schedulerv1.ExplainResponse, error) {
	st, err := s.jobStatus(ctx, req.GetJobId())
	if err != nil {
		return nil, err
	}
	u, err := job.ParseSeed(req.GetUrl())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	u = weburl.NewCanonicalizer(job.Rules(st.GetSpec())).Canonical(u)
	res, err := s.f.Explain(ctx, req.GetJobId(), u.String())
	if err != nil {
		return nil, toStatus(err)
	}
	for _, spec := range s.f.JobSpecs() {
		if spec.GetJobId() != req.GetJobId() {
			continue
		}
		if scope, err := job.NewScope(spec.GetSpec(), spec.GetScopeRoots()); err == nil {
			v := scope.Judge(u, false, true)
			res.ScopeVerdict = "in: " + v.Rule
			if !v.In {
				res.ScopeVerdict = "out: " + v.Rule
			}
		}
	}
	return res, nil
}

// ListQueues implements ControlService.
func (s *Scheduler) ListQueues(ctx context.Context, req *schedulerv1.ListQueuesRequest) (*schedulerv1.ListQueuesResponse, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	res, err := s.f.Queues(ctx, req)
	return res, toStatus(err)
}

// ListInstances implements ControlService.
func (s *Scheduler) ListInstances(ctx context.Context, _ *schedulerv1.ListInstancesRequest) (*schedulerv1.ListInstancesResponse, error) {
	instances, _, epoch := s.members.list()
	return &schedulerv1.ListInstancesResponse{Instances: instances, MembershipEpoch: epoch}, nil
}
