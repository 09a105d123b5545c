package main

import (
	"bytes"
	"strings"
	"testing"
)

const output = `goos: linux
BenchmarkFetch/http1/engine-2         	   50000	     30000 ns/op	        25.50 cpu-µs/op	     100 B/op	       2 allocs/op
BenchmarkFetch/http1/fasthttp-2       	   50000	     40000 ns/op	        34.00 cpu-µs/op	      50 B/op	       1 allocs/op
BenchmarkFetch/http1-tls-new-full/engine-2 	    500	   2000000 ns/op	      1500 cpu-µs/op	    9000 B/op	      90 allocs/op
BenchmarkSlowServers-2   	       1	9000000000 ns/op	     15000 B/server	        12.00 threads
PASS
`

func TestReport(t *testing.T) {
	r := &Report{}
	lines := parse(output)
	if len(lines) != 4 {
		t.Fatalf("%d lines: %v", len(lines), lines)
	}
	r.addRound(1, lines)
	r.addRound(2, parse(strings.ReplaceAll(output, "25.50 cpu", "17.00 cpu")))
	r.addSlow(lines)
	if len(r.Results) != 6 || r.Slow == nil || r.Slow.BytesPerServer != 15000 || r.Slow.Threads != 12 {
		t.Fatalf("%+v %+v", r.Results, r.Slow)
	}
	if x := r.Results[0]; x.What != "http1" || x.Client != "engine" || x.CPUMicros != 25.5 || x.WallMicros != 30 || x.Allocs != 2 || x.AllocBytes != 100 {
		t.Errorf("%+v", x)
	}
	if got := r.ratio("http1", "fasthttp"); got != (0.75+0.5)/2 {
		t.Errorf("ratio %v", got)
	}
	if r.ratio("http1", "net-http") != 0 {
		t.Error("a ratio to what was not measured")
	}
	var b bytes.Buffer
	r.print(&b)
	for _, want := range []string{"http1-tls-new-full", "0.62", "15.0 KB", "150 MB"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
}
