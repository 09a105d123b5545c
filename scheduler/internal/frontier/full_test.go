package frontier

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// A disk that is full at any write ends the frontier with ErrStorage: nothing
// hangs, and what was answered is there afterwards.
func TestFullDisk(t *testing.T) {
	for _, after := range []int{0, 1, 3, 10, 40} {
		t.Run(fmt.Sprintf("after %d writes", after), func(t *testing.T) {
			disk := vfs.NewMem()
			var mu sync.Mutex
			left := -1 // writes until the disk is full; -1: it is not counted
			full := errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
					return nil
				}
				mu.Lock()
				defer mu.Unlock()
				if left == 0 {
					return syscall.ENOSPC
				}
				if left > 0 {
					left--
				}
				return nil
			})
			s, err := store.OpenPebble("f", store.PebbleOptions{FS: errorfs.Wrap(disk, full), MemTableBytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			r := newRig(t, s)
			var seeds []string
			for i := range 50 {
				seeds = append(seeds, fmt.Sprintf("http://h%d.test/", i))
			}
			r.job("j", testSpec(open24), seeds...)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			ran := make(chan error, 1)
			go func() { ran <- r.f.Run(ctx) }()
			mu.Lock()
			left = after
			mu.Unlock()
			var answered []string
			for {
				ls, err := r.f.Lease(ctx, "d1", 1)
				if err != nil {
					break
				}
				if len(ls) == 0 {
					if ctx.Err() != nil {
						t.Fatal("no lease")
					}
					continue
				}
				a := r.f.Commit(ctx, &schedulerv1.CommitRequest{Outcome: outcomeOf(ls[0], 200)})
				if a.Verdict == crawlv1.Verdict_VERDICT_DONE {
					answered = append(answered, ls[0].Url)
				} else if !a.StorageUnavailable {
					t.Errorf("answer %v", a)
				}
			}
			if err := <-ran; !errors.Is(err, ErrStorage) || !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("Run ended with %v", err)
			}
			if _, err := r.f.Lease(ctx, "d1", 1); !errors.Is(err, ErrStorage) {
				t.Errorf("Lease on a failed store: %v", err)
			}
			_ = r.f.Close()
			s, err = store.OpenPebble("f", store.PebbleOptions{FS: disk})
			if err != nil {
				t.Fatal(err)
			}
			r.open(s)
			defer r.f.Close()
			r.audit()
			for _, u := range answered {
				if e := r.explain("j", u); e.State != stateDone {
					t.Errorf("%s was answered done and is %s", u, e.State)
				}
			}
		})
	}
}
