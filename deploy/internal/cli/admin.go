package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"lycosa.dev/deploy/allinone"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/telemetry"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// Where the admin commands look when nothing is said.
const (
	defaultAddress = "127.0.0.1:7070"
	defaultDir     = "crawl"
)

// adminFlags say which Lycosa to ask.
type adminFlags struct {
	Address       string `placeholder:"HOST:PORT" help:"Ask the gateway at this address (default 127.0.0.1:7070)."`
	Dir           string `placeholder:"DIR" help:"Ask the crawl that runs in this folder; if none runs, read the folder."`
	TokenFile     string `placeholder:"FILE" help:"File whose first line is the gateway's token (or LYCOSA_TOKEN)."`
	TLSCA         string `name:"tls-ca" placeholder:"FILE" help:"Authorities that the gateway's certificate must come from; turns TLS on."`
	TLSCert       string `name:"tls-cert" placeholder:"FILE" help:"Certificate of this side."`
	TLSKey        string `name:"tls-key" placeholder:"FILE" help:"Its private key."`
	TLSServerName string `name:"tls-server-name" placeholder:"NAME" help:"Name to expect in the gateway's certificate."`
	JSON          bool   `name:"json" help:"Answer as JSON."`
}

// errNobody: no living process serves the folder.
var errNobody = errors.New("nobody serves it")

// client is a connection to AdminService.
type client struct {
	gatewayv1.AdminServiceClient
	closer io.Closer
	where  string
}

func (c *client) Close() { _ = c.closer.Close() }

// connect finds the Lycosa that is meant: the address given, else the crawl
// that runs in the folder given, else the one in ./crawl, else the default
// address. errNobody means that only the folder can be read.
func (f *adminFlags) connect(a *App) (*client, error) {
	if f.Address != "" && f.Dir != "" {
		return nil, usage("--address and --dir: give one of them")
	}
	if f.Address != "" {
		return f.dial(a, f.Address)
	}
	dir := f.folder()
	if socket := allinone.SocketPath(allinone.Layout(dir)); socket != "" && answers("unix", socket) {
		return f.dial(a, "unix:"+socket)
	}
	switch {
	case f.Dir != "":
		return nil, fmt.Errorf("no crawl runs in %s: %w", dir, errNobody)
	case answers("tcp", defaultAddress):
		return f.dial(a, defaultAddress)
	}
	return nil, fmt.Errorf("no crawl runs in ./%s and no gateway answers at %s: %w", dir, defaultAddress, errNobody)
}

// folder is the folder that is meant.
func (f *adminFlags) folder() string {
	if f.Dir != "" {
		return f.Dir
	}
	return defaultDir
}

// answers says whether somebody listens.
func answers(network, addr string) bool {
	conn, err := net.DialTimeout(network, addr, 500*time.Millisecond)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func (f *adminFlags) dial(a *App, addr string) (*client, error) {
	token, err := rpc.ReadToken("", f.TokenFile)
	if err != nil {
		return nil, usage("%w", err)
	}
	if token == "" {
		token = telemetry.Secret(a.Getenv("LYCOSA_TOKEN"))
	}
	opt := rpc.ClientOptions{MaxBackoff: time.Second}
	if !strings.HasPrefix(addr, "unix:") {
		// The folder's own socket speaks neither TLS nor asks for a token.
		opt.Token = token
		if opt.TLS, err = (rpc.TLSFiles{CA: f.TLSCA, Cert: f.TLSCert, Key: f.TLSKey, ServerName: f.TLSServerName}).Client(); err != nil {
			return nil, usage("%w", err)
		}
	}
	conn, closer, err := rpc.NetDialer(opt).Dial(a.ctx, addr)
	if err != nil {
		return nil, usage("%w", err)
	}
	return &client{gatewayv1.NewAdminServiceClient(conn), closer, addr}, nil
}

// live connects for a command that needs a living process.
func (f *adminFlags) live(a *App) (*client, error) {
	c, err := f.connect(a)
	if errors.Is(err, errNobody) {
		what := "start `lycosa up` or `lycosa crawl` there"
		if f.Dir == "" {
			what = "start `lycosa up` or `lycosa crawl`, or give --address or --dir"
		}
		return nil, &exitError{ExitFailure, fmt.Errorf("%w; %s", err, what)}
	}
	return c, err
}

// read asks a living process, or where there is none, the folder on disk.
func read[T any](f *adminFlags, a *App, ask func(ctx context.Context, c *client) (T, error), look func(ctx context.Context, o offline) (T, error)) (T, error) {
	var zero T
	c, err := f.connect(a)
	if err == nil {
		defer c.Close()
		return ask(a.ctx, c)
	}
	frontier := allinone.Layout(f.folder()).Frontier()
	if !errors.Is(err, errNobody) {
		return zero, err
	}
	if !exists(frontier) {
		return zero, &exitError{ExitUsage, fmt.Errorf("%w, and %s holds no crawl; give --dir or --address", err, f.folder())}
	}
	o, err := a.openOffline(frontier)
	if err != nil {
		return zero, err
	}
	defer o.Close()
	return look(a.ctx, o)
}

// oneJob is the job that is meant when none is named: the only one.
func oneJob(jobs []*schedulerv1.JobStatus, id string) (*schedulerv1.JobStatus, error) {
	var ids []string
	for _, st := range jobs {
		if st.GetJobId() == id {
			return st, nil
		}
		ids = append(ids, st.GetJobId())
	}
	switch {
	case len(jobs) == 0:
		return nil, usage("there is no job")
	case id != "":
		return nil, usage("there is no job %q; there are: %s", id, strings.Join(ids, ", "))
	case len(jobs) > 1:
		return nil, usage("which job? there are: %s", strings.Join(ids, ", "))
	}
	return jobs[0], nil
}

// theJob asks for the job that is meant.
func (c *client) theJob(ctx context.Context, id string) (*schedulerv1.JobStatus, error) {
	res, err := c.ListJobs(ctx, &gatewayv1.ListJobsRequest{})
	if err != nil {
		return nil, err
	}
	return oneJob(res.GetJobs(), id)
}

// protoJSON writes messages as JSON, one a line.
func (a *App) protoJSON(messages ...proto.Message) error {
	for _, m := range messages {
		b, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(m)
		if err != nil {
			return err
		}
		if _, err := a.Stdout.Write(append(b, '\n')); err != nil {
			return err
		}
	}
	return nil
}
