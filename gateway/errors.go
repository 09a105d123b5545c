package gateway

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// mapError turns the scheduler's answer into the gateway's own. What the asker
// can mend keeps its code; what lies between gateway and scheduler does not: a
// token that the scheduler refuses is not the asker's, and a scheduler that is
// away is said to be that. ctx is the asker's call, not the one to the
// scheduler.
func (g *Gateway) mapError(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	st, _ := status.FromError(err)
	say := func(code codes.Code, format string, args ...any) error {
		return status.Errorf(code, "%s: %s", what, fmt.Sprintf(format, args...))
	}
	switch st.Code() {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.OutOfRange:
		return say(st.Code(), "%s", st.Message())
	case codes.ResourceExhausted:
		return say(codes.ResourceExhausted, "the scheduler takes no more: %s", st.Message())
	case codes.Unavailable, codes.Canceled:
		return say(codes.Unavailable, "the scheduler at %s is away, try again: %s", g.cfg.Scheduler, st.Message())
	case codes.DeadlineExceeded:
		return say(codes.Unavailable, "the scheduler at %s did not answer within %s", g.cfg.Scheduler, g.cfg.Timeout)
	case codes.Unauthenticated, codes.PermissionDenied:
		return say(codes.Internal, "the scheduler at %s refuses this gateway (%s): give both the same token", g.cfg.Scheduler, st.Message())
	case codes.Unimplemented:
		return say(codes.Internal, "the scheduler at %s does not know the question: it is of another version, or another service", g.cfg.Scheduler)
	}
	g.log.Error("the scheduler failed", "what", what, "code", st.Code(), "err", st.Message())
	return say(codes.Internal, "the scheduler failed: %s", st.Message())
}
