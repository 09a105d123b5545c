package fetch

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// takeAll takes places until there is none, and counts them.
func takeAll(p *places) (n int) {
	for p.try() {
		n++
	}
	return n
}

// Whoever waits for a place gets one in turn, and nobody gets one twice.
func TestPlacesAreGivenInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(2, newPool(0, 0))
		ctx := context.Background()
		far := time.Now().Add(time.Hour)
		if n := takeAll(p); n != 2 || p.wanted() {
			t.Fatalf("%d places, of two, or somebody waits", n)
		}
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				if !p.take(ctx, far) {
					t.Error("no place")
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
			})
			synctest.Wait()
		}
		if p.waiting.Load() != 5 || !p.wanted() || p.try() {
			t.Error("a place was taken before those who wait")
		}
		for range 5 {
			p.give()
			synctest.Wait()
		}
		wg.Wait()
		for i, n := range order {
			if i != n {
				t.Fatalf("served in the order %v", order)
			}
		}
		// Who gives up keeps no place.
		if p.take(ctx, time.Now().Add(time.Second)) {
			t.Error("a place that is not there")
		}
		given, cancel := context.WithCancel(ctx)
		cancel()
		if p.take(given, far) || p.wanted() {
			t.Error("a place for somebody who has gone")
		}
		p.give()
		p.give()
		if n := takeAll(p); n != 2 {
			t.Errorf("%d places, of two", n)
		}
	})
}

// A kept connection gives its place to whoever needs one.
func TestKeptConnectionGivesItsPlace(t *testing.T) {
	pool := newPool(10, 10)
	p := newPlaces(1, pool)
	if !p.try() {
		t.Fatal("no place")
	}
	near, far := net.Pipe()
	defer far.Close()
	c := newConn(near, connKey{})
	c.places = p
	pool.put(c, time.Now().Add(time.Hour))
	if !p.take(context.Background(), time.Now().Add(time.Minute)) || pool.size() != 0 {
		t.Error("the connection was kept")
	}
	if _, err := near.Write([]byte{1}); err == nil {
		t.Error("the connection is open")
	}
}
