package rpc

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		for range 2 {
			if !g.Enter() {
				t.Fatal("an open gate lets nobody in")
			}
		}
		left := make(chan int, 1)
		go func() { left <- g.Close(t.Context()) }()
		synctest.Wait()
		if g.Enter() {
			t.Error("a closed gate lets one in")
		}
		g.Leave()
		synctest.Wait()
		select {
		case <-left:
			t.Fatal("closed with one inside")
		default:
		}
		g.Leave()
		if n := <-left; n != 0 {
			t.Errorf("%d are left", n)
		}

		var slow Gate
		slow.Enter()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if n := slow.Close(ctx); n != 1 {
			t.Errorf("%d are left, want 1", n)
		}
		slow.Leave()

		var idle Gate
		if n := idle.Close(t.Context()); n != 0 {
			t.Errorf("%d are left of none", n)
		}
	})
	for grace, want := range map[time.Duration]time.Duration{0: maxDrain, 10 * time.Second: 5 * time.Second, time.Minute: maxDrain} {
		if got := DrainTime(grace); got != want {
			t.Errorf("a grace of %s leaves %s, want %s", grace, got, want)
		}
	}
}
