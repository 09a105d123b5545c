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

	"lycosa.dev/deploy/bench/web"
)

// Report is what one call of bench found.
type Report struct {
	Date    time.Time  `json:"date"`
	Commit  string     `json:"commit"`
	Machine Machine    `json:"machine"`
	Web     web.Config `json:"web"`
	// Concurrency is fetches at a time.
	Concurrency int      `json:"concurrency"`
	Results     []Result `json:"results"`
}

// Machine is what the figures depend on.
type Machine struct {
	CPU         string `json:"cpu"`
	CPUs        int    `json:"cpus"`
	MemoryBytes int64  `json:"memory_bytes"`
	Kernel      string `json:"kernel"`
	Go          string `json:"go"`
	Platform    string `json:"platform"`
	// LoadAverage is the machine's before the measurement: figures of a busy
	// machine do not compare with those of an idle one.
	LoadAverage string `json:"load_average"`
}

func newReport(o options) *Report {
	return &Report{Date: time.Now().UTC().Truncate(time.Second), Commit: commit(), Machine: machine(), Web: o.web, Concurrency: o.concurrency}
}

func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func machine() Machine {
	m := Machine{CPUs: runtime.NumCPU(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	m.CPU = field("/proc/cpuinfo", "model name")
	var kib int64
	if _, err := fmt.Sscanf(field("/proc/meminfo", "MemTotal"), "%d kB", &kib); err == nil {
		m.MemoryBytes = kib << 10
	}
	m.Kernel = firstLine("/proc/sys/kernel/osrelease")
	m.LoadAverage = firstLine("/proc/loadavg")
	return m
}

// field is the value of the first "name : value" line of a file under /proc.
func field(path, name string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func firstLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}

// print writes the table: medians over the runs.
func (r *Report) print(w io.Writer) {
	fmt.Fprintf(w, "%d hosts × %d pages, %d bytes, %d links, %d at a time; %s, %d CPUs; commit %s\n",
		r.Web.Hosts, r.Web.Pages, r.Web.PageBytes, r.Web.Links, r.Concurrency, r.Machine.CPU, r.Machine.CPUs, r.Commit)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "what\tpages\twall s\tpages/s\tCPU µs/page\tbudget\tof budget\tof loop\tpeak MiB\tfrontier B/page\tstore B/page\t")
	names := map[string]string{"loop": "net/http loop", "none": "crawl, no store", "warc": "crawl, WARC"}
	loop := r.median("loop", func(x Result) float64 { return x.CPUMicrosPerPage })
	for _, what := range []string{"loop", "none", "warc"} {
		pages := r.median(what, func(x Result) float64 { return float64(x.Pages) })
		if pages == 0 {
			continue
		}
		cpu := r.median(what, func(x Result) float64 { return x.CPUMicrosPerPage })
		row := []string{
			names[what],
			fmt.Sprintf("%.0f", pages),
			fmt.Sprintf("%.2f", r.median(what, func(x Result) float64 { return x.WallSeconds })),
			fmt.Sprintf("%.0f", r.median(what, func(x Result) float64 { return x.PagesPerSecond })),
			fmt.Sprintf("%.0f", cpu), "", "", "",
			fmt.Sprintf("%.0f", r.median(what, func(x Result) float64 { return float64(x.PeakRSSBytes) / (1 << 20) })),
			"", "",
		}
		if b := budgets[what]; b > 0 {
			row[5], row[6] = fmt.Sprintf("%.0f", b), fmt.Sprintf("%.2f", cpu/b)
			row[9] = fmt.Sprintf("%.0f", r.median(what, func(x Result) float64 { return float64(x.FrontierBytes) })/pages)
			row[10] = fmt.Sprintf("%.0f", r.median(what, func(x Result) float64 { return float64(x.StoreBytes) })/pages)
		}
		if loop > 0 {
			row[7] = fmt.Sprintf("%.2f", cpu/loop)
		}
		fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
	}
	_ = t.Flush()
	for _, x := range r.Results {
		if x.Wrong != "" {
			fmt.Fprintf(w, "NOT EXACT: %s, run %d: %s\n", x.What, x.Run, x.Wrong)
		}
	}
}

// median of a figure over the runs of one kind; 0 where there is none.
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

// write puts the report into a folder and returns the file's path.
func (r *Report) write(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, r.Date.Format("20060102T150405Z")+"-"+strings.TrimSuffix(r.Commit, "-dirty")+".json")
	return path, os.WriteFile(path, append(b, '\n'), 0o644)
}
