package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lycosa.dev/deploy/internal/progress"
	"lycosa.dev/deploy/internal/report"
	"lycosa.dev/internal/rpc"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// reporter shows progress in the way that flags and terminal ask for.
func (r *crawl) reporter() *progress.Reporter {
	mode := progress.Lines
	switch {
	case r.flags.JSON && r.flags.Quiet:
		mode = progress.QuietJSON
	case r.flags.JSON:
		mode = progress.JSON
	case r.flags.Quiet:
		mode = progress.Quiet
	case r.app.Terminal:
		mode = progress.Live
	}
	return progress.New(progress.Options{Mode: mode, Out: r.app.Stdout, Err: r.app.Stderr, Width: r.app.Width})
}

// reportsOnDemand writes the reports of the crawl that runs when it is asked to.
func (r *crawl) reportsOnDemand(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.app.Report:
		}
		if err := r.reportNow(ctx); err != nil && ctx.Err() == nil {
			r.show.Say("lycosa: reports: " + progress.Sanitise(err.Error()))
		}
	}
}

func (r *crawl) reportNow(ctx context.Context) error {
	jobs, err := r.admin.ListJobs(ctx, &gatewayv1.ListJobsRequest{})
	if err != nil {
		return err
	}
	if len(jobs.GetJobs()) == 0 {
		return errors.New("there is no job yet")
	}
	_, err = report.Write(ctx, r.layout.Reports(), jobs.GetJobs()[0], r.ring)
	return err
}

// finish tells what the crawl has come to, writes its reports from what is on
// disk, and says how the process exits. The services have stopped.
func (r *crawl) finish(ctx context.Context, end, runErr error) error {
	if errors.Is(runErr, rpc.ErrForced) && (end == nil || errors.Is(end, context.Canceled)) {
		// What is on disk is whole all the same.
		r.show.Say("lycosa: " + progress.Sanitise(runErr.Error()))
		runErr = nil
	}
	switch {
	case runErr != nil && r.last == nil:
		return runErr
	case end != nil && !errors.Is(end, context.Canceled) && !errors.Is(end, errStorageHeld):
		return errors.Join(end, runErr)
	case r.last == nil: // interrupted before it began
		return r.interrupted("interrupted")
	}
	// A second signal ends the process; the reports need not know of the first.
	totals, repErr := r.report(context.WithoutCancel(ctx))
	code, message := r.verdict(end, runErr, totals)
	sum := r.summary(totals)
	sum.Exit, sum.Message = code, message
	showErr := r.show.Summarise(sum)
	switch {
	case runErr != nil:
		return runErr
	case errors.Is(end, errStorageHeld):
		return &exitError{ExitStorage, end}
	case repErr != nil && code == ExitOK:
		return repErr
	case repErr != nil:
		r.show.Say("lycosa: " + progress.Sanitise(repErr.Error()))
	}
	switch code {
	case ExitOK:
		return showErr
	case ExitInterrupted:
		return r.interrupted(message)
	}
	return &exitError{code, errors.New(progress.Sanitise(message))}
}

// interrupted says once that the state is saved, unless the summary has.
func (r *crawl) interrupted(message string) error {
	if r.flags.Quiet || r.flags.JSON || r.last == nil {
		return &exitError{ExitInterrupted, errors.New(message)}
	}
	return silent(ExitInterrupted)
}

// report reads what is on disk: the job as it stands, and the reports.
func (r *crawl) report(ctx context.Context) (*report.Totals, error) {
	if r.idle && exists(filepath.Join(r.layout.Reports(), "summary.json")) {
		return nil, nil // nothing has changed since they were written
	}
	off, err := r.app.openOffline(r.layout.Frontier())
	if err != nil {
		return nil, fmt.Errorf("reports: %w", err)
	}
	defer off.Close()
	jobs, err := off.Jobs(ctx)
	if err != nil {
		return nil, fmt.Errorf("reports: %w", err)
	}
	for _, st := range jobs {
		if st.GetJobId() == r.last.GetJobId() {
			r.last = st
		}
	}
	totals, err := report.Write(ctx, r.layout.Reports(), r.last, off)
	if err == nil && totals.SeedsFetched == 0 && totals.FirstSeedUnfetched != "" {
		// The frontier knows more than the seed's record: its host, its robots.txt.
		if e, explainErr := off.Explain(ctx, r.last.GetJobId(), totals.FirstSeedUnfetched); explainErr == nil && e.GetReason() != "" {
			r.seedProblem = e.GetReason()
		}
	}
	return totals, err
}

// verdict is the exit code and why the crawl ended, in words.
func (r *crawl) verdict(end, runErr error, totals *report.Totals) (int, string) {
	st := r.last
	switch {
	case runErr != nil:
		err := classify(runErr)
		return rpc.ExitCode(err), "failed: " + err.Error()
	case errors.Is(end, errStorageHeld):
		return ExitStorage, end.Error()
	case r.idle:
		if totals == nil {
			totals = r.readTotals()
		}
		if noSeed(totals) {
			return ExitNoSeed, "the crawl had ended before and no seed could be fetched: " + totals.FirstSeedUnfetched + ": " + totals.FirstSeedProblem
		}
		return ExitOK, "the crawl had finished before (" + reasonText(st) + "); --recrawl starts another round"
	case st.GetState() == schedulerv1.JobState_JOB_STATE_FINISHED:
		if noSeed(totals) {
			why := totals.FirstSeedProblem
			if r.seedProblem != "" && !strings.Contains(why, r.seedProblem) {
				why += ": " + r.seedProblem
			}
			return ExitNoSeed, "no seed could be fetched: " + totals.FirstSeedUnfetched + ": " + why
		}
		return ExitOK, "finished: " + reasonText(st)
	case st.GetState() == schedulerv1.JobState_JOB_STATE_FAILED:
		return ExitFailure, "the crawl failed: " + st.GetReason()
	case errors.Is(end, context.Canceled):
		return ExitInterrupted, "interrupted; the state is saved, the same command goes on"
	}
	return ExitFailure, "the services ended before the crawl did"
}

// noSeed tells that there were seeds and none was fetched.
func noSeed(t *report.Totals) bool { return t != nil && t.Seeds > 0 && t.SeedsFetched == 0 }

// reasonText says why a job finished.
func reasonText(st *schedulerv1.JobStatus) string {
	l := st.GetSpec().GetLimits()
	switch st.GetReason() {
	case "empty":
		if n := st.GetCounters().GetQueued(); n > 0 {
			return fmt.Sprintf("everything in scope was fetched but %s URLs of retired queues%s", progress.Count(n), retiredText(st))
		}
		return "everything in scope was fetched"
	case "more-queued":
		return fmt.Sprintf("everything in scope was fetched, %s URLs were queued since", progress.Count(st.GetCounters().GetQueued()))
	case "max-pages":
		return fmt.Sprintf("the limit max-pages %d was reached", l.GetMaxPages())
	case "max-bytes":
		return fmt.Sprintf("the limit max-bytes %s was reached", progress.Bytes(float64(l.GetMaxTotalBytes())))
	case "max-duration":
		return fmt.Sprintf("the limit max-duration %s was reached", l.GetMaxDuration().AsDuration())
	case "stopped":
		return "stopped by hand"
	case "retired":
		return "only queues that were retired by hand are left"
	}
	return st.GetReason()
}

// retiredText names the first retired queue, with its reason, and how many more
// there are.
func retiredText(st *schedulerv1.JobStatus) string {
	list := st.GetRetired()
	if len(list) == 0 {
		return ""
	}
	text := fmt.Sprintf(": %s (%s)", progress.Sanitise(list[0].GetHostKey()), progress.Sanitise(list[0].GetReason()))
	if n := len(list) - 1; n > 0 {
		text += fmt.Sprintf(" and %d more, see lycosa queue list --state retired", n)
	}
	return text
}

func (r *crawl) summary(totals *report.Totals) progress.Summary {
	st, c := r.last, r.last.GetCounters()
	s := progress.Summary{
		Job: st.GetJobId(), State: progress.StateName(st.GetState()), Reason: st.GetReason(), Round: st.GetRound(),
		Elapsed: st.GetRunning().AsDuration().Seconds(),
		Pages:   c.GetPages(), Bytes: c.GetReceivedBytes(), StatusClasses: progress.ClassMap(c.GetStatusClasses()),
		Done: c.GetDone(), Excluded: c.GetExcluded(), Failed: c.GetFailed(), Queued: c.GetQueued() + c.GetLeased(),
		Pending: c.GetPending(), FetchErrors: c.GetFetchErrors(), LostLeases: c.GetLostLeases(),
		Dir: r.flags.Dir, Results: map[string]string{},
	}
	if s.Elapsed > 0 {
		s.PagesPerSecond = float64(s.Pages) / s.Elapsed
	}
	if totals == nil {
		totals = r.readTotals()
	}
	if totals != nil {
		s.Hosts, s.Seeds, s.SeedsFetched = totals.Hosts, totals.Seeds, totals.SeedsFetched
	}
	for name, path := range map[string]string{
		"warc": r.layout.WARC(), "pages": r.layout.Pages(), "log": r.layout.CrawlLog(), "reports": r.layout.Reports(),
	} {
		if exists(path) {
			s.Results[name] = path
		}
	}
	return s
}

// readTotals reads the totals of the reports that are there.
func (r *crawl) readTotals() *report.Totals {
	f, err := os.Open(filepath.Join(r.layout.Reports(), "summary.json"))
	if err != nil {
		return nil
	}
	defer f.Close()
	t, err := report.Read(f)
	if err != nil {
		return nil
	}
	return t
}
