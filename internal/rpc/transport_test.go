package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	dnserv1 "lycosa.dev/proto/gen/lycosa/dnser/v1"
	extractorv1 "lycosa.dev/proto/gen/lycosa/extractor/v1"
)

type ctxKey struct{}

func TestUnary(t *testing.T) {
	var leaked any
	svc := &testService{lookup: func(ctx context.Context, req *dnserv1.LookupRequest) (*dnserv1.LookupResponse, error) {
		leaked = ctx.Value(ctxKey{})
		switch req.Host {
		case "panic":
			panic("on purpose")
		case "status":
			return nil, status.Error(codes.NotFound, "no such host")
		case "wrapped":
			return nil, fmt.Errorf("looking: %w", status.Error(codes.NotFound, "no such host"))
		case "plain":
			return nil, errors.New("plain error")
		case "wait":
			<-ctx.Done()
			return nil, ctx.Err()
		}
		md, _ := metadata.FromIncomingContext(ctx)
		_ = grpc.SetHeader(ctx, metadata.Pairs("echo", md.Get("ask")[0]))
		_ = grpc.SetTrailer(ctx, metadata.Pairs("after", "all"))
		if _, ok := peer.FromContext(ctx); !ok {
			return nil, errors.New("no peer")
		}
		if m, _ := grpc.Method(ctx); m != dnserv1.DnserService_Lookup_FullMethodName {
			return nil, fmt.Errorf("method is %q", m)
		}
		return &dnserv1.LookupResponse{}, nil
	}}
	over(t, svc, func(t *testing.T, ch channel) {
		client := dnserv1.NewDnserServiceClient(ch.conn)
		ctx := metadata.AppendToOutgoingContext(context.WithValue(context.Background(), ctxKey{}, "secret"), "ask", "me")
		var header, trailer metadata.MD
		if _, err := client.Lookup(ctx, &dnserv1.LookupRequest{Host: "ok"}, grpc.Header(&header), grpc.Trailer(&trailer)); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(header.Get("echo")) != "[me]" || fmt.Sprint(trailer.Get("after")) != "[all]" {
			t.Errorf("header %v, trailer %v", header, trailer)
		}
		if leaked != nil {
			t.Error("the handler saw the client's context values")
		}
		for host, want := range map[string]codes.Code{
			"panic": codes.Internal, "status": codes.NotFound, "wrapped": codes.NotFound, "plain": codes.Unknown,
		} {
			_, err := client.Lookup(ctx, &dnserv1.LookupRequest{Host: host})
			if status.Code(err) != want {
				t.Errorf("%s: %v, want %v", host, err, want)
			}
		}
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		if _, err := client.Lookup(short, &dnserv1.LookupRequest{Host: "wait"}); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("deadline: %v", err)
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := client.Lookup(gone, &dnserv1.LookupRequest{Host: "wait"}); status.Code(err) != codes.Canceled {
			t.Errorf("cancelled: %v", err)
		}
		if err := ch.conn.Invoke(ctx, "/no.such.Service/Method", &dnserv1.LookupRequest{}, &dnserv1.LookupResponse{}); status.Code(err) != codes.Unimplemented {
			t.Errorf("unknown method: %v", err)
		}
	})
}

func TestBidi(t *testing.T) {
	svc := &testService{extract: func(stream extractStream) error {
		for {
			req, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				stream.SetTrailer(metadata.Pairs("after", "all"))
				return nil
			}
			if err != nil {
				return err
			}
			if err := stream.Send(credit(req.Id, int64(len(req.GetChunk())))); err != nil {
				return err
			}
		}
	}}
	over(t, svc, func(t *testing.T, ch channel) {
		stream := openExtract(t, context.Background(), ch.conn)
		const n = 500
		var sender sync.WaitGroup
		sender.Go(func() {
			body := bytes.Repeat([]byte("x"), n)
			for i := range n {
				if err := stream.Send(chunk(uint64(i), body[:i])); err != nil {
					t.Error(err)
					return
				}
			}
			if err := stream.CloseSend(); err != nil {
				t.Error(err)
			}
		})
		for i := range n {
			res, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if res.Id != uint64(i) || res.GetCreditBytes() != int64(i) {
				t.Fatalf("answer %d: %v", i, res)
			}
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("at the end: %v", err)
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v", err)
		}
		if got := stream.Trailer().Get("after"); fmt.Sprint(got) != "[all]" {
			t.Errorf("trailer %v", got)
		}
		sender.Wait()
	})
}

// A handler that returns early ends the stream: the answers before it arrive,
// then its status, and Send says io.EOF.
func TestServerEndsStream(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want codes.Code
	}{{"ok", nil, codes.OK}, {"status", status.Error(codes.ResourceExhausted, "full"), codes.ResourceExhausted}, {"panic", nil, codes.Internal}} {
		svc := &testService{extract: func(stream extractStream) error {
			for i := range 3 {
				if err := stream.Send(credit(uint64(i), 1)); err != nil {
					return err
				}
			}
			if c.name == "panic" {
				panic("on purpose")
			}
			return c.err
		}}
		t.Run(c.name, func(t *testing.T) {
			over(t, svc, func(t *testing.T, ch channel) {
				stream := openExtract(t, context.Background(), ch.conn)
				for i := range 3 {
					if res, err := stream.Recv(); err != nil || res.Id != uint64(i) {
						t.Fatalf("answer %d: %v %v", i, res, err)
					}
				}
				_, err := stream.Recv()
				if c.want == codes.OK {
					if !errors.Is(err, io.EOF) {
						t.Errorf("end: %v", err)
					}
				} else if status.Code(err) != c.want {
					t.Errorf("end: %v, want %v", err, c.want)
				}
				if err := stream.Send(chunk(1, nil)); !errors.Is(err, io.EOF) {
					t.Errorf("Send after the end: %v, want EOF", err)
				}
			})
		})
	}
}

func TestCancelReachesServer(t *testing.T) {
	ended := make(chan error, 1)
	svc := &testService{extract: func(stream extractStream) error {
		_ = stream.Send(credit(1, 1))
		_, err := stream.Recv()
		ended <- err
		return err
	}}
	over(t, svc, func(t *testing.T, ch channel) {
		ctx, cancel := context.WithCancel(context.Background())
		stream := openExtract(t, ctx, ch.conn)
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-ended; status.Code(err) != codes.Canceled {
			t.Errorf("server saw %v", err)
		}
		if _, err := stream.Recv(); status.Code(err) != codes.Canceled {
			t.Errorf("client saw %v", err)
		}
	})
}

// A receiver that does not read holds the sender back.
func TestBackPressure(t *testing.T) {
	release := make(chan struct{})
	svc := &testService{extract: func(stream extractStream) error {
		<-release
		for {
			if _, err := stream.Recv(); err != nil {
				return nil
			}
		}
	}}
	over(t, svc, func(t *testing.T, ch channel) {
		release = make(chan struct{})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		stream := openExtract(t, ctx, ch.conn)
		const total = 64 // of a quarter MiB: far above the windows
		sent := make(chan int, total)
		var sender sync.WaitGroup
		sender.Go(func() {
			body := make([]byte, 256<<10)
			for i := range total {
				if stream.Send(chunk(1, body)) != nil {
					return
				}
				sent <- i
			}
		})
		idle := time.NewTimer(200 * time.Millisecond)
		n := 0
	count:
		for {
			select {
			case <-sent:
				n++
			case <-idle.C:
				break count
			}
		}
		if n == total {
			t.Error("the sender was never held back")
		}
		close(release)
		sender.Wait()
	})
}

// In process, what a message refers to is handed over, and the message structs
// of both sides are their own.
func TestHandOverSharesMemory(t *testing.T) {
	body := []byte("the very same bytes")
	var got *extractorv1.ExtractRequest
	svc := &testService{extract: func(stream extractStream) error {
		var err error
		got, err = stream.Recv()
		return err
	}}
	ch := open(t, "inproc", svc)
	stream := openExtract(t, context.Background(), ch.conn)
	req := chunk(7, body)
	if err := stream.Send(req); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if got == req {
		t.Error("the message struct itself is shared")
	}
	if got.Id != 7 || &got.GetChunk()[0] != &body[0] {
		t.Error("the body was copied")
	}
}

func TestHandOverKeepsUnknownFields(t *testing.T) {
	src := &dnserv1.LookupRequest{Host: "a"}
	src.ProtoReflect().SetUnknown([]byte{0xf8, 0x7f, 1})
	dst := &dnserv1.LookupRequest{Host: "old"}
	dst.ProtoReflect().SetUnknown([]byte{0xf8, 0x7f, 2})
	if err := handOver(dst, src); err != nil {
		t.Fatal(err)
	}
	if dst.Host != "a" || !bytes.Equal(dst.ProtoReflect().GetUnknown(), []byte{0xf8, 0x7f, 1}) {
		t.Errorf("got %v", dst)
	}
	other := &extractorv1.ExtractResponse{}
	if err := handOver(other, &extractorv1.ExtractRequest{Id: 3}); err != nil || other.Id != 3 {
		t.Errorf("another type of the same wire form: %v %v", other, err)
	}
	if err := handOver("x", "y"); err == nil {
		t.Error("a string was handed over")
	}
}

// One message sent on many streams at once is a pattern (pushing a topology).
func TestOneMessageOnManyStreams(t *testing.T) {
	res := credit(1, 5)
	svc := &testService{extract: func(stream extractStream) error {
		if err := stream.Send(res); err != nil {
			return err
		}
		_, _ = stream.Recv()
		return nil
	}}
	ch := open(t, "inproc", svc)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			stream := openExtract(t, context.Background(), ch.conn)
			got, err := stream.Recv()
			if err != nil || got.GetCreditBytes() != 5 || got.String() == "" {
				t.Error(got, err)
			}
			_ = stream.CloseSend()
			if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestLocalNames(t *testing.T) {
	local := NewLocal(ServerOptions{})
	conn, _, err := local.Dial(context.Background(), "inproc:late")
	if err != nil {
		t.Fatal(err)
	}
	client := dnserv1.NewDnserServiceClient(conn)
	if _, err := client.Lookup(context.Background(), &dnserv1.LookupRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("before registration: %v", err)
	}
	svc := &testService{lookup: func(context.Context, *dnserv1.LookupRequest) (*dnserv1.LookupResponse, error) {
		return &dnserv1.LookupResponse{}, nil
	}}
	local.Register("late", svc.register)
	if _, err := client.Lookup(context.Background(), &dnserv1.LookupRequest{Host: "a.example"}); err != nil {
		t.Errorf("after registration: %v", err)
	}
	if _, _, err := local.Dial(context.Background(), "127.0.0.1:7071"); err == nil {
		t.Error("a network address was dialled in process")
	}
	if err := local.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := client.Lookup(context.Background(), &dnserv1.LookupRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("after shutdown: %v", err)
	}
}

func TestLocalShutdownForced(t *testing.T) {
	svc := &testService{extract: func(stream extractStream) error {
		<-stream.Context().Done()
		return stream.Context().Err()
	}}
	local := NewLocal(ServerOptions{})
	local.Register("test", svc.register)
	conn, _, _ := local.Dial(context.Background(), "inproc:test")
	stream := openExtract(t, context.Background(), conn)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := local.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Canceled {
		t.Errorf("client saw %v", err)
	}
}
