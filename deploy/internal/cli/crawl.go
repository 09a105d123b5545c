package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"lycosa.dev/deploy/allinone"
	"lycosa.dev/deploy/internal/progress"
	"lycosa.dev/internal/job"
	"lycosa.dev/internal/telemetry"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

type crawlCmd struct{ crawlFlags }

// Help is shown below the flags.
func (*crawlCmd) Help() string {
	return `The same command again goes on where the crawl was; new seeds are added and
limits may change. A flag wins over the job file, the job file over the
defaults; without --job, what DIR/job.yaml says stays. Ctrl-C stops cleanly,
twice at once.

Examples:
  lycosa crawl https://example.org/ --contact me@example.org
  lycosa crawl --seeds list.txt --scope domain --max-pages 1000 --dir out
  lycosa crawl https://docs.test/ --resolve '*:127.0.0.1' --allow-net 127.0.0.0/8 --min-delay 0`
}

// errStorageHeld ends a crawl whose stores cannot be written and do not come
// back.
var errStorageHeld = errors.New("storage is full or cannot be written")

// crawl is one run of the command.
type crawl struct {
	app    *App
	flags  *crawlFlags
	layout allinone.Layout
	seeds  []string // given now
	show   *progress.Reporter
	ring   ring
	admin  gatewayv1.AdminServiceClient
	last   *schedulerv1.JobStatus // last seen; nil: none yet
	idle   bool                   // the crawl had finished before

	tried       uint32 // seeds that were tried in vain before and are queued again
	seedProblem string // what the frontier says of a seed that was not fetched
}

// Run implements the command.
func (c *crawlCmd) Run(a *App) error {
	r := &crawl{app: a, flags: &c.crawlFlags, layout: allinone.Layout(c.Dir)}
	return r.run(a.ctx)
}

func (r *crawl) run(ctx context.Context) error {
	if _, err := telemetry.ParseLevel(r.flags.LogLevel); err != nil {
		return usage("--log-level: %w", err)
	}
	var err error
	if r.seeds, err = r.flags.readSeeds(r.app.Stdin); err != nil {
		return usage("%w", err)
	}
	spec, err := r.plan(r.saved())
	if err != nil {
		return err
	}
	if r.flags.Job == "" && len(spec.GetSeeds()) == 0 && !exists(r.layout.Frontier()) {
		return usage("no seed: give a URL, --seeds FILE, or a job file with seeds")
	}
	r.show = r.reporter()
	if spec.GetIdentity().GetContact() == "" {
		r.show.Say("lycosa: no --contact: whoever is crawled cannot reach you")
	}
	log, closeLog, err := r.app.crawlLogger(r.layout, r.flags.LogLevel, r.show)
	if err != nil {
		return err
	}
	defer closeLog()

	cfg := allinone.Default(r.flags.Dir)
	cfg.DNS, cfg.AllowNoContact, cfg.Logger = r.flags.DNS, true, log
	cfg.DNSRecords, cfg.Secrets = r.flags.DNSRecords, r.flags.Secrets
	// The proxies that whoever runs this names are the runner's own affair.
	cfg.ProxyNet = []string{"0.0.0.0/0", "::/0"}
	cfg.Capacity = int(max(512, spec.GetLimits().GetConcurrency()))
	if cfg.OTLP = r.app.Getenv("LYCOSA_OTLP"); cfg.OTLP != "" {
		if cfg.TraceRatio, err = traceRatio(r.app.Getenv("LYCOSA_TRACE_RATIO"), cfg.TraceRatio); err != nil {
			return err
		}
	}
	if r.ring, err = r.app.open(ctx, cfg); err != nil {
		return err
	}
	r.admin = r.ring.Admin()

	end, runErr := r.work(ctx)
	closeErr := r.ring.Close()
	return r.finish(ctx, end, errors.Join(runErr, closeErr))
}

// work runs the services and drives the crawl until one of them ends. It
// returns why the crawl ended and what the services returned.
func (r *crawl) work(ctx context.Context) (end, runErr error) {
	runCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	driveCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		defer cancel()
		done <- r.ring.Run(runCtx)
	}()
	reports := make(chan struct{})
	go func() {
		defer close(reports)
		r.reportsOnDemand(driveCtx)
	}()
	end = r.drive(driveCtx)
	if errors.Is(end, context.Canceled) {
		end = ctx.Err() // nil: the services ended by themselves
	}
	if end != nil {
		r.show.Clear()
	}
	cancel()
	<-reports
	stop()
	return end, <-done
}

// saved returns the spec that the folder's crawl was begun with; nil where
// there is none, or it cannot be read.
func (r *crawl) saved() *jobv1.Spec {
	if !exists(r.layout.Frontier()) {
		return nil
	}
	data, err := os.ReadFile(r.layout.Job())
	if err != nil {
		return nil
	}
	spec, err := job.ParseYAML(r.layout.Job(), data)
	if err != nil {
		return nil
	}
	return job.WithDefaults(spec, telemetry.Version())
}

// plan makes the spec of this run from flags, job file and the spec of the
// crawl that is there (nil: none), and refuses what does not fit to that.
func (r *crawl) plan(old *jobv1.Spec) (*jobv1.Spec, error) {
	base := &jobv1.Spec{}
	var file *jobFile
	switch {
	case r.flags.Job != "":
		var err error
		if file, err = readJob(r.flags.Job); err != nil {
			return nil, usage("%w", err)
		}
		base = file.spec
	case old != nil:
		base = proto.CloneOf(old)
	}
	if err := r.flags.apply(base, r.seeds); err != nil {
		return nil, usage("%w", err)
	}
	spec, err := effective(base)
	if err != nil {
		return nil, usage("%w", file.place(err))
	}
	if old == nil {
		return spec, nil
	}
	spec.Name = old.GetName()
	spec.Seeds = union(slices.Clone(old.GetSeeds()), spec.GetSeeds())
	if err := job.Conflicts(old, spec); err != nil {
		return nil, usage("%s holds a crawl that this does not fit to; give another --dir, or leave these as they were:\n%w", r.flags.Dir, err)
	}
	return spec, nil
}

// drive creates or resumes the job and follows it to its end.
func (r *crawl) drive(ctx context.Context) error {
	jobs, err := retry(ctx, func() ([]*schedulerv1.JobStatus, error) {
		res, err := r.admin.ListJobs(ctx, &gatewayv1.ListJobsRequest{})
		return res.GetJobs(), err
	})
	if err != nil {
		return err
	}
	switch len(jobs) {
	case 0:
		err = r.create(ctx)
	case 1:
		err = r.resume(ctx, jobs[0])
	default:
		err = usage("%s holds %d jobs: run it with `lycosa up --dir %s`, or give another --dir", r.flags.Dir, len(jobs), r.flags.Dir)
	}
	if err != nil || r.idle {
		return err
	}
	return r.watch(ctx)
}

func (r *crawl) create(ctx context.Context) error {
	spec, err := r.plan(nil)
	if err != nil {
		return err
	}
	if len(spec.GetSeeds()) == 0 {
		return usage("no seed: give a URL, --seeds FILE, or a job file with seeds")
	}
	res, err := r.admin.CreateJob(ctx, &gatewayv1.CreateJobRequest{Spec: spec, Start: true})
	if err != nil {
		return err
	}
	r.last = res.GetJob()
	return r.writeJob(r.last.GetSpec())
}

func (r *crawl) resume(ctx context.Context, st *schedulerv1.JobStatus) error {
	spec, err := r.plan(st.GetSpec())
	if err != nil {
		return err
	}
	id, before := st.GetJobId(), st
	if !proto.Equal(spec, st.GetSpec()) {
		res, err := r.admin.UpdateJob(ctx, &gatewayv1.UpdateJobRequest{JobId: id, Spec: spec})
		if err != nil {
			return err
		}
		st = res.GetJob()
	}
	r.last = st
	if err := r.writeJob(st.GetSpec()); err != nil {
		return err
	}
	if r.tried, err = r.seedsAgain(ctx, id, spec.GetSeeds()); err != nil {
		return err
	}
	switch st.GetState() {
	case schedulerv1.JobState_JOB_STATE_FINISHED:
		return r.again(ctx, before, st)
	case schedulerv1.JobState_JOB_STATE_PAUSED, schedulerv1.JobState_JOB_STATE_PAUSING:
		_, err = r.admin.ResumeJob(ctx, &gatewayv1.ResumeJobRequest{JobId: id})
	case schedulerv1.JobState_JOB_STATE_CREATED:
		_, err = r.admin.StartJob(ctx, &gatewayv1.StartJobRequest{JobId: id})
	case schedulerv1.JobState_JOB_STATE_FAILED:
		return &exitError{ExitFailure, fmt.Errorf("the crawl in %s has failed: %s", r.flags.Dir, st.GetReason())}
	}
	if err == nil {
		c := st.GetCounters()
		r.show.Say(fmt.Sprintf("lycosa: going on with %s: %s done, %s queued", id, progress.Count(c.GetDone()), progress.Count(c.GetQueued()+c.GetLeased()+c.GetPending())))
	}
	return err
}

// seedsAgain gives the seeds once more: those that were tried in vain are queued
// again. It returns how many those are.
func (r *crawl) seedsAgain(ctx context.Context, id string, seeds []string) (uint32, error) {
	var queued uint32
	for batch := range slices.Chunk(seeds, seedBatch) {
		res, err := r.admin.AddSeeds(ctx, &gatewayv1.AddSeedsRequest{JobId: id, Urls: batch})
		if err != nil {
			return queued, err
		}
		queued += res.GetQueuedAgain()
	}
	if queued > 0 {
		r.show.Say(fmt.Sprintf("lycosa: %s seeds were tried in vain before: they are queued again", progress.Count(uint64(queued))))
	}
	return queued, nil
}

// again starts a finished crawl once more if there is a reason to: a round
// asked for, new seeds, other limits, or a stop by hand that left URLs.
func (r *crawl) again(ctx context.Context, before, st *schedulerv1.JobStatus) error {
	start := &gatewayv1.StartJobRequest{JobId: st.GetJobId()}
	left := st.GetCounters().GetQueued() + st.GetCounters().GetPending()
	limits := !proto.Equal(before.GetSpec().GetLimits(), st.GetSpec().GetLimits())
	switch {
	case r.flags.Recrawl:
		start.Recrawl = true
		r.show.Say(fmt.Sprintf("lycosa: crawling %s again, round %d", st.GetJobId(), st.GetRound()+1))
	case r.tried > 0: // has been said
	case left > 0 && (limits || st.GetReason() == "stopped" || st.GetReason() == "empty" || st.GetReason() == "more-queued"):
		r.show.Say(fmt.Sprintf("lycosa: going on with %s: %s queued", st.GetJobId(), progress.Count(left)))
	default:
		r.idle = true
		return nil
	}
	_, err := r.admin.StartJob(ctx, start)
	return err
}

// watch follows the job until it has ended.
func (r *crawl) watch(ctx context.Context) error {
	interval := time.Second
	if r.app.Terminal {
		interval = 500 * time.Millisecond
	}
	held := storageWatch{}
	for {
		err := r.watchOnce(ctx, interval, &held)
		switch {
		case err == nil, errors.Is(err, errStorageHeld):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case status.Code(err) != codes.Unavailable:
			return err
		}
		if err := sleep(ctx, interval); err != nil {
			return err
		}
	}
}

func (r *crawl) watchOnce(ctx context.Context, interval time.Duration, held *storageWatch) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := r.admin.WatchJob(ctx, &gatewayv1.WatchJobRequest{JobId: r.last.GetJobId(), Interval: durationpb.New(interval)})
	if err != nil {
		return err
	}
	for {
		res, err := stream.Recv()
		if err != nil {
			return err
		}
		r.last = res.GetJob()
		r.show.Update(r.last)
		switch r.last.GetState() {
		case schedulerv1.JobState_JOB_STATE_FINISHED, schedulerv1.JobState_JOB_STATE_FAILED:
			return nil
		}
		if err := held.check(r.last, time.Now()); err != nil {
			return err
		}
	}
}

// storagePatience is how long the stores may be unavailable before a crawl
// ends: the frontier has then tried again and failed.
const storagePatience = 25 * time.Second

// storageWatch sees how long a job has been held up by storage.
type storageWatch struct{ since time.Time }

func (w *storageWatch) check(st *schedulerv1.JobStatus, now time.Time) error {
	if st.GetTrouble() != schedulerv1.Trouble_TROUBLE_STORAGE {
		w.since = time.Time{}
		return nil
	}
	if w.since.IsZero() {
		w.since = now
	}
	if now.Sub(w.since) < storagePatience {
		return nil
	}
	return fmt.Errorf("%w: %s", errStorageHeld, progress.Sanitise(st.GetProblem()))
}

// writeJob keeps the effective spec beside the results.
func (r *crawl) writeJob(spec *jobv1.Spec) error {
	head := "# The spec of this crawl with all defaults, written by lycosa " + telemetry.Version() + ".\n"
	return writeFile(r.layout.Job(), append([]byte(head), job.MarshalYAML(spec)...))
}

// writeFile makes a file appear whole.
func writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// retryWait is the wait between two tries of a service that is starting.
const retryWait = 100 * time.Millisecond

// retry asks again while the answer is "unavailable".
func retry[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	for {
		v, err := ask()
		if status.Code(err) != codes.Unavailable {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return v, err
		}
		if err := sleep(ctx, retryWait); err != nil {
			return v, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
