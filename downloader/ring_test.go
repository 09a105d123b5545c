package downloader_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"lycosa.dev/downloader"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/service"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	downloaderv1 "lycosa.dev/proto/gen/lycosa/downloader/v1"
	extractorv1 "lycosa.dev/proto/gen/lycosa/extractor/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scheduler is a fake of the service that downloaders join.
type scheduler struct {
	schedulerv1.UnimplementedSchedulerServiceServer

	mu       sync.Mutex
	topology *schedulerv1.Topology
	hellos   chan *schedulerv1.Hello
	draining chan struct{}
	push     chan struct{}
	refuse   error
	spec     *jobv1.Spec // of the job; nil: an ordinary one
}

func (s *scheduler) Join(stream grpc.BidiStreamingServer[schedulerv1.JoinRequest, schedulerv1.JoinResponse]) error {
	req, err := stream.Recv()
	if err != nil {
		return err
	}
	if s.refuse != nil {
		return s.refuse
	}
	s.hellos <- req.GetHello()
	updates := make(chan error, 1)
	go func() {
		for {
			req, err := stream.Recv()
			if err != nil {
				updates <- err
				return
			}
			if req.GetUpdate().GetDraining() {
				close(s.draining)
			}
		}
	}()
	for {
		s.mu.Lock()
		push, topology := s.push, s.topology
		s.mu.Unlock()
		if err := stream.Send(&schedulerv1.JoinResponse{Topology: topology}); err != nil {
			return err
		}
		select {
		case <-push:
		case <-updates:
			return nil
		case <-stream.Context().Done():
			return nil
		}
	}
}

// set publishes which extractors there are.
func (s *scheduler) set(extractors ...string) {
	t := &schedulerv1.Topology{Jobs: []*schedulerv1.JobSpec{{JobId: "job", SpecVersion: 3, Spec: &jobv1.Spec{
		Identity: &jobv1.Identity{UserAgent: "Job/1"},
		Fetch:    &jobv1.Fetch{AllowNet: []string{"127.0.0.0/8"}, IdleTimeout: durationpb.New(20 * time.Second)},
		Limits:   &jobv1.Limits{MaxPageBytes: 64 << 20},
	}}}}
	if s.spec != nil {
		t.Jobs[0].Spec = s.spec
	}
	for _, addr := range extractors {
		t.Instances = append(t.Instances, &schedulerv1.Instance{Kind: schedulerv1.ServiceKind_SERVICE_KIND_EXTRACTOR, Id: addr, Address: addr})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.topology = t
	if s.push != nil {
		close(s.push)
	}
	s.push = make(chan struct{})
}

// got is a page as an extractor has received it.
type got struct {
	by      string
	lease   *crawlv1.Lease
	request string
	head    string
	body    []byte
	result  *crawlv1.FetchResult
	largest int // most bytes of chunks not yet credited
}

// extractor is a fake: it keeps pages and answers as it is told.
type extractor struct {
	extractorv1.UnimplementedExtractorServiceServer
	name   string
	pages  chan got
	answer func(n int, g *got) *crawlv1.Answer // nil result: the stream breaks

	mu sync.Mutex
	n  int
}

func (e *extractor) Extract(stream grpc.BidiStreamingServer[extractorv1.ExtractRequest, extractorv1.ExtractResponse]) error {
	open := map[uint64]*got{}
	owed, largest := int64(0), 0
	for {
		req, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		g := open[req.GetId()]
		switch part := req.GetPart().(type) {
		case *extractorv1.ExtractRequest_Head:
			open[req.GetId()] = &got{by: e.name, lease: part.Head.GetLease(), request: string(part.Head.GetRequest()), head: string(part.Head.GetResponseHead())}
		case *extractorv1.ExtractRequest_Chunk:
			g.body = append(g.body, part.Chunk...)
			if owed += int64(len(part.Chunk)); owed > int64(largest) {
				largest = int(owed)
			}
			if owed > 6<<20 { // credit in lumps, late
				if err := stream.Send(&extractorv1.ExtractResponse{Item: &extractorv1.ExtractResponse_CreditBytes{CreditBytes: owed}}); err != nil {
					return err
				}
				owed = 0
			}
		case *extractorv1.ExtractRequest_End:
			delete(open, req.GetId())
			g.result, g.largest = part.End.GetResult(), largest
			e.mu.Lock()
			e.n++
			n := e.n
			e.mu.Unlock()
			answer := &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_DONE}
			if e.answer != nil {
				answer = e.answer(n, g)
			}
			if answer == nil {
				return errors.New("extractor killed")
			}
			if answer.GetVerdict() == crawlv1.Verdict_VERDICT_DONE {
				e.pages <- *g
			}
			if err := stream.Send(&extractorv1.ExtractResponse{Id: req.GetId(), Item: &extractorv1.ExtractResponse_Answer{Answer: answer}}); err != nil {
				return err
			}
		}
	}
}

// world is a downloader between a fake scheduler and fake extractors.
type world struct {
	t     *testing.T
	local *rpc.Local
	sched *scheduler
	pages chan got
	d     *downloader.Downloader
	stop  func() error // ends the downloader and returns what Run returned
}

func newWorld(t *testing.T, configure func(*downloader.Config), deps service.Deps, extractors ...*extractor) *world {
	t.Helper()
	return newWorldOf(t, nil, configure, deps, extractors...)
}

// newWorldOf is newWorld with a job of its own.
func newWorldOf(t *testing.T, spec *jobv1.Spec, configure func(*downloader.Config), deps service.Deps, extractors ...*extractor) *world {
	t.Helper()
	w := &world{
		t: t, local: rpc.NewLocal(rpc.ServerOptions{}), pages: make(chan got, 100),
		sched: &scheduler{hellos: make(chan *schedulerv1.Hello, 10), draining: make(chan struct{}), spec: spec},
	}
	var addrs []string
	for _, e := range extractors {
		e.pages = w.pages
		w.local.Register(e.name, func(r grpc.ServiceRegistrar) { extractorv1.RegisterExtractorServiceServer(r, e) })
		addrs = append(addrs, "inproc:"+e.name)
	}
	w.sched.set(addrs...)
	w.local.Register("scheduler", func(r grpc.ServiceRegistrar) { schedulerv1.RegisterSchedulerServiceServer(r, w.sched) })
	cfg := downloader.Default()
	cfg.Scheduler, cfg.Advertise, cfg.DrainTimeout = "inproc:scheduler", "inproc:downloader", 5*time.Second
	if configure != nil {
		configure(&cfg)
	}
	deps.Dialer = w.local
	d, err := downloader.New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	w.d = d
	w.local.Register("downloader", d.Register)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	var once sync.Once
	var result error
	w.stop = func() error {
		once.Do(func() { cancel(); result = <-done })
		return result
	}
	t.Cleanup(func() {
		_ = w.stop()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = w.local.Shutdown(ctx)
	})
	return w
}

func (w *world) hello() *schedulerv1.Hello {
	w.t.Helper()
	select {
	case h := <-w.sched.hellos:
		return h
	case <-time.After(10 * time.Second):
		w.t.Fatal("the downloader did not join")
		return nil
	}
}

// feed is the scheduler's end of a Fetch stream.
type feed struct {
	t      *testing.T
	stream grpc.BidiStreamingClient[downloaderv1.FetchRequest, downloaderv1.FetchResponse]
	cancel context.CancelFunc
}

func (w *world) feed() *feed {
	w.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); w.d.Health(context.Background()) != nil || !w.d.Joined(); {
		if time.Now().After(deadline) {
			w.t.Fatal("the downloader does not run")
		}
		time.Sleep(time.Millisecond)
	}
	conn, _, err := w.local.Dial(context.Background(), "inproc:downloader")
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := downloaderv1.NewDownloaderServiceClient(conn).Fetch(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(cancel)
	return &feed{w.t, stream, cancel}
}

func (f *feed) send(l *crawlv1.Lease) {
	f.t.Helper()
	if err := f.stream.Send(&downloaderv1.FetchRequest{Item: &downloaderv1.FetchRequest_Lease{Lease: l}}); err != nil {
		f.t.Fatal(err)
	}
}

// resume asks for a lease given on another stream.
func (f *feed) resume(id uint64) {
	f.t.Helper()
	if err := f.stream.Send(&downloaderv1.FetchRequest{Item: &downloaderv1.FetchRequest_ResumeLeaseId{ResumeLeaseId: id}}); err != nil {
		f.t.Fatal(err)
	}
}

// answer returns the next answer and the progress reports before it.
func (f *feed) answer() (uint64, *downloaderv1.FetchAnswer, []*downloaderv1.Progress) {
	f.t.Helper()
	var progress []*downloaderv1.Progress
	timeout := time.AfterFunc(20*time.Second, f.cancel)
	defer timeout.Stop()
	for {
		res, err := f.stream.Recv()
		if err != nil {
			f.t.Fatalf("no answer: %v", err)
		}
		if a := res.GetAnswer(); a != nil {
			return res.GetLeaseId(), a, progress
		}
		progress = append(progress, res.GetProgress())
	}
}

// site is a web server that says the same to every request on a connection.
type site struct {
	addr     *net.TCPAddr
	mu       sync.Mutex
	requests []string
}

func newSite(t *testing.T, say func(c net.Conn, request string)) *site {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{addr: ln.Addr().(*net.TCPAddr)}
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				buf := make([]byte, 64<<10)
				for {
					n, err := c.Read(buf) // a request comes in one piece
					if err != nil {
						return
					}
					s.mu.Lock()
					s.requests = append(s.requests, string(buf[:n]))
					s.mu.Unlock()
					say(c, string(buf[:n]))
				}
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return s
}

func (s *site) seen() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

func (s *site) lease(id uint64, path string) *crawlv1.Lease {
	return &crawlv1.Lease{
		Id: id, JobId: "job", SpecVersion: 3, Url: "http://" + s.addr.String() + path, HostKey: s.addr.String(),
		Purpose: crawlv1.Purpose_PURPOSE_PAGE, Attempt: 1, Addresses: [][]byte{s.addr.IP.To4()}, Deadline: durationpb.New(30 * time.Second),
	}
}

func page(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func (e *extractor) register(r grpc.ServiceRegistrar) {
	extractorv1.RegisterExtractorServiceServer(r, e)
}

// newWorldRefusing runs a downloader that the scheduler refuses, and returns
// what Run returns.
func newWorldRefusing(t *testing.T, reason error) <-chan error {
	t.Helper()
	local := rpc.NewLocal(rpc.ServerOptions{})
	local.Register("scheduler", func(r grpc.ServiceRegistrar) {
		schedulerv1.RegisterSchedulerServiceServer(r, &scheduler{refuse: reason})
	})
	cfg := downloader.Default()
	cfg.Scheduler = "inproc:scheduler"
	d, err := downloader.New(cfg, service.Deps{Dialer: local})
	if err != nil {
		t.Fatal(err)
	}
	out := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	go func() { out <- d.Run(ctx) }()
	return out
}
