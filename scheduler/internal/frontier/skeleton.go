package frontier

import (
	"context"
	"time"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	downloaderv1 "lycosa.dev/proto/gen/lycosa/downloader/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// Frontier is every job's URLs and their order.
type Frontier struct{}

// Open loads the control state; it does no network.
func Open(ctx context.Context, o Options) (*Frontier, error) { return nil, ErrClosed }

// Run works until ctx ends or the store fails; it owns all goroutines.
func (f *Frontier) Run(ctx context.Context) error { return ErrClosed }

// Close makes all durable and closes the store. Run must have returned.
func (f *Frontier) Close() error { return nil }

// ApplyJob creates a job or changes its spec (effective, validated).
func (f *Frontier) ApplyJob(ctx context.Context, id string, spec *jobv1.Spec, createOnly bool) (*schedulerv1.JobStatus, bool, error) {
	return nil, false, ErrClosed
}

// SetJobState asks a job to start, pause, resume, stop or crawl again.
func (f *Frontier) SetJobState(ctx context.Context, id string, wish schedulerv1.JobWish) (*schedulerv1.JobStatus, error) {
	return nil, ErrClosed
}

// DeleteJob forgets a job that does not run.
func (f *Frontier) DeleteJob(ctx context.Context, id string) error { return ErrClosed }

// Job shows one job.
func (f *Frontier) Job(ctx context.Context, id string) (*schedulerv1.JobStatus, error) {
	return nil, ErrClosed
}

// Jobs shows all jobs, by id.
func (f *Frontier) Jobs(ctx context.Context) ([]*schedulerv1.JobStatus, error) { return nil, ErrClosed }

// JobSpecs returns what the other services need of all jobs not finished.
func (f *Frontier) JobSpecs() []*schedulerv1.JobSpec { return nil }

// Changed returns a channel that is closed at the next change of a job's spec,
// scope roots or state, or of the set of jobs. Take it before reading.
func (f *Frontier) Changed() <-chan struct{} { return nil }

// AddSeeds adds seeds and decides them at once; they are durable when it
// returns.
func (f *Frontier) AddSeeds(ctx context.Context, id string, cands []*crawlv1.Candidate) (added, known int, err error) {
	return 0, 0, ErrClosed
}

// AddScopeRoot lets a URL join what the job's scope is relative to.
func (f *Frontier) AddScopeRoot(ctx context.Context, jobID, url string) error { return ErrClosed }

// SetMembers tells the living downloaders.
func (f *Frontier) SetMembers(epoch uint64, ids []string) {}

// Lease returns up to max leases for a downloader. It does not block for work;
// the leases are durable when it returns.
func (f *Frontier) Lease(ctx context.Context, member string, max int) ([]*crawlv1.Lease, error) {
	return nil, ErrClosed
}

// Ready returns a channel that receives when Lease may return something.
func (f *Frontier) Ready(member string) <-chan struct{} { return nil }

// Renew extends a lease that is being worked on.
func (f *Frontier) Renew(leaseID uint64, stage downloaderv1.Stage, fetchDuration *time.Duration) {}

// Release ends a lease by the downloader's answer, where no commit has.
func (f *Frontier) Release(ctx context.Context, leaseID uint64, ans *downloaderv1.FetchAnswer) error {
	return ErrClosed
}

// Adopt settles the leases of an earlier stream by what the downloader holds.
func (f *Frontier) Adopt(member string, held []*schedulerv1.HeldLease) {}

// MemberGone: the downloader's stream broke. Its leases live on.
func (f *Frontier) MemberGone(member string) {}

// Commit takes an outcome with its candidates; durable when it returns.
func (f *Frontier) Commit(ctx context.Context, req *schedulerv1.CommitRequest) *crawlv1.Answer {
	return nil
}

// StorageUnavailable stops leasing for a while.
func (f *Frontier) StorageUnavailable(reason string) {}

// Explain tells what is known of a canonical URL.
func (f *Frontier) Explain(ctx context.Context, jobID, canonicalURL string) (*schedulerv1.ExplainResponse, error) {
	return nil, ErrClosed
}

// Queues lists a job's queues, page by page.
func (f *Frontier) Queues(ctx context.Context, req *schedulerv1.ListQueuesRequest) (*schedulerv1.ListQueuesResponse, error) {
	return nil, ErrClosed
}

// Violation is one broken invariant.
type Violation struct {
	// Rule names the invariant: "conservation", "queue-entry" ...
	Rule string
	// Job is the job concerned; empty: the deployment.
	Job string
	// Detail says what is wrong and where.
	Detail string
}

// AuditReport is what Audit found.
type AuditReport struct {
	// Jobs by id, with the counters recomputed.
	Jobs []*schedulerv1.JobStatus
	// Records is the number read.
	Records uint64
	// Quarantined is the number of bad records set aside.
	Quarantined uint64
	// Violations found; empty: all invariants hold.
	Violations []Violation
}

// Audit recomputes the invariants of a directory that nobody runs.
func Audit(dir string) (*AuditReport, error) { return nil, ErrClosed }

// OpenStore opens (and creates) the Pebble store of a directory.
func OpenStore(dir string) (Store, error) { return nil, ErrClosed }

// OpenReadOnly opens a directory that nobody runs for questions only.
func OpenReadOnly(dir string) (*Frontier, error) { return nil, ErrClosed }
