package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"text/tabwriter"
	"time"

	"lycosa.dev/deploy/allinone"
	"lycosa.dev/deploy/internal/progress"
)

// doctorCmd looks for what a machine lacks.
type doctorCmd struct {
	Dir  string `placeholder:"DIR" default:"crawl" help:"Folder that a crawl would use (default ./crawl)."`
	Host string `placeholder:"HOST" default:"example.org" help:"Host to look up in the DNS (default example.org)."`
}

// Help is shown below the flags.
func (*doctorCmd) Help() string {
	return `Exit code 0: nothing stands in the way of a crawl; 1: something does. What is only
worth knowing is marked "note".`
}

// finding is what one check has found.
type finding struct {
	what  string
	grade string // "ok", "note", "bad"
	text  string
}

// What a crawl wants at least.
const (
	wantFiles  = 4096    // open files: 128 fetches, kept connections, the store
	wantBytes  = 5 << 30 // free on disk
	leastBytes = 100 << 20
	wantMemory = 1 << 30
)

// Run implements the command.
func (c *doctorCmd) Run(a *App) error {
	findings := []finding{
		checkFiles(), c.checkFolder(), c.checkSpace(), c.checkDNS(a.ctx), checkClock(time.Now()), checkMemory(),
		{"processors", "ok", fmt.Sprintf("%d used of %d", runtime.GOMAXPROCS(0), runtime.NumCPU())},
	}
	findings = append(findings, checkPorts()...)
	t := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	bad := 0
	for _, f := range findings {
		fmt.Fprintf(t, "%s\t%s\t%s\n", f.grade, f.what, progress.Sanitise(f.text))
		if f.grade == "bad" {
			bad++
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if bad > 0 {
		return silent(ExitFailure)
	}
	return nil
}

func checkFiles() finding {
	soft, hard, err := fileLimit()
	switch {
	case err != nil:
		return finding{"open files", "note", err.Error()}
	case hard < 256:
		return finding{"open files", "bad", fmt.Sprintf("at most %d: raise the limit (ulimit -n %d)", hard, wantFiles)}
	case soft < wantFiles && hard < wantFiles:
		return finding{"open files", "note", fmt.Sprintf("at most %d; for more than %d fetches at a time raise the limit (ulimit -n %d)", hard, hard/8, wantFiles)}
	}
	// The Go runtime raises the soft limit to the hard one by itself.
	return finding{"open files", "ok", fmt.Sprintf("at most %d", max(soft, hard))}
}

// checkFolder tries to write where the crawl would, or in the closest folder
// above that exists.
func (c *doctorCmd) checkFolder() finding {
	dir := existing(c.Dir)
	f, err := os.CreateTemp(dir, ".lycosa-doctor-*")
	if err != nil {
		return finding{"folder", "bad", fmt.Sprintf("cannot write: %v", err)}
	}
	defer os.Remove(f.Name())
	defer f.Close()
	start := time.Now()
	if _, err := f.Write(make([]byte, 4096)); err == nil {
		err = f.Sync()
		if err != nil {
			return finding{"folder", "bad", fmt.Sprintf("cannot sync: %v", err)}
		}
	}
	took := time.Since(start)
	if allinone.SocketPath(allinone.Layout(c.Dir)) == "" {
		return finding{"folder", "note", "its path is too long for a socket in it: other commands cannot reach a running crawl"}
	}
	return finding{"folder", "ok", fmt.Sprintf("%s can be written; a sync takes %s", dir, took.Round(10*time.Microsecond))}
}

// existing is the closest folder at or above dir that exists.
func existing(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	for !exists(dir) && filepath.Dir(dir) != dir {
		dir = filepath.Dir(dir)
	}
	return dir
}

func (c *doctorCmd) checkSpace() finding {
	free, err := freeBytes(existing(c.Dir))
	text := progress.Bytes(float64(free)) + " free"
	switch {
	case err != nil:
		return finding{"disk", "note", err.Error()}
	case free < leastBytes:
		return finding{"disk", "bad", text + ": a crawl would stop at once"}
	case free < wantBytes:
		return finding{"disk", "note", text + "; some 6 kB a page are stored, more with large files"}
	}
	return finding{"disk", "ok", text}
}

func (c *doctorCmd) checkDNS(ctx context.Context) finding {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	start := time.Now()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", c.Host)
	if err == nil {
		return finding{"DNS", "ok", fmt.Sprintf("%s is %s (%s)", c.Host, addrs[0], time.Since(start).Round(time.Millisecond))}
	}
	if dnsErr, ok := errors.AsType[*net.DNSError](err); ok && dnsErr.IsNotFound {
		return finding{"DNS", "note", fmt.Sprintf("answers, but knows no %s", c.Host)}
	}
	return finding{"DNS", "bad", fmt.Sprintf("no answer for %s: %v; give servers with --dns, or addresses with --resolve", c.Host, err)}
}

// built is a time before which no clock can be right: this code is younger.
var built = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func checkClock(now time.Time) finding {
	if now.Before(built) {
		return finding{"clock", "bad", fmt.Sprintf("says %s; certificates would not verify and WARC dates would be wrong: set it", now.UTC().Format(time.RFC3339))}
	}
	return finding{"clock", "ok", now.UTC().Format(time.RFC3339)}
}

func checkMemory() finding {
	total, err := memoryBytes()
	switch {
	case err != nil:
		return finding{"memory", "note", err.Error()}
	case total < wantMemory:
		return finding{"memory", "note", progress.Bytes(float64(total)) + "; a large crawl wants 1 GB: lower --concurrency"}
	}
	return finding{"memory", "ok", progress.Bytes(float64(total))}
}

// checkPorts looks at the default ports; `lycosa crawl` needs none of them.
func checkPorts() []finding {
	var list []finding
	for i, name := range []string{"gateway", "scheduler", "downloader", "extractor", "dnser"} {
		for _, port := range []int{7070 + i, 9070 + i} {
			addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
			lis, err := net.Listen("tcp", addr)
			if err != nil {
				list = append(list, finding{"port " + strconv.Itoa(port), "note", fmt.Sprintf("in use; the %s's default (%v)", name, err)})
				continue
			}
			_ = lis.Close()
		}
	}
	if list == nil {
		list = []finding{{"ports", "ok", "7070-7074 and 9070-9074 are free"}}
	}
	return list
}
