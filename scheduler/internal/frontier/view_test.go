package frontier

import (
	"errors"
	"fmt"
	"testing"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// The URLs of a long queue are counted up to a bound, and the answer says so.
func TestCountsOfLongQueuesAreLowerBounds(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec())
	list := make([]*crawlv1.Candidate, 0, countLimit+2)
	for i := range countLimit + 2 {
		list = append(list, &crawlv1.Candidate{Url: fmt.Sprintf("http://long.test/%d", i), HostKey: "long.test", Rule: "test"})
	}
	if _, _, err := r.f.AddSeeds(r.ctx, "j", list); err != nil {
		t.Fatal(err)
	}
	r.seed("j", "http://short.test/1", "http://short.test/2")
	r.work()
	res, err := r.f.Queues(r.ctx, &schedulerv1.ListQueuesRequest{JobId: "j"})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range res.Queues {
		want, least := uint64(2), false
		if q.HostKey == "long.test" {
			want, least = countLimit, true
		}
		if q.Queued != want || q.QueuedAtLeast != least {
			t.Errorf("%s: %d queued (more: %t), want %d (%t)", q.HostKey, q.Queued, q.QueuedAtLeast, want, least)
		}
	}
	if len(res.Queues) != 2 {
		t.Errorf("%d queues", len(res.Queues))
	}
}

// Whoever reads a view when the frontier is closed stops soon, and the store
// stays open until then.
func TestCloseWaitsForViews(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(), "http://a.test/1", "http://a.test/2", "http://a.test/3")
	r.f.mu.Lock()
	v, err := r.f.view()
	r.f.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	seen := 0
	err = v.Scan([]byte{0}, []byte{0xff}, func(_, _ []byte) bool {
		if seen++; seen == 1 {
			go func() { closed <- r.f.Close() }()
			for !r.f.closing.Load() {
			}
			select {
			case err := <-closed:
				t.Errorf("closed with a view open: %v", err)
			default:
			}
		}
		return true
	})
	if !errors.Is(err, ErrClosed) || seen != 1 {
		t.Errorf("%d records were read, then %v", seen, err)
	}
	_ = v.Close()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, err := r.f.Queues(r.ctx, &schedulerv1.ListQueuesRequest{JobId: "j"}); err == nil {
		t.Error("a closed frontier answers")
	}
}
