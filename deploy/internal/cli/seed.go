package cli

import (
	"fmt"

	"lycosa.dev/deploy/internal/progress"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// seedCmd are the commands about seeds.
type seedCmd struct {
	Add seedAddCmd `cmd:"" help:"Add seeds to a job."`
}

type seedAddCmd struct {
	URL   []string `arg:"" optional:"" name:"url" help:"Absolute URLs."`
	Seeds []string `placeholder:"FILE|-" sep:"none" help:"Read seeds from a file, one a line; - is standard input."`
	Job   string   `placeholder:"ID" help:"The job; may be left out where there is one."`
	adminFlags
}

// Help is shown below the flags.
func (*seedAddCmd) Help() string {
	return `A seed that the job knows is queued again if it had failed, or if its host was
not allowed, did not resolve or had no readable robots.txt.`
}

// seedBatch is how many seeds go into one request.
const seedBatch = 10000

// Run implements the command.
func (c *seedAddCmd) Run(a *App) error {
	flags := crawlFlags{URL: c.URL, Seeds: c.Seeds}
	seeds, err := flags.readSeeds(a.Stdin)
	if err != nil {
		return usage("%w", err)
	}
	if len(seeds) == 0 {
		return usage("no seed: give URLs or --seeds FILE")
	}
	return c.with(a, func(cl *client) error {
		st, err := cl.theJob(a.ctx, c.Job)
		if err != nil {
			return err
		}
		sum := &gatewayv1.AddSeedsResponse{}
		for len(seeds) > 0 {
			n := min(len(seeds), seedBatch)
			res, err := cl.AddSeeds(a.ctx, &gatewayv1.AddSeedsRequest{JobId: st.GetJobId(), Urls: seeds[:n]})
			if err != nil {
				return err
			}
			sum.Added += res.GetAdded()
			sum.Known += res.GetKnown()
			sum.QueuedAgain += res.GetQueuedAgain()
			sum.Rejected = append(sum.Rejected, res.GetRejected()...)
			seeds = seeds[n:]
		}
		if c.JSON {
			return a.protoJSON(sum)
		}
		for _, r := range sum.GetRejected() {
			fmt.Fprintf(a.Stderr, "lycosa: %s: %s\n", progress.Sanitise(r.GetUrl()), progress.Sanitise(r.GetReason()))
		}
		known := fmt.Sprintf("%d known", sum.GetKnown())
		if n := sum.GetQueuedAgain(); n > 0 {
			known += fmt.Sprintf(" (%d of them tried in vain before, queued again)", n)
		}
		_, err = fmt.Fprintf(a.Stdout, "%s: %d added, %s, %d rejected\n", st.GetJobId(), sum.GetAdded(), known, len(sum.GetRejected()))
		if st.GetState() == schedulerv1.JobState_JOB_STATE_FINISHED && sum.GetAdded()+sum.GetQueuedAgain() > 0 {
			fmt.Fprintf(a.Stderr, "lycosa: the job has finished: lycosa job start %s fetches them\n", st.GetJobId())
		}
		return err
	})
}
