// Command bench-frontier measures the frontier with millions of URLs, and
// beside it what naive frontiers would do: a Go map, look-ups in plain Pebble,
// a table in SQLite. It uses no network.
//
// Each measurement is a process of its own, one after the other, so that the
// memory of one is not the other's. The frontier itself is measured by the test
// binary of its package (-engine), which make bench-frontier builds.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// result is a row of the table. A figure of 0 was not measured.
type result struct {
	Store          string  `json:"store"`
	URLs           uint64  `json:"urls"`
	Hosts          uint64  `json:"hosts,omitempty"`
	NewPerSecond   float64 `json:"new_urls_per_second"`
	NewCPUMicros   float64 `json:"new_url_cpu_us,omitempty"`
	SeenPerSecond  float64 `json:"seen_checks_per_second"`
	AbsentPerSec   float64 `json:"seen_checks_of_new_per_second,omitempty"`
	LeasesPerSec   float64 `json:"leases_per_second,omitempty"`
	PageCPUMicros  float64 `json:"lease_and_commit_cpu_us,omitempty"`
	LeaseP99Millis float64 `json:"lease_call_p99_ms,omitempty"`
	LeasesPerCall  float64 `json:"leases_per_call,omitempty"`
	QueuedBytes    float64 `json:"bytes_per_queued_url"`
	DoneBytes      float64 `json:"bytes_per_done_url,omitempty"`
	SeenBytes      float64 `json:"bytes_per_seen_url,omitempty"`
	DiskBytes      int64   `json:"disk_bytes"`
	OpenSeconds    float64 `json:"open_seconds,omitempty"`
	FilterSeconds  float64 `json:"filter_filled_seconds,omitempty"`
	PeakRSSBytes   int64   `json:"peak_resident_bytes"`
	RSSBytes       int64   `json:"resident_bytes_after_open,omitempty"`
	// Note says what is to be known of the row.
	Note string `json:"note,omitempty"`
}

// run is the file that is kept.
type run struct {
	At      time.Time `json:"at"`
	Machine string    `json:"machine"`
	Rows    []result  `json:"rows"`
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench-frontier: ")
	var (
		engine   = flag.String("engine", "bin/frontier.bench", "test binary of the package scheduler/internal/frontier")
		urls     = flag.String("urls", "1000000,10000000", "numbers of URLs, by commas")
		naive    = flag.String("naive", "map,pebble,sqlite", "naive frontiers beside it, by commas; empty: none")
		naiveMax = flag.Uint64("naive-max", 10_000_000, "no naive frontier with more URLs")
		limit    = flag.Duration("naive-time", 2*time.Minute, "end the filling of a naive frontier after this time")
		out      = flag.String("out", "deploy/bench/results", "folder for the JSON")
		child    = flag.String("child", "", "measure one naive frontier and print its JSON")
	)
	flag.Parse()
	if *child != "" {
		n, err := strconv.ParseUint(*urls, 10, 64)
		if err != nil {
			log.Fatal(err)
		}
		res, err := measureNaive(*child, n, *limit)
		if err != nil {
			log.Fatal(err)
		}
		if err := json.NewEncoder(os.Stdout).Encode(res); err != nil {
			log.Fatal(err)
		}
		return
	}
	if err := runAll(*engine, *urls, *naive, *naiveMax, *limit, *out); err != nil {
		log.Fatal(err)
	}
}

func runAll(engine, urls, naive string, naiveMax uint64, limit time.Duration, out string) error {
	all := run{At: time.Now().UTC(), Machine: fmt.Sprintf("%s/%s, %d processors, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())}
	for _, text := range strings.Split(urls, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
		if err != nil {
			return fmt.Errorf("-urls %q: %w", text, err)
		}
		log.Printf("the frontier, %d URLs", n)
		res, err := measureEngine(engine, n)
		if err != nil {
			return err
		}
		all.Rows = append(all.Rows, res)
		if n > naiveMax || naive == "" {
			continue
		}
		for _, kind := range strings.Split(naive, ",") {
			log.Printf("%s, %d URLs", kind, n)
			raw, err := exec.Command(os.Args[0], "-child", kind, "-urls", strconv.FormatUint(n, 10), "-naive-time", limit.String()).Output()
			if err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			var res result
			if err := json.Unmarshal(raw, &res); err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			all.Rows = append(all.Rows, res)
		}
	}
	if err := printTable(os.Stdout, all.Rows); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	path := filepath.Join(out, "frontier-"+all.At.Format("20060102-150405")+".json")
	log.Printf("kept as %s", path)
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}

// measureEngine runs the frontier's own bench.
func measureEngine(engine string, n uint64) (result, error) {
	res := result{Store: "lycosa"}
	f, err := os.CreateTemp("", "frontier-*.json")
	if err != nil {
		return res, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	cmd := exec.Command(engine, "-test.run", "^TestScale$", "-test.timeout", "12h", "-scale.urls", strconv.FormatUint(n, 10), "-scale.json", f.Name())
	if text, err := cmd.CombinedOutput(); err != nil {
		return res, fmt.Errorf("%s: %w\n%s", engine, err, text)
	}
	raw, err := io.ReadAll(f)
	if err != nil {
		return res, err
	}
	return res, json.Unmarshal(raw, &res)
}

func printTable(w io.Writer, rows []result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "store\tURLs\tnew/s\tseen/s\tleases/s\tp99 ms\tB queued\tB done\tB seen\tpeak MiB\topen s\t")
	figure := func(v float64, format string) string {
		if v == 0 {
			return "-"
		}
		return fmt.Sprintf(format, v)
	}
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%d\t%.0f\t%.0f\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t\n", r.Store, r.URLs, r.NewPerSecond, r.SeenPerSecond,
			figure(r.LeasesPerSec, "%.0f"), figure(r.LeaseP99Millis, "%.1f"), figure(r.QueuedBytes, "%.0f"), figure(r.DoneBytes, "%.0f"),
			figure(r.SeenBytes, "%.1f"), r.PeakRSSBytes>>20, figure(r.OpenSeconds, "%.2f"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range rows {
		if r.Note != "" {
			fmt.Fprintf(w, "%s: %s\n", r.Store, r.Note)
		}
	}
	return nil
}
