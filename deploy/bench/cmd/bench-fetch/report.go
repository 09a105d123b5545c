package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"lycosa.dev/internal/benchreport"
)

// Report is what one call of bench-fetch found.
type Report struct {
	benchreport.Origin
	Results []Result `json:"results"`
	// Slow is nil where it was not measured.
	Slow *Slow `json:"slow_servers,omitempty"`
}

// Result is one client's fetches in one round.
type Result struct {
	// What is how the page came: "http1", "http1-tls", "http2",
	// "http1-tls-new-resumed", "http1-tls-new-full".
	What string `json:"what"`
	// Client is engine, net-http or fasthttp.
	Client string `json:"client"`
	Round  int    `json:"round"`
	// CPUMicros is the client's processor time a fetch, WallMicros its length.
	CPUMicros  float64 `json:"cpu_us_per_fetch"`
	WallMicros float64 `json:"wall_us_per_fetch"`
	Allocs     float64 `json:"allocations_per_fetch"`
	AllocBytes float64 `json:"allocated_bytes_per_fetch"`
}

// Slow is what servers that are connected and do not answer cost.
type Slow struct {
	Servers        int     `json:"servers"`
	BytesPerServer float64 `json:"resident_bytes_per_server"`
	Threads        float64 `json:"threads"`
}

// slowServers is how many BenchmarkSlowServers opens.
const slowServers = 10000

// line is one benchmark's result: its name without "Benchmark" and the number of
// processors, and its figures by unit.
type line struct {
	name    string
	figures map[string]float64
}

// parse reads the output of a test binary.
func parse(out string) []line {
	var lines []line
	for text := range strings.Lines(out) {
		f := strings.Fields(text)
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		l := line{name: strings.TrimPrefix(f[0], "Benchmark"), figures: map[string]float64{}}
		if i := strings.LastIndexByte(l.name, '-'); i >= 0 && strings.Trim(l.name[i+1:], "0123456789") == "" {
			l.name = l.name[:i]
		}
		for i := 2; i+1 < len(f); i += 2 {
			if v, err := strconv.ParseFloat(f[i], 64); err == nil {
				l.figures[f[i+1]] = v
			}
		}
		lines = append(lines, l)
	}
	return lines
}

func (r *Report) addRound(round int, lines []line) {
	for _, l := range lines {
		part := strings.Split(l.name, "/")
		if len(part) != 3 || part[0] != "Fetch" {
			continue
		}
		r.Results = append(r.Results, Result{
			What: part[1], Client: part[2], Round: round, CPUMicros: l.figures["cpu-µs/op"], WallMicros: l.figures["ns/op"] / 1000,
			Allocs: l.figures["allocs/op"], AllocBytes: l.figures["B/op"],
		})
	}
}

func (r *Report) addSlow(lines []line) {
	for _, l := range lines {
		if l.name == "SlowServers" {
			r.Slow = &Slow{Servers: slowServers, BytesPerServer: l.figures["B/server"], Threads: l.figures["threads"]}
		}
	}
}

// median of a figure of one client; 0 where it was not measured.
func (r *Report) median(what, client string, figure func(Result) float64) float64 {
	var v []float64
	for _, x := range r.Results {
		if x.What == what && x.Client == client {
			v = append(v, figure(x))
		}
	}
	return middle(v)
}

// ratio is the median over the rounds of the engine's processor time over a
// client's in the same round.
func (r *Report) ratio(what, client string) float64 {
	engine := map[int]float64{}
	for _, x := range r.Results {
		if x.What == what && x.Client == "engine" {
			engine[x.Round] = x.CPUMicros
		}
	}
	var v []float64
	for _, x := range r.Results {
		if x.What == what && x.Client == client && x.CPUMicros > 0 && engine[x.Round] > 0 {
			v = append(v, engine[x.Round]/x.CPUMicros)
		}
	}
	return middle(v)
}

func middle(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// print writes the tables.
func (r *Report) print(w io.Writer) {
	fmt.Fprintf(w, "a page of 20 KB; %s, %d CPUs, load %s; commit %s\n", r.Machine.CPU, r.Machine.CPUs, r.Machine.LoadAverage, r.Commit)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "what\tclient\tCPU µs/fetch\tengine/client\twall µs\tallocations\tbytes\t")
	seen := map[string]bool{}
	for _, x := range r.Results {
		if seen[x.What+x.Client] {
			continue
		}
		seen[x.What+x.Client] = true
		of := ""
		if x.Client != "engine" {
			of = fmt.Sprintf("%.2f", r.ratio(x.What, x.Client))
		}
		fmt.Fprintf(t, "%s\t%s\t%.1f\t%s\t%.0f\t%.0f\t%.0f\t\n", x.What, x.Client,
			r.median(x.What, x.Client, func(x Result) float64 { return x.CPUMicros }), of,
			r.median(x.What, x.Client, func(x Result) float64 { return x.WallMicros }),
			r.median(x.What, x.Client, func(x Result) float64 { return x.Allocs }),
			r.median(x.What, x.Client, func(x Result) float64 { return x.AllocBytes }))
	}
	_ = t.Flush()
	if s := r.Slow; s != nil {
		fmt.Fprintf(w, "\n%d servers open at once that do not answer: %.1f KB of resident memory each, %.0f MB in all, %.0f threads\n",
			s.Servers, s.BytesPerServer/1000, s.BytesPerServer*float64(s.Servers)/1e6, s.Threads)
	}
}
