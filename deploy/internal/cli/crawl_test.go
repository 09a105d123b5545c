package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"lycosa.dev/deploy/allinone"
	"lycosa.dev/internal/job"
	"lycosa.dev/internal/rpc"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
	"lycosa.dev/scheduler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeRing plays the services: a job is what the test says, and its watch shows
// what the test lists.
type fakeRing struct {
	gatewayv1.AdminServiceClient // nil: what is not below must not be called

	mu      sync.Mutex
	job     *schedulerv1.JobStatus
	calls   []string
	watch   []*schedulerv1.JobStatus // the last is final, or the watch then hangs
	openErr error
	runErr  error // returned by Run at once
	stopErr error // returned by Run at the end
	update  error // of UpdateJob
	urls    []*scheduler.URLInfo
	onWatch func() // called when the watch hangs
	vain    uint32 // seeds that AddSeeds queues again
}

func (f *fakeRing) Run(ctx context.Context) error {
	if f.runErr != nil {
		return f.runErr
	}
	<-ctx.Done()
	return f.stopErr
}

func (f *fakeRing) Admin() gatewayv1.AdminServiceClient { return f }
func (f *fakeRing) Close() error                        { return nil }

func (f *fakeRing) call(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, name)
}

func (f *fakeRing) EachURL(_ context.Context, _ string, visit func(*scheduler.URLInfo) error) error {
	for _, u := range f.urls {
		if err := visit(u); err != nil {
			return err
		}
	}
	return nil
}

func (f *fakeRing) Jobs(context.Context) ([]*schedulerv1.JobStatus, error) {
	if f.job == nil {
		return nil, nil
	}
	return []*schedulerv1.JobStatus{f.job}, nil
}

func (f *fakeRing) Explain(context.Context, string, string) (*schedulerv1.ExplainResponse, error) {
	return &schedulerv1.ExplainResponse{Reason: "host not found"}, nil
}

func (f *fakeRing) Queues(context.Context, *schedulerv1.ListQueuesRequest) (*schedulerv1.ListQueuesResponse, error) {
	return &schedulerv1.ListQueuesResponse{}, nil
}

func (f *fakeRing) WhyQueue(context.Context, string, string) (*schedulerv1.ShowQueueResponse, error) {
	return &schedulerv1.ShowQueueResponse{}, nil
}

func (f *fakeRing) WhyJob(context.Context, string) (*schedulerv1.ExplainJobResponse, error) {
	return &schedulerv1.ExplainJobResponse{}, nil
}

func (f *fakeRing) ListJobs(ctx context.Context, _ *gatewayv1.ListJobsRequest, _ ...grpc.CallOption) (*gatewayv1.ListJobsResponse, error) {
	if f.runErr != nil {
		<-ctx.Done() // the services end instead
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	jobs, err := f.Jobs(ctx)
	return &gatewayv1.ListJobsResponse{Jobs: jobs}, err
}

func (f *fakeRing) CreateJob(_ context.Context, req *gatewayv1.CreateJobRequest, _ ...grpc.CallOption) (*gatewayv1.CreateJobResponse, error) {
	f.call("create")
	f.job = &schedulerv1.JobStatus{JobId: req.GetSpec().GetName(), Spec: req.GetSpec(), State: schedulerv1.JobState_JOB_STATE_RUNNING, Round: 1}
	return &gatewayv1.CreateJobResponse{Job: f.job}, nil
}

func (f *fakeRing) UpdateJob(_ context.Context, req *gatewayv1.UpdateJobRequest, _ ...grpc.CallOption) (*gatewayv1.UpdateJobResponse, error) {
	f.call("update")
	if f.update != nil {
		return nil, f.update
	}
	f.job = proto.CloneOf(f.job)
	f.job.Spec = req.GetSpec()
	return &gatewayv1.UpdateJobResponse{Job: f.job}, nil
}

func (f *fakeRing) AddSeeds(context.Context, *gatewayv1.AddSeedsRequest, ...grpc.CallOption) (*gatewayv1.AddSeedsResponse, error) {
	if f.vain > 0 {
		f.call("seeds")
	}
	return &gatewayv1.AddSeedsResponse{QueuedAgain: f.vain}, nil
}

func (f *fakeRing) StartJob(_ context.Context, req *gatewayv1.StartJobRequest, _ ...grpc.CallOption) (*gatewayv1.StartJobResponse, error) {
	f.call(fmt.Sprintf("start recrawl=%v", req.GetRecrawl()))
	return &gatewayv1.StartJobResponse{Job: f.job}, nil
}

func (f *fakeRing) ResumeJob(context.Context, *gatewayv1.ResumeJobRequest, ...grpc.CallOption) (*gatewayv1.ResumeJobResponse, error) {
	f.call("resume")
	return &gatewayv1.ResumeJobResponse{Job: f.job}, nil
}

func (f *fakeRing) WatchJob(ctx context.Context, _ *gatewayv1.WatchJobRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[gatewayv1.WatchJobResponse], error) {
	f.call("watch")
	return &fakeWatch{ring: f, ctx: ctx}, nil
}

type fakeWatch struct {
	ring *fakeRing
	ctx  context.Context
}

func (w *fakeWatch) Recv() (*gatewayv1.WatchJobResponse, error) {
	if len(w.ring.watch) == 0 {
		if w.ring.onWatch != nil {
			w.ring.onWatch()
		}
		<-w.ctx.Done()
		return nil, status.FromContextError(w.ctx.Err()).Err()
	}
	st := proto.CloneOf(w.ring.watch[0])
	w.ring.watch = w.ring.watch[1:]
	st.JobId, st.Spec, st.Round = w.ring.job.GetJobId(), w.ring.job.GetSpec(), 1
	w.ring.job = st
	return &gatewayv1.WatchJobResponse{Job: st}, nil
}

func (w *fakeWatch) Header() (metadata.MD, error) { return nil, nil }
func (w *fakeWatch) Trailer() metadata.MD         { return nil }
func (w *fakeWatch) CloseSend() error             { return nil }
func (w *fakeWatch) Context() context.Context     { return w.ctx }
func (w *fakeWatch) SendMsg(any) error            { return nil }
func (w *fakeWatch) RecvMsg(any) error            { return nil }

// world runs command lines against a fake ring.
type world struct {
	app         *App
	out, errOut bytes.Buffer
}

func newWorld(f *fakeRing) *world {
	w := &world{}
	w.app = &App{
		Stdin: strings.NewReader(""), Stdout: &w.out, Stderr: &w.errOut, Getenv: func(string) string { return "" },
		Width: func() int { return 80 },
		open: func(context.Context, allinone.Config) (ring, error) {
			if f.openErr != nil {
				return nil, f.openErr
			}
			return f, nil
		},
		openOffline: func(string) (offline, error) { return &fakeOffline{f}, nil },
	}
	return w
}

type fakeOffline struct{ *fakeRing }

func final(state schedulerv1.JobState, reason string) []*schedulerv1.JobStatus {
	return []*schedulerv1.JobStatus{
		{State: schedulerv1.JobState_JOB_STATE_RUNNING, Counters: &schedulerv1.Counters{Queued: 1}},
		{State: state, Reason: reason, Counters: &schedulerv1.Counters{Pages: 3, Done: 3}},
	}
}

var (
	fetched   = []*scheduler.URLInfo{{URL: "http://a.test/", HostKey: "a.test", Seed: true, State: schedulerv1.UrlState_URL_STATE_DONE, Outcome: &crawlv1.Outcome{Fetch: &crawlv1.FetchResult{Class: crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP, Status: 404}}}}
	unfetched = []*scheduler.URLInfo{{URL: "http://a.test/", HostKey: "a.test", Seed: true, State: schedulerv1.UrlState_URL_STATE_FAILED, Reason: "dns: no such host", Outcome: &crawlv1.Outcome{Fetch: &crawlv1.FetchResult{Class: crawlv1.OutcomeClass_OUTCOME_CLASS_DNS}}}}
)

const (
	stateFinished = schedulerv1.JobState_JOB_STATE_FINISHED
	stateFailed   = schedulerv1.JobState_JOB_STATE_FAILED
)

func TestExitCodes(t *testing.T) {
	storage := fmt.Errorf("scheduler: %w: disk full", scheduler.ErrStorage)
	for _, tc := range []struct {
		name      string
		ring      *fakeRing
		args      string
		interrupt bool
		code      int
		say       string // in standard error
	}{
		{name: "finished", ring: &fakeRing{watch: final(stateFinished, "empty"), urls: fetched}, code: ExitOK},
		{name: "limit", ring: &fakeRing{watch: final(stateFinished, "max-pages"), urls: fetched}, code: ExitOK},
		{name: "no seed fetched", ring: &fakeRing{watch: final(stateFinished, "empty"), urls: unfetched}, code: ExitNoSeed, say: "no seed could be fetched: http://a.test/: failed: dns: no such host"},
		{name: "job failed", ring: &fakeRing{watch: final(stateFailed, "bad records")}, code: ExitFailure, say: "bad records"},
		{name: "interrupted", ring: &fakeRing{watch: final(stateFinished, "empty")[:1]}, interrupt: true, code: ExitInterrupted},
		{name: "interrupted, slow end", ring: &fakeRing{watch: final(stateFinished, "empty")[:1], stopErr: fmt.Errorf("x: %w", rpc.ErrForced)}, interrupt: true, code: ExitInterrupted, say: "did not stop in time"},
		{name: "storage at the start", ring: &fakeRing{openErr: storage}, code: ExitStorage, say: "disk full"},
		{name: "storage while it runs", ring: &fakeRing{runErr: storage}, code: ExitStorage, say: "disk full"},
		{name: "corrupt", ring: &fakeRing{runErr: scheduler.ErrCorrupt}, code: ExitFailure, say: "damaged"},
		{name: "in use", ring: &fakeRing{openErr: allinone.ErrInUse}, code: ExitUsage, say: "in use"},
		{name: "frontier in use", ring: &fakeRing{runErr: scheduler.ErrLocked}, code: ExitUsage, say: "another --dir"},
		{name: "port in use", ring: &fakeRing{openErr: &os.SyscallError{Syscall: "bind", Err: syscall.EADDRINUSE}}, code: ExitUsage, say: "another address"},
		{name: "refused by the gateway", ring: &fakeRing{job: &schedulerv1.JobStatus{JobId: "a"}, update: status.Error(codes.FailedPrecondition, "conflict")}, code: ExitUsage, say: "conflict"},
		{name: "no seed given", ring: &fakeRing{}, args: "-", code: ExitUsage, say: "no seed"},
		{name: "unknown flag", ring: &fakeRing{}, args: "--max-page 3", code: ExitUsage, say: `did you mean "--max-pages"`},
		{name: "bad value", ring: &fakeRing{}, args: "--max-pages x", code: ExitUsage, say: "--max-pages"},
		{name: "no delay", ring: &fakeRing{}, args: "--min-delay 0 http://a.test/", code: ExitUsage, say: "politeness.min_delay"},
		{name: "bad level", ring: &fakeRing{}, args: "--log-level loud http://a.test/", code: ExitUsage, say: "--log-level"},
		{name: "no job file", ring: &fakeRing{}, args: "--job none.yaml", code: ExitUsage, say: "none.yaml"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(tc.ring)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.interrupt {
				tc.ring.onWatch = cancel
			}
			args := []string{"crawl", "--dir", filepath.Join(t.TempDir(), "c"), "--contact", "me@x.org"}
			switch tc.args {
			case "":
				args = append(args, "http://a.test/")
			case "-":
			default:
				args = append(args, strings.Fields(tc.args)...)
			}
			err := w.app.Run(ctx, args)
			if got := rpc.ExitCode(err); got != tc.code {
				t.Errorf("exit code %d (%v), want %d", got, err, tc.code)
			}
			all := w.errOut.String()
			if err != nil {
				all += err.Error()
			}
			if !strings.Contains(all, tc.say) {
				t.Errorf("said %q, want %q in it", all, tc.say)
			}
		})
	}
}

// running is a crawl that is there, with this spec.
func running(t *testing.T, dir string, state schedulerv1.JobState, reason string, c *schedulerv1.Counters) *fakeRing {
	t.Helper()
	flags := parseCrawl(t, "http://a.test/", "--contact", "me@x.org", "--max-pages", "5")
	r := &crawl{flags: flags, seeds: []string{"http://a.test/"}, layout: allinone.Layout(dir)}
	spec, err := r.plan(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(r.layout.Frontier(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.layout.Job(), job.MarshalYAML(spec), 0o600); err != nil {
		t.Fatal(err)
	}
	return &fakeRing{
		job:   &schedulerv1.JobStatus{JobId: "a-test", Spec: spec, State: state, Reason: reason, Counters: c, Round: 1},
		watch: final(stateFinished, "empty"), urls: fetched,
	}
}

func TestResume(t *testing.T) {
	left := &schedulerv1.Counters{Queued: 4, Done: 5, Pages: 5}
	none := &schedulerv1.Counters{Done: 9, Pages: 9}
	for _, tc := range []struct {
		name   string
		state  schedulerv1.JobState
		reason string
		count  *schedulerv1.Counters
		args   string
		calls  string
		code   int
		say    string
	}{
		{"as it was", schedulerv1.JobState_JOB_STATE_RUNNING, "", left, "", "watch", 0, "going on"},
		{"same flags", schedulerv1.JobState_JOB_STATE_RUNNING, "", left, "http://a.test/ --max-pages 5", "watch", 0, ""},
		{"new limit", schedulerv1.JobState_JOB_STATE_RUNNING, "", left, "--max-pages 9", "update watch", 0, ""},
		{"new seed", schedulerv1.JobState_JOB_STATE_RUNNING, "", left, "http://b.test/", "update watch", 0, ""},
		{"paused", schedulerv1.JobState_JOB_STATE_PAUSED, "", left, "", "resume watch", 0, ""},
		{"created", schedulerv1.JobState_JOB_STATE_CREATED, "", left, "", "start recrawl=false watch", 0, ""},
		{"finished", stateFinished, "empty", none, "", "", 0, "had finished before"},
		{"finished at its limit", stateFinished, "max-pages", left, "", "", 0, "had finished before (the limit max-pages 5"},
		{"finished, higher limit", stateFinished, "max-pages", left, "--max-pages 9", "update start recrawl=false watch", 0, "going on"},
		{"stopped by hand", stateFinished, "stopped", left, "", "start recrawl=false watch", 0, ""},
		{"another round", stateFinished, "empty", none, "--recrawl", "start recrawl=true watch", 0, "round 2"},
		{"another scope", schedulerv1.JobState_JOB_STATE_RUNNING, "", left, "--scope domain", "", 2, "scope.kind: the crawl was begun with host"},
		{"another identity", schedulerv1.JobState_JOB_STATE_RUNNING, "", left, "--user-agent X/1", "", 2, "identity.user_agent"},
		{"another contact", schedulerv1.JobState_JOB_STATE_RUNNING, "", left, "--contact you@x.org", "", 2, "identity.user_agent"},
		{"failed", stateFailed, "broken", left, "", "", 1, "broken"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			ring := running(t, dir, tc.state, tc.reason, tc.count)
			w := newWorld(ring)
			err := w.app.Run(t.Context(), append([]string{"crawl", "--dir", dir}, strings.Fields(tc.args)...))
			if got := rpc.ExitCode(err); got != tc.code {
				t.Errorf("exit code %d (%v), want %d", got, err, tc.code)
			}
			if got := strings.Join(ring.calls, " "); got != tc.calls {
				t.Errorf("called %q, want %q", got, tc.calls)
			}
			if all := fmt.Sprint(w.errOut.String(), w.out.String(), err); !strings.Contains(all, tc.say) {
				t.Errorf("said %q, want %q in it", all, tc.say)
			}
		})
	}
}

// A crawl whose seeds were tried in vain is no finished crawl: the same command
// tries them again, and where nothing can be tried it does not claim success.
func TestResumeAfterNoSeedWasFetched(t *testing.T) {
	none := &schedulerv1.Counters{Failed: 1}
	dir := t.TempDir()
	ring := running(t, dir, stateFinished, "empty", none)
	ring.vain = 1
	w := newWorld(ring)
	if err := w.app.Run(t.Context(), []string{"crawl", "--dir", dir, "http://a.test/"}); err != nil {
		t.Error(err)
	}
	if got := strings.Join(ring.calls, " "); got != "seeds start recrawl=false watch" {
		t.Errorf("called %q", got)
	}

	dir = t.TempDir()
	ring = running(t, dir, stateFinished, "empty", none)
	ring.urls = []*scheduler.URLInfo{{URL: "http://a.test/", HostKey: "a.test", Seed: true, State: schedulerv1.UrlState_URL_STATE_EXCLUDED, Reason: "robots: line 2"}}
	w = newWorld(ring)
	err := w.app.Run(t.Context(), []string{"crawl", "--dir", dir, "http://a.test/"})
	if rpc.ExitCode(err) != ExitNoSeed || !strings.Contains(fmt.Sprint(err), "robots: line 2") {
		t.Errorf("%v, want exit code %d and the reason", err, ExitNoSeed)
	}
}

// Without job.yaml the frontier's own spec is what a crawl resumes by.
func TestResumeWithoutJobFile(t *testing.T) {
	dir := t.TempDir()
	ring := running(t, dir, schedulerv1.JobState_JOB_STATE_RUNNING, "", &schedulerv1.Counters{})
	if err := os.Remove(filepath.Join(dir, "job.yaml")); err != nil {
		t.Fatal(err)
	}
	err := newWorld(ring).app.Run(t.Context(), []string{"crawl", "--dir", dir, "--scope", "any"})
	if rpc.ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), "scope.kind") {
		t.Errorf("%v, want the scope's conflict", err)
	}
	if err := newWorld(ring).app.Run(t.Context(), []string{"crawl", "--dir", dir}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "job.yaml")); err != nil {
		t.Error(err)
	}
}

func TestJSONLines(t *testing.T) {
	w := newWorld(&fakeRing{watch: final(stateFinished, "empty"), urls: fetched})
	dir := filepath.Join(t.TempDir(), "c")
	if err := w.app.Run(t.Context(), []string{"crawl", "--json", "--dir", dir, "http://a.test/"}); err != nil {
		t.Fatal(err)
	}
	var types []string
	var last map[string]any
	dec := json.NewDecoder(&w.out)
	for {
		var line map[string]any
		if err := dec.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		types = append(types, fmt.Sprint(line["type"]))
		last = line
	}
	if got := strings.Join(types, " "); got != "progress progress summary" {
		t.Errorf("lines %q", got)
	}
	if last["exit_code"] != float64(0) || last["reason"] != "empty" || last["pages"] != float64(3) || last["hosts"] != float64(1) {
		t.Errorf("summary %v", last)
	}
	if got := w.errOut.String(); strings.Count(got, "no --contact") != 1 {
		t.Errorf("standard error %q, want one word about the contact", got)
	}
}

func TestQuiet(t *testing.T) {
	w := newWorld(&fakeRing{watch: final(stateFinished, "empty"), urls: fetched})
	if err := w.app.Run(t.Context(), []string{"crawl", "--quiet", "--dir", t.TempDir(), "http://a.test/"}); err != nil {
		t.Fatal(err)
	}
	if w.out.Len()+w.errOut.Len() > 0 {
		t.Errorf("said %q and %q", &w.out, &w.errOut)
	}
}
