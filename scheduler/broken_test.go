package scheduler_test

import (
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	downloaderv1 "lycosa.dev/proto/gen/lycosa/downloader/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// breaking is a downloader whose first streams end at once.
type breaking struct {
	*downloader
	left atomic.Int64
}

func (b *breaking) Fetch(stream grpc.BidiStreamingServer[downloaderv1.FetchRequest, downloaderv1.FetchResponse]) error {
	if b.left.Add(-1) >= 0 {
		return status.Error(codes.Unavailable, "not now")
	}
	return b.downloader.Fetch(stream)
}

// A stream that is broken is left, whatever is ready: no leasing in circles. A
// lease that was on its way is asked for on the next stream, and does not wait
// for its deadline of minutes.
func TestBrokenStreamIsLeft(t *testing.T) {
	site, seeds := tree(200, 2)
	r, _ := start(t, t.TempDir(), site)
	if _, err := r.control.ApplyJob(t.Context(), &schedulerv1.ApplyJobRequest{JobId: "j", Spec: spec(seeds...), Start: true}); err != nil {
		t.Fatal(err)
	}
	b := &breaking{downloader: &downloader{r: r, id: "a"}}
	b.left.Store(3)
	r.local.Register("downloader/a", func(reg grpc.ServiceRegistrar) { downloaderv1.RegisterDownloaderServiceServer(reg, b) })
	defer r.join(schedulerv1.ServiceKind_SERVICE_KIND_DOWNLOADER, "a", "inproc:downloader/a")()
	if c := r.finish("j").GetCounters(); c.GetDone() != 400 {
		t.Errorf("counters %v", c)
	}
}
