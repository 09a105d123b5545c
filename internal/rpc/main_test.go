package rpc

import (
	"context"
	"net"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	dnserv1 "lycosa.dev/proto/gen/lycosa/dnser/v1"
	extractorv1 "lycosa.dev/proto/gen/lycosa/extractor/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	extractStream       = grpc.BidiStreamingServer[extractorv1.ExtractRequest, extractorv1.ExtractResponse]
	extractClientStream = grpc.BidiStreamingClient[extractorv1.ExtractRequest, extractorv1.ExtractResponse]
)

// testService has one unary and one bidirectional method, as the test wants.
type testService struct {
	dnserv1.UnimplementedDnserServiceServer
	extractorv1.UnimplementedExtractorServiceServer

	lookup  func(context.Context, *dnserv1.LookupRequest) (*dnserv1.LookupResponse, error)
	extract func(extractStream) error
}

func (s *testService) Lookup(ctx context.Context, req *dnserv1.LookupRequest) (*dnserv1.LookupResponse, error) {
	return s.lookup(ctx, req)
}

func (s *testService) Extract(stream extractStream) error { return s.extract(stream) }

func (s *testService) register(r grpc.ServiceRegistrar) {
	dnserv1.RegisterDnserServiceServer(r, s)
	extractorv1.RegisterExtractorServiceServer(r, s)
}

// channel is one way to reach a service; the tests of streams and calls run
// over each of them with the same bodies.
type channel struct {
	conn grpc.ClientConnInterface
	// stop ends the server; it returns when the handlers have.
	stop func()
}

// over runs body over TCP, bufconn and in process.
func over(t *testing.T, svc *testService, body func(t *testing.T, ch channel)) {
	for _, name := range []string{"tcp", "bufconn", "inproc"} {
		t.Run(name, func(t *testing.T) { body(t, open(t, name, svc)) })
	}
}

func open(tb testing.TB, kind string, svc *testService) channel {
	tb.Helper()
	never := func(string) bool { return false }
	if kind == "inproc" {
		local := NewLocal(ServerOptions{})
		local.Register("test", svc.register)
		conn, _, err := local.Dial(context.Background(), "inproc:test")
		if err != nil {
			tb.Fatal(err)
		}
		stop := func() {
			if err := local.Shutdown(context.Background()); err != nil {
				tb.Error(err)
			}
		}
		tb.Cleanup(func() {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = local.Shutdown(ctx)
		})
		return channel{conn, stop}
	}
	server := NewServer(ServerOptions{ValidateStreams: never})
	svc.register(server)
	var lis net.Listener
	options := ClientOptions{}
	addr := "127.0.0.1:1"
	if kind == "bufconn" {
		buf := bufconn.Listen(1 << 20)
		lis = buf
		options.GRPC = []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return buf.DialContext(ctx)
		})}
	} else {
		var err error
		if lis, err = server.Listen("127.0.0.1:0"); err != nil {
			tb.Fatal(err)
		}
		addr = lis.Addr().String()
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx, lis) }()
	conn, closer, err := NetDialer(options).Dial(ctx, addr)
	if err != nil {
		tb.Fatal(err)
	}
	ended := false
	stop := func() {
		if !ended {
			ended = true
			cancel()
			if err := <-done; err != nil {
				tb.Error(err)
			}
		}
	}
	tb.Cleanup(func() {
		_ = closer.Close()
		server.GRPC().Stop()
		stop()
	})
	return channel{conn, stop}
}

func openExtract(tb testing.TB, ctx context.Context, conn grpc.ClientConnInterface) extractClientStream {
	tb.Helper()
	stream, err := extractorv1.NewExtractorServiceClient(conn).Extract(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	return stream
}

func chunk(id uint64, body []byte) *extractorv1.ExtractRequest {
	return &extractorv1.ExtractRequest{Id: id, Part: &extractorv1.ExtractRequest_Chunk{Chunk: body}}
}

func credit(id uint64, n int64) *extractorv1.ExtractResponse {
	return &extractorv1.ExtractResponse{Id: id, Item: &extractorv1.ExtractResponse_CreditBytes{CreditBytes: n}}
}
