package gateway

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/service"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeScheduler answers with what the test set and notes what it was asked.
type fakeScheduler struct {
	schedulerv1.UnimplementedSchedulerServiceServer
	schedulerv1.UnimplementedControlServiceServer

	mu    sync.Mutex
	err   error // of every control call
	hang  bool  // control calls wait for their context
	apply *schedulerv1.ApplyJobRequest
	wish  schedulerv1.JobWish
	watch []*schedulerv1.JobStatus
	hold  chan struct{} // WatchJob waits here after its statuses; nil: it ends
}

func (f *fakeScheduler) answer(ctx context.Context) error {
	f.mu.Lock()
	hang, err := f.hang, f.err
	f.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (f *fakeScheduler) Join(stream grpc.BidiStreamingServer[schedulerv1.JoinRequest, schedulerv1.JoinResponse]) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	if err := stream.Send(&schedulerv1.JoinResponse{Topology: &schedulerv1.Topology{Revision: 1}}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (f *fakeScheduler) ApplyJob(ctx context.Context, req *schedulerv1.ApplyJobRequest) (*schedulerv1.ApplyJobResponse, error) {
	f.mu.Lock()
	f.apply = req
	f.mu.Unlock()
	if err := f.answer(ctx); err != nil {
		return nil, err
	}
	return &schedulerv1.ApplyJobResponse{Job: &schedulerv1.JobStatus{JobId: "a", Spec: req.GetSpec()}, Created: true}, nil
}

func (f *fakeScheduler) ListJobs(ctx context.Context, _ *schedulerv1.ListJobsRequest) (*schedulerv1.ListJobsResponse, error) {
	if err := f.answer(ctx); err != nil {
		return nil, err
	}
	return &schedulerv1.ListJobsResponse{Jobs: []*schedulerv1.JobStatus{{JobId: "a"}}}, nil
}

func (f *fakeScheduler) ShowJob(ctx context.Context, req *schedulerv1.ShowJobRequest) (*schedulerv1.ShowJobResponse, error) {
	if err := f.answer(ctx); err != nil {
		return nil, err
	}
	return &schedulerv1.ShowJobResponse{Job: &schedulerv1.JobStatus{JobId: req.GetJobId()}}, nil
}

func (f *fakeScheduler) SetJobState(ctx context.Context, req *schedulerv1.SetJobStateRequest) (*schedulerv1.SetJobStateResponse, error) {
	f.mu.Lock()
	f.wish = req.GetWish()
	f.mu.Unlock()
	if err := f.answer(ctx); err != nil {
		return nil, err
	}
	return &schedulerv1.SetJobStateResponse{Job: &schedulerv1.JobStatus{JobId: req.GetJobId()}}, nil
}

func (f *fakeScheduler) WatchJob(req *schedulerv1.WatchJobRequest, stream grpc.ServerStreamingServer[schedulerv1.WatchJobResponse]) error {
	if err := f.answer(stream.Context()); err != nil {
		return err
	}
	for _, st := range f.watch {
		if err := stream.Send(&schedulerv1.WatchJobResponse{Job: st}); err != nil {
			return err
		}
	}
	if f.hold != nil {
		select {
		case <-f.hold:
		case <-stream.Context().Done():
		}
	}
	return nil
}

// start runs a gateway over the fake on a loopback port and returns a client.
func start(t *testing.T, f *fakeScheduler, change func(*Config)) (gatewayv1.AdminServiceClient, *grpc.ClientConn, context.CancelFunc) {
	t.Helper()
	local := rpc.NewLocal(rpc.ServerOptions{})
	local.Register("scheduler", func(r grpc.ServiceRegistrar) {
		schedulerv1.RegisterSchedulerServiceServer(r, f)
		schedulerv1.RegisterControlServiceServer(r, f)
	})
	cfg := Default()
	cfg.Scheduler = "inproc:scheduler"
	if change != nil {
		change(&cfg)
	}
	g, err := New(cfg, service.Deps{Dialer: local})
	if err != nil {
		t.Fatal(err)
	}
	server := rpc.NewServer(rpc.ServerOptions{})
	g.Register(server)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- rpc.RunAll(ctx, nil, 10*time.Second,
			rpc.Step{Name: "local", Run: local.Run},
			rpc.Step{Name: "server", Run: func(ctx context.Context) error { return server.Run(ctx, lis) }},
			rpc.Step{Name: "gateway", Run: g.Run})
	}()
	conn, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("stop: %v", err)
		}
		_ = conn.Close()
	})
	return gatewayv1.NewAdminServiceClient(conn), conn, cancel
}

const goodYAML = "name: a\nseeds:\n  - https://example.org/\nidentity:\n  contact: me@example.org\n"

func TestCreateJob(t *testing.T) {
	withContact := &jobv1.Spec{Name: "a", Seeds: []string{"https://example.org/"}, Identity: &jobv1.Identity{Contact: "me@example.org"}}
	for _, tc := range []struct {
		name  string
		req   *gatewayv1.CreateJobRequest
		allow bool
		code  codes.Code
		say   string
	}{
		{"spec", &gatewayv1.CreateJobRequest{Spec: withContact}, false, codes.OK, ""},
		{"yaml", &gatewayv1.CreateJobRequest{SpecYaml: goodYAML, Start: true}, false, codes.OK, ""},
		{"neither", &gatewayv1.CreateJobRequest{}, false, codes.InvalidArgument, "no spec is given"},
		{"both", &gatewayv1.CreateJobRequest{Spec: withContact, SpecYaml: goodYAML}, false, codes.InvalidArgument, "give one"},
		{"unknown key", &gatewayv1.CreateJobRequest{SpecYaml: goodYAML + "limit:\n  max_pages: 3\n"}, false, codes.InvalidArgument, `spec_yaml:6:1: limit: unknown key; did you mean "limits"?`},
		{"bad value", &gatewayv1.CreateJobRequest{SpecYaml: goodYAML + "politeness:\n  min_delay: 0s\n"}, false, codes.InvalidArgument, "politeness.min_delay"},
		{"no contact", &gatewayv1.CreateJobRequest{SpecYaml: "name: a\nseeds: [https://example.org/]\n"}, false, codes.InvalidArgument, "identity.contact: is empty"},
		{"no contact allowed", &gatewayv1.CreateJobRequest{SpecYaml: "name: a\nseeds: [https://example.org/]\n"}, true, codes.OK, ""},
		{"id too long", &gatewayv1.CreateJobRequest{JobId: strings.Repeat("x", 65), SpecYaml: goodYAML}, false, codes.InvalidArgument, "job_id"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &fakeScheduler{}
			client, _, _ := start(t, f, func(c *Config) { c.AllowNoContact = tc.allow })
			res, err := client.CreateJob(t.Context(), tc.req)
			if status.Code(err) != tc.code || tc.say != "" && !strings.Contains(err.Error(), tc.say) {
				t.Fatalf("error %v, want %v with %q", err, tc.code, tc.say)
			}
			if tc.code != codes.OK {
				if f.apply != nil {
					t.Error("the scheduler was asked although the request is refused")
				}
				return
			}
			if res.GetJob().GetJobId() != "a" || !f.apply.GetCreateOnly() || f.apply.GetStart() != tc.req.GetStart() {
				t.Errorf("answer %v, asked %v", res, f.apply)
			}
		})
	}
}

func TestStates(t *testing.T) {
	f := &fakeScheduler{}
	client, _, _ := start(t, f, nil)
	ctx := t.Context()
	for want, call := range map[schedulerv1.JobWish]func() error{
		schedulerv1.JobWish_JOB_WISH_START: func() error {
			_, err := client.StartJob(ctx, &gatewayv1.StartJobRequest{JobId: "a"})
			return err
		},
		schedulerv1.JobWish_JOB_WISH_RECRAWL: func() error {
			_, err := client.StartJob(ctx, &gatewayv1.StartJobRequest{JobId: "a", Recrawl: true})
			return err
		},
		schedulerv1.JobWish_JOB_WISH_PAUSE: func() error {
			_, err := client.PauseJob(ctx, &gatewayv1.PauseJobRequest{JobId: "a"})
			return err
		},
		schedulerv1.JobWish_JOB_WISH_RESUME: func() error {
			_, err := client.ResumeJob(ctx, &gatewayv1.ResumeJobRequest{JobId: "a"})
			return err
		},
		schedulerv1.JobWish_JOB_WISH_STOP: func() error {
			_, err := client.StopJob(ctx, &gatewayv1.StopJobRequest{JobId: "a"})
			return err
		},
	} {
		if err := call(); err != nil || f.wish != want {
			t.Errorf("wish %v, error %v; want %v", f.wish, err, want)
		}
	}
	if _, err := client.PauseJob(ctx, &gatewayv1.PauseJobRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("without a job: %v, want InvalidArgument", err)
	}
}

func TestErrorsAreMapped(t *testing.T) {
	for _, tc := range []struct {
		in   error
		want codes.Code
		say  string
	}{
		{status.Error(codes.NotFound, "no such job"), codes.NotFound, "show job x: no such job"},
		{status.Error(codes.FailedPrecondition, "it runs"), codes.FailedPrecondition, "it runs"},
		{status.Error(codes.AlreadyExists, "exists"), codes.AlreadyExists, "exists"},
		{status.Error(codes.ResourceExhausted, "disk full"), codes.ResourceExhausted, "disk full"},
		{status.Error(codes.Unavailable, "gone"), codes.Unavailable, "is away, try again"},
		{status.Error(codes.Unauthenticated, "bad token"), codes.Internal, "same token"},
		{status.Error(codes.PermissionDenied, "no"), codes.Internal, "same token"},
		{status.Error(codes.Unimplemented, "what"), codes.Internal, "another version"},
		{status.Error(codes.Unknown, "boom"), codes.Internal, "the scheduler failed: boom"},
	} {
		t.Run(status.Code(tc.in).String(), func(t *testing.T) {
			client, _, _ := start(t, &fakeScheduler{err: tc.in}, nil)
			_, err := client.ShowJob(t.Context(), &gatewayv1.ShowJobRequest{JobId: "x"})
			if status.Code(err) != tc.want || !strings.Contains(err.Error(), tc.say) {
				t.Errorf("%v, want %v with %q", err, tc.want, tc.say)
			}
		})
	}
}

func TestSchedulerThatHangs(t *testing.T) {
	client, _, _ := start(t, &fakeScheduler{hang: true}, func(c *Config) { c.Timeout = 50 * time.Millisecond })
	_, err := client.ListJobs(t.Context(), &gatewayv1.ListJobsRequest{})
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "did not answer within 50ms") {
		t.Errorf("%v, want Unavailable", err)
	}
}

func TestWatch(t *testing.T) {
	states := []*schedulerv1.JobStatus{
		{JobId: "a", State: schedulerv1.JobState_JOB_STATE_RUNNING},
		{JobId: "a", State: schedulerv1.JobState_JOB_STATE_FINISHED, Reason: "empty"},
	}
	client, _, _ := start(t, &fakeScheduler{watch: states}, nil)
	stream, err := client.WatchJob(t.Context(), &gatewayv1.WatchJobRequest{JobId: "a"})
	if err != nil {
		t.Fatal(err)
	}
	var got []schedulerv1.JobState
	for {
		res, err := stream.Recv()
		if err != nil {
			break
		}
		got = append(got, res.GetJob().GetState())
	}
	if len(got) != 2 || got[1] != schedulerv1.JobState_JOB_STATE_FINISHED {
		t.Errorf("states %v, want running and finished", got)
	}
	stream, err = client.WatchJob(t.Context(), &gatewayv1.WatchJobRequest{JobId: "a", Interval: durationpb.New(time.Millisecond)})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("interval of 1ms: %v, want InvalidArgument", err)
	}
}

// A watcher of a job that does not end must not hold up the gateway's end.
func TestStopEndsWatchers(t *testing.T) {
	f := &fakeScheduler{hold: make(chan struct{}), watch: []*schedulerv1.JobStatus{{JobId: "a"}}}
	client, _, cancel := start(t, f, nil)
	stream, err := client.WatchJob(t.Context(), &gatewayv1.WatchJobRequest{JobId: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("after the stop: %v, want Unavailable", err)
	}
}

func TestReflection(t *testing.T) {
	_, conn, _ := start(t, &fakeScheduler{}, nil)
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(req *reflectionpb.ServerReflectionRequest) *reflectionpb.ServerReflectionResponse {
		t.Helper()
		if err := stream.Send(req); err != nil {
			t.Fatal(err)
		}
		res, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	var names []string
	for _, s := range ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}).GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	if !slices.Contains(names, "lycosa.gateway.v1.AdminService") {
		t.Errorf("services %v lack AdminService", names)
	}
	res := ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "lycosa.gateway.v1.AdminService"}})
	if len(res.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("no descriptor of AdminService: %v", res)
	}
	_ = stream.CloseSend()
}

func TestConfig(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	bad := Default()
	bad.Scheduler, bad.Timeout, bad.TraceRatio = "", 0, 2
	err := bad.Validate()
	for _, field := range []string{"scheduler:", "timeout:", "trace_ratio:"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}
