package scheduler

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/telemetry"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// Commit implements SchedulerService. It waits for nothing upstream.
func (s *Scheduler) Commit(stream grpc.BidiStreamingServer[schedulerv1.CommitRequest, schedulerv1.CommitResponse]) error {
	if err := s.ready(stream.Context()); err != nil {
		return err
	}
	return rpc.ServeItems(stream, rpc.ItemsOptions{Window: s.cfg.CommitWindow, Logger: s.log}, s.commit,
		func(req *schedulerv1.CommitRequest, v any) *schedulerv1.CommitResponse {
			return &schedulerv1.CommitResponse{Id: req.GetId(), Answer: &crawlv1.Answer{
				Verdict: crawlv1.Verdict_VERDICT_RETRY_LATER, Reason: fmt.Sprintf("scheduler: panic: %v", v)}}
		})
}

func (s *Scheduler) commit(ctx context.Context, req *schedulerv1.CommitRequest) *schedulerv1.CommitResponse {
	if req.GetTraceparent() != "" {
		_, span := s.tracer.Start(telemetry.Extract(ctx, req.GetTraceparent()), "commit")
		defer span.End()
	}
	// A commit that has arrived is finished, whatever becomes of its stream:
	// half of its senders would otherwise not know what it did.
	ans := s.f.Commit(context.WithoutCancel(ctx), req)
	return &schedulerv1.CommitResponse{Id: req.GetId(), Answer: ans}
}
