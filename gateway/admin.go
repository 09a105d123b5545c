package gateway

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"lycosa.dev/internal/rpc"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// Limits of WatchJob's interval.
const (
	defaultInterval = time.Second
	minInterval     = 100 * time.Millisecond
	maxInterval     = time.Hour
)

// ask runs one question to the scheduler within the timeout.
func ask[Res any](ctx context.Context, g *Gateway, what string, call func(context.Context, schedulerv1.ControlServiceClient) (Res, error)) (Res, error) {
	inner, cancel := context.WithTimeout(ctx, g.cfg.Timeout)
	defer cancel()
	var zero Res
	if !g.asked.Enter() {
		return zero, status.Errorf(codes.Unavailable, "%s: %v", what, errStopped)
	}
	defer g.asked.Leave()
	select {
	case <-g.opened:
	case <-inner.Done():
		return zero, g.mapError(ctx, what, status.Error(codes.Unavailable, errStarting.Error()))
	}
	res, err := call(inner, g.control)
	if err != nil {
		return zero, g.mapError(ctx, what, err)
	}
	return res, nil
}

// CreateJob implements AdminService.
func (g *Gateway) CreateJob(ctx context.Context, req *gatewayv1.CreateJobRequest) (*gatewayv1.CreateJobResponse, error) {
	spec, err := g.readSpec(req.GetSpec(), req.GetSpecYaml())
	if err != nil {
		return nil, err
	}
	res, err := ask(ctx, g, "create job", func(ctx context.Context, c schedulerv1.ControlServiceClient) (*schedulerv1.ApplyJobResponse, error) {
		return c.ApplyJob(ctx, &schedulerv1.ApplyJobRequest{JobId: req.GetJobId(), Spec: spec, CreateOnly: true, Start: req.GetStart()})
	})
	if err != nil {
		return nil, err
	}
	g.log.Info("job created", "job", res.GetJob().GetJobId(), "started", req.GetStart())
	return &gatewayv1.CreateJobResponse{Job: res.GetJob()}, nil
}

// UpdateJob implements AdminService. A job that does not exist is not made.
func (g *Gateway) UpdateJob(ctx context.Context, req *gatewayv1.UpdateJobRequest) (*gatewayv1.UpdateJobResponse, error) {
	spec, err := g.readSpec(req.GetSpec(), req.GetSpecYaml())
	if err != nil {
		return nil, err
	}
	what := "update job " + req.GetJobId()
	res, err := ask(ctx, g, what, func(ctx context.Context, c schedulerv1.ControlServiceClient) (*schedulerv1.ApplyJobResponse, error) {
		if _, err := c.ShowJob(ctx, &schedulerv1.ShowJobRequest{JobId: req.GetJobId()}); err != nil {
			return nil, err
		}
		return c.ApplyJob(ctx, &schedulerv1.ApplyJobRequest{JobId: req.GetJobId(), Spec: spec})
	})
	if err != nil {
		return nil, err
	}
	g.log.Info("job updated", "job", res.GetJob().GetJobId(), "spec_version", res.GetJob().GetSpecVersion())
	return &gatewayv1.UpdateJobResponse{Job: res.GetJob()}, nil
}

// ListJobs implements AdminService.
func (g *Gateway) ListJobs(ctx context.Context, _ *gatewayv1.ListJobsRequest) (*gatewayv1.ListJobsResponse, error) {
	res, err := ask(ctx, g, "list jobs", func(ctx context.Context, c schedulerv1.ControlServiceClient) (*schedulerv1.ListJobsResponse, error) {
		return c.ListJobs(ctx, &schedulerv1.ListJobsRequest{})
	})
	if err != nil {
		return nil, err
	}
	return &gatewayv1.ListJobsResponse{Jobs: res.GetJobs()}, nil
}

// ShowJob implements AdminService.
func (g *Gateway) ShowJob(ctx context.Context, req *gatewayv1.ShowJobRequest) (*gatewayv1.ShowJobResponse, error) {
	res, err := ask(ctx, g, "show job "+req.GetJobId(), func(ctx context.Context, c schedulerv1.ControlServiceClient) (*schedulerv1.ShowJobResponse, error) {
		return c.ShowJob(ctx, &schedulerv1.ShowJobRequest{JobId: req.GetJobId()})
	})
	if err != nil {
		return nil, err
	}
	return &gatewayv1.ShowJobResponse{Job: res.GetJob()}, nil
}

func (g *Gateway) setState(ctx context.Context, verb, id string, wish schedulerv1.JobWish) (*schedulerv1.JobStatus, error) {
	res, err := ask(ctx, g, verb+" job "+id, func(ctx context.Context, c schedulerv1.ControlServiceClient) (*schedulerv1.SetJobStateResponse, error) {
		return c.SetJobState(ctx, &schedulerv1.SetJobStateRequest{JobId: id, Wish: wish})
	})
	if err != nil {
		return nil, err
	}
	g.log.Info("job asked to "+verb, "job", id, "state", res.GetJob().GetState())
	return res.GetJob(), nil
}

// StartJob implements AdminService.
func (g *Gateway) StartJob(ctx context.Context, req *gatewayv1.StartJobRequest) (*gatewayv1.StartJobResponse, error) {
	verb, wish := "start", schedulerv1.JobWish_JOB_WISH_START
	if req.GetRecrawl() {
		verb, wish = "recrawl", schedulerv1.JobWish_JOB_WISH_RECRAWL
	}
	st, err := g.setState(ctx, verb, req.GetJobId(), wish)
	if err != nil {
		return nil, err
	}
	return &gatewayv1.StartJobResponse{Job: st}, nil
}

// PauseJob implements AdminService.
func (g *Gateway) PauseJob(ctx context.Context, req *gatewayv1.PauseJobRequest) (*gatewayv1.PauseJobResponse, error) {
	st, err := g.setState(ctx, "pause", req.GetJobId(), schedulerv1.JobWish_JOB_WISH_PAUSE)
	if err != nil {
		return nil, err
	}
	return &gatewayv1.PauseJobResponse{Job: st}, nil
}

// ResumeJob implements AdminService.
func (g *Gateway) ResumeJob(ctx context.Context, req *gatewayv1.ResumeJobRequest) (*gatewayv1.ResumeJobResponse, error) {
	st, err := g.setState(ctx, "resume", req.GetJobId(), schedulerv1.JobWish_JOB_WISH_RESUME)
	if err != nil {
		return nil, err
	}
	return &gatewayv1.ResumeJobResponse{Job: st}, nil
}

// StopJob implements AdminService.
func (g *Gateway) StopJob(ctx context.Context, req *gatewayv1.StopJobRequest) (*gatewayv1.StopJobResponse, error) {
	st, err := g.setState(ctx, "stop", req.GetJobId(), schedulerv1.JobWish_JOB_WISH_STOP)
	if err != nil {
		return nil, err
	}
	return &gatewayv1.StopJobResponse{Job: st}, nil
}

// DeleteJob implements AdminService.
func (g *Gateway) DeleteJob(ctx context.Context, req *gatewayv1.DeleteJobRequest) (*gatewayv1.DeleteJobResponse, error) {
	_, err := ask(ctx, g, "delete job "+req.GetJobId(), func(ctx context.Context, c schedulerv1.ControlServiceClient) (*schedulerv1.DeleteJobResponse, error) {
		return c.DeleteJob(ctx, &schedulerv1.DeleteJobRequest{JobId: req.GetJobId()})
	})
	if err != nil {
		return nil, err
	}
	g.log.Info("job deleted", "job", req.GetJobId())
	return &gatewayv1.DeleteJobResponse{}, nil
}

// AddSeeds implements AdminService.
func (g *Gateway) AddSeeds(ctx context.Context, req *gatewayv1.AddSeedsRequest) (*gatewayv1.AddSeedsResponse, error) {
	res, err := ask(ctx, g, "add seeds to job "+req.GetJobId(), func(ctx context.Context, c schedulerv1.ControlServiceClient) (*schedulerv1.AddSeedsResponse, error) {
		return c.AddSeeds(ctx, &schedulerv1.AddSeedsRequest{JobId: req.GetJobId(), Urls: req.GetUrls()})
	})
	if err != nil {
		return nil, err
	}
	g.log.Info("seeds added", "job", req.GetJobId(), "added", res.GetAdded(), "known", res.GetKnown(), "rejected", len(res.GetRejected()), "queued_again", res.GetQueuedAgain())
	return &gatewayv1.AddSeedsResponse{Added: res.GetAdded(), Known: res.GetKnown(), Rejected: res.GetRejected(), QueuedAgain: res.GetQueuedAgain()}, nil
}

// WatchJob implements AdminService. It passes the scheduler's stream on; when
// that breaks, or the gateway stops, the stream ends as unavailable and is to
// be opened again.
func (g *Gateway) WatchJob(req *gatewayv1.WatchJobRequest, stream grpc.ServerStreamingServer[gatewayv1.WatchJobResponse]) error {
	what := "watch job " + req.GetJobId()
	interval := defaultInterval
	if i := req.GetInterval(); i != nil {
		if err := i.CheckValid(); err != nil || i.AsDuration() < minInterval || i.AsDuration() > maxInterval {
			return g.refuse(refusedRequest, codes.InvalidArgument, "%s: interval: must be %s to %s, is %s", what, minInterval, maxInterval, i.AsDuration())
		}
		interval = i.AsDuration()
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	select {
	case <-g.opened:
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	g.metrics.watchers.Inc()
	defer g.metrics.watchers.Dec()
	watched := make(chan struct{})
	defer func() { cancel(); <-watched }()
	go func() {
		defer close(watched)
		select {
		case <-g.stopping:
		case <-rpc.Draining(ctx):
		case <-ctx.Done():
		}
		cancel()
	}()
	in, err := g.control.WatchJob(ctx, &schedulerv1.WatchJobRequest{JobId: req.GetJobId(), Interval: durationpb.New(interval)})
	for err == nil {
		var res *schedulerv1.WatchJobResponse
		if res, err = in.Recv(); err == nil {
			err = stream.Send(&gatewayv1.WatchJobResponse{Job: res.GetJob()})
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case ctx.Err() != nil && stream.Context().Err() == nil:
		return status.Errorf(codes.Unavailable, "%s: the gateway stops", what)
	}
	return g.mapError(stream.Context(), what, err)
}

// ExplainUrl implements AdminService.
func (g *Gateway) ExplainUrl(ctx context.Context, req *gatewayv1.ExplainUrlRequest) (*gatewayv1.ExplainUrlResponse, error) {
	res, err := ask(ctx, g, "explain", func(ctx context.Context, c schedulerv1.ControlServiceClient) (*schedulerv1.ExplainResponse, error) {
		return c.Explain(ctx, &schedulerv1.ExplainRequest{JobId: req.GetJobId(), Url: req.GetUrl()})
	})
	if err != nil {
		return nil, err
	}
	return &gatewayv1.ExplainUrlResponse{Explanation: res}, nil
}

// ListQueues implements AdminService.
func (g *Gateway) ListQueues(ctx context.Context, req *gatewayv1.ListQueuesRequest) (*gatewayv1.ListQueuesResponse, error) {
	res, err := ask(ctx, g, "list queues of job "+req.GetJobId(), func(ctx context.Context, c schedulerv1.ControlServiceClient) (*schedulerv1.ListQueuesResponse, error) {
		return c.ListQueues(ctx, &schedulerv1.ListQueuesRequest{
			JobId: req.GetJobId(), PageSize: req.GetPageSize(), PageToken: req.GetPageToken(), State: req.GetState(),
		})
	})
	if err != nil {
		return nil, err
	}
	return &gatewayv1.ListQueuesResponse{Queues: res.GetQueues(), NextPageToken: res.GetNextPageToken()}, nil
}

// ListInstances implements AdminService.
func (g *Gateway) ListInstances(ctx context.Context, _ *gatewayv1.ListInstancesRequest) (*gatewayv1.ListInstancesResponse, error) {
	res, err := ask(ctx, g, "list instances", func(ctx context.Context, c schedulerv1.ControlServiceClient) (*schedulerv1.ListInstancesResponse, error) {
		return c.ListInstances(ctx, &schedulerv1.ListInstancesRequest{})
	})
	if err != nil {
		return nil, err
	}
	return &gatewayv1.ListInstancesResponse{Instances: res.GetInstances(), MembershipEpoch: res.GetMembershipEpoch()}, nil
}

// Checkpoint implements AdminService.
func (g *Gateway) Checkpoint(ctx context.Context, req *gatewayv1.CheckpointRequest) (*gatewayv1.CheckpointResponse, error) {
	res, err := ask(ctx, g, "make a snapshot", func(ctx context.Context, c schedulerv1.ControlServiceClient) (*schedulerv1.CheckpointResponse, error) {
		return c.Checkpoint(ctx, &schedulerv1.CheckpointRequest{Folder: req.GetQuestion().GetFolder()})
	})
	if err != nil {
		return nil, err
	}
	return &gatewayv1.CheckpointResponse{Answer: res}, nil
}
