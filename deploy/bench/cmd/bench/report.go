package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"lycosa.dev/deploy/bench/web"
	"lycosa.dev/internal/benchreport"
)

// Report is what one call of bench found.
type Report struct {
	benchreport.Origin
	Web web.Config `json:"web"`
	// Concurrency is fetches at a time.
	Concurrency int      `json:"concurrency"`
	Results     []Result `json:"results"`
}

func newReport(o options) *Report {
	return &Report{Origin: benchreport.Here(), Web: o.web, Concurrency: o.concurrency}
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
