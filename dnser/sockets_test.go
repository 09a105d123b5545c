package dnser

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"

	"lycosa.dev/dnser/internal/dnstest"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/service"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	dnserv1 "lycosa.dev/proto/gen/lycosa/dnser/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// serve runs a gRPC server on a loopback port until the test ends.
func serve(t testing.TB, register func(grpc.ServiceRegistrar)) string {
	t.Helper()
	srv := rpc.NewServer(rpc.ServerOptions{DrainTimeout: 100 * time.Millisecond})
	register(srv)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	background(t, func(ctx context.Context) error { _ = srv.Run(ctx, lis); return nil }) // streams are cut on purpose
	return lis.Addr().String()
}

// background runs f until the test ends.
func background(t testing.TB, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestOverSockets: real gRPC with its validation, a real DNS server.
func TestOverSockets(t *testing.T) {
	name := dnstest.Start(t, zone)
	s := newScheduler(jobSpec("j", 1, nil, nil))
	cfg := Default()
	cfg.Scheduler = serve(t, func(r grpc.ServiceRegistrar) { schedulerv1.RegisterSchedulerServiceServer(r, s) })
	cfg.DNS = []string{name.Addr.String()}
	dialer := rpc.NetDialer(rpc.ClientOptions{})
	d, err := New(cfg, service.Deps{Dialer: dialer})
	if err != nil {
		t.Fatal(err)
	}
	addr := serve(t, d.Register)
	background(t, d.Run)
	conn, closer, err := dialer.Dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = closer.Close() }()
	r := &ring{client: dnserv1.NewDnserServiceClient(conn)}
	for id, a := range r.send(t, item(1, "j", "a.test", "gone.test", "[::1]:8080"), item(2, "j")) {
		if a.GetVerdict() != crawlv1.Verdict_VERDICT_DONE {
			t.Errorf("%d: %v", id, a)
		}
	}
	for _, c := range s.committed() {
		if c.GetOutcome().GetLeaseId() != 1001 {
			continue
		}
		if got, want := allTold(c.GetHosts()), []string{
			"a.test RESOLVED 93.184.216.34,2606:2800:220:1::1", "gone.test NOT_FOUND_CONFIRMED", "[::1] FORBIDDEN",
		}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// BenchmarkHosts: what an item waits for when the cache knows: a page with 40
// links on 5 hosts.
func BenchmarkHosts(b *testing.B) {
	s := newScheduler(jobSpec("j", 1, nil, nil))
	local := rpc.NewLocal(rpc.ServerOptions{})
	local.Register("scheduler", func(r grpc.ServiceRegistrar) { schedulerv1.RegisterSchedulerServiceServer(r, s) })
	cfg := Default()
	cfg.Scheduler, cfg.DNS = "inproc:scheduler", []string{"192.0.2.53"}
	d, err := New(cfg, service.Deps{Dialer: local})
	if err != nil {
		b.Fatal(err)
	}
	d.transport = scripted{zone, 0}
	background(b, d.Run)
	var keys []string
	for i := range 40 {
		keys = append(keys, fmt.Sprintf("h%d.test", i%5))
	}
	candidates := item(1, "j", keys...).GetCandidates()
	if err := d.ready(b.Context()); err != nil {
		b.Fatal(err)
	}
	if _, err := d.members.WaitJob(b.Context(), "j", 0); err != nil {
		b.Fatal(err)
	}
	d.hosts(b.Context(), "j", candidates)
	b.ReportAllocs()
	for b.Loop() {
		if n := len(d.hosts(b.Context(), "j", candidates)); n != 5 {
			b.Fatalf("%d hosts", n)
		}
	}
}
