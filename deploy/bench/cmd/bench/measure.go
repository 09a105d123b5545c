package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lycosa.dev/deploy/bench/web"
)

// webProcess is the synthetic web while it runs.
type webProcess struct {
	cmd   *exec.Cmd
	stdin io.Closer
	addr  string
}

func startWeb(ctx context.Context, binary string, cfg web.Config) (*webProcess, error) {
	cmd := exec.CommandContext(ctx, binary, "-until-eof",
		"-hosts", strconv.Itoa(cfg.Hosts), "-pages", strconv.Itoa(cfg.Pages), "-bytes", strconv.Itoa(cfg.PageBytes),
		"-links", strconv.Itoa(cfg.Links), "-seed", strconv.FormatUint(cfg.Seed, 10))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		_ = stdin.Close()
		_ = cmd.Wait()
		return nil, fmt.Errorf("the web did not start: %w", err)
	}
	return &webProcess{cmd: cmd, stdin: stdin, addr: strings.TrimSpace(line)}, nil
}

// stop ends the web by ending its input.
func (w *webProcess) stop() {
	_ = w.stdin.Close()
	_ = w.cmd.Wait()
}

// ask gets a path of the measuring side.
func (w *webProcess) ask(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.addr+path, nil)
	if err != nil {
		return err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if into == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// Result is one measurement.
type Result struct {
	// What is loop, none or warc; Run counts from 0.
	What string `json:"what"`
	Run  int    `json:"run"`
	// Pages were served to it, by the web's count.
	Pages       int64   `json:"pages"`
	WallSeconds float64 `json:"wall_seconds"`
	// UserSeconds and SystemSeconds are the process's CPU.
	UserSeconds    float64 `json:"user_seconds"`
	SystemSeconds  float64 `json:"system_seconds"`
	PagesPerSecond float64 `json:"pages_per_second"`
	// CPUMicrosPerPage is user and system time over pages.
	CPUMicrosPerPage float64 `json:"cpu_us_per_page"`
	// BudgetMicros is design section 9's; 0 for the loop.
	BudgetMicros float64 `json:"budget_us,omitempty"`
	PeakRSSBytes int64   `json:"peak_rss_bytes"`
	// FrontierBytes and StoreBytes are what the crawl left on disk.
	FrontierBytes int64 `json:"frontier_bytes,omitempty"`
	StoreBytes    int64 `json:"store_bytes,omitempty"`
	// Web is what the web counted.
	Web web.Stats `json:"web"`
	// Wrong says what was not as it had to be; such a result does not count.
	Wrong string `json:"wrong,omitempty"`
}

// budgets are CPU microseconds a page, design section 9.
var budgets = map[string]float64{"none": 110, "warc": 235}

// measure runs one process to its end and takes the kernel's accounts of it.
func measure(ctx context.Context, o options, w *webProcess, what string, run int) (Result, error) {
	res := Result{What: what, Run: run, BudgetMicros: budgets[what]}
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	if err := w.ask(ctx, web.ResetPath, nil); err != nil {
		return res, err
	}
	dir := filepath.Join(o.dir, fmt.Sprintf("crawl-%s-%d", what, run))
	cmd, err := command(ctx, o, w, what, dir)
	if err != nil {
		return res, err
	}
	defer os.RemoveAll(dir)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	// A crawl that is cut off saves its state first.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	start := time.Now()
	runErr := cmd.Run()
	wall := time.Since(start)
	if cmd.ProcessState == nil {
		return res, runErr
	}
	if runErr != nil {
		return res, fmt.Errorf("%w\n%s", runErr, tail(output.Bytes()))
	}
	if err := w.ask(ctx, web.StatsPath, &res.Web); err != nil {
		return res, err
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return res, fmt.Errorf("no resource usage on this system")
	}
	res.Pages = res.Web.Pages
	res.WallSeconds = wall.Seconds()
	res.UserSeconds = time.Duration(usage.Utime.Nano()).Seconds()
	res.SystemSeconds = time.Duration(usage.Stime.Nano()).Seconds()
	if res.Pages > 0 {
		res.PagesPerSecond = float64(res.Pages) / res.WallSeconds
		res.CPUMicrosPerPage = (res.UserSeconds + res.SystemSeconds) * 1e6 / float64(res.Pages)
	}
	res.PeakRSSBytes = usage.Maxrss * 1024 // Linux counts in KiB
	if res.FrontierBytes, err = sizeOf(filepath.Join(dir, "frontier")); err != nil {
		return res, err
	}
	if res.StoreBytes, err = sizeOf(filepath.Join(dir, "warc")); err != nil {
		return res, err
	}
	want := int64(o.web.Hosts * o.web.Pages)
	switch {
	case res.Web.Distinct != want:
		res.Wrong = fmt.Sprintf("%d of %d pages fetched\n%s", res.Web.Distinct, want, tail(output.Bytes()))
	case res.Pages != want:
		res.Wrong = fmt.Sprintf("%d fetches of %d pages", res.Pages, want)
	}
	return res, nil
}

// command is the process to measure.
func command(ctx context.Context, o options, w *webProcess, what, dir string) (*exec.Cmd, error) {
	if what == "loop" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		return exec.CommandContext(ctx, self, "-loop", w.addr, "-hosts", strconv.Itoa(o.web.Hosts), "-pages", strconv.Itoa(o.web.Pages),
			"-concurrency", strconv.Itoa(o.concurrency)), nil
	}
	_, port, err := net.SplitHostPort(w.addr)
	if err != nil {
		return nil, err
	}
	args := []string{
		"crawl", "--dir", dir, "--store", what, "--scope", "any", "--allow-net", "127.0.0.0/8", "--resolve", "*:127.0.0.1",
		"--min-delay", "0s", "--delay-factor", "0", "--concurrency", strconv.Itoa(o.concurrency),
		"--contact", "https://lycosa.dev/bench", "--quiet",
	}
	args = append(args, strings.Fields(o.args)...)
	return exec.CommandContext(ctx, o.lycosa, append(args, web.URL(0, 0, port))...), nil
}

// sizeOf adds up the files under a folder; one that is not there has none.
func sizeOf(dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.Type().IsRegular() {
			info, err := e.Info()
			if err != nil {
				return err
			}
			sum += info.Size()
		}
		return nil
	})
	if os.IsNotExist(err) {
		return 0, nil
	}
	return sum, err
}

// tail is the end of what a process said.
func tail(b []byte) string {
	const most = 4000
	if len(b) > most {
		b = b[len(b)-most:]
	}
	return string(bytes.TrimSpace(b))
}
