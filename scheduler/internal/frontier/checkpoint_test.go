package frontier

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"lycosa.dev/scheduler/internal/frontier/store"
)

func openOn(t *testing.T, fs vfs.FS, dir string) *store.Pebble {
	t.Helper()
	s, err := store.OpenPebble(dir, store.PebbleOptions{FS: fs, MemTableBytes: 1 << 20, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantKnown checks that a frontier knows exactly n URLs, and crawls them once.
func wantKnown(t *testing.T, r *rig, n int) {
	t.Helper()
	r.work()
	r.audit()
	if c := r.status("j").Counters; c.Known != uint64(n) {
		t.Fatalf("%d URLs are known, want %d", c.Known, n)
	}
	if added, known, err := r.f.AddSeeds(r.ctx, "j", candidates(0, pages(0, n+1)...)); err != nil || added != 1 || known != n {
		t.Fatalf("%d added, %d known, %v; want 1 and %d", added, known, err, n)
	}
}

// A snapshot is a frontier of its own, as often as it is copied, while the one
// it was made of goes on; its jobs have new epochs.
func TestCheckpointCanBeRestoredAgainAndAgain(t *testing.T) {
	fs := vfs.NewMem()
	r := newRig(t, openOn(t, fs, "f"), smallTables)
	r.job("j", testSpec(open24), pages(0, 50)...)
	for range 3 { // some are leased, some done
		for _, l := range r.lease(4) {
			r.commit(outcomeOf(l, 200))
		}
	}
	r.lease(2)
	epoch := r.f.jobs["j"].epoch
	if err := r.f.Checkpoint(r.ctx, "snap"); err != nil {
		t.Fatal(err)
	}
	if err := r.f.Checkpoint(r.ctx, "snap"); !errors.Is(err, ErrExists) {
		t.Errorf("a second snapshot to one folder: %v", err)
	}
	r.seed("j", pages(50, 40)...)
	r.audit()
	for _, name := range []string{"copy1", "copy2"} {
		if ok, err := vfs.Clone(fs, fs, "snap", name); !ok || err != nil {
			t.Fatal(ok, err)
		}
		c := &rig{t: t, clock: r.clock, ctx: r.ctx}
		c.open(openOn(t, fs, name), smallTables)
		if c.f.jobs["j"].epoch == epoch {
			t.Error("the restored frontier has the old one's epoch: others would keep links from it")
		}
		wantKnown(t, c, 50)
		if err := c.f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.f.Close(); err != nil {
		t.Fatal(err)
	}
}

// Power that is cut, or a disk that is full, at any write of a snapshot leaves
// it complete or absent.
func TestCheckpointIsCompleteOrAbsent(t *testing.T) {
	complete := 0
	for after := 0; after < 60; after += 1 + after/8 {
		disk := vfs.NewCrashableMem()
		var mu sync.Mutex
		left := -1
		fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || left < 0 {
				return nil
			}
			if left == 0 {
				return syscall.EIO
			}
			left--
			return nil
		}))
		r := newRig(t, openOn(t, fs, "f"), smallTables)
		r.job("j", testSpec(), pages(0, 50)...)
		mu.Lock()
		left = after
		mu.Unlock()
		err := func() (err error) {
			defer func() {
				if recover() != nil {
					err = errors.New("the store failed")
				}
			}()
			return r.f.Checkpoint(r.ctx, "snap")
		}()
		crashed := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: after % 101, RNG: rand.New(rand.NewPCG(uint64(after), 1))})
		mu.Lock()
		left = -1
		mu.Unlock()
		_ = r.f.Close()
		if _, statErr := crashed.Stat("snap"); statErr != nil {
			if err == nil {
				t.Fatalf("after %d writes: the snapshot was promised and is not there", after)
			}
			continue
		}
		complete++
		c := &rig{t: t, clock: r.clock, ctx: r.ctx}
		c.open(openOn(t, crashed, "snap"), smallTables)
		wantKnown(t, c, 50)
		_ = c.f.Close()
	}
	if complete == 0 {
		t.Error("no snapshot was completed: the test shows nothing")
	}
}

// A folder that nobody runs is copied too, and the copy passes the audit.
func TestCheckpointOfAFolder(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "frontier"), filepath.Join(dir, "snap")
	s, err := OpenStore(from)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, s, smallTables)
	r.job("j", testSpec(), pages(0, 50)...)
	if err := r.f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := CheckpointDir(from, to); err != nil {
		t.Fatal(err)
	}
	rep, err := Audit(to)
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Violations) > 0 || rep.Recomputed["j"].GetKnown() != 50 {
		t.Errorf("the copy: %v, %v", rep.Violations, rep.Recomputed)
	}
}
