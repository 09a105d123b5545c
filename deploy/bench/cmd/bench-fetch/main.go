// Command bench-fetch says what a fetch costs: processor time of the client for
// a page of 20 KB over kept connections and over new ones, HTTP/1.1, HTTP/2 and
// TLS with and without resumption, for the downloader's engine and for bare
// net/http and fasthttp loops; and the memory of 10,000 servers that are open
// and do not answer.
//
// The benchmarks are those of the package downloader/internal/fetch, run by its
// test binary (-engine), which make bench-fetch builds; their server is a
// process of its own. Every round measures all of them, one shortly after the
// other, so that ratios within a round mean something on a busy machine; the
// table shows medians over the rounds.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"lycosa.dev/internal/benchreport"
)

type options struct {
	engine string
	rounds int
	time   time.Duration
	slow   bool
	out    string
}

func main() {
	var o options
	flag.StringVar(&o.engine, "engine", "bin/fetch.bench", "test binary of the package downloader/internal/fetch")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds; the table shows medians")
	flag.DurationVar(&o.time, "time", time.Second, "length of one measurement")
	flag.BoolVar(&o.slow, "slow", true, "measure the memory of 10,000 slow servers too")
	flag.StringVar(&o.out, "out", "", "folder for the report; empty: none is written")
	flag.Parse()
	if err := run(o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench-fetch:", err)
		os.Exit(1)
	}
}

func run(o options, w io.Writer) error {
	if o.rounds < 1 || o.time <= 0 {
		return errors.New("-rounds must be at least 1, -time positive")
	}
	engine, err := filepath.Abs(o.engine)
	if err != nil {
		return err
	}
	r := &Report{Origin: benchreport.Here()}
	for round := range o.rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, o.rounds)
		lines, err := bench(engine, "^BenchmarkFetch$", o.time.String())
		if err != nil {
			return err
		}
		r.addRound(round+1, lines)
	}
	if o.slow {
		fmt.Fprintln(os.Stderr, "slow servers")
		lines, err := bench(engine, "^BenchmarkSlowServers$", "1x")
		if err != nil {
			return err
		}
		r.addSlow(lines)
	}
	if len(r.Results) == 0 {
		return fmt.Errorf("%s has no BenchmarkFetch: build it from downloader/internal/fetch", o.engine)
	}
	r.print(w)
	if o.out == "" {
		return nil
	}
	path, err := r.Write(o.out, "fetch", r)
	if err == nil {
		fmt.Fprintln(w, path)
	}
	return err
}

// bench runs benchmarks and returns the lines of their results.
func bench(engine, pattern, length string) ([]line, error) {
	cmd := exec.Command(engine, "-test.run=^$", "-test.bench="+pattern, "-test.benchtime="+length, "-test.timeout=10m")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", engine, err, out)
	}
	return parse(string(out)), nil
}
