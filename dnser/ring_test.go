package dnser

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"lycosa.dev/dnser/internal/dnstest"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/service"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	dnserv1 "lycosa.dev/proto/gen/lycosa/dnser/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeScheduler is both neighbours of the dnser in one: it pushes a topology
// and takes commits.
type fakeScheduler struct {
	schedulerv1.UnimplementedSchedulerServiceServer

	// commit answers; nil is done.
	commit func(n int, req *schedulerv1.CommitRequest) (*crawlv1.Answer, error)
	// hold, if set, is waited for before each answer.
	hold chan struct{}

	mu       sync.Mutex
	topology *schedulerv1.Topology
	push     chan struct{}
	hellos   []*schedulerv1.Hello
	draining bool
	commits  []*schedulerv1.CommitRequest
	arrived  chan struct{} // gets one a commit
}

func newScheduler(jobs ...*schedulerv1.JobSpec) *fakeScheduler {
	return &fakeScheduler{
		topology: &schedulerv1.Topology{Revision: 1, Jobs: jobs},
		push:     make(chan struct{}), arrived: make(chan struct{}, 1000),
	}
}

func jobSpec(id string, version uint64, resolve, allow []string) *schedulerv1.JobSpec {
	return &schedulerv1.JobSpec{
		JobId: id, SpecVersion: version,
		Spec: &jobv1.Spec{Fetch: &jobv1.Fetch{Resolve: resolve, AllowNet: allow}},
	}
}

// setJobs changes the topology and pushes it.
func (s *fakeScheduler) setJobs(jobs ...*schedulerv1.JobSpec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.topology = &schedulerv1.Topology{Revision: s.topology.GetRevision() + 1, Jobs: jobs}
	close(s.push)
	s.push = make(chan struct{})
}

func (s *fakeScheduler) Join(stream grpc.BidiStreamingServer[schedulerv1.JoinRequest, schedulerv1.JoinResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.hellos = append(s.hellos, first.GetHello())
	s.mu.Unlock()
	go func() {
		for {
			req, err := stream.Recv()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.draining = s.draining || req.GetUpdate().GetDraining()
			s.mu.Unlock()
		}
	}()
	for {
		s.mu.Lock()
		t, push := s.topology, s.push
		s.mu.Unlock()
		if err := stream.Send(&schedulerv1.JoinResponse{Topology: t}); err != nil {
			return err
		}
		select {
		case <-push:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func (s *fakeScheduler) Commit(stream grpc.BidiStreamingServer[schedulerv1.CommitRequest, schedulerv1.CommitResponse]) error {
	for {
		req, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		s.mu.Lock()
		n := len(s.commits)
		s.commits = append(s.commits, req)
		s.mu.Unlock()
		s.arrived <- struct{}{}
		if s.hold != nil {
			select {
			case <-s.hold:
			case <-stream.Context().Done():
				return stream.Context().Err()
			}
		}
		answer := &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_DONE}
		if s.commit != nil {
			if answer, err = s.commit(n, req); err != nil {
				return err
			}
		}
		if err := stream.Send(&schedulerv1.CommitResponse{Id: req.GetId(), Answer: answer}); err != nil {
			return err
		}
	}
}

func (s *fakeScheduler) committed() []*schedulerv1.CommitRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*schedulerv1.CommitRequest(nil), s.commits...)
}

// ring is a dnser between a fake scheduler and a test that plays the extractor.
type ring struct {
	dnser  *Dnser
	client dnserv1.DnserServiceClient
	local  *rpc.Local
	stop   func() error
}

// startRing runs a dnser in one process with its neighbours; the DNS is script,
// without sockets, after delay.
func startRing(t *testing.T, s *fakeScheduler, script dnstest.Script, delay time.Duration, tp trace.TracerProvider) *ring {
	t.Helper()
	local := rpc.NewLocal(rpc.ServerOptions{})
	local.Register("scheduler", func(r grpc.ServiceRegistrar) { schedulerv1.RegisterSchedulerServiceServer(r, s) })
	cfg := Default()
	cfg.Scheduler, cfg.Advertise = "inproc:scheduler", "inproc:dnser"
	cfg.DNS = []string{"192.0.2.53"}
	d, err := New(cfg, service.Deps{Dialer: local, TracerProvider: tp})
	if err != nil {
		t.Fatal(err)
	}
	d.transport = scripted{script, delay}
	local.Register("dnser", d.Register)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	conn, _, err := local.Dial(t.Context(), "inproc:dnser")
	if err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		_ = local.Shutdown(ctx) // streams that tests left open
	})
	return &ring{dnser: d, client: dnserv1.NewDnserServiceClient(conn), local: local, stop: stop}
}

// scripted is a DNS without sockets.
type scripted struct {
	script dnstest.Script
	delay  time.Duration
}

func (s scripted) Exchange(ctx context.Context, network string, _ netip.AddrPort, q *dns.Msg) (*dns.Msg, error) {
	select {
	case <-time.After(s.delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	reply := new(dns.Msg)
	reply.SetReply(q)
	reply.RecursionAvailable = true
	name := strings.ToLower(strings.TrimSuffix(q.Question[0].Name, "."))
	a := s.script(dnstest.Query{Name: name, Type: q.Question[0].Qtype, Network: network}, reply)
	if a.Silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return a.Reply, nil
}

// item is a lease's outcome with a candidate for each host key.
func item(id uint64, jobID string, hostKeys ...string) *dnserv1.ResolveRequest {
	req := &dnserv1.ResolveRequest{
		Id: id,
		Outcome: &crawlv1.Outcome{
			LeaseId: 1000 + id, JobId: jobID, Url: "https://page.test/", HostKey: "page.test",
			Fetch: &crawlv1.FetchResult{Class: crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP, Status: 200},
		},
	}
	for _, h := range hostKeys {
		req.Candidates = append(req.Candidates, &crawlv1.Candidate{Url: "https://" + h + "/", HostKey: h})
	}
	return req
}

// send makes a stream, sends the items and collects the answers by id.
func (r *ring) send(t *testing.T, items ...*dnserv1.ResolveRequest) map[uint64]*crawlv1.Answer {
	t.Helper()
	stream, err := r.client.Resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range items {
		if err := stream.Send(it); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	answers := map[uint64]*crawlv1.Answer{}
	for {
		res, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return answers
		}
		if err != nil {
			t.Fatal(err)
		}
		if answers[res.GetId()] != nil {
			t.Errorf("item %d is answered twice", res.GetId())
		}
		answers[res.GetId()] = res.GetAnswer()
	}
}
