package e2e

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"lycosa.dev/internal/testweb"
)

// span is one span as a collector gets it.
type span struct {
	trace, id, parent string
	service, name     string
	start             time.Time
}

// collector receives OTLP over gRPC, as Jaeger does.
type collector struct {
	collectorv1.UnimplementedTraceServiceServer
	addr string

	mu    sync.Mutex
	spans []span
}

func startCollector(t testing.TB) *collector {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{addr: lis.Addr().String()}
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, c)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(lis)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return c
}

// Export implements the collector's one method.
func (c *collector) Export(_ context.Context, req *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rs := range req.GetResourceSpans() {
		service := ""
		for _, a := range rs.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				// In one process the resource is the process; the scope tells
				// the service then.
				c.spans = append(c.spans, span{
					trace: hex.EncodeToString(s.GetTraceId()), id: hex.EncodeToString(s.GetSpanId()), parent: hex.EncodeToString(s.GetParentSpanId()),
					service: serviceOf(service, ss.GetScope().GetName()), name: s.GetName(), start: time.Unix(0, int64(s.GetStartTimeUnixNano())),
				})
			}
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// serviceOf finds which of the five made a span.
func serviceOf(resource, scope string) string {
	for _, text := range []string{resource, scope} {
		for _, s := range []string{"scheduler", "downloader", "extractor", "dnser", "gateway"} {
			if strings.Contains(text, s) {
				return s
			}
		}
	}
	return resource + "/" + scope
}

func (c *collector) all() []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// wholeRing is the way of a lease that ended well.
const wholeRing = "scheduler downloader extractor dnser scheduler"

// ways returns, for each trace of a lease, the services that the longest line
// of spans from the root passes, in order. What has a trace and is no lease
// (an admin call, a look-up) never meets a downloader or an extractor.
func ways(spans []span) map[string]string {
	byID, lease := map[string]span{}, map[string]bool{}
	for _, s := range spans {
		byID[s.trace+s.id] = s
		if s.service == "downloader" || s.service == "extractor" || s.name == "lease" {
			lease[s.trace] = true
		}
	}
	out := map[string]string{}
	for _, s := range spans {
		if !lease[s.trace] {
			continue
		}
		var line []string
		at, ok := s, true
		for hops := 0; ok && hops < 50; hops++ {
			if len(line) == 0 || line[len(line)-1] != at.service {
				line = append(line, at.service)
			}
			if at.parent == "" {
				break
			}
			at, ok = byID[at.trace+at.parent]
		}
		if !ok {
			line = append(line, "(lost)")
		}
		slices.Reverse(line)
		if way := strings.Join(line, " "); len(way) > len(out[s.trace]) {
			out[s.trace] = way
		}
	}
	return out
}

// checkTraces waits until there is one whole trace a lease: pages fetched and
// robots.txt alike.
func checkTraces(t testing.TB, c *collector, fetched int) {
	t.Helper()
	whole := func() (n int, others map[string]int) {
		others = map[string]int{}
		for _, way := range ways(c.all()) {
			if way == wholeRing {
				n++
			} else {
				others[way]++
			}
		}
		return n, others
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		n, others := whole()
		if n == fetched && len(others) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%d of %d leases have a trace through %s; others: %v", n, fetched, wholeRing, others)
			for i, s := range c.all() {
				if i > 30 {
					break
				}
				t.Logf("%s %s<-%s %s %s", s.trace, s.id, s.parent, s.service, s.name)
			}
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func traceSite(t testing.TB) *site {
	t.Helper()
	return newSite(t, []string{"a.test", "b.test"}, testweb.Graph{Pages: 8, Links: 6, BodyBytes: 500})
}

// TestTraceProcesses: over five processes each lease is one trace, in the order
// of the ring.
func TestTraceProcesses(t *testing.T) {
	t.Parallel()
	s, c := traceSite(t), startCollector(t)
	r := startRing(t, 2, "--otlp", c.addr, "--trace-ratio", "1")
	r.create(spec("traced", 0, s.seed))
	r.waitFinished("traced", time.Minute)
	r.stopAll()
	checkTraces(t, c, len(s.web.Requests()))
}

// TestTraceOneProcess is the same in one process.
func TestTraceOneProcess(t *testing.T) {
	t.Parallel()
	s, c := traceSite(t), startCollector(t)
	p := startProcess(t, func(cmd *exec.Cmd) {
		cmd.Env = append(os.Environ(), "LYCOSA_OTLP="+c.addr, "LYCOSA_TRACE_RATIO=1")
	}, binary(t, "lycosa"), polite(t.TempDir(), "--scope", "any", s.seed)...)
	if code := p.exitsWithin(time.Minute); code != 0 {
		t.Fatalf("exit code %d\n%s", code, ends(p.err.String()))
	}
	checkTraces(t, c, len(s.web.Requests()))
}

// TestJaeger finds the leases' traces through a real Jaeger's query API.
// LYCOSA_JAEGER names its binary (make jaeger builds it; make test-jaeger runs
// this).
func TestJaeger(t *testing.T) {
	jaeger := os.Getenv("LYCOSA_JAEGER")
	if jaeger == "" {
		t.Skip("LYCOSA_JAEGER is not set: it names the binary of Jaeger (make test-jaeger)")
	}
	// The configuration that make up uses, on other ports.
	config, err := os.ReadFile("../jaeger.yaml")
	if err != nil {
		t.Fatal(err)
	}
	free := freeAddrs(t, 3)
	for i, addr := range []string{"127.0.0.1:16686", "127.0.0.1:16685", "127.0.0.1:4317"} {
		if !bytes.Contains(config, []byte(addr)) {
			t.Fatalf("deploy/jaeger.yaml does not name %s", addr)
		}
		config = bytes.ReplaceAll(config, []byte(addr), []byte(free[i]))
	}
	file := filepath.Join(t.TempDir(), "jaeger.yaml")
	if err := os.WriteFile(file, config, 0o644); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, nil, jaeger, "--config", file)
	get := func(path string, into any) error {
		resp, err := http.Get("http://" + free[0] + path)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", path, resp.Status)
		}
		return json.NewDecoder(resp.Body).Decode(into)
	}
	eventually(t, time.Minute, "Jaeger answers", func() bool {
		if !p.running() {
			t.Fatalf("Jaeger ended: %s%s", ends(p.out.String()), ends(p.err.String()))
		}
		var any map[string]any
		return get("/api/services", &any) == nil
	})
	s := traceSite(t)
	r := startRing(t, 1, "--otlp", free[2], "--trace-ratio", "1")
	r.create(spec("traced", 0, s.seed))
	r.waitFinished("traced", time.Minute)
	r.stopAll()

	var got map[string]int
	want := len(s.web.Requests())
	eventually(t, 30*time.Second, "all traces are in Jaeger", func() bool {
		var answer struct {
			Data []struct {
				TraceID   string
				Processes map[string]struct{ ServiceName string }
				Spans     []struct {
					SpanID, OperationName, ProcessID string
					References                       []struct{ RefType, SpanID, TraceID string }
				}
			}
		}
		if err := get("/api/traces?service=lycosa-scheduler&limit=1000", &answer); err != nil {
			t.Log(err)
			return false
		}
		var spans []span
		for _, tr := range answer.Data {
			for _, sp := range tr.Spans {
				one := span{trace: tr.TraceID, id: sp.SpanID, name: sp.OperationName, service: serviceOf(tr.Processes[sp.ProcessID].ServiceName, "")}
				for _, ref := range sp.References {
					if ref.RefType == "CHILD_OF" && ref.TraceID == tr.TraceID {
						one.parent = ref.SpanID
					}
				}
				spans = append(spans, one)
			}
		}
		got = map[string]int{}
		for _, way := range ways(spans) {
			got[way]++
		}
		return got[wholeRing] == want
	})
	if len(got) != 1 {
		t.Errorf("traces in Jaeger by their way: %v, want %d of %s alone", got, want, wholeRing)
	}
}
