package rpc

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"lycosa.dev/internal/telemetry"
	dnserv1 "lycosa.dev/proto/gen/lycosa/dnser/v1"
	extractorv1 "lycosa.dev/proto/gen/lycosa/extractor/v1"
)

// serve runs a server on loopback TCP and returns its address and what Run
// returns once stop was called.
func serve(t *testing.T, server *Server, addr string) (string, func() error) {
	t.Helper()
	lis, err := server.Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx, lis) }()
	stopped := false
	stop := func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() { _ = stop() })
	return lis.Addr().String(), stop
}

func dial(t *testing.T, opt ClientOptions, addr string) grpc.ClientConnInterface {
	t.Helper()
	conn, closer, err := NetDialer(opt).Dial(context.Background(), addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closer.Close() })
	return conn
}

func answering() *testService {
	return &testService{
		lookup: func(_ context.Context, req *dnserv1.LookupRequest) (*dnserv1.LookupResponse, error) {
			if req.Host == "panic" {
				panic("on purpose")
			}
			return &dnserv1.LookupResponse{}, nil
		},
		extract: echo,
	}
}

func ask(conn grpc.ClientConnInterface, host string) error {
	_, err := dnserv1.NewDnserServiceClient(conn).Lookup(context.Background(), &dnserv1.LookupRequest{Host: host})
	return err
}

func TestToken(t *testing.T) {
	var log bytes.Buffer
	server := NewServer(ServerOptions{Token: "s3cret", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	answering().register(server)
	addr, stop := serve(t, server, "127.0.0.1:0")
	for token, want := range map[telemetry.Secret]codes.Code{"s3cret": codes.OK, "": codes.Unauthenticated, "s3cre": codes.Unauthenticated, "s3cretx": codes.Unauthenticated} {
		conn := dial(t, ClientOptions{Token: token}, addr)
		if err := ask(conn, "a.example"); status.Code(err) != want {
			t.Errorf("token %q: %v, want %v", token.Reveal(), err, want)
		}
		stream := openExtract(t, context.Background(), conn)
		_ = stream.CloseSend()
		_, err := stream.Recv()
		if got := status.Code(err); want != codes.OK && got != want {
			t.Errorf("stream with token %q: %v, want %v", token.Reveal(), err, want)
		}
		if _, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{}); err != nil {
			t.Errorf("health with token %q: %v", token.Reveal(), err)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if strings.Contains(log.String(), "s3cret") {
		t.Errorf("the token is in the log:\n%s", log.String())
	}
	if _, _, err := NetDialer(ClientOptions{Token: "x"}).Dial(context.Background(), "192.0.2.1:7071"); err == nil || strings.Contains(err.Error(), `"x"`) {
		t.Errorf("a token without TLS to another machine: %v", err)
	}
}

func TestValidation(t *testing.T) {
	server := NewServer(ServerOptions{})
	answering().register(server)
	addr, _ := serve(t, server, "127.0.0.1:0")
	conn := dial(t, ClientOptions{}, addr)
	if err := ask(conn, ""); status.Code(err) != codes.InvalidArgument {
		t.Errorf("an invalid request: %v", err)
	}
	stream := openExtract(t, context.Background(), conn)
	_ = stream.Send(&extractorv1.ExtractRequest{Part: &extractorv1.ExtractRequest_End{End: &extractorv1.PageEnd{}}})
	if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("an invalid message on a stream: %v", err)
	}
}

func TestPanicsAreLoggedAndCounted(t *testing.T) {
	var log bytes.Buffer
	reg := prometheus.NewRegistry()
	opt := ServerOptions{Registerer: reg, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	server := NewServer(opt)
	local := NewLocal(opt) // shares the metrics
	answering().register(server)
	local.Register("dnser", answering().register)
	addr, stop := serve(t, server, "127.0.0.1:0")
	inproc, _, _ := local.Dial(context.Background(), "inproc:dnser")
	for _, conn := range []grpc.ClientConnInterface{dial(t, ClientOptions{}, addr), inproc} {
		err := ask(conn, "panic")
		if status.Code(err) != codes.Internal || strings.Contains(err.Error(), ".go:") {
			t.Errorf("got %v", err)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := log.String(); !strings.Contains(got, "on purpose") || !strings.Contains(got, "server_test.go") {
		t.Errorf("the log has no stack:\n%s", got)
	}
	metrics, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, m := range metrics {
		if m.GetName() == "lycosa_rpc_panics_total" {
			found = true
			if n := m.Metric[0].Counter.GetValue(); n != 2 {
				t.Errorf("%v panics counted, want 2", n)
			}
		}
	}
	if !found {
		t.Error("no metric of panics")
	}
}

func TestHealthFollowsTheCheck(t *testing.T) {
	const service = "lycosa.dnser.v1.DnserService"
	sick := make(chan error, 1)
	state := errors.New("starting")
	server := NewServer(ServerOptions{HealthInterval: 5 * time.Millisecond})
	answering().register(server)
	server.AddHealth(service, func(context.Context) error {
		select {
		case state = <-sick:
		default:
		}
		return state
	})
	addr, _ := serve(t, server, "127.0.0.1:0")
	client := healthpb.NewHealthClient(dial(t, ClientOptions{}, addr))
	watch, err := client.Watch(context.Background(), &healthpb.HealthCheckRequest{Service: service})
	if err != nil {
		t.Fatal(err)
	}
	next := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		res, err := watch.Recv()
		if err != nil || res.Status != want {
			t.Fatalf("health %v %v, want %v", res, err, want)
		}
	}
	next(healthpb.HealthCheckResponse_NOT_SERVING)
	sick <- nil
	next(healthpb.HealthCheckResponse_SERVING)
	sick <- errors.New("disk full")
	next(healthpb.HealthCheckResponse_NOT_SERVING)
	server.Drain()
}

func TestReflection(t *testing.T) {
	server := NewServer(ServerOptions{})
	answering().register(server)
	addr, _ := serve(t, server, "127.0.0.1:0")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := reflectionpb.NewServerReflectionClient(dial(t, ClientOptions{}, addr)).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	res, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	names := ""
	for _, s := range res.GetListServicesResponse().GetService() {
		names += s.Name + " "
	}
	for _, want := range []string{"lycosa.dnser.v1.DnserService", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"} {
		if !strings.Contains(names, want+" ") {
			t.Errorf("%s is not listed in %s", want, names)
		}
	}
}

func TestForcedStop(t *testing.T) {
	ended := make(chan struct{})
	began := make(chan struct{})
	svc := answering()
	svc.extract = func(stream extractStream) error { // drains never
		defer close(ended)
		close(began)
		<-stream.Context().Done()
		return nil
	}
	server := NewServer(ServerOptions{DrainTimeout: 10 * time.Millisecond})
	svc.register(server)
	addr, stop := serve(t, server, "127.0.0.1:0")
	stream := openExtract(t, context.Background(), dial(t, ClientOptions{}, addr))
	<-began
	if err := stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	select {
	case <-ended:
	default:
		t.Error("Run returned before the handler")
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable && status.Code(err) != codes.Canceled {
		t.Errorf("client saw %v", err)
	}
}

func TestCheckListen(t *testing.T) {
	conf := &tls.Config{}
	for _, c := range []struct {
		addr  string
		conf  *tls.Config
		token telemetry.Secret
		want  string // "" is allowed
	}{
		{"127.0.0.1:7071", nil, "", ""},
		{"[::1]:7071", nil, "", ""},
		{"localhost:0", nil, "", ""},
		{"unix:/tmp/x.sock", nil, "", ""},
		{"unix:", nil, "", "a path must follow"},
		{":7071", nil, "", "needs TLS (tls.cert, tls.key) and a token"},
		{"0.0.0.0:7071", conf, "", "needs a token"},
		{"[::]:7071", nil, "x", "needs TLS (tls.cert, tls.key);"},
		{"crawler.example:7071", nil, "", "open to other machines"},
		{"0.0.0.0:7071", conf, "x", ""},
		{"7071", nil, "", "must be host:port"},
	} {
		err := CheckListen(c.addr, c.conf, c.token)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.addr, err, c.want)
		}
	}
}

func TestPortInUse(t *testing.T) {
	server := NewServer(ServerOptions{})
	addr, _ := serve(t, server, "127.0.0.1:0")
	if _, err := server.Listen(addr); err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("a port in use: %v", err)
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	// What a dead process leaves.
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false)
	_ = old.Close()

	server := NewServer(ServerOptions{})
	answering().register(server)
	_, stop := serve(t, server, "unix:"+path)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v %v", info.Mode(), err)
	}
	if err := ask(dial(t, ClientOptions{}, "unix:"+path), "a.example"); err != nil {
		t.Error(err)
	}
	if _, err := server.Listen("unix:" + path); err == nil {
		t.Error("a socket in use was taken over")
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	file := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Listen("unix:" + file); err == nil {
		t.Error("a plain file was replaced by a socket")
	}
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	files := writeCerts(t, dir)
	conf, err := files.Server()
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(ServerOptions{TLS: conf, Token: "t"})
	answering().register(server)
	addr, _ := serve(t, server, "127.0.0.1:0")

	client, err := files.Client()
	if err != nil {
		t.Fatal(err)
	}
	if err := ask(dial(t, ClientOptions{TLS: client, Token: "t"}, addr), "a.example"); err != nil {
		t.Errorf("with both certificates: %v", err)
	}
	bare, err := TLSFiles{CA: files.CA}.Client()
	if err != nil {
		t.Fatal(err)
	}
	if err := ask(dial(t, ClientOptions{TLS: bare, Token: "t"}, addr), "a.example"); err == nil {
		t.Error("a client without a certificate was let in")
	}
	if err := ask(dial(t, ClientOptions{Token: "t"}, addr), "a.example"); err == nil {
		t.Error("a client without TLS was let in")
	}
	wrong := files
	wrong.ServerName = "other.example"
	wrongConf, err := wrong.Client()
	if err != nil {
		t.Fatal(err)
	}
	if err := ask(dial(t, ClientOptions{TLS: wrongConf, Token: "t"}, addr), "a.example"); err == nil {
		t.Error("a certificate of another name was accepted")
	}

	if conf, err := (TLSFiles{}).Server(); conf != nil || err != nil {
		t.Errorf("no files: %v %v", conf, err)
	}
	for name, f := range map[string]TLSFiles{
		"half": {Cert: files.Cert}, "missing": {Cert: filepath.Join(dir, "none"), Key: files.Key},
		"swapped": {Cert: files.Key, Key: files.Cert}, "bad ca": {Cert: files.Cert, Key: files.Key, CA: files.Key},
	} {
		if _, err := f.Server(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func writeCerts(t *testing.T, dir string) TLSFiles {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, kind string, b []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	cert := put("cert.pem", "CERTIFICATE", der)
	return TLSFiles{Cert: cert, Key: put("key.pem", "PRIVATE KEY", keyDER), CA: cert}
}

func TestReadToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(" abc \nrest\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadToken("", file); err != nil || got.Reveal() != "abc" {
		t.Errorf("from the file: %v %v", got.Reveal(), err)
	}
	if got, err := ReadToken("x", ""); err != nil || got.Reveal() != "x" {
		t.Errorf("given: %v %v", got.Reveal(), err)
	}
	for _, c := range []struct{ token, file string }{{"x", file}, {"", empty}, {"", file + ".none"}} {
		if _, err := ReadToken(telemetry.Secret(c.token), c.file); err == nil {
			t.Errorf("%v: no error", c)
		}
	}
}

// A unary call is one trace over a network and in process.
func TestUnaryTrace(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	server := NewServer(ServerOptions{TracerProvider: provider})
	local := NewLocal(ServerOptions{TracerProvider: provider})
	answering().register(server)
	local.Register("dnser", answering().register)
	addr, _ := serve(t, server, "127.0.0.1:0")
	dialer := Dialers{Local: local, Net: NetDialer(ClientOptions{})}
	for _, addr := range []string{addr, "inproc:dnser"} {
		spans.Reset()
		conn, closer, err := dialer.Dial(context.Background(), addr)
		if err != nil {
			t.Fatal(err)
		}
		ctx, parent := provider.Tracer("t").Start(context.Background(), "parent")
		if _, err := dnserv1.NewDnserServiceClient(conn).Lookup(ctx, &dnserv1.LookupRequest{Host: "a.example"}); err != nil {
			t.Fatal(err)
		}
		parent.End()
		_ = closer.Close()
		got := spans.GetSpans()
		if len(got) != 2 || got[0].Name != "lycosa.dnser.v1.DnserService/Lookup" || got[0].Parent.SpanID() != parent.SpanContext().SpanID() {
			t.Errorf("%s: spans %v", addr, got)
		}
	}
}
