package scheduler

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"lycosa.dev/internal/job"
	"lycosa.dev/internal/weburl"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
	"lycosa.dev/scheduler/internal/frontier"
)

// URLInfo is one URL of a job as its record has it.
type URLInfo = frontier.URLInfo

// EachURL calls visit for every URL of a job, also while the scheduler works; a
// URL that moves on during the call may then come twice, and none is left out.
// The *URLInfo is valid during the call.
func (s *Scheduler) EachURL(ctx context.Context, jobID string, visit func(*URLInfo) error) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	return s.f.EachURL(ctx, jobID, visit)
}

// Offline answers questions about a frontier's folder that nobody runs. It
// changes nothing in it.
type Offline struct{ f *frontier.Frontier }

// OpenOffline opens a folder. Errors: ErrLocked while a process works on it,
// ErrCorrupt.
func OpenOffline(dir string) (*Offline, error) {
	f, err := frontier.OpenReadOnly(dir)
	if err != nil {
		return nil, err
	}
	return &Offline{f}, nil
}

// Close lets go of the folder.
func (o *Offline) Close() error { return o.f.Close() }

// Jobs shows all jobs, by id, as they were when the last process ended.
func (o *Offline) Jobs(ctx context.Context) ([]*schedulerv1.JobStatus, error) {
	jobs, err := o.f.Jobs(ctx)
	return jobs, toStatus(err)
}

// Explain tells what is known of a URL, given in any form.
func (o *Offline) Explain(ctx context.Context, jobID, url string) (*schedulerv1.ExplainResponse, error) {
	st, err := o.f.Job(ctx, jobID)
	if err != nil {
		return nil, toStatus(err)
	}
	u, err := job.ParseSeed(url)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	u = weburl.NewCanonicalizer(job.Rules(st.GetSpec())).Canonical(u)
	res, err := o.f.Explain(ctx, jobID, u.String())
	if err != nil {
		return nil, toStatus(err)
	}
	return res, nil
}

// Queues lists a job's queues, page by page.
func (o *Offline) Queues(ctx context.Context, req *schedulerv1.ListQueuesRequest) (*schedulerv1.ListQueuesResponse, error) {
	res, err := o.f.Queues(ctx, req)
	return res, toStatus(err)
}

// EachURL calls visit for every URL of a job; see Scheduler.EachURL.
func (o *Offline) EachURL(ctx context.Context, jobID string, visit func(*URLInfo) error) error {
	if err := o.f.EachURL(ctx, jobID, visit); err != nil {
		return fmt.Errorf("read the URLs of job %q: %w", jobID, err)
	}
	return nil
}

// WhyQueue shows a queue and its clocks, by a host key in any form.
func (o *Offline) WhyQueue(ctx context.Context, jobID, host string) (*schedulerv1.ShowQueueResponse, error) {
	key, err := hostKey(host)
	if err != nil {
		return nil, err
	}
	res, err := o.f.ShowQueue(ctx, jobID, key)
	return res, toStatus(err)
}

// WhyJob tells why a job has not ended, as of when the last process ended.
func (o *Offline) WhyJob(ctx context.Context, jobID string) (*schedulerv1.ExplainJobResponse, error) {
	res, err := o.f.ExplainJob(ctx, jobID)
	return res, toStatus(err)
}
