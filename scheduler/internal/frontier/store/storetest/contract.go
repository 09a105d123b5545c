// Package storetest is the contract of the frontier's store as tests: every
// implementation of store.Store passes it.
package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// Opener makes an empty store, and a function that closes it and opens it
// again with what it held.
type Opener func(t testing.TB) (s store.Store, reopen func(store.Store) store.Store)

// Run runs the contract.
func Run(t *testing.T, open Opener) {
	t.Run("absent", func(t *testing.T) {
		s, _ := open(t)
		defer s.Close()
		if v, ok, err := s.Get([]byte("k")); ok || err != nil {
			t.Fatalf("Get of an empty store: %q, %v, %v", v, ok, err)
		}
	})
	t.Run("batch is applied in its own order", func(t *testing.T) {
		s, _ := open(t)
		defer s.Close()
		var b store.Batch
		b.Set([]byte("a"), []byte("1"))
		b.Delete([]byte("a"))
		b.Set([]byte("b"), nil)
		b.Set([]byte("c"), []byte("3"))
		b.DeleteRange([]byte("c"), []byte("d"))
		b.Set([]byte("c"), []byte("4"))
		apply(t, s, &b, true)
		want(t, s, [][2]string{{"b", ""}, {"c", "4"}})
	})
	t.Run("large batches too", func(t *testing.T) {
		for _, ranges := range []bool{false, true} {
			s, _ := open(t)
			large(t, s, ranges)
			s.Close()
		}
	})
	t.Run("values are copies", func(t *testing.T) {
		s, _ := open(t)
		defer s.Close()
		var b store.Batch
		value := []byte("before")
		b.Set([]byte("k"), value)
		copy(value, "after!")
		apply(t, s, &b, true)
		b.Reset()
		b.Set([]byte("x"), []byte("overwrites the batch's memory"))
		got, _, _ := s.Get([]byte("k"))
		if string(got) != "before" {
			t.Fatalf("value %q", got)
		}
		got[0] = 'X'
		if again, _, _ := s.Get([]byte("k")); string(again) != "before" {
			t.Fatalf("a caller's change reached the store: %q", again)
		}
	})
	t.Run("scan bounds and stop", func(t *testing.T) {
		s, _ := open(t)
		defer s.Close()
		var b store.Batch
		for _, k := range []string{"b", "a\x00", "a", "c", "a\xff\xff", "\xff"} {
			b.Set([]byte(k), []byte(k))
		}
		apply(t, s, &b, false)
		var got []string
		if err := s.Scan([]byte("a"), []byte("c"), func(k, v []byte) bool {
			got = append(got, string(k))
			return string(k) != "a\xff\xff"
		}); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprintf("%q", got) != `["a" "a\x00" "a\xff\xff"]` {
			t.Fatalf("scan saw %q", got)
		}
	})
	t.Run("closed", func(t *testing.T) {
		s, _ := open(t)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Get([]byte("k")); !errors.Is(err, store.ErrClosed) {
			t.Errorf("Get: %v", err)
		}
		if _, err := s.Apply(&store.Batch{}, true); !errors.Is(err, store.ErrClosed) {
			t.Errorf("Apply: %v", err)
		}
		if err := s.Scan(nil, nil, func(k, v []byte) bool { return true }); !errors.Is(err, store.ErrClosed) {
			t.Errorf("Scan: %v", err)
		}
	})
	t.Run("reopen keeps all", func(t *testing.T) {
		s, reopen := open(t)
		var b store.Batch
		b.Set([]byte("durable"), []byte("1"))
		apply(t, s, &b, true)
		b.Reset()
		b.Set([]byte("not awaited"), []byte("2"))
		apply(t, s, &b, false)
		s = reopen(s)
		defer s.Close()
		want(t, s, [][2]string{{"durable", "1"}, {"not awaited", "2"}})
	})
	t.Run("concurrent batches are whole", func(t *testing.T) { concurrent(t, open) })
	t.Run("model", func(t *testing.T) { rapid.Check(t, func(rt *rapid.T) { model(t, rt, open) }) })
}

// concurrent lets writers race; each batch sets all keys to one value.
func concurrent(t *testing.T, open Opener) {
	s, _ := open(t)
	defer s.Close()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 25 {
				var b store.Batch
				for k := range 5 {
					b.Set([]byte{byte(k)}, fmt.Appendf(nil, "%d-%d", w, i))
				}
				apply(t, s, &b, true)
			}
		})
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			seen := map[string]bool{}
			_ = s.Scan(nil, nil, func(k, v []byte) bool { seen[string(v)] = true; return true })
			if len(seen) > 1 {
				t.Errorf("a scan saw parts of batches: %v", seen)
				return
			}
		}
	})
	wg.Wait()
	close(stop)
	readers.Wait()
}

// large applies batches of a thousand changes of few keys.
func large(t *testing.T, s store.Store, ranges bool) {
	rng := rand.New(rand.NewPCG(1, 2))
	m := map[string]string{}
	for round := range 5 {
		var b store.Batch
		for i := range 1000 {
			k := fmt.Sprintf("%.*s%d", rng.IntN(10), "somewhere", rng.IntN(20))
			switch {
			case rng.IntN(4) == 0:
				b.Delete([]byte(k))
				delete(m, k)
			case ranges && i%100 == 50:
				b.DeleteRange([]byte("so"), []byte("som"))
				maps.DeleteFunc(m, func(k, _ string) bool { return k >= "so" && k < "som" })
			default:
				m[k] = fmt.Sprint(round, i)
				b.Set([]byte(k), []byte(m[k]))
			}
		}
		apply(t, s, &b, round%2 == 0)
		var rows [][2]string
		for _, k := range slices.Sorted(maps.Keys(m)) {
			rows = append(rows, [2]string{k, m[k]})
		}
		want(t, s, rows)
	}
}

// model compares random batches and reopenings with a map.
func model(t *testing.T, rt *rapid.T, open Opener) {
	s, reopen := open(t)
	defer func() { s.Close() }()
	m := map[string]string{}
	key := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 0xff}), 1, 3)
	rt.Repeat(map[string]func(*rapid.T){
		"apply": func(rt *rapid.T) {
			var b store.Batch
			for range rapid.IntRange(0, 5).Draw(rt, "ops") {
				k := key.Draw(rt, "key")
				switch rapid.IntRange(0, 5).Draw(rt, "op") {
				case 0:
					b.Delete(k)
					delete(m, string(k))
				case 1:
					to := key.Draw(rt, "to")
					if bytes.Compare(k, to) >= 0 {
						continue
					}
					b.DeleteRange(k, to)
					for x := range m {
						if x >= string(k) && x < string(to) {
							delete(m, x)
						}
					}
				default:
					v := rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(rt, "value")
					b.Set(k, v)
					m[string(k)] = string(v)
				}
			}
			apply(t, s, &b, rapid.Bool().Draw(rt, "durable"))
		},
		"reopen": func(rt *rapid.T) { s = reopen(s) },
		"": func(rt *rapid.T) {
			var rows [][2]string
			for k, v := range m {
				rows = append(rows, [2]string{k, v})
			}
			sort.Slice(rows, func(i, j int) bool { return rows[i][0] < rows[j][0] })
			want(t, s, rows)
		},
	})
}

func apply(t testing.TB, s store.Store, b *store.Batch, durable bool) {
	t.Helper()
	p, err := s.Apply(b, durable)
	if err != nil {
		t.Error(err)
		return
	}
	if durable {
		if err := p.Wait(); err != nil {
			t.Error(err)
		}
	}
}

func want(t testing.TB, s store.Store, rows [][2]string) {
	t.Helper()
	var got [][2]string
	if err := s.Scan(nil, nil, func(k, v []byte) bool {
		got = append(got, [2]string{string(k), string(v)})
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", rows) {
		t.Fatalf("store holds %q, want %q", got, rows)
	}
	for _, r := range rows {
		if v, ok, err := s.Get([]byte(r[0])); err != nil || !ok || string(v) != r[1] {
			t.Fatalf("Get(%q) = %q, %v, %v; want %q", r[0], v, ok, err, r[1])
		}
	}
}
