package store_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// Of what many batches change again and again only the last is logged, and
// readers see each at once.
func TestGroupWritesTheLastOfAKey(t *testing.T) {
	s, err := store.OpenPebble("f", store.PebbleOptions{FS: vfs.NewMem(), MemTableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	logged := func() uint64 { return s.Metrics().WAL.BytesIn }
	before := logged()
	var last store.Pending
	value := make([]byte, 100)
	for n := range 100 {
		var b store.Batch
		value[0] = byte(n)
		b.Set([]byte("counters"), value)
		b.Set(fmt.Appendf(nil, "gone%d", n), nil)
		b.Delete(fmt.Appendf(nil, "gone%d", n))
		if last, err = s.Apply(&b, true); err != nil {
			t.Fatal(err)
		}
		if v, ok, err := s.Get([]byte("counters")); !ok || err != nil || v[0] != byte(n) {
			t.Fatalf("after batch %d the store says %v, %v, %v", n, v, ok, err)
		}
		if _, ok, _ := s.Get(fmt.Appendf(nil, "gone%d", n)); ok {
			t.Fatalf("a key that batch %d deleted is there", n)
		}
	}
	if err := last.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := logged() - before; n > 3000 {
		t.Errorf("100 changes of one value of 100 bytes, and 100 deletions, were logged in %d bytes", n)
	}
	seen := 0
	_ = s.Scan(nil, nil, func(k, v []byte) bool { seen++; return string(k) == "counters" && v[0] == 99 })
	if seen != 1 {
		t.Errorf("a scan sees %d keys, want the counters alone", seen)
	}
}

// Writers that wait are answered once what they wrote is on the disk, whoever
// leads the sync, while readers pass groups on.
func TestGroupSyncsAllWhoWait(t *testing.T) {
	for seed := range uint64(20) {
		fs := vfs.NewCrashableMem()
		s, err := store.OpenPebble("f", store.PebbleOptions{FS: fs, MemTableBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		var awaited [8]atomic.Int64
		var wg sync.WaitGroup
		half := make(chan struct{})
		var once sync.Once
		for w := range awaited {
			wg.Go(func() {
				for n := int64(1); n <= 40; n++ {
					var b store.Batch
					b.Set(fmt.Appendf(nil, "w%d", w), fmt.Appendf(nil, "%d", n))
					p, err := s.Apply(&b, n%3 != 0)
					if err != nil {
						t.Error(err)
						return
					}
					if n%7 == 0 {
						_ = s.Scan([]byte("w"), nil, func(_, _ []byte) bool { return true })
					}
					if n%3 == 0 {
						continue
					}
					if err := p.Wait(); err != nil {
						t.Error(err)
						return
					}
					awaited[w].Store(n)
					if n == 20 {
						once.Do(func() { close(half) })
					}
				}
			})
		}
		<-half
		var want [len(awaited)]int64
		for w := range awaited {
			want[w] = awaited[w].Load()
		}
		rng := rand.New(rand.NewPCG(seed, 2))
		crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		wg.Wait()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = store.OpenPebble("f", store.PebbleOptions{FS: crashed, MemTableBytes: 1 << 20}); err != nil {
			t.Fatal(err)
		}
		for w, least := range want {
			v, _, _ := s.Get(fmt.Appendf(nil, "w%d", w))
			var got int64
			_, _ = fmt.Sscan(string(v), &got)
			if got < least {
				t.Errorf("seed %d: writer %d was answered for %d, the disk has %d", seed, w, least, got)
			}
		}
		s.Close()
	}
}
