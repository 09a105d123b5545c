package extractor

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"

	"lycosa.dev/internal/job"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/service"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// topologies is a scheduler that pushes what it is given.
type topologies struct {
	schedulerv1.UnimplementedSchedulerServiceServer
	next chan *schedulerv1.Topology
}

func (s *topologies) Join(stream grpc.BidiStreamingServer[schedulerv1.JoinRequest, schedulerv1.JoinResponse]) error {
	for {
		select {
		case t := <-s.next:
			if err := stream.Send(&schedulerv1.JoinResponse{Topology: t}); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return nil
		}
	}
}

// A page that has waited while a newer version of its job was compiled takes
// the newer one, and does not put the older in its place.
func TestNewestVersionOfAJobWins(t *testing.T) {
	s := &topologies{next: make(chan *schedulerv1.Topology)}
	local := rpc.NewLocal(rpc.ServerOptions{})
	local.Register("scheduler", func(r grpc.ServiceRegistrar) { schedulerv1.RegisterSchedulerServiceServer(r, s) })
	cfg := Default()
	cfg.Scheduler, cfg.Dir = "inproc:scheduler", t.TempDir()
	e, err := New(cfg, service.Deps{Dialer: local})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	version := func(n uint64) *schedulerv1.JobSpec {
		v := &schedulerv1.JobSpec{
			JobId: "j", SpecVersion: n, FrontierEpoch: 7, Spec: job.WithDefaults(&jobv1.Spec{Storage: &jobv1.Storage{None: true}}, "test"),
		}
		s.next <- &schedulerv1.Topology{Jobs: []*schedulerv1.JobSpec{v}}
		if _, err := e.member.WaitJob(ctx, "j", n); err != nil {
			t.Fatal(err)
		}
		return v
	}
	take := func(was *schedulerv1.JobSpec) *compiled {
		t.Helper()
		c, err := e.jobs.take(was)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.release(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := version(1)
	take(first)
	second := take(version(2))
	if c := take(first); c != second {
		t.Errorf("version %d after version 2", c.spec.GetSpecVersion())
	}
}
