package cli

import (
	"fmt"

	"lycosa.dev/deploy/internal/progress"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

type jobExcludeCmd struct {
	jobArg
	Add    []string `placeholder:"RE" sep:"none" help:"Keep out URLs that this regular expression (RE2) matches."`
	Remove []string `placeholder:"RE" sep:"none" help:"Take this exclusion away; written as in the spec."`
	DryRun bool     `help:"Only say how many URLs it would drop or bring back."`
	adminFlags
}

// Help is shown below the flags.
func (*jobExcludeCmd) Help() string {
	return `Queued URLs that an exclusion matches end as excluded, seeds apart. Where one is
removed, what neither another nor max_depth keeps out is queued again, and what
one still does names that one. Links that were kept out before they were ever
stored come back when their pages are read again.

Examples:
  lycosa job exclude --add '/calendar/' --dry-run
  lycosa job exclude docs --remove '/calendar/'`
}

// Run implements the command.
func (c *jobExcludeCmd) Run(a *App) error {
	if len(c.Add)+len(c.Remove) == 0 {
		return usage("give --add or --remove")
	}
	return c.with(a, func(cl *client) error {
		st, err := cl.theJob(a.ctx, c.Job)
		if err != nil {
			return err
		}
		res, err := cl.ChangeExclusions(a.ctx, &gatewayv1.ChangeExclusionsRequest{Question: &schedulerv1.ChangeExclusionsRequest{
			JobId: st.GetJobId(), Add: c.Add, Remove: c.Remove, DryRun: c.DryRun,
		}})
		if err != nil {
			return err
		}
		ans := res.GetAnswer()
		if c.JSON {
			return a.protoJSON(ans)
		}
		for _, u := range ans.GetExamples() {
			fmt.Fprintf(a.Stdout, "  %s\n", progress.Sanitise(u))
		}
		would := "were"
		if c.DryRun {
			would = "would be"
		}
		_, err = fmt.Fprintf(a.Stdout, "%s: %d queued URLs %s dropped, %d queued again\n", st.GetJobId(), ans.GetDropped(), would, ans.GetRevived())
		return err
	})
}
