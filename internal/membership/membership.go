// Package membership keeps a service instance joined to the scheduler and holds
// the topology that the scheduler pushes: who else is there and which jobs
// there are. Every service of the ring has one Client.
//
// The Client owns the Join stream. A stream that breaks is opened again with
// back-off, with a fresh Hello (so that a downloader reports the leases it
// holds at that moment). The last topology stays valid while the scheduler is
// away: the ring works on what it has.
package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"lycosa.dev/internal/rpc"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

const (
	firstWait = 100 * time.Millisecond
	longWait  = 5 * time.Second
	// refusedFor is how long a refusal as a duplicate is taken for the shadow
	// of this instance's own former stream, which the scheduler has not yet
	// seen die.
	refusedFor = 20 * time.Second
)

// Options configures a Client. Dialer, Scheduler and Hello are needed.
type Options struct {
	// Dialer connects to the scheduler.
	Dialer rpc.Dialer
	// Scheduler is its address.
	Scheduler string
	// Hello makes the announcement, anew for each stream.
	Hello func() *schedulerv1.Hello
	// Logger gets joins and losses; nil discards them.
	Logger *slog.Logger
}

// Client keeps an instance joined. Its methods are safe for concurrent use.
type Client struct {
	opt Options
	log *slog.Logger

	mu       sync.Mutex
	topology *schedulerv1.Topology
	jobs     map[string]*schedulerv1.JobSpec
	changed  chan struct{} // closed and replaced at each change
	joined   bool
	draining bool
	drain    chan struct{} // closed by Drain
}

// New returns a Client that joins when it runs.
func New(opt Options) *Client {
	log := opt.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Client{
		opt: opt, log: log,
		changed: make(chan struct{}), drain: make(chan struct{}),
		jobs: map[string]*schedulerv1.JobSpec{},
	}
}

// Run joins and stays joined until ctx ends, then returns nil. It returns an
// error when joining cannot succeed: another living instance has the same id,
// or the scheduler finds the hello wrong.
func (c *Client) Run(ctx context.Context) error {
	wait := firstWait
	var refusedSince time.Time
	for {
		err := c.join(ctx)
		wasJoined := c.setJoined(false)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end was asked for: how the stream broke says nothing
		}
		if wasJoined {
			wait, refusedSince = firstWait, time.Time{}
		}
		switch status.Code(err) {
		case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated:
			return fmt.Errorf("join scheduler at %s: %w", c.opt.Scheduler, err)
		case codes.AlreadyExists:
			if refusedSince.IsZero() {
				refusedSince = time.Now()
			}
			if time.Since(refusedSince) > refusedFor {
				return fmt.Errorf("join scheduler at %s: %w (give each instance an id of its own)", c.opt.Scheduler, err)
			}
		}
		c.log.Warn("not joined, trying again", "scheduler", c.opt.Scheduler, "wait", wait, "err", err)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		wait = min(2*wait, longWait)
	}
}

func (c *Client) join(ctx context.Context) error {
	conn, closer, err := c.opt.Dialer.Dial(ctx, c.opt.Scheduler)
	if err != nil {
		return err
	}
	defer closer.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := schedulerv1.NewSchedulerServiceClient(conn).Join(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&schedulerv1.JoinRequest{Item: &schedulerv1.JoinRequest_Hello{Hello: c.opt.Hello()}}); err != nil {
		// The reason is in the status that Recv returns.
		_, err = stream.Recv()
		return err
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		select {
		case <-c.drain:
			// An error here means the stream is broken, which Recv reports.
			_ = stream.Send(&schedulerv1.JoinRequest{Item: &schedulerv1.JoinRequest_Update{
				Update: &schedulerv1.Update{Draining: true}}})
		case <-ctx.Done():
		}
	}()
	defer func() { cancel(); <-sent }()
	for {
		res, err := stream.Recv()
		if err != nil {
			return err
		}
		if res.GetTopology() == nil {
			return errors.New("the scheduler sent no topology")
		}
		if !c.setJoined(true) {
			c.log.Info("joined", "scheduler", c.opt.Scheduler)
		}
		c.set(res.GetTopology())
	}
}

func (c *Client) setJoined(joined bool) (before bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, c.joined = c.joined, joined
	return before
}

func (c *Client) set(t *schedulerv1.Topology) {
	jobs := make(map[string]*schedulerv1.JobSpec, len(t.GetJobs()))
	for _, j := range t.GetJobs() {
		jobs[j.GetJobId()] = j
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.topology, c.jobs = t, jobs
	close(c.changed)
	c.changed = make(chan struct{})
}

// Topology returns the last topology, nil before the first. It must not be
// changed.
func (c *Client) Topology() *schedulerv1.Topology {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.topology
}

// Joined tells whether the instance is joined now.
func (c *Client) Joined() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.joined
}

// Changed returns a channel that is closed at the next change of the topology.
// Ask for it before looking at Topology, so that no change is missed.
func (c *Client) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// Job returns a job's spec as of the last topology; nil: there is no such job.
func (c *Client) Job(id string) *schedulerv1.JobSpec {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.jobs[id]
}

// WaitJob returns a job's spec of at least the version, waiting for the
// topology that holds it until ctx ends.
func (c *Client) WaitJob(ctx context.Context, id string, version uint64) (*schedulerv1.JobSpec, error) {
	for {
		changed := c.Changed()
		if j := c.Job(id); j != nil && j.GetSpecVersion() >= version {
			return j, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("spec version %d of job %s has not arrived from the scheduler: %w", version, id, ctx.Err())
		}
	}
}

// Instances returns the instances of one kind that are not draining, in the
// topology's order.
func (c *Client) Instances(kind schedulerv1.ServiceKind) []*schedulerv1.Instance {
	var out []*schedulerv1.Instance
	for _, i := range c.Topology().GetInstances() {
		if i.GetKind() == kind && !i.GetDraining() {
			out = append(out, i)
		}
	}
	return out
}

// Drain announces that the instance finishes what it holds and takes no more.
// It does not wait.
func (c *Client) Drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.draining {
		c.draining = true
		close(c.drain)
	}
}
