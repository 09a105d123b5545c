package scheduler_test

import (
	"context"
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"lycosa.dev/internal/membership"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/service"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	dnserv1 "lycosa.dev/proto/gen/lycosa/dnser/v1"
	downloaderv1 "lycosa.dev/proto/gen/lycosa/downloader/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
	"lycosa.dev/scheduler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ring is a scheduler with stand-ins around it: every page is fetched at once
// and has the links that site says.
type ring struct {
	dnserv1.UnimplementedDnserServiceServer
	t       *testing.T
	local   *rpc.Local
	control schedulerv1.ControlServiceClient
	site    map[string][]string

	mu      sync.Mutex
	want    int // leases after which reached is closed; 0: never
	reached chan struct{}
	leases  []*crawlv1.Lease
	by      map[string][]*crawlv1.Lease // downloader → leases
}

func (r *ring) Lookup(_ context.Context, req *dnserv1.LookupRequest) (*dnserv1.LookupResponse, error) {
	return &dnserv1.LookupResponse{Host: &crawlv1.HostAddresses{
		Host: req.GetHost(), Status: crawlv1.HostStatus_HOST_STATUS_RESOLVED, Addresses: [][]byte{{127, 0, 0, 1}},
		ExpiresAt: timestamppb.New(time.Now().Add(time.Hour)),
	}}, nil
}

func start(t *testing.T, dir string, site map[string][]string, change ...func(*scheduler.Config)) (*ring, func()) {
	t.Helper()
	r := &ring{t: t, local: rpc.NewLocal(rpc.ServerOptions{}), site: site, by: map[string][]*crawlv1.Lease{}}
	cfg := scheduler.Default()
	cfg.Dir, cfg.SingleProcess, cfg.DrainTimeout = dir, true, 5*time.Second
	for _, c := range change {
		c(&cfg)
	}
	s, err := scheduler.New(cfg, service.Deps{Dialer: r.local})
	if err != nil {
		t.Fatal(err)
	}
	r.local.Register("scheduler", s.Register)
	r.local.Register("dnser", func(reg grpc.ServiceRegistrar) { dnserv1.RegisterDnserServiceServer(reg, r) })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	conn, _, err := r.local.Dial(ctx, "inproc:scheduler")
	if err != nil {
		t.Fatal(err)
	}
	r.control = schedulerv1.NewControlServiceClient(conn)
	leaveDnser := r.join(schedulerv1.ServiceKind_SERVICE_KIND_DNSER, "dnser", "inproc:dnser")
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		leaveDnser()
		_ = r.local.Shutdown(context.Background())
	})
	t.Cleanup(stop)
	return r, stop
}

func (r *ring) join(kind schedulerv1.ServiceKind, id, addr string) (leave func()) {
	ctx, cancel := context.WithCancel(context.Background())
	c := membership.New(membership.Options{Dialer: r.local, Scheduler: "inproc:scheduler", Hello: func() *schedulerv1.Hello {
		return &schedulerv1.Hello{Kind: kind, Id: id, Address: addr, Capacity: 4}
	}})
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Run(ctx) }()
	return func() { cancel(); <-done }
}

// downloader joins a stand-in that commits every lease at once.
func (r *ring) downloader(id string) (leave func()) {
	name := "downloader/" + id
	r.local.Register(name, func(reg grpc.ServiceRegistrar) {
		downloaderv1.RegisterDownloaderServiceServer(reg, &downloader{r: r, id: id})
	})
	return r.join(schedulerv1.ServiceKind_SERVICE_KIND_DOWNLOADER, id, "inproc:"+name)
}

type downloader struct {
	downloaderv1.UnimplementedDownloaderServiceServer
	r  *ring
	id string
}

func (d *downloader) Fetch(stream grpc.BidiStreamingServer[downloaderv1.FetchRequest, downloaderv1.FetchResponse]) error {
	conn, _, err := d.r.local.Dial(stream.Context(), "inproc:scheduler")
	if err != nil {
		return err
	}
	commits, err := schedulerv1.NewSchedulerServiceClient(conn).Commit(stream.Context())
	if err != nil {
		return err
	}
	for {
		req, err := stream.Recv()
		if err != nil {
			return nil
		}
		if id := req.GetResumeLeaseId(); id != 0 { // it never holds one
			if err := stream.Send(&downloaderv1.FetchResponse{LeaseId: id, Item: &downloaderv1.FetchResponse_Answer{
				Answer: &downloaderv1.FetchAnswer{Answer: &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_RETRY_LATER}}}}); err != nil {
				return err
			}
			continue
		}
		l := req.GetLease()
		d.r.mu.Lock()
		d.r.leases = append(d.r.leases, l)
		if len(d.r.leases) == d.r.want {
			close(d.r.reached)
		}
		d.r.by[d.id] = append(d.r.by[d.id], l)
		d.r.mu.Unlock()
		commit := &schedulerv1.CommitRequest{Id: l.GetId(), Outcome: &crawlv1.Outcome{
			LeaseId: l.GetId(), JobId: l.GetJobId(), Url: l.GetUrl(), HostKey: l.GetHostKey(), Purpose: l.GetPurpose(), SkippedBy: "test",
			Fetch: &crawlv1.FetchResult{
				Class: crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP, Status: 200, StartedAt: timestamppb.Now(), Address: []byte{127, 0, 0, 1},
				Timings: &crawlv1.Timings{Total: durationpb.New(time.Millisecond)}, ReceivedBytes: 100,
			},
		}}
		for _, u := range d.r.site[l.GetUrl()] {
			commit.Candidates = append(commit.Candidates, &crawlv1.Candidate{
				Url: u, HostKey: l.GetHostKey(), Depth: l.GetDepth() + 1, HopPath: l.GetHopPath() + "L", Referrer: l.GetUrl(), Rule: "test",
			})
		}
		if err := commits.Send(commit); err != nil {
			return err
		}
		res, err := commits.Recv()
		if err != nil {
			return err
		}
		if err := stream.Send(&downloaderv1.FetchResponse{LeaseId: l.GetId(), Item: &downloaderv1.FetchResponse_Answer{
			Answer: &downloaderv1.FetchAnswer{Answer: res.GetAnswer(), Fetched: true}}}); err != nil {
			return err
		}
	}
}

func spec(seeds ...string) *jobv1.Spec {
	zero := durationpb.New(0)
	return &jobv1.Spec{
		Seeds: seeds, Fetch: &jobv1.Fetch{AllowNet: []string{"127.0.0.0/8"}}, Storage: &jobv1.Storage{None: true},
		Politeness: &jobv1.Politeness{MinDelay: zero, MaxDelay: zero, DelayFactor: proto.Float64(0), Robots: jobv1.RobotsPolicy_ROBOTS_POLICY_IGNORE},
	}
}

// finish watches a job to its end.
func (r *ring) finish(id string) *schedulerv1.JobStatus {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	stream, err := r.control.WatchJob(ctx, &schedulerv1.WatchJobRequest{JobId: id, Interval: durationpb.New(100 * time.Millisecond)})
	if err != nil {
		r.t.Fatal(err)
	}
	var last *schedulerv1.JobStatus
	for {
		res, err := stream.Recv()
		if err != nil {
			if last.GetState() == schedulerv1.JobState_JOB_STATE_FINISHED {
				return last
			}
			r.t.Fatalf("%v, last %v", err, last)
		}
		last = res.GetJob()
	}
}

func tree(hosts, pages int) (map[string][]string, []string) {
	site, seeds := map[string][]string{}, []string{}
	for h := range hosts {
		url := func(i int) string {
			if i == 0 {
				return fmt.Sprintf("http://h%d.test/", h)
			}
			return fmt.Sprintf("http://h%d.test/%d", h, i)
		}
		seeds = append(seeds, url(0))
		for i := range pages {
			for _, k := range []int{2*i + 1, 2*i + 2, i / 2} {
				if k < pages {
					site[url(i)] = append(site[url(i)], url(k))
				}
			}
		}
	}
	return site, seeds
}

func TestCrawlToTheEnd(t *testing.T) {
	site, seeds := tree(5, 30)
	r, _ := start(t, t.TempDir(), site)
	defer r.downloader("b")()
	defer r.downloader("a")()
	defer r.downloader("c")()
	waitMembers(t, r, 3)
	if _, err := r.control.ApplyJob(t.Context(), &schedulerv1.ApplyJobRequest{JobId: "j", Spec: spec(seeds...), Start: true}); err != nil {
		t.Fatal(err)
	}
	st := r.finish("j")
	c := st.GetCounters()
	if st.GetReason() != "empty" || c.GetDone() != 150 || c.GetKnown() != 150 || c.GetPages() != 150 || c.GetQueued()+c.GetLeased()+c.GetPending() != 0 {
		t.Errorf("status %v", st)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string]bool{}
	ids := []string{"a", "b", "c"}
	for id, leases := range r.by {
		for _, l := range leases {
			if seen[l.GetUrl()] {
				t.Errorf("%s was leased twice", l.GetUrl())
			}
			seen[l.GetUrl()] = true
			sum := md5.Sum([]byte(l.GetHostKey()))
			shard := binary.BigEndian.Uint64(sum[:8]) % 3
			if ids[shard] != id || uint64(l.GetShard()) != shard || l.GetMembers() != 3 || l.GetMembershipEpoch() == 0 {
				t.Errorf("%s went to %s with shard %d of %d, want %s", l.GetHostKey(), id, l.GetShard(), l.GetMembers(), ids[shard])
			}
		}
	}
	if len(seen) != 150 {
		t.Errorf("%d URLs were leased", len(seen))
	}
}

func waitMembers(t *testing.T, r *ring, downloaders int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		res, err := r.control.ListInstances(ctx, &schedulerv1.ListInstancesRequest{})
		if err == nil {
			n := 0
			for _, i := range res.GetInstances() {
				if i.GetKind() == schedulerv1.ServiceKind_SERVICE_KIND_DOWNLOADER {
					n++
				}
			}
			if n == downloaders {
				return
			}
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatalf("no %d downloaders joined", downloaders)
}

func TestJoinRefusals(t *testing.T) {
	r, _ := start(t, t.TempDir(), nil)
	defer r.downloader("a")()
	waitMembers(t, r, 1)
	conn, _, err := r.local.Dial(t.Context(), "inproc:scheduler")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		first *schedulerv1.JoinRequest
		want  codes.Code
	}{
		{"the id is taken", hello(&schedulerv1.Hello{Kind: schedulerv1.ServiceKind_SERVICE_KIND_DOWNLOADER, Id: "a", Address: "x", Capacity: 1}), codes.AlreadyExists},
		{"no hello", &schedulerv1.JoinRequest{}, codes.InvalidArgument},
		{"no kind", hello(&schedulerv1.Hello{Id: "x", Address: "x"}), codes.InvalidArgument},
		{"no id", hello(&schedulerv1.Hello{Kind: schedulerv1.ServiceKind_SERVICE_KIND_DNSER, Address: "x"}), codes.InvalidArgument},
		{"no address", hello(&schedulerv1.Hello{Kind: schedulerv1.ServiceKind_SERVICE_KIND_DNSER, Id: "x"}), codes.InvalidArgument},
		{"no capacity", hello(&schedulerv1.Hello{Kind: schedulerv1.ServiceKind_SERVICE_KIND_DOWNLOADER, Id: "x", Address: "x"}), codes.InvalidArgument},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream, err := schedulerv1.NewSchedulerServiceClient(conn).Join(ctx)
			if err != nil {
				t.Fatal(err)
			}
			_ = stream.Send(c.first)
			if _, err := stream.Recv(); status.Code(err) != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func hello(h *schedulerv1.Hello) *schedulerv1.JoinRequest {
	return &schedulerv1.JoinRequest{Item: &schedulerv1.JoinRequest_Hello{Hello: h}}
}

func TestControl(t *testing.T) {
	r, _ := start(t, t.TempDir(), map[string][]string{})
	ctx := t.Context()
	_, err := r.control.ApplyJob(ctx, &schedulerv1.ApplyJobRequest{JobId: "j", Spec: &jobv1.Spec{Scope: &jobv1.Scope{Include: []string{"("}}}})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("a bad spec: %v", err)
	}
	if _, err := r.control.ShowJob(ctx, &schedulerv1.ShowJobRequest{JobId: "j"}); status.Code(err) != codes.NotFound {
		t.Errorf("no such job: %v", err)
	}
	res, err := r.control.ApplyJob(ctx, &schedulerv1.ApplyJobRequest{JobId: "j", Spec: spec("http://h.test/"), Start: true})
	if err != nil || !res.GetCreated() || res.GetJob().GetState() != schedulerv1.JobState_JOB_STATE_RUNNING {
		t.Fatalf("%v, %v", res, err)
	}
	if res.GetJob().GetProblem() != "no downloader has joined" {
		t.Errorf("problem %q", res.GetJob().GetProblem())
	}
	if _, err := r.control.ApplyJob(ctx, &schedulerv1.ApplyJobRequest{JobId: "j", Spec: spec(), CreateOnly: true}); status.Code(err) != codes.AlreadyExists {
		t.Errorf("create only: %v", err)
	}
	seeds, err := r.control.AddSeeds(ctx, &schedulerv1.AddSeedsRequest{JobId: "j", Urls: []string{"http://h.test/", "http://h.test/2", "ftp://x/"}})
	if err != nil || seeds.GetAdded() != 1 || seeds.GetKnown() != 1 || len(seeds.GetRejected()) != 1 {
		t.Errorf("seeds %v, %v", seeds, err)
	}
	why, err := r.control.Explain(ctx, &schedulerv1.ExplainRequest{JobId: "j", Url: "http://H.test:80/2"})
	if err != nil || why.GetState() != schedulerv1.UrlState_URL_STATE_QUEUED || why.GetCanonicalUrl() != "http://h.test/2" || why.GetScopeVerdict() != "in: scope host" {
		t.Errorf("why %v, %v", why, err)
	}
	if why, err = r.control.Explain(ctx, &schedulerv1.ExplainRequest{JobId: "j", Url: "http://other.test/"}); err != nil ||
		why.GetState() != schedulerv1.UrlState_URL_STATE_UNKNOWN || why.GetScopeVerdict() != "out: outside scope host" {
		t.Errorf("why %v, %v", why, err)
	}
	queues, err := r.control.ListQueues(ctx, &schedulerv1.ListQueuesRequest{JobId: "j"})
	if err != nil || len(queues.GetQueues()) != 1 || queues.GetQueues()[0].GetQueued() != 2 {
		t.Errorf("queues %v, %v", queues, err)
	}
	if _, err := r.control.DeleteJob(ctx, &schedulerv1.DeleteJobRequest{JobId: "j"}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("delete of a running job: %v", err)
	}
	st, err := r.control.SetJobState(ctx, &schedulerv1.SetJobStateRequest{JobId: "j", Wish: schedulerv1.JobWish_JOB_WISH_STOP})
	if err != nil {
		t.Fatalf("stop: %v, %v", st, err)
	}
	if end := r.finish("j"); end.GetReason() != "stopped" {
		t.Errorf("end %v", end)
	}
	if _, err := r.control.DeleteJob(ctx, &schedulerv1.DeleteJobRequest{JobId: "j"}); err != nil {
		t.Errorf("delete: %v", err)
	}
	jobs, err := r.control.ListJobs(ctx, &schedulerv1.ListJobsRequest{})
	if err != nil || len(jobs.GetJobs()) != 0 {
		t.Errorf("jobs %v, %v", jobs, err)
	}
}

// A stop in the middle and another start: every page once, none lost.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	const pages = 3 * 1000 // more than are fetched until a stop comes through
	site, seeds := tree(3, pages/3)
	var all []string
	for round := 0; ; round++ {
		r, stop := start(t, dir, site)
		r.mu.Lock()
		r.want, r.reached = 50, make(chan struct{})
		r.mu.Unlock()
		leave := r.downloader("a")
		if round == 0 {
			if _, err := r.control.ApplyJob(t.Context(), &schedulerv1.ApplyJobRequest{JobId: "j", Spec: spec(seeds...), Start: true}); err != nil {
				t.Fatal(err)
			}
		}
		if round < 3 {
			select {
			case <-r.reached:
			case <-time.After(30 * time.Second):
				t.Fatalf("round %d: %d leases, 50 were to be waited for", round, len(r.leases))
			}
		} else if st := r.finish("j"); st.GetCounters().GetDone() != pages {
			t.Errorf("status %v", st)
		}
		stop()
		leave()
		for _, l := range r.leases {
			all = append(all, l.GetUrl())
		}
		if round == 3 {
			break
		}
	}
	slices.Sort(all)
	if n := len(all); n != pages || len(slices.Compact(all)) != pages {
		t.Errorf("%d fetches of %d URLs", n, pages)
	}
	report, err := scheduler.Audit(dir)
	if err != nil || len(report.Violations) > 0 {
		t.Errorf("audit: %v, %v", report, err)
	}
}
