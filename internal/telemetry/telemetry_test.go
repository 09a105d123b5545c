package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSecretIsNeverSeen(t *testing.T) {
	s := Secret("hunter2")
	holder := struct {
		S Secret
		P *Secret
		M map[string]Secret
	}{s, &s, map[string]Secret{"k": s}}
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%T", "%10s", "%-3v"} {
		fmt.Fprintf(&out, verb+" ", s)
		fmt.Fprintf(&out, verb+" ", holder)
		fmt.Fprintf(&out, verb+" ", []Secret{s})
	}
	j, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(j)
	for _, format := range []string{FormatText, FormatJSON} {
		log, err := NewLogger("debug", format, &out)
		if err != nil {
			t.Fatal(err)
		}
		log.Info("x", "secret", s, "holder", holder)
	}
	for _, form := range []string{"hunter2", fmt.Sprintf("%x", "hunter2"), fmt.Sprintf("%X", "hunter2")} {
		if strings.Contains(out.String(), form) {
			t.Errorf("%q shows in: %s", form, out.String())
		}
	}
	if s.Reveal() != "hunter2" || !strings.Contains(out.String(), "***") {
		t.Error("Reveal, or the mask, is gone")
	}
	if fmt.Sprint(Secret("")) != "" {
		t.Error("an empty secret shows something")
	}
}

func TestLogger(t *testing.T) {
	var out bytes.Buffer
	log, err := NewLogger("warn", FormatJSON, &out)
	if err != nil {
		t.Fatal(err)
	}
	log.Info("quiet")
	log.Warn("loud", "n", 1)
	if got := out.String(); strings.Contains(got, "quiet") || !strings.Contains(got, `"msg":"loud","n":1`) {
		t.Errorf("logged %s", got)
	}
	if _, err := NewLogger("loud", FormatText, &out); err == nil {
		t.Error("level loud was accepted")
	}
	if _, err := NewLogger("info", "xml", &out); err == nil {
		t.Error("format xml was accepted")
	}
	if Discard().Enabled(context.Background(), slog.LevelError) {
		t.Error("Discard writes")
	}
}

const example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestTraceparentRoundTrip(t *testing.T) {
	ctx := Extract(context.Background(), example)
	sc := trace.SpanContextFromContext(ctx)
	if sc.TraceID().String() != "4bf92f3577b34da6a3ce929d0e0e4736" || sc.SpanID().String() != "00f067aa0ba902b7" || !sc.IsSampled() || !sc.IsRemote() {
		t.Errorf("extracted %+v", sc)
	}
	if got := Inject(ctx); got != example {
		t.Errorf("injected %q", got)
	}
	if got := Inject(context.Background()); got != "" {
		t.Errorf("without a span: %q", got)
	}
	unsampled := Extract(context.Background(), strings.TrimSuffix(example, "1")+"0")
	if got := Inject(unsampled); got != Unsampled {
		t.Errorf("not sampled: %q", got)
	}
	sc = trace.SpanContextFromContext(Extract(context.Background(), Unsampled))
	if !sc.IsValid() || sc.IsSampled() || !sc.IsRemote() {
		t.Errorf("extracted from Unsampled: %+v", sc)
	}
}

func TestTraceparentParsing(t *testing.T) {
	for s, ok := range map[string]bool{
		example: true,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00":      true,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff":      true, // unknown flags
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":      true, // a later version
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more": true,
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.more": false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more": false,
		"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":      false,
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01":      false,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01":      false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01":      false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7":         false,
		"00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01":      false,
		"0g-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":      false,
		"00-4bf92f3577b34da6a3ce929d0e0e473\xff-00f067aa0ba902b7-01":   false,
		"":       false,
		"banana": false,
	} {
		if _, got := ParseTraceparent(s); got != ok {
			t.Errorf("%q: %v, want %v", s, got, ok)
		}
		if ctx := Extract(context.Background(), s); (ctx != context.Background()) != ok {
			t.Errorf("Extract(%q) changed the context: %v, want %v", s, !ok, ok)
		}
	}
}

func TestInjectAllocates(t *testing.T) {
	off := context.Background()
	unsampled := Extract(off, Unsampled)
	sampled := Extract(off, example)
	for name, c := range map[string]struct {
		ctx  context.Context
		most float64
	}{"off": {off, 0}, "unsampled": {unsampled, 0}, "sampled": {sampled, 1}} {
		if n := testing.AllocsPerRun(100, func() { _ = Inject(c.ctx) }); n > c.most {
			t.Errorf("%s: %v allocations, want at most %v", name, n, c.most)
		}
	}
}

func FuzzParseTraceparent(f *testing.F) {
	f.Add(example)
	f.Add(Unsampled)
	f.Fuzz(func(t *testing.T, s string) {
		sc, ok := ParseTraceparent(s)
		if ok != sc.IsValid() {
			t.Errorf("%q: ok is %v, the context's validity %v", s, ok, sc.IsValid())
		}
		if ok && sc.IsSampled() && len(s) == traceparentLen && s[:2] == "00" && s[53:] == "01" && Traceparent(sc) != s {
			t.Errorf("%q came back as %q", s, Traceparent(sc))
		}
	})
}

func TestSamplingFollowsTheParent(t *testing.T) {
	recorder := tracetest.NewInMemoryExporter()
	tel, err := Setup(context.Background(), Config{Service: "t", Instance: "i", SampleRatio: 0, Processor: sdktrace.NewSimpleSpanProcessor(recorder)})
	if err != nil {
		t.Fatal(err)
	}
	tracer := tel.Tracer("t")
	span := func(traceparent string) (string, bool) {
		ctx, s := tracer.Start(Extract(context.Background(), traceparent), "s")
		defer s.End()
		return Inject(ctx), Sampled(ctx)
	}
	if tp, sampled := span(""); sampled || tp != Unsampled {
		t.Errorf("a new trace at ratio 0: %q %v", tp, sampled)
	}
	if tp, sampled := span(Unsampled); sampled || tp != Unsampled {
		t.Errorf("of an unsampled parent: %q %v", tp, sampled)
	}
	if tp, sampled := span(example); !sampled || !strings.HasPrefix(tp, example[:35]) || tp == example {
		t.Errorf("of a sampled parent: %q %v", tp, sampled)
	}
	got := recorder.GetSpans()
	if len(got) != 1 || got[0].Parent.SpanID().String() != "00f067aa0ba902b7" {
		t.Errorf("recorded %v", got)
	}
	if err := tel.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}

	if _, err := Setup(context.Background(), Config{SampleRatio: 1.5}); err == nil {
		t.Error("ratio 1.5 was accepted")
	}
	off, err := Setup(context.Background(), Config{Service: "t", SampleRatio: 1})
	if err != nil || off.Enabled() {
		t.Errorf("without endpoint: %v %v", off, err)
	}
	ctx, s := off.Tracer("t").Start(context.Background(), "s")
	s.End()
	if Inject(ctx) != "" || off.Shutdown(context.Background()) != nil || off.Flush(context.Background()) != nil {
		t.Error("tracing that is off does something")
	}
}

type otlpServer struct {
	collector.UnimplementedTraceServiceServer
	got chan *collector.ExportTraceServiceRequest
}

func (s *otlpServer) Export(_ context.Context, req *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.got <- req
	return &collector.ExportTraceServiceResponse{}, nil
}

func TestSpansReachACollector(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	otlp := &otlpServer{got: make(chan *collector.ExportTraceServiceRequest, 1)}
	collector.RegisterTraceServiceServer(server, otlp)
	go func() { _ = server.Serve(lis) }()
	defer server.Stop()

	tel, err := Setup(context.Background(), Config{Service: "dnser", Instance: "d1", OTLPEndpoint: lis.Addr().String(), SampleRatio: 1, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	_, span := tel.Tracer("t").Start(context.Background(), "resolve")
	span.End()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := tel.Run(ctx); err != nil { // flushes on its way out
		t.Fatal(err)
	}
	rs := (<-otlp.got).ResourceSpans[0]
	if name := rs.ScopeSpans[0].Spans[0].Name; name != "resolve" {
		t.Errorf("span %q", name)
	}
	if attrs := fmt.Sprint(rs.Resource.Attributes); !strings.Contains(attrs, "lycosa-dnser") || !strings.Contains(attrs, "d1") {
		t.Errorf("resource %s", attrs)
	}
}

func TestDebugServer(t *testing.T) {
	var sick error
	reg := NewRegistry()
	d, err := NewDebugServer(DebugOptions{
		Addr: "127.0.0.1:0", Gatherer: reg,
		Health: func(context.Context) error { return sick },
		Ready:  func(context.Context) error { return errors.New("joining") },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) (int, string) {
		res, err := client.Get("http://" + d.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(b)
	}
	for _, c := range []struct {
		path, want string
		code       int
	}{
		{"/metrics", "lycosa_build_info{version=", 200}, {"/metrics", "go_goroutines", 200},
		{"/debug/pprof/", "goroutine", 200}, {"/debug/pprof/cmdline", "", 200},
		{"/healthz", "ok", 200}, {"/readyz", "joining", 503}, {"/other", "", 404},
	} {
		if code, body := get(c.path); code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %.100s", c.path, code, body)
		}
	}
	sick = errors.New("disk full")
	if code, body := get("/healthz"); code != 503 || !strings.Contains(body, "disk full") {
		t.Errorf("/healthz when sick: %d %s", code, body)
	}
	if _, err := NewDebugServer(DebugOptions{Addr: d.Addr().String()}); err == nil {
		t.Error("a port in use was opened")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestDebugServerIsLoopbackOnly(t *testing.T) {
	for addr, ok := range map[string]bool{
		"127.0.0.1:0": true, "[::1]:0": true, "localhost:0": true,
		":0": false, "0.0.0.0:0": false, "[::]:0": false, "192.0.2.1:80": false, "example.org:80": false, "x": false,
	} {
		if err := checkLoopback(addr); (err == nil) != ok {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

func TestRegistryIsNotGlobal(t *testing.T) {
	NewRegistry()
	NewRegistry()
}

func BenchmarkInject(b *testing.B) {
	ctx := Extract(context.Background(), example)
	b.ReportAllocs()
	for b.Loop() {
		_ = Inject(ctx)
	}
}

func BenchmarkExtract(b *testing.B) {
	b.Run("sampled", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = Extract(context.Background(), example)
		}
	})
	b.Run("unsampled", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = Extract(context.Background(), Unsampled)
		}
	})
}
