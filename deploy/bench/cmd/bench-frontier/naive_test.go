package main

import (
	"testing"
	"time"
)

// Each naive frontier knows what was added, and says how much it takes.
func TestNaive(t *testing.T) {
	for _, kind := range []string{"map", "pebble", "sqlite"} {
		res, err := measureNaive(kind, 20_000, time.Minute)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if res.NewPerSecond <= 0 || res.SeenPerSecond <= 0 || (kind == "map") != (res.DiskBytes == 0) {
			t.Errorf("%s: %+v", kind, res)
		}
	}
}
