package rpc

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"lycosa.dev/internal/telemetry"
)

// Dialer makes channels to services. A service gets one and does not know
// whether its peers are in its process or not. Dialling does no I/O: a peer
// that is away shows in the calls.
type Dialer interface {
	Dial(ctx context.Context, addr string) (grpc.ClientConnInterface, io.Closer, error)
}

// ClientOptions configures a NetDialer. The zero value dials loopback without
// TLS.
type ClientOptions struct {
	// TLS makes connections TLS; see TLSFiles.
	TLS *tls.Config
	// Token goes with every call. Without TLS it is sent to loopback and unix
	// sockets only; Dial refuses other addresses.
	Token telemetry.Secret
	// MaxMessageBytes as in ServerOptions.
	MaxMessageBytes int
	// MaxBackoff bounds the wait between attempts to connect; 0 is 5 s.
	MaxBackoff time.Duration
	// GRPC are further options.
	GRPC []grpc.DialOption
}

type netDialer struct{ opt ClientOptions }

// NetDialer returns the Dialer over sockets: "host:port" or "unix:/path".
func NetDialer(opt ClientOptions) Dialer {
	if opt.MaxMessageBytes == 0 {
		opt.MaxMessageBytes = DefaultMaxMessageBytes
	}
	if opt.MaxBackoff == 0 {
		opt.MaxBackoff = 5 * time.Second
	}
	return &netDialer{opt}
}

// Dial implements Dialer.
func (d *netDialer) Dial(_ context.Context, addr string) (grpc.ClientConnInterface, io.Closer, error) {
	conn, err := d.dial(addr)
	if err != nil {
		return nil, nil, err
	}
	return conn, conn, nil
}

func (d *netDialer) dial(addr string) (*grpc.ClientConn, error) {
	target := addr
	local := true
	if !strings.HasPrefix(addr, "unix:") {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, fmt.Errorf("dial %q: must be host:port or unix:path: %w", addr, err)
		}
		local = isLoopback(host)
		// The resolver that hands the address to the dialer as it stands: Go's
		// own dialer looks the name up anew at each connection.
		target = "passthrough:///" + addr
	}
	creds := insecure.NewCredentials()
	if d.opt.TLS != nil {
		creds = credentials.NewTLS(d.opt.TLS)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(d.opt.MaxMessageBytes),
			grpc.MaxCallSendMsgSize(d.opt.MaxMessageBytes),
		),
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithReadBufferSize(ioBuffer),
		grpc.WithWriteBufferSize(ioBuffer),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: keepaliveTime, Timeout: keepaliveTimeout, PermitWithoutStream: true,
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: d.opt.MaxBackoff,
			},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithIdleTimeout(0),
		grpc.WithDisableServiceConfig(),
		grpc.WithNoProxy(),
		grpc.WithChainUnaryInterceptor(injectUnary),
		grpc.WithUserAgent("lycosa/" + telemetry.Version()),
	}
	if d.opt.Token != "" {
		if d.opt.TLS == nil && !local {
			return nil, fmt.Errorf("dial %q: a token is not sent to another machine without TLS: give tls.ca", addr)
		}
		options = append(options, grpc.WithPerRPCCredentials(tokenCreds{
			header: "Bearer " + d.opt.Token.Reveal(), secure: d.opt.TLS != nil,
		}))
	}
	conn, err := grpc.NewClient(target, append(options, d.opt.GRPC...)...)
	if err != nil {
		return nil, fmt.Errorf("dial %q: %w", addr, err)
	}
	return conn, nil
}

// Dialers is a Dialer that gives addresses of in-process services to Local and
// the others to Net.
type Dialers struct {
	Local *Local
	Net   Dialer
}

// Dial implements Dialer.
func (d Dialers) Dial(ctx context.Context, addr string) (grpc.ClientConnInterface, io.Closer, error) {
	if strings.HasPrefix(addr, LocalScheme) {
		if d.Local == nil {
			return nil, nil, fmt.Errorf("dial %q: no in-process services here; must be host:port", addr)
		}
		return d.Local.Dial(ctx, addr)
	}
	if d.Net == nil {
		return nil, nil, fmt.Errorf("dial %q: must be %s<service> in one process", addr, LocalScheme)
	}
	return d.Net.Dial(ctx, addr)
}
