package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"lycosa.dev/internal/benchreport"
)

// targets are the answers a second that two cores must give.
var targets = map[string]float64{"cached": 20_000, "uncached": 3_000}

// Report is what one call of bench-dns found.
type Report struct {
	benchreport.Origin
	// Server that was asked: nsd or own.
	Server  string             `json:"server"`
	Names   int                `json:"names"`
	Targets map[string]float64 `json:"targets_answers_per_second"`
	Results []Result           `json:"results"`
}

// Result is one measurement.
type Result struct {
	// What is uncached or cached.
	What             string  `json:"what"`
	Run              int     `json:"run"`
	Answers          int     `json:"answers"`
	Askers           int     `json:"askers"`
	WallSeconds      float64 `json:"wall_seconds"`
	AnswersPerSecond float64 `json:"answers_per_second"`
	// CPUMicrosPerAnswer is the resolver's process alone.
	CPUMicrosPerAnswer float64 `json:"cpu_us_per_answer"`
	// ServerMicrosPerName is the server's process: two questions a name.
	ServerMicrosPerName float64 `json:"server_cpu_us_per_answer"`
	// EntryBytes is the heap that a cached name takes, its text apart.
	EntryBytes float64 `json:"entry_bytes,omitempty"`
}

func newReport(o options) *Report {
	return &Report{Origin: benchreport.Here(), Names: o.names, Targets: targets}
}

func (r *Report) median(what string, figure func(Result) float64) float64 {
	var v []float64
	for _, x := range r.Results {
		if x.What == what {
			v = append(v, figure(x))
		}
	}
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// print writes the table: medians over the runs.
func (r *Report) print(w io.Writer) {
	fmt.Fprintf(w, "%d names, server %s; %s, %d CPUs, load %s; commit %s\n", r.Names, r.Server, r.Machine.CPU, r.Machine.CPUs, r.Machine.LoadAverage, r.Commit)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "what\tanswers/s\ttarget\tof target\tCPU µs/answer\tserver's µs/answer\tbytes/entry\t")
	for _, what := range []string{"cached", "uncached"} {
		speed := r.median(what, func(x Result) float64 { return x.AnswersPerSecond })
		entry := ""
		if n := r.median(what, func(x Result) float64 { return x.EntryBytes }); n > 0 {
			entry = fmt.Sprintf("%.0f", n)
		}
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.2f\t%.1f\t%.1f\t%s\t\n", what, speed, targets[what], speed/targets[what],
			r.median(what, func(x Result) float64 { return x.CPUMicrosPerAnswer }),
			r.median(what, func(x Result) float64 { return x.ServerMicrosPerName }), entry)
	}
	_ = t.Flush()
}
