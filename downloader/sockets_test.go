package downloader_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"lycosa.dev/downloader"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/service"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	downloaderv1 "lycosa.dev/proto/gen/lycosa/downloader/v1"
	extractorv1 "lycosa.dev/proto/gen/lycosa/extractor/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// listen serves over a socket until the test ends.
func listen(t *testing.T, register func(grpc.ServiceRegistrar)) string {
	t.Helper()
	server := rpc.NewServer(rpc.ServerOptions{DrainTimeout: time.Second})
	register(server)
	ln, err := server.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx, ln) }()
	t.Cleanup(func() { cancel(); <-done })
	return ln.Addr().String()
}

// The same round of the ring over TCP, with the contract's validation on, and
// with an extractor that is killed while it holds a page.
func TestRingOverSockets(t *testing.T) {
	body := strings.Repeat("q", 900<<10)
	s := newSite(t, func(c net.Conn, r string) {
		if strings.HasPrefix(r, "GET /long") {
			_, _ = c.Write([]byte(page(body)))
			return
		}
		_, _ = c.Write([]byte(page("short")))
	})
	pages := make(chan got, 10)
	e := &extractor{name: "e", pages: pages, answer: func(n int, _ *got) *crawlv1.Answer {
		if n == 1 {
			return nil
		}
		return &crawlv1.Answer{Verdict: done}
	}}
	sched := &scheduler{hellos: make(chan *schedulerv1.Hello, 10), draining: make(chan struct{})}
	sched.set(listen(t, func(r grpc.ServiceRegistrar) { extractorv1.RegisterExtractorServiceServer(r, e) }))
	cfg := downloader.Default()
	cfg.Scheduler = listen(t, func(r grpc.ServiceRegistrar) { schedulerv1.RegisterSchedulerServiceServer(r, sched) })
	cfg.Listen = "127.0.0.1:1"
	dialer := rpc.NetDialer(rpc.ClientOptions{})
	d, err := downloader.New(cfg, service.Deps{Dialer: dialer})
	if err != nil {
		t.Fatal(err)
	}
	addr := listen(t, d.Register)
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- d.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	}()
	<-sched.hellos

	conn, closer, err := dialer.Dial(ctx, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	streamCtx, endStream := context.WithCancel(ctx)
	defer endStream()
	stream, err := downloaderv1.NewDownloaderServiceClient(conn).Fetch(streamCtx)
	if err != nil {
		t.Fatal(err)
	}
	f := &feed{t, stream, endStream}
	for id, path := range map[uint64]string{1: "/a", 2: "/b", 3: "/long"} {
		f.send(s.lease(id, path))
		if _, a, _ := f.answer(); a.GetAnswer().GetVerdict() != done {
			// A long page cannot be sent again; then the lease is tried anew.
			if path != "/long" || a.GetAnswer().GetVerdict() != retry || !a.GetFetched() {
				t.Fatalf("%s: %v", path, a)
			}
			f.send(s.lease(id+100, path))
			if _, a, _ := f.answer(); a.GetAnswer().GetVerdict() != done {
				t.Fatalf("%s again: %v", path, a)
			}
		}
		want := "short"
		if path == "/long" {
			want = body
		}
		if g := <-pages; string(g.body) != want {
			t.Errorf("%s: %d bytes", path, len(g.body))
		}
	}
	if n := s.seen(); n > 4 {
		t.Errorf("%d requests for three pages", n)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err == nil {
		t.Error("something comes after the last answer")
	}
}
