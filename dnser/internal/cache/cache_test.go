package cache

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

var t0 = time.Unix(1_700_000_000, 0)

func TestExpiryIsExact(t *testing.T) {
	c := New[int](10)
	c.Put("a", 1, t0.Add(time.Second))
	if v, fresh, held := c.Get("a", t0.Add(time.Second-1)); v != 1 || !fresh || !held {
		t.Errorf("just before its expiry: %v %v %v, want 1 true true", v, fresh, held)
	}
	if v, fresh, held := c.Get("a", t0.Add(time.Second)); v != 1 || fresh || !held {
		t.Errorf("at its expiry: %v %v %v, want 1 false true", v, fresh, held)
	}
	if _, fresh, held := c.Get("b", t0); fresh || held {
		t.Error("a key never put is held")
	}
}

func TestNeverMoreThanTheLimit(t *testing.T) {
	for _, limit := range []int{16, 17, 100, 1000} {
		c := New[int](limit)
		for i := range 10 * limit {
			c.Put(fmt.Sprint(i), i, t0)
		}
		if c.Len() != limit {
			t.Errorf("limit %d: holds %d", limit, c.Len())
		}
		if got := c.Evicted(); got != uint64(9*limit) {
			t.Errorf("limit %d: evicted %d, want %d", limit, got, 9*limit)
		}
	}
}

func TestLeastRecentlyUsedGoesFirst(t *testing.T) {
	s := &New[int](16 * 3).shards[0] // one shard of three
	for i, k := range []string{"a", "b", "c"} {
		s.put(k, i, t0, 0)
	}
	s.toFront(s.byKey["a"])
	s.put("d", 3, t0, 0)
	if s.byKey["b"] != nil || s.byKey["a"] == nil || s.byKey["c"] == nil {
		t.Errorf("after using a and adding d: %v, want a c d", s.byKey)
	}
}

func TestEachRestoresAges(t *testing.T) {
	c := New[int](1000)
	for i := range 100 {
		c.Put(fmt.Sprint(i), i, t0.Add(time.Hour))
	}
	c.Get("3", t0)
	d := New[int](1000)
	d.seed = c.seed
	c.Each(func(k string, v int, e time.Time) { d.Put(k, v, e) })
	var a, b []string
	c.Each(func(k string, _ int, _ time.Time) { a = append(a, k) })
	d.Each(func(k string, _ int, _ time.Time) { b = append(b, k) })
	if len(a) != 100 || fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("order of use is not kept:\n%v\n%v", a, b)
	}
}

func TestAddKeepsWhatIsThere(t *testing.T) {
	c := New[int](10)
	if !c.Add("a", 1, t0.Add(time.Hour)) || c.Add("a", 2, t0.Add(time.Hour)) {
		t.Error("Add says it stored a key that was there")
	}
	if v, _, _ := c.Get("a", t0); v != 1 {
		t.Errorf("a is %d, want 1", v)
	}
}

func TestConcurrentUse(t *testing.T) {
	c := New[int](64)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				k := fmt.Sprint((i * (g + 1)) % 200)
				if v, _, held := c.Get(k, t0); held && fmt.Sprint(v) != k {
					t.Errorf("%s holds %d", k, v)
				}
				n := (i * (g + 1)) % 200
				c.Put(k, n, t0.Add(time.Hour))
			}
		})
	}
	wg.Wait()
	if c.Len() > 64 {
		t.Errorf("holds %d, limit 64", c.Len())
	}
}

func BenchmarkGet(b *testing.B) {
	c := New[*int](100_000)
	keys := make([]string, 100_000)
	for i := range keys {
		keys[i] = fmt.Sprintf("host-%d.example.org", i)
		c.Put(keys[i], &i, t0.Add(time.Hour))
	}
	i := 0
	for b.Loop() {
		c.Get(keys[i%len(keys)], t0)
		i += 7919
	}
}
