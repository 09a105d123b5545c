package downloader_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"lycosa.dev/downloader"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/service"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	downloaderv1 "lycosa.dev/proto/gen/lycosa/downloader/v1"
	extractorv1 "lycosa.dev/proto/gen/lycosa/extractor/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

const benchServer = "LYCOSA_BENCH_SERVER"

// TestBenchServer is no test: it is the other process of BenchmarkLease.
func TestBenchServer(t *testing.T) {
	if os.Getenv(benchServer) == "" {
		t.Skip("runs only as the server of BenchmarkLease")
	}
	answer := page(strings.Repeat("0123456789abcdef", 1280))
	s := newSite(t, func(c net.Conn, _ string) { _, _ = c.Write([]byte(answer)) })
	_, _ = os.Stdout.WriteString("listening " + s.addr.String() + "\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// sink is an extractor that only answers.
type sink struct {
	extractorv1.UnimplementedExtractorServiceServer
}

func (sink) Extract(stream grpc.BidiStreamingServer[extractorv1.ExtractRequest, extractorv1.ExtractResponse]) error {
	var owed int64
	for {
		req, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		owed += int64(len(req.GetChunk()))
		if req.GetEnd() == nil {
			continue
		}
		if owed > 1<<20 {
			_ = stream.Send(&extractorv1.ExtractResponse{Item: &extractorv1.ExtractResponse_CreditBytes{CreditBytes: owed}})
			owed = 0
		}
		if err := stream.Send(&extractorv1.ExtractResponse{Id: req.GetId(), Item: &extractorv1.ExtractResponse_Answer{
			Answer: &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_DONE}}}); err != nil {
			return err
		}
	}
}

// BenchmarkLease is what one lease of a 20 KB page costs this process, from
// the Fetch stream round an empty extractor and back, in process.
func BenchmarkLease(b *testing.B) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestBenchServer$")
	cmd.Env = append(os.Environ(), benchServer+"=1")
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	var line [64]byte
	n, err := out.Read(line[:])
	if err != nil {
		b.Fatal(err)
	}
	go io.Copy(io.Discard, out)
	addr, err := net.ResolveTCPAddr("tcp", strings.TrimSpace(strings.TrimPrefix(string(line[:n]), "listening ")))
	if err != nil {
		b.Fatal(err)
	}
	s := &site{addr: addr}

	local := rpc.NewLocal(rpc.ServerOptions{})
	sched := &scheduler{hellos: make(chan *schedulerv1.Hello, 10), draining: make(chan struct{})}
	sched.set("inproc:extractor")
	local.Register("scheduler", func(r grpc.ServiceRegistrar) { schedulerv1.RegisterSchedulerServiceServer(r, sched) })
	local.Register("extractor", func(r grpc.ServiceRegistrar) { extractorv1.RegisterExtractorServiceServer(r, sink{}) })
	cfg := downloader.Default()
	cfg.Scheduler, cfg.Advertise = "inproc:scheduler", "inproc:downloader"
	d, err := downloader.New(cfg, service.Deps{Dialer: local})
	if err != nil {
		b.Fatal(err)
	}
	local.Register("downloader", d.Register)
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- d.Run(ctx) }()
	defer func() {
		cancel()
		<-stopped
		_ = local.Shutdown(context.Background())
	}()
	<-sched.hellos
	conn, _, _ := local.Dial(ctx, "inproc:downloader")
	stream, err := downloaderv1.NewDownloaderServiceClient(conn).Fetch(ctx)
	if err != nil {
		b.Fatal(err)
	}
	const inFlight = 16
	deadline := durationpb.New(time.Minute)
	id := uint64(0)
	next := func() {
		id++
		l := s.lease(id, "/some/path/page.html")
		l.Deadline = deadline
		_ = stream.Send(&downloaderv1.FetchRequest{Item: &downloaderv1.FetchRequest_Lease{Lease: l}})
	}
	await := func() {
		for {
			res, err := stream.Recv()
			if err != nil {
				b.Fatal(err)
			}
			if a := res.GetAnswer(); a != nil {
				if a.GetAnswer().GetVerdict() != crawlv1.Verdict_VERDICT_DONE {
					b.Fatal(a)
				}
				return
			}
		}
	}
	for range inFlight {
		next()
	}
	for range inFlight { // connections are open and streams are there
		await()
		next()
	}
	b.ReportAllocs()
	start := cpu()
	for b.Loop() {
		await()
		next()
	}
	b.ReportMetric(float64((cpu()-start).Nanoseconds())/float64(b.N)/1000, "cpu-µs/op")
	for range inFlight {
		await()
	}
}

func cpu() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
