package seen_test

import (
	"fmt"
	"sync"
	"testing"

	"lycosa.dev/extractor/internal/seen"
)

func TestCache(t *testing.T) {
	c := seen.New(1 << 16)
	g := seen.Generation("job", 1, 1)
	k := c.Key(g, "http://a.test/x")
	if c.Knows(k, 3) {
		t.Fatal("an empty cache knows a link")
	}
	c.Add(k, 3)
	for depth, want := range map[uint32]bool{2: false, 3: true, 4: true, 254: true, 255: false, 300: false} {
		if got := c.Knows(k, depth); got != want {
			t.Errorf("depth %d: %v", depth, got)
		}
	}
	c.Add(k, 9)
	if !c.Knows(k, 3) {
		t.Error("a greater depth made the cache forget the smaller one")
	}
	c.Add(k, 1)
	if !c.Knows(k, 1) {
		t.Error("a smaller depth is not remembered")
	}
	// Whatever an acknowledgement depends on makes another key.
	for _, other := range []uint64{seen.Generation("jobb", 1, 1), seen.Generation("job", 2, 1), seen.Generation("job", 1, 2)} {
		if c.Knows(c.Key(other, "http://a.test/x"), 200) {
			t.Errorf("generation %x knows the link of %x", other, g)
		}
	}
}

// The cache may forget; it must never know what was not added.
func TestCacheNeverInvents(t *testing.T) {
	c := seen.New(1024)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 20_000 {
				url := fmt.Sprintf("http://h%d.test/%d", w, i)
				k := c.Key(0, url)
				if c.Knows(k, 0) {
					t.Errorf("%s is known before it was added", url)
					return
				}
				c.Add(k, 0)
				if w == 0 && i%1000 == 0 && !c.Knows(k, 0) && i < 1000 {
					t.Errorf("%s is forgotten at once", url)
				}
			}
		})
	}
	wg.Wait()
}

// A cache that grows keeps what it holds, and stays within its bound.
func TestCacheGrows(t *testing.T) {
	c := seen.New(1 << 16)
	url := func(i int) uint64 { return c.Key(0, fmt.Sprintf("http://a.test/%d", i)) }
	const n = 20_000
	for i := range n {
		c.Add(url(i), uint32(i%200))
	}
	known := 0
	for i := range n {
		if c.Knows(url(i), uint32(i%200)) {
			known++
		}
		if i%200 > 0 && c.Knows(url(i), uint32(i%200)-1) {
			t.Fatalf("link %d is known with a smaller depth than it was added with", i)
		}
	}
	// It started with 8192 entries: without growing it could not hold half.
	if known < n*8/10 {
		t.Errorf("%d of %d links are known", known, n)
	}
	small := seen.New(1 << 12)
	for i := range 1 << 16 {
		small.Add(small.Key(0, fmt.Sprint(i)), 0)
	}
	known = 0
	for i := range 1 << 16 {
		if small.Knows(small.Key(0, fmt.Sprint(i)), 0) {
			known++
		}
	}
	if known > 1<<12 || known < 1<<11 {
		t.Errorf("a cache of %d entries knows %d links", 1<<12, known)
	}
}

func BenchmarkCache(b *testing.B) {
	c := seen.New(1 << 20)
	urls := make([]string, 4096)
	for i := range urls {
		urls[i] = fmt.Sprintf("http://h.test/some/path/%d.html", i)
	}
	for i := 0; b.Loop(); i++ {
		k := c.Key(1, urls[i%len(urls)])
		if !c.Knows(k, 1) {
			c.Add(k, 1)
		}
	}
}
