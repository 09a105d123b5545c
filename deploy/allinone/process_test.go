package allinone

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"lycosa.dev/internal/rpc"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
	"lycosa.dev/scheduler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lines keeps what is logged at warn and above.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// start runs a process; stop ends it and returns what Run returned.
func start(t *testing.T, cfg Config) (p *Process, stop func() error) {
	t.Helper()
	p, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return errors.Join(<-done, p.Close())
	})
	t.Cleanup(func() { _ = stop() })
	return p, stop
}

// site serves n pages in a chain with a link back.
func site(t *testing.T, n int, delay time.Duration) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var i int
		switch _, err := fmt.Sscanf(r.URL.Path, "/p%d", &i); {
		case r.URL.Path == "/":
		case err != nil || i >= n:
			http.NotFound(w, r)
			return
		}
		time.Sleep(delay)
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<a href="/p%d">next</a> <a href="/">home</a>`, i+1)
	}))
	t.Cleanup(s.Close)
	return s
}

func spec(url string) *jobv1.Spec {
	return &jobv1.Spec{
		Name: "j", Seeds: []string{url},
		Fetch:      &jobv1.Fetch{AllowNet: []string{"127.0.0.0/8"}},
		Politeness: &jobv1.Politeness{MinDelay: durationpb.New(0), DelayFactor: proto.Float64(0)},
	}
}

func watch(t *testing.T, p *Process, until func(*schedulerv1.JobStatus) bool) *schedulerv1.JobStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	stream, err := p.Admin().WatchJob(ctx, &gatewayv1.WatchJobRequest{JobId: "j", Interval: durationpb.New(100 * time.Millisecond)})
	for err == nil {
		var res *gatewayv1.WatchJobResponse
		if res, err = stream.Recv(); err == nil && until(res.GetJob()) {
			return res.GetJob()
		}
	}
	t.Fatal(err)
	return nil
}

func finished(st *schedulerv1.JobStatus) bool {
	return st.GetState() == schedulerv1.JobState_JOB_STATE_FINISHED
}

// A crawl through all five services, its trace, its orderly end.
func TestCrawl(t *testing.T) {
	dir, log, spans := t.TempDir(), &lines{}, tracetest.NewInMemoryExporter()
	cfg := Default(dir)
	cfg.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg.SpanProcessor, cfg.TraceRatio, cfg.AllowNoContact = sdktrace.NewSimpleSpanProcessor(keep{spans}), 1, true
	p, stop := start(t, cfg)
	web := site(t, 20, 0)
	if _, err := p.Admin().CreateJob(t.Context(), &gatewayv1.CreateJobRequest{Spec: spec(web.URL + "/"), Start: true}); err != nil {
		t.Fatal(err)
	}
	st := watch(t, p, finished)
	// 20 pages of the site, the one link that leads nowhere, and /sitemap.xml.
	if c := st.GetCounters(); c.GetStatusClasses()[2] != 20 || st.GetReason() != "empty" {
		t.Errorf("status %v", st)
	}
	urls := 0
	if err := p.EachURL(t.Context(), "j", func(*scheduler.URLInfo) error { urls++; return nil }); err != nil || uint64(urls) != st.GetCounters().GetKnown() {
		t.Errorf("%d URLs, %v; known are %d", urls, err, st.GetCounters().GetKnown())
	}

	// Anybody with the right to the folder can ask over the socket.
	info, err := os.Stat(filepath.Join(dir, "lycosa.sock"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("socket %v, %v", info, err)
	}
	conn, closer, err := rpc.NetDialer(rpc.ClientOptions{}).Dial(t.Context(), "unix:"+SocketPath(Layout(dir)))
	if err != nil {
		t.Fatal(err)
	}
	res, err := gatewayv1.NewAdminServiceClient(conn).ListInstances(t.Context(), &gatewayv1.ListInstancesRequest{})
	if err != nil || len(res.GetInstances()) != 4 {
		t.Errorf("over the socket: %v, %v", res, err)
	}
	_ = closer.Close()

	if err := stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if log.String() != "" {
		t.Errorf("warnings of an orderly crawl:\n%s", log)
	}
	if _, err := os.Stat(filepath.Join(dir, "lycosa.sock")); err == nil {
		t.Error("the socket is left")
	}
	if warcs, _ := filepath.Glob(filepath.Join(dir, "warc", "*.warc.gz")); len(warcs) != 1 {
		t.Errorf("WARC files %v", warcs)
	}
	rep, err := scheduler.Audit(Layout(dir).Frontier())
	if err != nil || len(rep.Violations) > 0 {
		t.Errorf("audit: %v, %+v", err, rep)
	}
	byTrace := map[string]map[string]bool{}
	for _, s := range spans.GetSpans() {
		id := s.SpanContext.TraceID().String()
		if byTrace[id] == nil {
			byTrace[id] = map[string]bool{}
		}
		byTrace[id][s.InstrumentationScope.Name] = true
	}
	whole := false
	for _, scopes := range byTrace {
		whole = whole || scopes["lycosa.dev/scheduler"] && scopes["lycosa.dev/downloader"] && scopes["lycosa.dev/extractor"] && scopes["lycosa.dev/dnser"]
	}
	if !whole {
		t.Errorf("no trace crosses the ring: %v", byTrace)
	}
}

// keep does not forget its spans when the process shuts tracing down.
type keep struct{ *tracetest.InMemoryExporter }

func (keep) Shutdown(context.Context) error { return nil }

// A stop in the middle lets the leases come home; the next start goes on.
func TestStopAndGoOn(t *testing.T) {
	dir := t.TempDir()
	cfg := Default(dir)
	cfg.AllowNoContact = true
	web := site(t, 40, 5*time.Millisecond)
	p, stop := start(t, cfg)
	if _, err := p.Admin().CreateJob(t.Context(), &gatewayv1.CreateJobRequest{Spec: spec(web.URL + "/"), Start: true}); err != nil {
		t.Fatal(err)
	}
	watch(t, p, func(st *schedulerv1.JobStatus) bool { return st.GetCounters().GetDone() > 3 })
	if err := stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	off, err := scheduler.OpenOffline(Layout(dir).Frontier())
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := off.Jobs(t.Context())
	if err != nil || len(jobs) != 1 || jobs[0].GetCounters().GetLeased() != 0 {
		t.Errorf("after the stop: %v, %v; no lease may be out", jobs, err)
	}
	if e, err := off.Explain(t.Context(), "j", web.URL); err != nil || e.GetState() != schedulerv1.UrlState_URL_STATE_DONE {
		t.Errorf("the seed: %v, %v", e, err)
	}
	if err := off.Close(); err != nil {
		t.Error(err)
	}
	p, stop = start(t, cfg)
	if c := watch(t, p, finished).GetCounters(); c.GetStatusClasses()[2] != 40 || c.GetLostLeases() != 0 {
		t.Errorf("counters %v", c)
	}
	if err := stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestFolderInUse(t *testing.T) {
	dir := t.TempDir()
	p, err := New(t.Context(), Default(dir))
	if err != nil {
		t.Fatal(err)
	}
	if got := Owner(Layout(dir)); got != os.Getpid() {
		t.Errorf("owner %d, want %d", got, os.Getpid())
	}
	_, err = New(t.Context(), Default(dir))
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("second: %v, want ErrInUse with the process", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if got := Owner(Layout(dir)); got != 0 {
		t.Errorf("owner %d after the end", got)
	}
	p, err = New(t.Context(), Default(dir))
	if err != nil {
		t.Fatalf("after the end: %v", err)
	}
	_ = p.Close()
}

func TestFolderThatCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), Default(filepath.Join(file, "crawl"))); !errors.Is(err, scheduler.ErrStorage) {
		t.Errorf("%v, want ErrStorage", err)
	}
}

func TestLongPathHasNoSocket(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	p, stop := start(t, Default(dir))
	if _, err := p.Admin().ListJobs(t.Context(), &gatewayv1.ListJobsRequest{}); err != nil && status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if SocketPath(Layout(dir)) != "" || len(p.Addresses()) != 0 {
		t.Errorf("addresses %v", p.Addresses())
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A failure of one part ends the process with that part's error.
func TestCorruptFrontier(t *testing.T) {
	dir := t.TempDir()
	_, stop := start(t, Default(dir))
	layout := Layout(dir)
	deadline := time.Now().Add(10 * time.Second)
	for {
		if m, _ := filepath.Glob(filepath.Join(layout.Frontier(), "MANIFEST-*")); len(m) > 0 || time.Now().After(deadline) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	manifests, err := filepath.Glob(filepath.Join(layout.Frontier(), "MANIFEST-*"))
	if err != nil || len(manifests) == 0 {
		t.Fatal("no manifest", err)
	}
	for _, m := range manifests {
		if err := os.WriteFile(m, []byte("nonsense, nonsense, nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := New(t.Context(), Default(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	if err := p.Run(t.Context()); !errors.Is(err, scheduler.ErrCorrupt) {
		t.Errorf("%v, want ErrCorrupt", err)
	}
}
