package cli

import (
	"context"
	"fmt"
	"text/tabwriter"

	"lycosa.dev/deploy/internal/progress"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

type jobWhyCmd struct {
	jobArg
	adminFlags
}

// Help is shown below the flags.
func (*jobWhyCmd) Help() string {
	return `Tells in one sentence why the job has not ended, then all that it waits for, its
queues by state, what happens next by itself and when, and the queues and leases
that hold it up.`
}

// Run implements the command.
func (c *jobWhyCmd) Run(a *App) error {
	res, err := read(&c.adminFlags, a,
		func(ctx context.Context, cl *client) (*schedulerv1.ExplainJobResponse, error) {
			st, err := cl.theJob(ctx, c.Job)
			if err != nil {
				return nil, err
			}
			res, err := cl.ExplainJob(ctx, &gatewayv1.ExplainJobRequest{Question: &schedulerv1.ExplainJobRequest{JobId: st.GetJobId()}})
			return res.GetAnswer(), err
		},
		func(ctx context.Context, o offline) (*schedulerv1.ExplainJobResponse, error) {
			jobs, err := o.Jobs(ctx)
			if err != nil {
				return nil, err
			}
			st, err := oneJob(jobs, c.Job)
			if err != nil {
				return nil, err
			}
			res, err := o.WhyJob(ctx, st.GetJobId())
			if err == nil && st.GetState() == schedulerv1.JobState_JOB_STATE_RUNNING {
				res.Reason = "nobody runs it: run the command that began it again"
			}
			return res, err
		})
	if err != nil {
		return err
	}
	if c.JSON {
		return a.protoJSON(res)
	}
	t := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, progress.Sanitise(fmt.Sprintf(format, args...)))
	}
	st := res.GetJob()
	n := st.GetCounters()
	row("job", "%s: %s", st.GetJobId(), progress.StateName(st.GetState()))
	row("why", "%s", res.GetReason())
	for _, w := range res.GetWaitsFor() {
		row("waits for", "%s", w)
	}
	row("URLs", "%d queued, %d leased, %d pending; %d done, %d excluded, %d failed",
		n.GetQueued(), n.GetLeased(), n.GetPending(), n.GetDone(), n.GetExcluded(), n.GetFailed())
	for _, q := range res.GetQueues() {
		row("queues", "%d %s", q.GetQueues(), queueState(q.GetState()))
	}
	if res.GetNextEvent() != "" {
		row("next", "%s: %s", clockTime(res.GetNextAt()), res.GetNextEvent())
	}
	for _, q := range res.GetHolding() {
		text := queueState(q.GetState()) + ": " + q.GetReason()
		if q.GetNextAt() != nil {
			text += "; until " + clockTime(q.GetNextAt())
		}
		row("queue", "%s: %s URLs; %s", q.GetHostKey(), queuedText(q), text)
	}
	for _, l := range res.GetLeases() {
		stage := "being fetched by"
		if l.GetFetched() {
			stage = "fetched, being stored, by"
		}
		row("lease", "%s %s %s; runs out %s", l.GetUrl(), stage, l.GetDownloader(), clockTime(l.GetExpiresAt()))
	}
	return t.Flush()
}
