package scheduler

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/service"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	dnserv1 "lycosa.dev/proto/gen/lycosa/dnser/v1"
	downloaderv1 "lycosa.dev/proto/gen/lycosa/downloader/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// slowStream is a stream on which a lease is delivered long before Send
// returns.
type slowStream struct {
	fetchStream
	delivered chan uint64
	goOn      chan struct{}
}

func (s *slowStream) Send(req *downloaderv1.FetchRequest) error {
	s.delivered <- req.GetLease().GetId()
	<-s.goOn
	return nil
}

// literals is a dnser that knows addresses only.
type literals struct {
	dnserv1.UnimplementedDnserServiceServer
}

func (literals) Lookup(_ context.Context, req *dnserv1.LookupRequest) (*dnserv1.LookupResponse, error) {
	return &dnserv1.LookupResponse{Host: &crawlv1.HostAddresses{
		Host: req.GetHost(), Status: crawlv1.HostStatus_HOST_STATUS_RESOLVED,
		Addresses: [][]byte{netip.MustParseAddr(req.GetHost()).AsSlice()}, ExpiresAt: timestamppb.New(time.Now().Add(time.Hour)),
	}}, nil
}

// A scheduler that stops waits for every lease it has taken: those not sent yet
// are counted while the first of them is answered, and once it has looked at the
// count nothing more is leased.
func TestDrainSeesLeasesThatAreNotSentYet(t *testing.T) {
	cfg := Default()
	cfg.Dir, cfg.SingleProcess, cfg.DrainTimeout = t.TempDir(), true, time.Millisecond
	local := rpc.NewLocal(rpc.ServerOptions{})
	local.Register("dnser", func(reg grpc.ServiceRegistrar) { dnserv1.RegisterDnserServiceServer(reg, literals{}) })
	s, err := New(cfg, service.Deps{Dialer: local})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	<-s.opened
	s.members.add(&schedulerv1.Instance{Kind: schedulerv1.ServiceKind_SERVICE_KIND_DNSER, Id: "d", Address: "inproc:dnser"})
	mem, _ := s.members.add(&schedulerv1.Instance{Kind: schedulerv1.ServiceKind_SERVICE_KIND_DOWNLOADER, Id: "a"})
	zero := durationpb.New(0)
	if _, err := s.ApplyJob(ctx, &schedulerv1.ApplyJobRequest{JobId: "j", Start: true, Spec: &jobv1.Spec{
		Seeds: []string{"http://127.0.0.1/", "http://127.0.0.2/", "http://127.0.0.3/"},
		Fetch: &jobv1.Fetch{AllowNet: []string{"127.0.0.0/8"}}, Storage: &jobv1.Storage{None: true},
		Politeness: &jobv1.Politeness{MinDelay: zero, MaxDelay: zero, DelayFactor: proto.Float64(0), Robots: jobv1.RobotsPolicy_ROBOTS_POLICY_IGNORE},
	}}); err != nil {
		t.Fatal(err)
	}

	// One lease is taken apart, so that nothing is being decided any more.
	d := &dispatcher{s: s, id: "a", capacity: 2, log: s.log, out: &outstanding{mem: mem, leases: map[uint64]bool{}}}
	for ready := s.f.Ready("a"); ; {
		leases, err := s.f.Lease(ctx, "a", 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(leases) > 0 {
			break
		}
		<-ready
	}
	stream := &slowStream{delivered: make(chan uint64), goOn: make(chan struct{})}
	sending := make(chan error, 1)
	stopSending := make(chan error, 1)
	go func() { sending <- d.send(ctx, stream, make(chan struct{}), stopSending) }()
	d.out.remove(<-stream.delivered) // its answer is there
	if n := s.members.inflight(); n != 1 {
		t.Errorf("%d leases are counted while one is on its way", n)
	}
	close(stream.goOn)
	d.out.remove(<-stream.delivered)
	s.endLeasing()
	if leases, err := d.lease(ctx, 1); err != nil || len(leases) > 0 {
		t.Errorf("leased at the end: %v, %v", leases, err)
	}
	stopSending <- nil
	<-sending
}
