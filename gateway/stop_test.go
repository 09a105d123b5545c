package gateway

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"

	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/service"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// slowScheduler answers ListJobs when it may.
type slowScheduler struct {
	fakeScheduler
	arrived, let chan struct{}
}

func (s *slowScheduler) ListJobs(context.Context, *schedulerv1.ListJobsRequest) (*schedulerv1.ListJobsResponse, error) {
	s.arrived <- struct{}{}
	<-s.let
	return &schedulerv1.ListJobsResponse{}, nil
}

// closing is a Dialer that tells when what it has opened first is closed, which
// over a network ends the calls on it.
type closing struct {
	rpc.Dialer
	closed atomic.Bool
}

func (c *closing) Dial(ctx context.Context, addr string) (grpc.ClientConnInterface, io.Closer, error) {
	conn, _, err := c.Dialer.Dial(ctx, addr)
	return conn, c, err
}

func (c *closing) Close() error {
	c.closed.Store(true)
	return nil
}

// A gateway that stops answers what it was asked before, and nothing after.
func TestStopLetsAnswersComeHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowScheduler{arrived: make(chan struct{}), let: make(chan struct{})}
		local := rpc.NewLocal(rpc.ServerOptions{})
		local.Register("scheduler", func(r grpc.ServiceRegistrar) {
			schedulerv1.RegisterSchedulerServiceServer(r, s)
			schedulerv1.RegisterControlServiceServer(r, s)
		})
		dialer := &closing{Dialer: local}
		cfg := Default()
		cfg.Scheduler = "inproc:scheduler"
		g, err := New(cfg, service.Deps{Dialer: dialer})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended, answered := make(chan error, 1), make(chan error, 1)
		go func() { ended <- g.Run(ctx) }()
		go func() {
			_, err := g.ListJobs(t.Context(), &gatewayv1.ListJobsRequest{})
			answered <- err
		}()
		<-s.arrived
		dialer.closed.Store(false) // membership has a connection of its own
		cancel()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("stopped with a question in flight")
		default:
		}
		if _, err := g.ListJobs(t.Context(), &gatewayv1.ListJobsRequest{}); err == nil {
			t.Error("a question was taken at the end")
		}
		close(s.let)
		if err := <-answered; err != nil {
			t.Errorf("the question in flight: %v", err)
		}
		if err := <-ended; err != nil || !dialer.closed.Load() {
			t.Errorf("Run: %v, closed %v", err, dialer.closed.Load())
		}
		_ = local.Shutdown(context.Background())
	})
}
