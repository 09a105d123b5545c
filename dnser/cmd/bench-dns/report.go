package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// targets are the answers a second that two cores must give.
var targets = map[string]float64{"cached": 20_000, "uncached": 3_000}

// Report is what one call of bench-dns found.
type Report struct {
	Date    time.Time `json:"date"`
	Commit  string    `json:"commit"`
	Machine Machine   `json:"machine"`
	// Server that was asked: nsd or own.
	Server  string             `json:"server"`
	Names   int                `json:"names"`
	Targets map[string]float64 `json:"targets_answers_per_second"`
	Results []Result           `json:"results"`
}

// Machine is what the figures depend on.
type Machine struct {
	CPU      string `json:"cpu"`
	CPUs     int    `json:"cpus"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// LoadAverage is the machine's before the measurement: figures of a busy
	// machine do not compare with those of an idle one.
	LoadAverage string `json:"load_average"`
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
	r := &Report{
		Date: time.Now().UTC().Truncate(time.Second), Commit: "unknown", Names: o.names, Targets: targets,
		Machine: Machine{CPU: cpuName(), CPUs: runtime.NumCPU(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH},
	}
	if out, err := exec.Command("git", "describe", "--always", "--dirty").Output(); err == nil {
		r.Commit = strings.TrimSpace(string(out))
	}
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		r.Machine.LoadAverage = strings.TrimSpace(string(b))
	}
	return r
}

func cpuName() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return ""
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

// write puts the report into a folder and returns the file's path.
func (r *Report) write(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, r.Date.Format("20060102T150405Z")+"-dns-"+strings.TrimSuffix(r.Commit, "-dirty")+".json")
	return path, os.WriteFile(path, append(b, '\n'), 0o644)
}
