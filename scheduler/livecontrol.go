package scheduler

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"lycosa.dev/internal/job"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// hostKey reads a host key as people write it: any case, or a URL of the host.
func hostKey(s string) (string, error) {
	if strings.Contains(s, "://") {
		u, err := job.ParseSeed(s)
		if err != nil {
			return "", status.Error(codes.InvalidArgument, err.Error())
		}
		return u.HostKey(), nil
	}
	if strings.ContainsAny(s, "/ \x00") || len(s) > 300 {
		return "", status.Errorf(codes.InvalidArgument, "host key %.60q: want a host such as example.org or example.org:8080", s)
	}
	return strings.ToLower(s), nil
}

// ShowQueue implements ControlService.
func (s *Scheduler) ShowQueue(ctx context.Context, req *schedulerv1.ShowQueueRequest) (*schedulerv1.ShowQueueResponse, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	host, err := hostKey(req.GetHostKey())
	if err != nil {
		return nil, err
	}
	res, err := s.f.ShowQueue(ctx, req.GetJobId(), host)
	return res, toStatus(err)
}

// UpdateQueue implements ControlService.
func (s *Scheduler) UpdateQueue(ctx context.Context, req *schedulerv1.UpdateQueueRequest) (*schedulerv1.UpdateQueueResponse, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	host, err := hostKey(req.GetHostKey())
	if err != nil {
		return nil, err
	}
	var until time.Time
	if req.GetUntil() != nil {
		if err := req.GetUntil().CheckValid(); err != nil || req.GetAction() != schedulerv1.QueueAction_QUEUE_ACTION_BLOCK {
			return nil, status.Error(codes.InvalidArgument, "until: want a time, and only for blocking")
		}
		if until = req.GetUntil().AsTime(); !until.After(time.Now()) {
			return nil, status.Errorf(codes.InvalidArgument, "until: %s is not in the future", until.UTC().Format(time.RFC3339))
		}
	}
	q, dropped, err := s.f.UpdateQueue(ctx, req.GetJobId(), host, req.GetAction(), until, req.GetReason())
	if err != nil {
		return nil, toStatus(err)
	}
	return &schedulerv1.UpdateQueueResponse{Queue: q, Dropped: dropped}, nil
}

// ExplainJob implements ControlService.
func (s *Scheduler) ExplainJob(ctx context.Context, req *schedulerv1.ExplainJobRequest) (*schedulerv1.ExplainJobResponse, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	res, err := s.f.ExplainJob(ctx, req.GetJobId())
	if err != nil {
		return nil, toStatus(err)
	}
	before := res.GetJob().GetTrouble()
	if s.withProblem(res.GetJob()); res.GetJob().GetTrouble() != before {
		// Nobody is there to work: that comes before all else.
		res.WaitsFor = append([]string{res.GetJob().GetProblem()}, res.GetWaitsFor()...)
		res.Reason = "it has not ended: " + res.GetJob().GetProblem()
	}
	return res, nil
}

// ChangeExclusions implements ControlService.
func (s *Scheduler) ChangeExclusions(ctx context.Context, req *schedulerv1.ChangeExclusionsRequest) (*schedulerv1.ChangeExclusionsResponse, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	res, err := s.f.ChangeExclusions(ctx, req.GetJobId(), req.GetAdd(), req.GetRemove(), req.GetDryRun())
	if err != nil {
		return nil, toStatus(err)
	}
	return &schedulerv1.ChangeExclusionsResponse{Job: s.withProblem(res.Job), Dropped: res.Dropped, Revived: res.Revived, Examples: res.Examples}, nil
}

// Audit implements ControlService.
func (s *Scheduler) Audit(ctx context.Context, _ *schedulerv1.AuditRequest) (*schedulerv1.AuditResponse, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	at := time.Now()
	rep, err := s.f.AuditLive()
	if err != nil {
		return nil, toStatus(err)
	}
	res := &schedulerv1.AuditResponse{Records: rep.Records, Quarantined: rep.Quarantined, At: timestamppb.New(at)}
	for _, st := range rep.Jobs {
		res.Jobs = append(res.Jobs, &schedulerv1.AuditedJob{Job: st, Recomputed: rep.Recomputed[st.GetJobId()]})
	}
	for _, v := range rep.Violations {
		res.Violations = append(res.Violations, &schedulerv1.Violation{Rule: v.Rule, JobId: v.Job, Detail: v.Detail})
	}
	return res, nil
}
