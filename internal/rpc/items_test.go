package rpc

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	extractorv1 "lycosa.dev/proto/gen/lycosa/extractor/v1"
)

func TestItemsRunTogetherUpToTheWindow(t *testing.T) {
	const window = 3
	var running, most atomic.Int64
	gate := make(chan struct{})
	svc := &testService{extract: func(stream extractStream) error {
		return ServeItems(stream, ItemsOptions{Window: window},
			func(_ context.Context, req *extractorv1.ExtractRequest) *extractorv1.ExtractResponse {
				n := running.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				gate <- struct{}{}
				running.Add(-1)
				return answer(req.Id, "")
			}, nil)
	}}
	over(t, svc, func(t *testing.T, ch channel) {
		most.Store(0)
		stream := openExtract(t, context.Background(), ch.conn)
		const n = 30
		var sender sync.WaitGroup
		sender.Go(func() {
			for i := range n {
				if err := stream.Send(chunk(uint64(i), nil)); err != nil {
					t.Error(err)
				}
			}
			_ = stream.CloseSend()
		})
		defer sender.Wait()
		seen := map[uint64]bool{}
		sender.Go(func() {
			for range n {
				<-gate
			}
		})
		for range n {
			res, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if seen[res.Id] {
				t.Errorf("item %d was answered twice", res.Id)
			}
			seen[res.Id] = true
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("end: %v", err)
		}
		if most.Load() > window {
			t.Errorf("%d items ran at once, the window is %d", most.Load(), window)
		}
	})
}

func TestItemPanicIsThatItems(t *testing.T) {
	svc := &testService{extract: func(stream extractStream) error {
		return ServeItems(stream, ItemsOptions{},
			func(_ context.Context, req *extractorv1.ExtractRequest) *extractorv1.ExtractResponse {
				if req.Id%2 == 0 {
					panic("even")
				}
				return answer(req.Id, "fine")
			},
			func(req *extractorv1.ExtractRequest, v any) *extractorv1.ExtractResponse {
				return answer(req.Id, "panic: "+v.(string))
			})
	}}
	over(t, svc, func(t *testing.T, ch channel) {
		stream := openExtract(t, context.Background(), ch.conn)
		for i := range 10 {
			if err := stream.Send(chunk(uint64(i), nil)); err != nil {
				t.Fatal(err)
			}
		}
		_ = stream.CloseSend()
		for range 10 {
			res, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			want := "fine"
			if res.Id%2 == 0 {
				want = "panic: even"
			}
			if res.GetAnswer().Reason != want {
				t.Errorf("item %d: %q", res.Id, res.GetAnswer().Reason)
			}
		}
	})
}

func TestItemPanicWithoutAnswerEndsTheStream(t *testing.T) {
	svc := &testService{extract: func(stream extractStream) error {
		return ServeItems(stream, ItemsOptions{},
			func(context.Context, *extractorv1.ExtractRequest) *extractorv1.ExtractResponse { panic("no") }, nil)
	}}
	over(t, svc, func(t *testing.T, ch channel) {
		stream := openExtract(t, context.Background(), ch.conn)
		if err := stream.Send(chunk(1, nil)); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); status.Code(err) != codes.Internal {
			t.Errorf("got %v", err)
		}
	})
}

// When the server drains, items in flight are finished and answered, and what
// was not read is the client's to send again.
func TestItemsDrain(t *testing.T) {
	var began, gate chan struct{}
	svc := &testService{extract: func(stream extractStream) error {
		return ServeItems(stream, ItemsOptions{Window: 1},
			func(_ context.Context, req *extractorv1.ExtractRequest) *extractorv1.ExtractResponse {
				began <- struct{}{}
				<-gate
				return answer(req.Id, "")
			}, nil)
	}}
	over(t, svc, func(t *testing.T, ch channel) {
		began, gate = make(chan struct{}, 3), make(chan struct{})
		stream := openExtract(t, context.Background(), ch.conn)
		for id := range uint64(3) {
			if err := stream.Send(chunk(id+1, nil)); err != nil {
				t.Fatal(err)
			}
		}
		<-began
		var stopping sync.WaitGroup
		stopping.Go(ch.stop)
		// The first call that is refused shows that draining has begun.
		for {
			s, err := extractorv1.NewExtractorServiceClient(ch.conn).Extract(canceledSoon(t))
			if err == nil {
				_, err = s.Recv()
			}
			if status.Code(err) == codes.Unavailable {
				break
			}
		}
		close(gate)
		if res, err := stream.Recv(); err != nil || res.Id != 1 {
			t.Errorf("the item in flight: %v %v", res, err)
		}
		// Of the others, those that were begun are answered too.
		answered := 1
		var err error
		for err == nil {
			if _, err = stream.Recv(); err == nil {
				answered++
			}
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("at the end: %v", err)
		}
		stopping.Wait()
		if begun := 1 + len(began); answered != begun {
			t.Errorf("%d items begun, %d answered", begun, answered)
		}
	})
}

func TestItemsEndWithTheStream(t *testing.T) {
	ended := make(chan error, 2)
	began := make(chan struct{}, 1)
	svc := &testService{extract: func(stream extractStream) error {
		err := ServeItems(stream, ItemsOptions{},
			func(ctx context.Context, _ *extractorv1.ExtractRequest) *extractorv1.ExtractResponse {
				began <- struct{}{}
				<-ctx.Done()
				ended <- ctx.Err()
				return nil
			}, nil)
		ended <- err
		return err
	}}
	over(t, svc, func(t *testing.T, ch channel) {
		ctx, cancel := context.WithCancel(context.Background())
		stream := openExtract(t, ctx, ch.conn)
		if err := stream.Send(chunk(1, nil)); err != nil {
			t.Fatal(err)
		}
		<-began
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the handler saw %v", err)
		}
		if err := <-ended; status.Code(err) != codes.Canceled {
			t.Errorf("ServeItems returned %v", err)
		}
	})
}
