package progress

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Summary is what a crawl has come to. It is the object of type "summary" of
// --json, the last line.
type Summary struct {
	Type    string `json:"type"` // "summary"
	Job     string `json:"job"`
	State   string `json:"state"`
	Reason  string `json:"reason"`
	Message string `json:"message"` // why it ended, in words
	Round   uint32 `json:"round"`
	Exit    int    `json:"exit_code"`

	Elapsed        float64 `json:"elapsed_seconds"` // time it has run, all starts together
	Pages          uint64  `json:"pages"`
	Bytes          uint64  `json:"received_bytes"`
	PagesPerSecond float64 `json:"pages_per_second"`
	Hosts          uint64  `json:"hosts"`

	StatusClasses map[string]uint64 `json:"status_classes"` // "2xx" ...
	Done          uint64            `json:"done"`
	Excluded      uint64            `json:"excluded"`
	Failed        uint64            `json:"failed"`
	Queued        uint64            `json:"queued"`
	Pending       uint64            `json:"pending"`
	FetchErrors   uint64            `json:"fetch_errors"`
	LostLeases    uint64            `json:"lost_leases"`

	Seeds        uint64 `json:"seeds"`
	SeedsFetched uint64 `json:"seeds_fetched"`

	Dir     string            `json:"dir"`
	Results map[string]string `json:"results"` // what is where: "warc", "pages", "log", "reports"
}

var classes = []string{"1xx", "2xx", "3xx", "4xx", "5xx"}

// ClassMap names the counters of status classes.
func ClassMap(counts []uint64) map[string]uint64 {
	m := map[string]uint64{}
	for i, name := range classes {
		if i+1 < len(counts) && counts[i+1] > 0 {
			m[name] = counts[i+1]
		}
	}
	return m
}

// Write writes the summary as a table for people.
func (s Summary) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("ended", "%s", Sanitise(s.Message))
	var by []string
	for _, name := range classes {
		if n := s.StatusClasses[name]; n > 0 {
			by = append(by, name+" "+Count(n))
		}
	}
	pages := Count(s.Pages)
	if len(by) > 0 {
		pages += "  (" + strings.Join(by, ", ") + ")"
	}
	row("pages", "%s", pages)
	row("bytes", "%s received", Bytes(float64(s.Bytes)))
	row("hosts", "%s", Count(s.Hosts))
	row("time", "%s, %s pages/s", Elapsed(time.Duration(s.Elapsed*float64(time.Second))), Rate(s.PagesPerSecond))
	row("URLs", "%s done, %s excluded, %s failed, %s left", Count(s.Done), Count(s.Excluded), Count(s.Failed), Count(s.Queued+s.Pending))
	if s.FetchErrors > 0 {
		row("errors", "%s fetches failed and were tried again or given up", Count(s.FetchErrors))
	}
	for _, name := range []string{"warc", "pages", "log", "reports"} {
		if where, ok := s.Results[name]; ok {
			row(name, "%s", Sanitise(where))
		}
	}
	return t.Flush()
}
