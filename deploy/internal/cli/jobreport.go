package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"lycosa.dev/deploy/allinone"
	"lycosa.dev/deploy/internal/report"
)

// jobReportCmd writes reports.
type jobReportCmd struct {
	jobArg
	Dir string `placeholder:"DIR" default:"crawl" help:"Folder of the crawl (default ./crawl)."`
}

// Help is shown below the flags.
func (*jobReportCmd) Help() string {
	return `Of a crawl that runs, the reports are written by its process, which is asked to
by the signal SIGUSR1; else they are counted from the folder. With one job they
are in DIR/reports, with several in DIR/reports/JOB.`
}

// reportPoll is how often a running crawl's reports are looked for.
const reportPoll = 100 * time.Millisecond

// Run implements the command.
func (c *jobReportCmd) Run(a *App) error {
	layout := allinone.Layout(c.Dir)
	if pid := allinone.Owner(layout); pid != 0 {
		return c.ask(a, layout, pid)
	}
	if !exists(layout.Frontier()) {
		return usage("%s holds no crawl; give --dir", c.Dir)
	}
	o, err := a.openOffline(layout.Frontier())
	if err != nil {
		return err
	}
	defer o.Close()
	jobs, err := o.Jobs(a.ctx)
	if err != nil {
		return err
	}
	st, err := oneJob(jobs, c.Job)
	if err != nil {
		return err
	}
	dir := reportDir(layout, st.GetJobId(), len(jobs))
	if _, err := report.Write(a.ctx, dir, st, o); err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.Stdout, dir)
	return err
}

// reportDir is where a job's reports are.
func reportDir(l allinone.Layout, job string, jobs int) string {
	if jobs > 1 {
		return filepath.Join(l.Reports(), job)
	}
	return l.Reports()
}

// ask has a running process write its reports, and waits until it has.
func (c *jobReportCmd) ask(a *App, layout allinone.Layout, pid int) error {
	name := filepath.Join(layout.Reports(), "summary.json")
	if c.Job != "" && exists(filepath.Join(layout.Reports(), c.Job)) {
		name = filepath.Join(layout.Reports(), c.Job, "summary.json")
	}
	before, _ := os.Stat(name)
	if err := askForReports(pid); err != nil {
		return fmt.Errorf("ask process %d, which runs the crawl in %s, for reports: %w", pid, c.Dir, err)
	}
	for {
		after, err := os.Stat(name)
		if err == nil && (before == nil || !os.SameFile(before, after)) {
			_, err = fmt.Fprintln(a.Stdout, filepath.Dir(name))
			return err
		}
		if err := sleep(a.ctx, reportPoll); err != nil {
			return silent(ExitInterrupted)
		}
		if allinone.Owner(layout) != pid {
			return fmt.Errorf("the process that runs the crawl in %s has ended before it wrote reports; try again", c.Dir)
		}
	}
}
