package cli

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"lycosa.dev/deploy/internal/progress"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// queueArg names a queue.
type queueArg struct {
	Host string `arg:"" help:"Host key of the queue (example.org, example.org:8080), or a URL of the host."`
	Job  string `placeholder:"ID" help:"The job; may be left out where there is one."`
}

type queueShowCmd struct {
	queueArg
	adminFlags
}

// Help is shown below the flags.
func (*queueShowCmd) Help() string {
	return `Shows where the queue stands, every clock that it is under with its time (delay,
back-off, addresses, robots.txt, the clocks of its addresses, domain and groups,
slot, decisions by hand), and the URLs that come next.`
}

// Run implements the command.
func (c *queueShowCmd) Run(a *App) error {
	res, err := read(&c.adminFlags, a,
		func(ctx context.Context, cl *client) (*schedulerv1.ShowQueueResponse, error) {
			st, err := cl.theJob(ctx, c.Job)
			if err != nil {
				return nil, err
			}
			res, err := cl.ShowQueue(ctx, &gatewayv1.ShowQueueRequest{Question: &schedulerv1.ShowQueueRequest{JobId: st.GetJobId(), HostKey: c.Host}})
			return res.GetAnswer(), err
		},
		func(ctx context.Context, o offline) (*schedulerv1.ShowQueueResponse, error) {
			jobs, err := o.Jobs(ctx)
			if err != nil {
				return nil, err
			}
			st, err := oneJob(jobs, c.Job)
			if err != nil {
				return nil, err
			}
			return o.WhyQueue(ctx, st.GetJobId(), c.Host)
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
	q := res.GetQueue()
	row("queue", "%s", q.GetHostKey())
	row("state", "%s: %s", queueState(q.GetState()), q.GetReason())
	if q.GetNextAt() != nil {
		row("next", "%s", clockTime(q.GetNextAt()))
	}
	row("URLs", "%s queued, %d leased", queuedText(q), q.GetLeased())
	if q.GetFailures() > 0 {
		row("failures", "%d in a row", q.GetFailures())
	}
	if len(res.GetOverlays()) > 0 {
		row("overlays", "%s", strings.Join(res.GetOverlays(), ", "))
	}
	for _, x := range res.GetClocks() {
		sign := "free "
		if x.GetHolds() {
			sign = "HOLDS"
		}
		text := x.GetReason()
		if x.GetUntil() != nil && x.GetHolds() {
			text += "; until " + clockTime(x.GetUntil())
		}
		row("clock", "%s %s: %s", sign, x.GetName(), text)
	}
	for _, u := range res.GetNextUrls() {
		row("next URL", "%s", u)
	}
	return t.Flush()
}

func queueState(s schedulerv1.QueueState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "QUEUE_STATE_"))
}

// clockTime is a time with its distance from now.
func clockTime(ts *timestamppb.Timestamp) string {
	t := ts.AsTime()
	text := t.UTC().Format(time.RFC3339)
	if d := time.Until(t); d > 0 {
		text += " (in " + d.Round(time.Second).String() + ")"
	}
	return text
}

// queueChange are the flags of the commands that change a queue.
type queueChange struct {
	queueArg
	adminFlags
}

func (c *queueChange) do(a *App, action schedulerv1.QueueAction, until time.Time, reason string) error {
	return c.with(a, func(cl *client) error {
		st, err := cl.theJob(a.ctx, c.Job)
		if err != nil {
			return err
		}
		q := &schedulerv1.UpdateQueueRequest{JobId: st.GetJobId(), HostKey: c.Host, Action: action, Reason: reason}
		if !until.IsZero() {
			q.Until = timestamppb.New(until)
		}
		res, err := cl.UpdateQueue(a.ctx, &gatewayv1.UpdateQueueRequest{Question: q})
		if err != nil {
			return err
		}
		ans := res.GetAnswer()
		if c.JSON {
			return a.protoJSON(ans)
		}
		if action == schedulerv1.QueueAction_QUEUE_ACTION_DELETE {
			_, err = fmt.Fprintf(a.Stdout, "%s: %d URLs dropped, %s left\n", progress.Sanitise(ans.GetQueue().GetHostKey()), ans.GetDropped(), queuedText(ans.GetQueue()))
			return err
		}
		text := queueState(ans.GetQueue().GetState()) + ": " + orDash(ans.GetQueue().GetReason())
		if h := ans.GetQueue().GetHold(); h.GetUntil() != nil {
			text += "; until " + clockTime(h.GetUntil())
		}
		_, err = fmt.Fprintf(a.Stdout, "%s: %s (%s URLs queued)\n", progress.Sanitise(ans.GetQueue().GetHostKey()), text, queuedText(ans.GetQueue()))
		return err
	})
}

type queueBlockCmd struct {
	Until  string        `placeholder:"TIME" help:"Until then (2030-01-31T08:00:00Z); without it and --for, until it is released."`
	For    time.Duration `placeholder:"D" help:"For so long (90m)."`
	Reason string        `placeholder:"TEXT" help:"Why, for whoever asks later."`
	queueChange
}

// Help is shown below the flags.
func (*queueBlockCmd) Help() string {
	return `What is being fetched goes on to its end. The job waits for a blocked queue; one
that it shall not wait for is retired. A queue that does not exist yet can be
blocked as well.

Examples:
  lycosa queue block example.org --for 6h --reason "their mail of Monday"
  lycosa queue block example.org --until 2030-01-31T08:00:00Z`
}

// Run implements the command.
func (c *queueBlockCmd) Run(a *App) error {
	var until time.Time
	switch {
	case c.Until != "" && c.For != 0:
		return usage("--until and --for: give one of them")
	case c.For < 0:
		return usage("--for %s: want a time to come", c.For)
	case c.For > 0:
		until = time.Now().Add(c.For)
	case c.Until != "":
		var err error
		if until, err = time.Parse(time.RFC3339, c.Until); err != nil {
			return usage("--until %q: want a time such as 2030-01-31T08:00:00Z", c.Until)
		}
	}
	return c.do(a, schedulerv1.QueueAction_QUEUE_ACTION_BLOCK, until, c.Reason)
}

type queueRetireCmd struct {
	Reason string `placeholder:"TEXT" help:"Why, for whoever asks later."`
	queueChange
}

// Run implements the command.
func (c *queueRetireCmd) Run(a *App) error {
	return c.do(a, schedulerv1.QueueAction_QUEUE_ACTION_RETIRE, time.Time{}, c.Reason)
}

type queueReleaseCmd struct{ queueChange }

// Help is shown below the flags.
func (*queueReleaseCmd) Help() string {
	return `A queue that was retired because its host is dead gets one more try. A job that
had ended because only retired queues were left goes on with lycosa job start.`
}

// Run implements the command.
func (c *queueReleaseCmd) Run(a *App) error {
	return c.do(a, schedulerv1.QueueAction_QUEUE_ACTION_RELEASE, time.Time{}, "")
}

type queueDeleteCmd struct{ queueChange }

// Help is shown below the flags.
func (*queueDeleteCmd) Help() string {
	return `The queued URLs end as excluded ("deleted by hand"). Links to other pages of the
host that are found later are queued again: lycosa job exclude keeps those off.`
}

// Run implements the command.
func (c *queueDeleteCmd) Run(a *App) error {
	return c.do(a, schedulerv1.QueueAction_QUEUE_ACTION_DELETE, time.Time{}, "")
}
