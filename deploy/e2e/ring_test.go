package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// ring is the five services as processes on loopback ports of the test's own.
type ring struct {
	t     testing.TB
	dir   string
	addrs map[string]string // by instance name
	args  map[string][]string
	procs map[string]*process
	admin gatewayv1.AdminServiceClient
}

// freeAddrs finds loopback addresses that nobody listens on.
func freeAddrs(t testing.TB, n int) []string {
	t.Helper()
	addrs := make([]string, n)
	for i := range addrs {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer lis.Close()
		addrs[i] = lis.Addr().String()
	}
	return addrs
}

// startRing starts the services with so many downloaders and waits until they
// have joined. more are further flags of all services.
func startRing(t testing.TB, downloaders int, more ...string) *ring {
	t.Helper()
	r := newRing(t, t.TempDir(), downloaders, more...)
	r.launch()
	return r
}

// newRing is a ring in a folder, before its first start: its args may be added
// to.
func newRing(t testing.TB, dir string, downloaders int, more ...string) *ring {
	t.Helper()
	r := &ring{t: t, dir: dir, addrs: map[string]string{}, args: map[string][]string{}, procs: map[string]*process{}}
	free := freeAddrs(t, 4+downloaders)
	for i, name := range []string{"scheduler", "dnser", "extractor", "gateway"} {
		r.addrs[name] = free[i]
	}
	for i := range downloaders {
		r.addrs[fmt.Sprintf("downloader-%d", i+1)] = free[4+i]
	}
	r.args["scheduler"] = []string{"--dir", filepath.Join(r.dir, "frontier"), "--adopt-wait", "2s", "--lease-grace", "1s"}
	r.args["dnser"] = []string{"--cache-file", filepath.Join(r.dir, "dns.cache")}
	r.args["extractor"] = []string{"--dir", r.data()}
	r.args["gateway"] = nil
	for name, addr := range r.addrs {
		args := append(r.args[name], "--id", name, "--listen", addr, "--debug", "", "--log-level", "warn", "--grace", "10s")
		if name != "scheduler" {
			args = append(args, "--scheduler", r.addrs["scheduler"])
		}
		r.args[name] = append(args, more...)
	}
	return r
}

// launch starts the services and waits until they have joined.
func (r *ring) launch() {
	t := r.t
	t.Helper()
	for name := range r.addrs {
		r.start(name)
	}
	conn, err := grpc.NewClient(r.addrs["gateway"], grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	r.admin = gatewayv1.NewAdminServiceClient(conn)
	r.waitJoined(len(r.addrs) - 1) // all but the scheduler itself
	if t.Failed() {
		return
	}
	t.Cleanup(func() {
		if t.Failed() {
			for name, p := range r.procs {
				t.Logf("-- %s: %s%s", name, ends(p.out.String()), ends(p.err.String()))
			}
		}
	})
}

// data is the extractor's folder, where the results are: beside the frontier, as
// in the folder of a crawl in one process.
func (r *ring) data() string { return r.dir }

// start starts an instance (again).
func (r *ring) start(name string) {
	r.t.Helper()
	kind := name
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		kind = name[:i]
	}
	r.procs[name] = startProcess(r.t, nil, binary(r.t, kind), r.args[name]...)
}

// call is the context of one admin call.
func (r *ring) call() context.Context {
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	r.t.Cleanup(cancel)
	return ctx
}

// waitJoined waits until so many instances have joined the scheduler.
func (r *ring) waitJoined(n int) {
	r.t.Helper()
	eventually(r.t, 30*time.Second, fmt.Sprintf("%d instances join", n), func() bool {
		for name, p := range r.procs {
			if !p.running() {
				r.t.Fatalf("%s ended: %s%s", name, p.out.String(), p.err.String())
			}
		}
		ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
		defer cancel()
		resp, err := r.admin.ListInstances(ctx, &gatewayv1.ListInstancesRequest{})
		return err == nil && len(resp.GetInstances()) >= n
	})
}

// spec is a job for the test's own web.
func spec(name string, delay time.Duration, seeds ...string) *jobv1.Spec {
	factor := 0.0
	return &jobv1.Spec{
		Name: name, Seeds: seeds,
		Identity: &jobv1.Identity{Contact: "https://lycosa.dev/test"},
		Scope:    &jobv1.Scope{Kind: jobv1.ScopeKind_SCOPE_KIND_ANY},
		Politeness: &jobv1.Politeness{
			MinDelay: durationpb.New(delay), MaxDelay: durationpb.New(max(delay, 20*time.Millisecond)), DelayFactor: &factor,
			BackOff: durationpb.New(50 * time.Millisecond), MaxTries: 10,
		},
		Fetch: &jobv1.Fetch{AllowNet: []string{"127.0.0.0/8"}, Resolve: []string{"*:127.0.0.1"}},
	}
}

// create makes a job and starts it.
func (r *ring) create(s *jobv1.Spec) {
	r.t.Helper()
	if _, err := r.admin.CreateJob(r.call(), &gatewayv1.CreateJobRequest{JobId: s.GetName(), Spec: s, Start: true}); err != nil {
		r.t.Fatalf("create job %s: %v", s.GetName(), err)
	}
}

// job is a job's status; nil while the ring cannot say.
func (r *ring) job(id string) *schedulerv1.JobStatus {
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
	defer cancel()
	resp, err := r.admin.ShowJob(ctx, &gatewayv1.ShowJobRequest{JobId: id})
	if err != nil {
		return nil
	}
	return resp.GetJob()
}

// waitFinished waits until a job has finished.
func (r *ring) waitFinished(id string, limit time.Duration) *schedulerv1.JobStatus {
	r.t.Helper()
	var last *schedulerv1.JobStatus
	deadline := time.Now().Add(limit)
	for {
		if j := r.job(id); j != nil {
			last = j
			if j.GetState() == schedulerv1.JobState_JOB_STATE_FINISHED {
				return j
			}
			if j.GetState() == schedulerv1.JobState_JOB_STATE_FAILED {
				r.t.Fatalf("job %s failed: %v", id, j)
			}
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("job %s has not finished within %s: %v", id, limit, last)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// stopAll ends all processes in order, as make down does.
func (r *ring) stopAll() {
	r.t.Helper()
	stop := func(name string) {
		p := r.procs[name]
		p.signal(os.Interrupt)
		if code := p.exitsWithin(30 * time.Second); code != 0 && code != 130 {
			r.t.Errorf("%s: exit code %d when it was told to stop\n%s", name, code, ends(p.err.String()))
		}
	}
	stop("gateway")
	stop("scheduler")
	for name := range r.procs {
		if name != "gateway" && name != "scheduler" {
			stop(name)
		}
	}
}

// limits of a job that has at most so many leases out.
func limits(concurrency uint32) *jobv1.Limits { return &jobv1.Limits{Concurrency: concurrency} }
