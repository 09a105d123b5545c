package rpc

import (
	"context"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	dnserv1 "lycosa.dev/proto/gen/lycosa/dnser/v1"
	extractorv1 "lycosa.dev/proto/gen/lycosa/extractor/v1"
)

// pageSize is a page of the design's budgets with its head.
const pageSize = 21 << 10

// BenchmarkStream sends a 21 KB message and gets a small answer, many in
// flight: the page hop as bare streams.
func BenchmarkStream(b *testing.B) {
	svc := &testService{extract: func(stream extractStream) error {
		for {
			req, err := stream.Recv()
			if err != nil {
				return nil
			}
			if err := stream.Send(credit(req.Id, int64(len(req.GetChunk())))); err != nil {
				return err
			}
		}
	}}
	for _, kind := range []string{"inproc", "bufconn", "tcp"} {
		b.Run(kind, func(b *testing.B) {
			ch := open(b, kind, svc)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			stream := openExtract(b, ctx, ch.conn)
			body := make([]byte, pageSize)
			const inFlight = 64
			slots := make(chan struct{}, inFlight)
			b.ReportAllocs()
			b.ResetTimer()
			go func() {
				for i := range b.N {
					slots <- struct{}{}
					if stream.Send(chunk(uint64(i), body)) != nil {
						return
					}
				}
			}()
			for range b.N {
				if _, err := stream.Recv(); err != nil {
					b.Fatal(err)
				}
				<-slots
			}
		})
	}
}

// BenchmarkCall is the same through Caller and ServeItems, from 64 goroutines.
func BenchmarkCall(b *testing.B) {
	for _, kind := range []string{"inproc", "bufconn", "tcp"} {
		b.Run(kind, func(b *testing.B) {
			svc := &testService{extract: func(stream extractStream) error {
				return ServeItems(stream, ItemsOptions{Window: 64},
					func(_ context.Context, req *extractorv1.ExtractRequest) *extractorv1.ExtractResponse {
						return answer(req.Id, "")
					}, nil)
			}}
			ch := open(b, kind, svc)
			opt := extractor(ch.conn)
			opt.Window = 64
			c := run(b, opt)
			body := make([]byte, pageSize)
			b.SetParallelism(32)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := c.Call(context.Background(), chunk(0, body)); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkHandOver is what passing one message in process costs by itself.
func BenchmarkHandOver(b *testing.B) {
	src := chunk(1, make([]byte, pageSize))
	b.ReportAllocs()
	for b.Loop() {
		dst := new(extractorv1.ExtractRequest)
		if err := handOver(dst, src); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkValidate is what checking the shape of a message costs: a chunk of a
// page, and a page's outcome with 40 links.
func BenchmarkValidate(b *testing.B) {
	links := make([]*crawlv1.Candidate, 40)
	for i := range links {
		links[i] = &crawlv1.Candidate{Url: "https://a.example/page", HostKey: "a.example", HopPath: "L"}
	}
	for name, msg := range map[string]proto.Message{
		"chunk": chunk(1, make([]byte, pageSize)),
		"links": &dnserv1.ResolveRequest{Id: 1, Outcome: &crawlv1.Outcome{}, Candidates: links},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = protovalidate.Validate(msg)
			}
		})
	}
}
