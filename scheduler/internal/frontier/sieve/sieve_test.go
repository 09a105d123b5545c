package sieve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

func noPace(ctx context.Context, _ int) error { return ctx.Err() }

// A set says what a map says, whatever was added, flushed, merged, and opened
// again.
func TestSetIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs := vfs.NewMem()
		d, err := OpenDir(fs, "seen", 1<<16)
		if err != nil {
			t.Fatal(err)
		}
		s := NewSet(d, nil)
		want := map[uint64]uint8{}
		key := func() uint64 {
			// Few keys, and those at the ends of the range.
			return rapid.SampledFrom([]uint64{0, 1, 1<<64 - 1, 1 << 63, 77}).Draw(t, "base") ^ uint64(rapid.IntRange(0, 2000).Draw(t, "low"))<<rapid.SampledFrom([]int{0, 20, 50}).Draw(t, "shift")
		}
		check := func(k uint64) {
			for _, anyDepth := range []bool{false, true} {
				l := []Lookup{{Key: k}}
				if err := s.Find(l, anyDepth); err != nil {
					t.Fatal(err)
				}
				w, known := want[k]
				right := l[0].Found == known && (!known || l[0].Depth == w || anyDepth && l[0].Depth > w)
				if !right {
					t.Fatalf("key %016x: %+v (any depth: %v); want depth %d, %v", k, l[0], anyDepth, w, known)
				}
			}
		}
		checkAll := func() {
			var list []Lookup
			for k := range want {
				list = append(list, Lookup{Key: k}, Lookup{Key: k + 1})
			}
			slices.SortFunc(list, func(a, b Lookup) int { return cmp.Compare(a.Key, b.Key) })
			if err := s.Find(list, false); err != nil {
				t.Fatal(err)
			}
			for _, l := range list {
				if w, known := want[l.Key]; l.Found != known || known && l.Depth != w {
					t.Fatalf("among %d: %+v, want depth %d, %v", len(list), l, w, known)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(*rapid.T) {
				for range rapid.IntRange(1, 700).Draw(t, "n") {
					k, depth := key(), uint8(rapid.IntRange(0, 255).Draw(t, "depth"))
					// As the frontier does: what is known with no greater depth is not added.
					if old, ok := want[k]; ok && old <= depth {
						continue
					}
					s.Add(Entry{k, depth})
					want[k] = depth
				}
			},
			"flush": func(*rapid.T) {
				if s.Recent() == 0 {
					return
				}
				r, err := s.Flush()
				if err != nil {
					t.Fatal(err)
				}
				s.Flushed(r)
			},
			"merge": func(*rapid.T) {
				due := s.Due()
				if due == nil {
					return
				}
				r, err := d.Merge(context.Background(), d.Number(), due, noPace)
				if err != nil {
					t.Fatal(err)
				}
				if !s.Merged(due, r) {
					t.Fatal("the merged runs are not there")
				}
				for _, o := range due {
					if err := d.Remove(o); err != nil {
						t.Fatal(err)
					}
				}
				if s.Due() != nil && len(due) > 1 {
					t.Fatal("runs are due again after a merge")
				}
			},
			"": func(*rapid.T) {
				check(key())
				for k := range want {
					check(k)
					break
				}
				checkAll()
			},
		})
		for k := range want {
			check(k)
		}
		got := map[uint64]uint8{}
		take := func(e Entry) {
			if old, ok := got[e.Key]; !ok || e.Depth < old {
				got[e.Key] = e.Depth
			}
		}
		s.EachRecent(take)
		for _, part := range [][2]uint64{{0, 1<<62 - 1}, {1 << 62, 1<<63 - 1}, {1 << 63, 1<<64 - 1}} {
			if err := s.Each(part[0], part[1], take); err != nil {
				t.Fatal(err)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("Each and EachRecent visited %d keys, want %d", len(got), len(want))
		}
		live := map[uint64]bool{}
		var again []*Run
		for _, r := range s.Runs() {
			live[r.Number] = true
			r.Close()
			o, err := d.Open(r.Number)
			if err != nil {
				t.Fatal(err)
			}
			again = append(again, o)
		}
		if err := d.Sweep(live); err != nil {
			t.Fatal(err)
		}
		s2 := NewSet(d, again)
		for k, depth := range s.recent {
			s2.Add(Entry{k, depth})
		}
		s = s2
		for k := range want {
			check(k)
		}
	})
}

func build(t *testing.T, fs vfs.FS, n int) (*Dir, *Run) {
	t.Helper()
	d, err := OpenDir(fs, "seen", 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var list []Entry
	for range n {
		list = append(list, Entry{rng.Uint64(), uint8(rng.Uint32())})
	}
	r, err := d.Write(d.Number(), list)
	if err != nil {
		t.Fatal(err)
	}
	return d, r
}

// Every flipped byte is found by whoever reads it.
func TestDamageIsFound(t *testing.T) {
	fs := vfs.NewMem()
	d, r := build(t, fs, 2000)
	path := d.Path(r.Number)
	size := r.Bytes()
	for _, at := range []int64{0, 5, 9, 4000, 4096, 4096*3 + 100, size - footerBytes - 8, size - footerBytes, size - 20, size - 1} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			whole := readAll(t, fs, path, size)
			whole[at] ^= 0x40
			bad := vfs.NewMem()
			d, err := OpenDir(bad, "seen", 1<<16)
			if err != nil {
				t.Fatal(err)
			}
			f, err := bad.Create(d.Path(1), vfs.WriteCategoryUnspecified)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write(whole); err != nil {
				t.Fatal(err)
			}
			f.Close()
			r, err := d.Open(1)
			if err == nil {
				s := r.Scan(0)
				for _, ok := s.Next(); ok; _, ok = s.Next() {
				}
				err = s.Err()
			}
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("byte %d of %d was flipped: %v, want ErrDamaged", at, size, err)
			}
		})
	}
}

func readAll(t *testing.T, fs vfs.FS, path string, size int64) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// A merge that is cut leaves no file, and the runs as they were.
func TestMergeCutLeavesNothing(t *testing.T) {
	fs := vfs.NewMem()
	d, a := build(t, fs, 40000)
	b, err := d.Write(d.Number(), []Entry{{5, 1}})
	if err != nil {
		t.Fatal(err)
	}
	cut := errors.New("cut")
	if _, err := d.Merge(t.Context(), d.Number(), []*Run{a, b}, func(context.Context, int) error { return cut }); !errors.Is(err, cut) {
		t.Fatalf("merge: %v", err)
	}
	names, err := fs.List("seen")
	if err != nil || len(names) != 2 {
		t.Fatalf("files %v, %v", names, err)
	}
}

// Batches of known keys, as the decider asks for them, in runs of the sizes that
// merges make of a million and of ten million.
func BenchmarkFind(b *testing.B) {
	for _, sizes := range [][]int{{786_432, 131_072}, {8_126_464, 1_572_864, 262_144}} {
		b.Run(fmt.Sprint(sizes[0]), func(b *testing.B) {
			d, err := OpenDir(vfs.Default, b.TempDir(), 64<<20)
			if err != nil {
				b.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			var keys []uint64
			var runs []*Run
			size := int64(0)
			for _, n := range sizes {
				list := make([]Entry, n)
				for i := range list {
					list[i] = Entry{rng.Uint64(), 1}
					keys = append(keys, list[i].Key)
				}
				r, err := d.Write(d.Number(), list)
				if err != nil {
					b.Fatal(err)
				}
				runs, size = append(runs, r), size+r.Bytes()
			}
			s := NewSet(d, runs)
			batch := make([]Lookup, 4096)
			for b.Loop() {
				b.StopTimer()
				for i := range batch {
					batch[i].Key = keys[rng.IntN(len(keys))]
				}
				slices.SortFunc(batch, func(a, b Lookup) int { return cmp.Compare(a.Key, b.Key) })
				b.StartTimer()
				if err := s.Find(batch, true); err != nil {
					b.Fatal(err)
				}
			}
			for _, l := range batch {
				if !l.Found {
					b.Fatalf("key %016x is not found", l.Key)
				}
			}
			b.ReportMetric(float64(size)/float64(len(keys)), "bytes/key")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(batch)), "ns/key")
		})
	}
}
