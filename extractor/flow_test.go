package extractor_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	extractorv1 "lycosa.dev/proto/gen/lycosa/extractor/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// However a page ends, the credit for what was sent of it comes back: else the
// stream would stand still after a disk that was full for a while.
func TestCreditComesBackFromPagesThatFail(t *testing.T) {
	r := start(t, &jobv1.Spec{})
	done(t, r.send(t, lease("http://a.test/first"), 200, htmlHead, []byte("x"))) // it runs
	if err := os.RemoveAll(filepath.Join(r.dir, "spool")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := r.client.Extract(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const pages, chunks, size = 20, 8, 256 << 10
	credits := make(chan int64)
	go func() {
		sum, answers := int64(0), 0
		for answers < pages || sum < pages*chunks*size-1<<20 {
			res, err := stream.Recv()
			if err != nil {
				break
			}
			sum += res.GetCreditBytes()
			if a := res.GetAnswer(); a != nil {
				answers++
				if !a.GetStorageUnavailable() {
					t.Errorf("answer %v", a)
				}
			}
		}
		credits <- sum
	}()
	for id := range uint64(pages) {
		put := func(req *extractorv1.ExtractRequest) {
			req.Id = id + 1
			if err := stream.Send(req); err != nil {
				t.Error(err)
			}
		}
		put(&extractorv1.ExtractRequest{Part: &extractorv1.ExtractRequest_Head{Head: &extractorv1.PageHead{Lease: lease("http://a.test/")}}})
		for range chunks {
			put(&extractorv1.ExtractRequest{Part: &extractorv1.ExtractRequest_Chunk{Chunk: make([]byte, size)}})
		}
	}
	// Less than one step may be left unsaid.
	if sum := <-credits; sum < pages*chunks*size-1<<20 {
		t.Errorf("credit for %d of %d bytes", sum, pages*chunks*size)
	}
}

// A page that its downloader gives up leaves nothing behind.
func TestPageGivenUp(t *testing.T) {
	r := start(t, &jobv1.Spec{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := r.client.Extract(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, req := range []*extractorv1.ExtractRequest{
		{Id: 1, Part: &extractorv1.ExtractRequest_Head{Head: &extractorv1.PageHead{Lease: lease("http://a.test/")}}},
		{Id: 1, Part: &extractorv1.ExtractRequest_End{End: &extractorv1.PageEnd{Result: &crawlv1.FetchResult{}}}},
	} {
		if err := stream.Send(req); err != nil {
			t.Fatal(err)
		}
	}
	res, err := stream.Recv()
	if err != nil || res.GetAnswer().GetVerdict() != crawlv1.Verdict_VERDICT_RETRY_LATER {
		t.Fatalf("got %v %v", res, err)
	}
	if r.mu.Lock(); len(r.got) != 0 {
		t.Error("a page that was given up was handed on")
	}
	r.mu.Unlock()
}
