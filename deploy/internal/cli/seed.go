package cli

import (
	"fmt"

	"lycosa.dev/deploy/internal/progress"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
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
			sum.Rejected = append(sum.Rejected, res.GetRejected()...)
			seeds = seeds[n:]
		}
		if c.JSON {
			return a.protoJSON(sum)
		}
		for _, r := range sum.GetRejected() {
			fmt.Fprintf(a.Stderr, "lycosa: %s: %s\n", progress.Sanitise(r.GetUrl()), progress.Sanitise(r.GetReason()))
		}
		_, err = fmt.Fprintf(a.Stdout, "%s: %d added, %d known, %d rejected\n", st.GetJobId(), sum.GetAdded(), sum.GetKnown(), len(sum.GetRejected()))
		return err
	})
}
