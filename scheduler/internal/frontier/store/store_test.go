package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"lycosa.dev/scheduler/internal/frontier/store"
	"lycosa.dev/scheduler/internal/frontier/store/storetest"
)

func TestMemoryContract(t *testing.T) {
	storetest.Run(t, func(t testing.TB) (store.Store, func(store.Store) store.Store) {
		return store.NewMemory(), func(s store.Store) store.Store {
			s.Close()
			return s.(*store.Memory).Reopen()
		}
	})
}

func TestPebbleContract(t *testing.T) {
	storetest.Run(t, func(t testing.TB) (store.Store, func(store.Store) store.Store) {
		fs := vfs.NewMem()
		open := func() store.Store {
			s, err := store.OpenPebble("f", store.PebbleOptions{FS: fs, MemTableBytes: 1 << 20, CacheBytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		return open(), func(s store.Store) store.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return open()
		}
	})
}

// A crash at any moment keeps what was awaited, and of the rest a prefix.
func TestPebbleCrashKeepsPrefix(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		fs := vfs.NewCrashableMem()
		s, err := store.OpenPebble("f", store.PebbleOptions{FS: fs, MemTableBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		durable, applied := -1, 0
		for ; applied < 40; applied++ {
			var b store.Batch
			b.Set(fmt.Appendf(nil, "k%03d", applied), []byte("v"))
			sync := rng.IntN(4) == 0
			p, err := s.Apply(&b, sync)
			if err != nil {
				t.Fatal(err)
			}
			if sync {
				if err := p.Wait(); err != nil {
					t.Fatal(err)
				}
				durable = applied
			}
		}
		crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		s.Close()
		s, err = store.OpenPebble("f", store.PebbleOptions{FS: crashed, MemTableBytes: 1 << 20})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		n := 0
		_ = s.Scan(nil, nil, func(k, v []byte) bool {
			if want := fmt.Sprintf("k%03d", n); string(k) != want {
				t.Fatalf("seed %d: key %q where %q was due: not a prefix", seed, k, want)
			}
			n++
			return true
		})
		if n <= durable {
			t.Fatalf("seed %d: %d batches left, batch %d had been awaited", seed, n, durable)
		}
		s.Close()
	}
}

func TestPebbleSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	s, err := store.OpenPebble(dir, store.PebbleOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.OpenPebble(dir, store.PebbleOptions{}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("second open: %v, want ErrLocked", err)
	}
	var b store.Batch
	b.Set([]byte("k"), []byte("v"))
	p, err := s.Apply(&b, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	manifests, _ := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	if len(manifests) == 0 {
		t.Fatal("no manifest")
	}
	for _, m := range manifests {
		if err := os.WriteFile(m, []byte(strings.Repeat("not a manifest ", 64)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.OpenPebble(dir, store.PebbleOptions{}); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("open of a damaged directory: %v, want ErrCorrupt", err)
	}
	if _, err := store.OpenPebble(filepath.Join(dir, "absent"), store.PebbleOptions{ReadOnly: true}); err == nil {
		t.Error("read-only open made a directory")
	}
}

// A folder without a store is none when it is read; one whose manifest is gone
// is damaged and is never begun anew.
func TestFolderWithoutStore(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("f", 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := store.OpenPebble("f", store.PebbleOptions{FS: fs, ReadOnly: true}); !errors.Is(err, store.ErrNone) {
		t.Errorf("an empty folder, to be read: %v", err)
	}
	s, err := store.OpenPebble("f", store.PebbleOptions{FS: fs, MemTableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var b store.Batch
	b.Set([]byte("k"), []byte("v"))
	if _, err := s.Apply(&b, false); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Settle(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	names, err := fs.List("f")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasPrefix(n, "marker.manifest") {
			if err := fs.Remove("f/" + n); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, reading := range []bool{true, false} {
		if _, err := store.OpenPebble("f", store.PebbleOptions{FS: fs, ReadOnly: reading}); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("without its manifest, reading %t: %v", reading, err)
		}
	}
}
