package gateway

import (
	"context"

	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// ShowQueue implements AdminService.
func (g *Gateway) ShowQueue(ctx context.Context, req *gatewayv1.ShowQueueRequest) (*gatewayv1.ShowQueueResponse, error) {
	q := req.GetQuestion()
	res, err := ask(ctx, g, "show queue "+q.GetHostKey(), func(ctx context.Context, c schedulerv1.ControlServiceClient) (*schedulerv1.ShowQueueResponse, error) {
		return c.ShowQueue(ctx, q)
	})
	if err != nil {
		return nil, err
	}
	return &gatewayv1.ShowQueueResponse{Answer: res}, nil
}

// UpdateQueue implements AdminService.
func (g *Gateway) UpdateQueue(ctx context.Context, req *gatewayv1.UpdateQueueRequest) (*gatewayv1.UpdateQueueResponse, error) {
	q := req.GetQuestion()
	res, err := ask(ctx, g, "update queue "+q.GetHostKey(), func(ctx context.Context, c schedulerv1.ControlServiceClient) (*schedulerv1.UpdateQueueResponse, error) {
		return c.UpdateQueue(ctx, q)
	})
	if err != nil {
		return nil, err
	}
	g.log.Info("queue updated", "job", q.GetJobId(), "host", q.GetHostKey(), "action", q.GetAction(), "reason", q.GetReason(), "dropped", res.GetDropped())
	return &gatewayv1.UpdateQueueResponse{Answer: res}, nil
}

// ChangeExclusions implements AdminService.
func (g *Gateway) ChangeExclusions(ctx context.Context, req *gatewayv1.ChangeExclusionsRequest) (*gatewayv1.ChangeExclusionsResponse, error) {
	q := req.GetQuestion()
	res, err := ask(ctx, g, "change exclusions of job "+q.GetJobId(), func(ctx context.Context, c schedulerv1.ControlServiceClient) (*schedulerv1.ChangeExclusionsResponse, error) {
		return c.ChangeExclusions(ctx, q)
	})
	if err != nil {
		return nil, err
	}
	if !q.GetDryRun() {
		g.log.Info("exclusions changed", "job", q.GetJobId(), "added", q.GetAdd(), "removed", q.GetRemove(), "dropped", res.GetDropped(), "revived", res.GetRevived())
	}
	return &gatewayv1.ChangeExclusionsResponse{Answer: res}, nil
}

// ChangeOverlays implements AdminService.
func (g *Gateway) ChangeOverlays(ctx context.Context, req *gatewayv1.ChangeOverlaysRequest) (*gatewayv1.ChangeOverlaysResponse, error) {
	q := req.GetQuestion()
	res, err := ask(ctx, g, "change overlays of job "+q.GetJobId(), func(ctx context.Context, c schedulerv1.ControlServiceClient) (*schedulerv1.ChangeOverlaysResponse, error) {
		return c.ChangeOverlays(ctx, q)
	})
	if err != nil {
		return nil, err
	}
	g.log.Info("overlays changed", "job", q.GetJobId(), "set", len(q.GetSet()), "removed", q.GetRemove())
	return &gatewayv1.ChangeOverlaysResponse{Answer: res}, nil
}

// ExplainJob implements AdminService.
func (g *Gateway) ExplainJob(ctx context.Context, req *gatewayv1.ExplainJobRequest) (*gatewayv1.ExplainJobResponse, error) {
	q := req.GetQuestion()
	res, err := ask(ctx, g, "explain job "+q.GetJobId(), func(ctx context.Context, c schedulerv1.ControlServiceClient) (*schedulerv1.ExplainJobResponse, error) {
		return c.ExplainJob(ctx, q)
	})
	if err != nil {
		return nil, err
	}
	return &gatewayv1.ExplainJobResponse{Answer: res}, nil
}

// Audit implements AdminService. It has the caller's time, not the gateway's
// own timeout: it reads every record.
func (g *Gateway) Audit(ctx context.Context, req *gatewayv1.AuditRequest) (*gatewayv1.AuditResponse, error) {
	select {
	case <-g.opened:
	case <-ctx.Done():
		return nil, g.mapError(ctx, "audit", ctx.Err())
	}
	res, err := g.control.Audit(ctx, &schedulerv1.AuditRequest{})
	if err != nil {
		return nil, g.mapError(ctx, "audit", err)
	}
	return &gatewayv1.AuditResponse{Answer: res}, nil
}
