package membership_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"lycosa.dev/internal/membership"
	"lycosa.dev/internal/rpc"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	dnserv1 "lycosa.dev/proto/gen/lycosa/dnser/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scheduler is scripted: each Join takes the next session.
type scheduler struct {
	schedulerv1.UnimplementedSchedulerServiceServer
	mu       sync.Mutex
	sessions []func(grpc.BidiStreamingServer[schedulerv1.JoinRequest, schedulerv1.JoinResponse]) error
	joins    int
}

func (s *scheduler) Join(stream grpc.BidiStreamingServer[schedulerv1.JoinRequest, schedulerv1.JoinResponse]) error {
	s.mu.Lock()
	session := s.sessions[min(s.joins, len(s.sessions)-1)]
	s.joins++
	s.mu.Unlock()
	return session(stream)
}

type session = func(grpc.BidiStreamingServer[schedulerv1.JoinRequest, schedulerv1.JoinResponse]) error

func send(t *schedulerv1.Topology, until <-chan struct{}) session {
	return func(stream grpc.BidiStreamingServer[schedulerv1.JoinRequest, schedulerv1.JoinResponse]) error {
		if _, err := stream.Recv(); err != nil {
			return err
		}
		if err := stream.Send(&schedulerv1.JoinResponse{Topology: t}); err != nil {
			return err
		}
		select {
		case <-until:
			return status.Error(codes.Unavailable, "restart")
		case <-stream.Context().Done():
			return nil
		}
	}
}

func refuse(code codes.Code) session {
	return func(grpc.BidiStreamingServer[schedulerv1.JoinRequest, schedulerv1.JoinResponse]) error {
		return status.Error(code, "refused")
	}
}

func client(sessions ...session) (*membership.Client, *scheduler, *rpc.Local) {
	s := &scheduler{sessions: sessions}
	local := rpc.NewLocal(rpc.ServerOptions{})
	local.Register("scheduler", func(r grpc.ServiceRegistrar) { schedulerv1.RegisterSchedulerServiceServer(r, s) })
	return membership.New(membership.Options{
		Dialer: local, Scheduler: "inproc:scheduler",
		Hello: func() *schedulerv1.Hello {
			return &schedulerv1.Hello{Kind: schedulerv1.ServiceKind_SERVICE_KIND_DNSER, Id: "a", Address: "inproc:a"}
		},
	}), s, local
}

func topology(version uint64, dnsers ...string) *schedulerv1.Topology {
	t := &schedulerv1.Topology{Revision: version, Jobs: []*schedulerv1.JobSpec{{JobId: "j", SpecVersion: version}}}
	for _, d := range dnsers {
		t.Instances = append(t.Instances, &schedulerv1.Instance{Kind: schedulerv1.ServiceKind_SERVICE_KIND_DNSER, Id: d, Address: "inproc:" + d})
	}
	return t
}

func TestRejoinsAndKeepsTheTopology(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		restart := make(chan struct{})
		c, s, _ := client(send(topology(1), restart), refuse(codes.Unavailable), refuse(codes.Unavailable), send(topology(2), nil))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		if !c.Joined() || c.Job("j").GetSpecVersion() != 1 {
			t.Fatalf("joined %v, job %v", c.Joined(), c.Job("j"))
		}
		close(restart)
		synctest.Wait()
		if c.Joined() || c.Job("j").GetSpecVersion() != 1 {
			t.Errorf("after the break: joined %v, job %v; the last topology must stay", c.Joined(), c.Job("j"))
		}
		// A page made under version 2 waits for it.
		spec, err := c.WaitJob(ctx, "j", 2)
		if err != nil || spec.GetSpecVersion() != 2 || !c.Joined() {
			t.Errorf("got %v, %v", spec, err)
		}
		if s.joins != 4 {
			t.Errorf("%d joins", s.joins)
		}
		short, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		if _, err := c.WaitJob(short, "j", 3); err == nil || !strings.Contains(err.Error(), "spec version 3 of job j") {
			t.Errorf("got %v", err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		code codes.Code
		want string
	}{
		{codes.InvalidArgument, "refused"},
		{codes.Unauthenticated, "refused"},
		{codes.AlreadyExists, "an id of its own"},
	} {
		t.Run(c.code.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl, _, _ := client(refuse(c.code))
				began := time.Now()
				err := cl.Run(t.Context())
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("got %v", err)
				}
				// The shadow of one's own former stream is outwaited.
				if c.code == codes.AlreadyExists && time.Since(began) < 15*time.Second {
					t.Errorf("gave up after %s", time.Since(began))
				}
			})
		})
	}
}

func TestDrainIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan *schedulerv1.Update, 1)
		c, _, _ := client(func(stream grpc.BidiStreamingServer[schedulerv1.JoinRequest, schedulerv1.JoinResponse]) error {
			for {
				m, err := stream.Recv()
				if err != nil {
					return nil
				}
				if m.GetHello() != nil {
					if err := stream.Send(&schedulerv1.JoinResponse{Topology: topology(1)}); err != nil {
						return err
					}
				} else {
					got <- m.GetUpdate()
				}
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		c.Drain()
		c.Drain()
		if u := <-got; !u.GetDraining() {
			t.Errorf("update %v", u)
		}
		cancel()
		<-done
	})
}

// dnser answers with its name.
type dnser struct {
	dnserv1.UnimplementedDnserServiceServer
	name string
}

func (d dnser) Resolve(stream grpc.BidiStreamingServer[dnserv1.ResolveRequest, dnserv1.ResolveResponse]) error {
	return rpc.ServeItems(stream, rpc.ItemsOptions{}, func(_ context.Context, r *dnserv1.ResolveRequest) *dnserv1.ResolveResponse {
		return &dnserv1.ResolveResponse{Id: r.GetId(), Answer: &crawlv1.Answer{Reason: d.name}}
	}, nil)
}

func TestPoolFollowsTheTopology(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, changed := topology(1), make(chan struct{})
		set := func(next *schedulerv1.Topology) {
			mu.Lock()
			defer mu.Unlock()
			now = next
			close(changed)
			changed = make(chan struct{})
		}
		c, _, local := client(func(stream grpc.BidiStreamingServer[schedulerv1.JoinRequest, schedulerv1.JoinResponse]) error {
			if _, err := stream.Recv(); err != nil {
				return err
			}
			for {
				mu.Lock()
				top, wait := now, changed
				mu.Unlock()
				if err := stream.Send(&schedulerv1.JoinResponse{Topology: top}); err != nil {
					return err
				}
				select {
				case <-wait:
				case <-stream.Context().Done():
					return nil
				}
			}
		})
		for _, name := range []string{"a", "b"} {
			local.Register(name, func(r grpc.ServiceRegistrar) { dnserv1.RegisterDnserServiceServer(r, dnser{name: name}) })
		}
		pool := membership.NewPool(membership.PoolOptions[dnserv1.ResolveRequest, dnserv1.ResolveResponse]{
			Client: c, Kind: schedulerv1.ServiceKind_SERVICE_KIND_DNSER, Dialer: local,
			Caller: func(conn grpc.ClientConnInterface, _ *schedulerv1.Instance) rpc.CallerOptions[dnserv1.ResolveRequest, dnserv1.ResolveResponse] {
				return rpc.CallerOptions[dnserv1.ResolveRequest, dnserv1.ResolveResponse]{
					Open: func(ctx context.Context) (grpc.BidiStreamingClient[dnserv1.ResolveRequest, dnserv1.ResolveResponse], error) {
						return dnserv1.NewDnserServiceClient(conn).Resolve(ctx)
					},
					SetID: func(r *dnserv1.ResolveRequest, id uint64) { r.Id = id },
					ID:    func(r *dnserv1.ResolveResponse) uint64 { return r.GetId() },
				}
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = c.Run(ctx) })
		wg.Go(func() { _ = pool.Run(ctx) })
		ask := func(key uint64) string {
			t.Helper()
			caller, err := pool.Pick(ctx, key)
			if err != nil {
				t.Fatal(err)
			}
			res, err := caller.Call(ctx, &dnserv1.ResolveRequest{})
			if err != nil {
				t.Fatal(err)
			}
			return res.GetAnswer().GetReason()
		}
		// Nobody is there: Pick waits until somebody is.
		short, stop := context.WithTimeout(ctx, time.Second)
		if _, err := pool.Pick(short, 0); err == nil {
			t.Error("picked an instance of none")
		}
		stop()
		set(topology(2, "a", "b"))
		synctest.Wait()
		if x, y := ask(0), ask(1); x+y != "ab" || ask(0) != x {
			t.Errorf("keys 0 and 1 go to %s and %s", x, y)
		}
		set(topology(3, "b"))
		synctest.Wait()
		if x, y := ask(0), ask(1); x+y != "bb" || pool.Len() != 1 {
			t.Errorf("after a left, keys go to %s and %s", x, y)
		}
		cancel()
		wg.Wait()
		_ = local.Shutdown(context.Background())
	})
}
