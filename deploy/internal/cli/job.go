package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"lycosa.dev/deploy/internal/progress"
	"lycosa.dev/internal/job"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// jobCmd are the commands about jobs.
type jobCmd struct {
	List    jobListCmd    `cmd:"" help:"List the jobs."`
	Show    jobShowCmd    `cmd:"" help:"Show a job: state, counters, spec."`
	Create  jobCreateCmd  `cmd:"" help:"Create a job from a job file."`
	Watch   jobWatchCmd   `cmd:"" help:"Follow a job to its end."`
	Start   jobStartCmd   `cmd:"" help:"Start a job."`
	Pause   jobPauseCmd   `cmd:"" help:"Pause a job; what is in flight ends first."`
	Resume  jobResumeCmd  `cmd:"" help:"Go on with a paused job."`
	Stop    jobStopCmd    `cmd:"" help:"End a job; what is in flight has its drain timeout."`
	Delete  jobDeleteCmd  `cmd:"" help:"Forget a job that does not run; stored pages stay."`
	Why     jobWhyCmd     `cmd:"" help:"Why a job has not ended, and what it waits for."`
	Exclude jobExcludeCmd `cmd:"" help:"Add or remove exclusions of a job that may run, with a preview."`
	Set     jobSetCmd     `cmd:"" help:"Change settings of a job that may run: delays, limits, anything of its spec."`
	Overlay jobOverlayCmd `cmd:"" help:"Settings for some hosts, domains or URL prefixes: list, set, remove."`
	Report  jobReportCmd  `cmd:"" help:"Write a crawl's reports now."`
}

// jobArg names a job.
type jobArg struct {
	Job string `arg:"" optional:"" help:"Id of the job; may be left out where there is one."`
}

type jobListCmd struct{ adminFlags }

// Run implements the command.
func (c *jobListCmd) Run(a *App) error {
	jobs, err := read(&c.adminFlags, a, listLive, listOffline)
	if err != nil {
		return err
	}
	if c.JSON {
		for _, st := range jobs {
			if err := a.protoJSON(st); err != nil {
				return err
			}
		}
		return nil
	}
	t := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "JOB\tSTATE\tREASON\tDONE\tQUEUED\tFAILED\tPAGES\tBYTES")
	for _, st := range jobs {
		n := st.GetCounters()
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\n", st.GetJobId(), progress.StateName(st.GetState()), orDash(st.GetReason()),
			n.GetDone(), n.GetQueued()+n.GetLeased(), n.GetFailed(), n.GetPages(), progress.Bytes(float64(n.GetReceivedBytes())))
	}
	return t.Flush()
}

func listLive(ctx context.Context, c *client) ([]*schedulerv1.JobStatus, error) {
	res, err := c.ListJobs(ctx, &gatewayv1.ListJobsRequest{})
	return res.GetJobs(), err
}

func listOffline(ctx context.Context, o offline) ([]*schedulerv1.JobStatus, error) {
	return o.Jobs(ctx)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return progress.Sanitise(s)
}

type jobShowCmd struct {
	jobArg
	adminFlags
}

// Run implements the command.
func (c *jobShowCmd) Run(a *App) error {
	jobs, err := read(&c.adminFlags, a, listLive, listOffline)
	if err != nil {
		return err
	}
	st, err := oneJob(jobs, c.Job)
	if err != nil {
		return err
	}
	if c.JSON {
		return a.protoJSON(st)
	}
	return showJob(a.Stdout, st)
}

func showJob(w io.Writer, st *schedulerv1.JobStatus) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	n := st.GetCounters()
	row("job", "%s", st.GetJobId())
	state := progress.StateName(st.GetState())
	if st.GetReason() != "" {
		state += " (" + progress.Sanitise(st.GetReason()) + ")"
	}
	row("state", "%s, round %d", state, st.GetRound())
	if st.GetProblem() != "" {
		row("problem", "%s", progress.Sanitise(st.GetProblem()))
	}
	row("URLs", "%d known: %d queued, %d leased, %d done, %d excluded, %d failed; %d pending",
		n.GetKnown(), n.GetQueued(), n.GetLeased(), n.GetDone(), n.GetExcluded(), n.GetFailed(), n.GetPending())
	row("pages", "%d, %s", n.GetPages(), progress.Bytes(float64(n.GetReceivedBytes())))
	row("fetches", "%d, of these robots.txt %d, failed %d, lost %d", n.GetFetches(), n.GetRobotsFetches(), n.GetFetchErrors(), n.GetLostLeases())
	row("links", "%d found, %d out of scope, %d known before", n.GetLinksFound(), n.GetLinksOutOfScope(), n.GetDuplicates())
	row("hosts", "%d active, %d ready", st.GetActiveHosts(), st.GetReadyHosts())
	if st.GetNextReadyAt() != nil {
		row("next", "%s", st.GetNextReadyAt().AsTime().UTC().Format(time.RFC3339))
	}
	row("running", "%s", progress.Elapsed(st.GetRunning().AsDuration()))
	if st.GetCreatedAt() != nil {
		row("created", "%s", st.GetCreatedAt().AsTime().UTC().Format(time.RFC3339))
	}
	if st.GetFinishedAt() != nil {
		row("ended", "%s", st.GetFinishedAt().AsTime().UTC().Format(time.RFC3339))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "spec (version %d):\n%s", st.GetSpecVersion(), indent(job.MarshalYAML(st.GetSpec())))
	return err
}

type jobCreateCmd struct {
	File    string   `arg:"" optional:"" help:"Job file (YAML); - is standard input."`
	Seed    []string `placeholder:"URL" sep:"none" help:"A seed, besides those of the file."`
	Contact string   `placeholder:"URL|MAIL" help:"Who answers for the crawl."`
	ID      string   `name:"id" placeholder:"ID" help:"Id of the job (default: the spec's name, or one made from the first seed's host)."`
	Start   bool     `help:"Start it."`
	adminFlags
}

// Help is shown below the flags.
func (*jobCreateCmd) Help() string {
	return `Examples:
  lycosa job create docs.yaml --start
  lycosa job create --seed https://example.org/ --contact you@example.org --start`
}

// Run implements the command.
func (c *jobCreateCmd) Run(a *App) error {
	file, err := c.read(a)
	if err != nil {
		return usage("%w", err)
	}
	spec := proto.CloneOf(file.spec)
	spec.Seeds = append(spec.Seeds, c.Seed...)
	if c.Contact != "" {
		if spec.Identity == nil {
			spec.Identity = &jobv1.Identity{}
		}
		spec.Identity.Contact = c.Contact
	}
	if _, err := effective(spec); err != nil {
		return usage("%w", file.place(err))
	}
	return c.with(a, func(cl *client) error {
		res, err := cl.CreateJob(a.ctx, &gatewayv1.CreateJobRequest{JobId: c.ID, Spec: spec, Start: c.Start})
		return c.answer(a, res.GetJob(), err)
	})
}

func (c *jobCreateCmd) read(a *App) (*jobFile, error) {
	if c.File == "" {
		if len(c.Seed) == 0 {
			return nil, errors.New("give a job file, or seeds with --seed")
		}
		return parseJob("--seed", nil)
	}
	if c.File != "-" {
		return readJob(c.File)
	}
	data, err := io.ReadAll(a.Stdin)
	if err != nil {
		return nil, err
	}
	return parseJob("standard input", data)
}

// with runs what needs a living process.
func (f *adminFlags) with(a *App, do func(*client) error) error {
	cl, err := f.live(a)
	if err != nil {
		return err
	}
	defer cl.Close()
	return do(cl)
}

// answer shows what a job is after a change.
func (f *adminFlags) answer(a *App, st *schedulerv1.JobStatus, err error) error {
	switch {
	case err != nil:
		return err
	case f.JSON:
		return a.protoJSON(st)
	}
	_, err = fmt.Fprintf(a.Stdout, "%s: %s\n", st.GetJobId(), progress.StateName(st.GetState()))
	return err
}

// change runs an RPC on the job that is meant.
func (f *adminFlags) change(a *App, id string, do func(cl *client, id string) (*schedulerv1.JobStatus, error)) error {
	return f.with(a, func(cl *client) error {
		st, err := cl.theJob(a.ctx, id)
		if err != nil {
			return err
		}
		after, err := do(cl, st.GetJobId())
		return f.answer(a, after, err)
	})
}

type jobStartCmd struct {
	jobArg
	Recrawl bool `help:"Crawl everything again: another round."`
	adminFlags
}

// Run implements the command.
func (c *jobStartCmd) Run(a *App) error {
	return c.change(a, c.Job, func(cl *client, id string) (*schedulerv1.JobStatus, error) {
		res, err := cl.StartJob(a.ctx, &gatewayv1.StartJobRequest{JobId: id, Recrawl: c.Recrawl})
		return res.GetJob(), err
	})
}

type jobPauseCmd struct {
	jobArg
	adminFlags
}

// Run implements the command.
func (c *jobPauseCmd) Run(a *App) error {
	return c.change(a, c.Job, func(cl *client, id string) (*schedulerv1.JobStatus, error) {
		res, err := cl.PauseJob(a.ctx, &gatewayv1.PauseJobRequest{JobId: id})
		return res.GetJob(), err
	})
}

type jobResumeCmd struct {
	jobArg
	adminFlags
}

// Run implements the command.
func (c *jobResumeCmd) Run(a *App) error {
	return c.change(a, c.Job, func(cl *client, id string) (*schedulerv1.JobStatus, error) {
		res, err := cl.ResumeJob(a.ctx, &gatewayv1.ResumeJobRequest{JobId: id})
		return res.GetJob(), err
	})
}

type jobStopCmd struct {
	jobArg
	adminFlags
}

// Run implements the command.
func (c *jobStopCmd) Run(a *App) error {
	return c.change(a, c.Job, func(cl *client, id string) (*schedulerv1.JobStatus, error) {
		res, err := cl.StopJob(a.ctx, &gatewayv1.StopJobRequest{JobId: id})
		return res.GetJob(), err
	})
}

type jobDeleteCmd struct {
	Job string `arg:"" help:"Id of the job."`
	adminFlags
}

// Run implements the command.
func (c *jobDeleteCmd) Run(a *App) error {
	return c.with(a, func(cl *client) error {
		if _, err := cl.DeleteJob(a.ctx, &gatewayv1.DeleteJobRequest{JobId: c.Job}); err != nil {
			return err
		}
		if c.JSON {
			return nil
		}
		_, err := fmt.Fprintf(a.Stdout, "%s: deleted\n", c.Job)
		return err
	})
}

type jobWatchCmd struct {
	jobArg
	Interval time.Duration `placeholder:"D" default:"1s" help:"Between two looks (default 1s)."`
	adminFlags
}

// Run implements the command.
func (c *jobWatchCmd) Run(a *App) error {
	mode := progress.Lines
	switch {
	case c.JSON:
		mode = progress.JSON
	case a.Terminal:
		mode = progress.Live
	}
	show := progress.New(progress.Options{Mode: mode, Out: a.Stdout, Err: a.Stderr, Width: a.Width})
	defer show.Clear()
	return c.with(a, func(cl *client) error {
		st, err := cl.theJob(a.ctx, c.Job)
		if err != nil {
			return err
		}
		for {
			st, err = c.watch(a.ctx, cl, show, st)
			switch {
			case err == nil:
				show.Clear()
				if c.JSON {
					return nil
				}
				return showJob(a.Stdout, st)
			case a.ctx.Err() != nil:
				return silent(ExitInterrupted)
			case status.Code(err) != codes.Unavailable || errors.Is(err, os.ErrClosed):
				return err
			}
			if err := sleep(a.ctx, time.Second); err != nil {
				return silent(ExitInterrupted)
			}
		}
	})
}

// watch follows until the job has ended or the stream breaks.
func (c *jobWatchCmd) watch(ctx context.Context, cl *client, show *progress.Reporter, st *schedulerv1.JobStatus) (*schedulerv1.JobStatus, error) {
	stream, err := cl.WatchJob(ctx, &gatewayv1.WatchJobRequest{JobId: st.GetJobId(), Interval: durationpb.New(c.Interval)})
	if err != nil {
		return st, err
	}
	for {
		res, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return st, nil
		}
		if err != nil {
			return st, err
		}
		st = res.GetJob()
		show.Update(st)
	}
}

// indent sets a block off by two spaces.
func indent(text []byte) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(string(text), "\n"), "\n", "\n  ") + "\n"
}
