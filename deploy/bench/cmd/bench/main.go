// Command bench measures Lycosa on the synthetic web: CPU a page, pages a
// second and peak memory of `lycosa crawl`, storing nothing and storing WARC,
// beside a bare net/http GET loop over the same URLs in the same run. The web,
// the loop and each crawl are processes of their own, so that the kernel's
// accounts tell them apart. It prints a table and writes the same as JSON.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"lycosa.dev/deploy/bench/web"
)

// options are the runner's flags.
type options struct {
	web         web.Config
	runs        int
	concurrency int
	out         string
	dir         string
	lycosa      string
	only        string
	limit       time.Duration
	loop        string
	args        string
}

func main() {
	var o options
	flag.IntVar(&o.web.Hosts, "hosts", web.DefaultHosts, "number of hosts")
	flag.IntVar(&o.web.Pages, "pages", web.DefaultPages, "pages of each host")
	flag.IntVar(&o.web.PageBytes, "bytes", web.DefaultPageBytes, "bytes of a page")
	flag.IntVar(&o.web.Links, "links", web.DefaultLinks, "links of a page")
	flag.Uint64Var(&o.web.Seed, "seed", 1, "chooses links and text")
	flag.IntVar(&o.runs, "runs", 1, "how often everything is measured; the table shows medians")
	flag.IntVar(&o.concurrency, "concurrency", 64, "fetches at a time, of the loop and of the crawls")
	flag.StringVar(&o.out, "out", "", "folder of the JSON result; empty: none is written")
	flag.StringVar(&o.dir, "dir", "", "folder to work in; empty: a temporary one")
	flag.StringVar(&o.lycosa, "lycosa", "", "lycosa binary; empty: built from the working tree")
	flag.StringVar(&o.only, "only", "", "measure only this: loop, none or warc")
	flag.StringVar(&o.args, "args", "", "further flags of `lycosa crawl`, separated by spaces")
	flag.DurationVar(&o.limit, "limit", 5*time.Minute, "time that one measurement may take")
	flag.StringVar(&o.loop, "loop", "", "be the bare loop against this address (used by the runner itself)")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := runAll
	if o.loop != "" {
		run = runLoop
	}
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// runAll builds what is measured, measures it and reports.
func runAll(ctx context.Context, o options) error {
	if o.dir == "" {
		dir, err := os.MkdirTemp("", "lycosa-bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.dir = dir
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	if o.lycosa == "" {
		o.lycosa = filepath.Join(o.dir, "lycosa")
		if err := build(ctx, o.lycosa, "lycosa.dev/deploy/cmd/lycosa"); err != nil {
			return err
		}
	}
	benchweb := filepath.Join(o.dir, "benchweb")
	if err := build(ctx, benchweb, "lycosa.dev/deploy/bench/cmd/benchweb"); err != nil {
		return err
	}
	w, err := startWeb(ctx, benchweb, o.web)
	if err != nil {
		return err
	}
	defer w.stop()

	rep := newReport(o)
	for run := range o.runs {
		for _, what := range []string{"loop", "none", "warc"} {
			if o.only != "" && o.only != what {
				continue
			}
			fmt.Fprintf(os.Stderr, "bench: run %d of %d: %s\n", run+1, o.runs, what)
			res, err := measure(ctx, o, w, what, run)
			if err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			rep.Results = append(rep.Results, res)
		}
	}
	rep.print(os.Stdout)
	if o.out != "" {
		path, err := rep.Write(o.out, "", rep)
		if err != nil {
			return err
		}
		fmt.Println("written to", path)
	}
	for _, r := range rep.Results {
		if r.Wrong != "" {
			return errors.New("a crawl was not exact, see above: its figures do not count")
		}
	}
	return nil
}

func build(ctx context.Context, out, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s: %w", pkg, err)
	}
	return nil
}
