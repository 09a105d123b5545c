package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"lycosa.dev/deploy/internal/progress"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// queueCmd are the commands about queues.
type queueCmd struct {
	List    queueListCmd    `cmd:"" help:"List a job's queues: the URLs of one host each."`
	Show    queueShowCmd    `cmd:"" aliases:"why" help:"Show a queue and every clock that it waits on."`
	Block   queueBlockCmd   `cmd:"" help:"Fetch nothing of a queue, for a time or until it is released."`
	Retire  queueRetireCmd  `cmd:"" help:"Fetch nothing more of a queue, and do not wait for it."`
	Release queueReleaseCmd `cmd:"" aliases:"revive" help:"Let a blocked or retired queue go on."`
	Delete  queueDeleteCmd  `cmd:"" help:"Drop the URLs that a queue holds."`
}

type queueListCmd struct {
	jobArg
	State string `placeholder:"STATE" help:"Only ready, leased, waiting, inactive, retired, blocked or exhausted ones."`
	Limit int    `placeholder:"N" default:"100" help:"At most so many; 0: all (default 100)."`
	adminFlags
}

var queueStates = []string{"ready", "leased", "waiting", "inactive", "retired", "blocked", "exhausted"}

// maxPageSize is what one request may ask for.
const maxPageSize = 1000

// queuePage asks for one page of queues.
type queuePage func(token string, size uint32) ([]*schedulerv1.QueueStatus, string, error)

// Run implements the command.
func (c *queueListCmd) Run(a *App) error {
	state := schedulerv1.QueueState_QUEUE_STATE_UNSPECIFIED
	if c.State != "" {
		v, ok := schedulerv1.QueueState_value["QUEUE_STATE_"+strings.ToUpper(c.State)]
		if !ok || v == 0 {
			return usage("%w", notOneOf("state", c.State, queueStates))
		}
		state = schedulerv1.QueueState(v)
	}
	queues, err := read(&c.adminFlags, a,
		func(ctx context.Context, cl *client) ([]*schedulerv1.QueueStatus, error) {
			st, err := cl.theJob(ctx, c.Job)
			if err != nil {
				return nil, err
			}
			return c.gather(func(token string, size uint32) ([]*schedulerv1.QueueStatus, string, error) {
				res, err := cl.ListQueues(ctx, &gatewayv1.ListQueuesRequest{JobId: st.GetJobId(), PageSize: size, PageToken: token, State: state})
				return res.GetQueues(), res.GetNextPageToken(), err
			})
		},
		func(ctx context.Context, o offline) ([]*schedulerv1.QueueStatus, error) {
			jobs, err := o.Jobs(ctx)
			if err != nil {
				return nil, err
			}
			st, err := oneJob(jobs, c.Job)
			if err != nil {
				return nil, err
			}
			return c.gather(func(token string, size uint32) ([]*schedulerv1.QueueStatus, string, error) {
				res, err := o.Queues(ctx, &schedulerv1.ListQueuesRequest{JobId: st.GetJobId(), PageSize: size, PageToken: token, State: state})
				return res.GetQueues(), res.GetNextPageToken(), err
			})
		})
	if err != nil {
		return err
	}
	if c.JSON {
		for _, q := range queues {
			if err := a.protoJSON(q); err != nil {
				return err
			}
		}
		return nil
	}
	t := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "HOST\tSTATE\tQUEUED\tLEASED\tNEXT\tREASON")
	for _, q := range queues {
		next := "-"
		if q.GetNextAt() != nil {
			next = q.GetNextAt().AsTime().UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\n", progress.Sanitise(q.GetHostKey()),
			strings.ToLower(strings.TrimPrefix(q.GetState().String(), "QUEUE_STATE_")), queuedText(q), q.GetLeased(), next, orDash(q.GetReason()))
	}
	return t.Flush()
}

// queuedText is the number of a queue's URLs; a + says that there are more, and
// were not counted.
func queuedText(q *schedulerv1.QueueStatus) string {
	text := strconv.FormatUint(q.GetQueued(), 10)
	if q.GetQueuedAtLeast() {
		text += "+"
	}
	return text
}

// gather asks page after page up to the limit.
func (c *queueListCmd) gather(page queuePage) ([]*schedulerv1.QueueStatus, error) {
	var all []*schedulerv1.QueueStatus
	token := ""
	for {
		size := maxPageSize
		if c.Limit > 0 {
			size = min(size, c.Limit-len(all))
		}
		queues, next, err := page(token, uint32(size))
		if err != nil {
			return nil, err
		}
		all = append(all, queues...)
		if next == "" || c.Limit > 0 && len(all) >= c.Limit {
			return all, nil
		}
		token = next
	}
}
