// Package rpc is the gRPC chassis of every service.
package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	"lycosa.dev/internal/telemetry"
)

var errNotBuilt = errors.New("rpc: not built")

// ServerOptions configures a Server, and a Local.
type ServerOptions struct {
	Logger          *slog.Logger
	Registerer      prometheus.Registerer
	TracerProvider  trace.TracerProvider
	TLS             *tls.Config
	Token           telemetry.Secret
	MaxMessageBytes int
	DrainTimeout    time.Duration
	ValidateStreams func(fullMethod string) bool
}

// Server is a gRPC server with the house's interceptors, health and reflection.
type Server struct{}

func NewServer(opt ServerOptions) *Server                                         { return nil }
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any)                {}
func (s *Server) AddHealth(service string, check func(ctx context.Context) error) {}
func (s *Server) Listen(addr string) (net.Listener, error)                        { return nil, errNotBuilt }
func (s *Server) Run(ctx context.Context, lis net.Listener) error                 { return errNotBuilt }
func (s *Server) GRPC() *grpc.Server                                              { return nil }

// Dialer makes client connections.
type Dialer interface {
	Dial(ctx context.Context, addr string) (grpc.ClientConnInterface, io.Closer, error)
}

type ClientOptions struct {
	Logger         *slog.Logger
	TracerProvider trace.TracerProvider
	TLS            *tls.Config
	Token          telemetry.Secret
}

func NetDialer(opt ClientOptions) Dialer { return nil }

// Local is a registry of in-process services: Dial("inproc:scheduler").
type Local struct{}

func NewLocal(opt ServerOptions) *Local                                     { return nil }
func (l *Local) Register(name string, register func(grpc.ServiceRegistrar)) {}
func (l *Local) Dial(ctx context.Context, addr string) (grpc.ClientConnInterface, io.Closer, error) {
	return nil, nil, errNotBuilt
}
func (l *Local) Shutdown(ctx context.Context) error { return errNotBuilt }

// ErrStreamBroken: the stream died before the answer; the call may be retried as a whole.
var ErrStreamBroken = errors.New("stream broken before the answer")

type CallerOptions[Req, Res any] struct {
	Open      func(ctx context.Context) (grpc.BidiStreamingClient[Req, Res], error)
	Window    int
	SetID     func(*Req, uint64)
	ID        func(*Res) uint64
	Final     func(*Res) bool
	OnPartial func(*Res)
	Partials  int
	Abandon   func(id uint64) *Req
	Logger    *slog.Logger
}
type Caller[Req, Res any] struct{}

func NewCaller[Req, Res any](opt CallerOptions[Req, Res]) *Caller[Req, Res] { return nil }
func (c *Caller[Req, Res]) Run(ctx context.Context) error                   { return errNotBuilt }
func (c *Caller[Req, Res]) Call(ctx context.Context, req *Req) (*Res, error) {
	return nil, errNotBuilt
}
func (c *Caller[Req, Res]) Begin(ctx context.Context) (*Call[Req, Res], error) {
	return nil, errNotBuilt
}

type Call[Req, Res any] struct{}

func (c *Call[Req, Res]) ID() uint64                               { return 0 }
func (c *Call[Req, Res]) Send(ctx context.Context, req *Req) error { return errNotBuilt }
func (c *Call[Req, Res]) Recv(ctx context.Context) (res *Res, final bool, err error) {
	return nil, false, errNotBuilt
}
func (c *Call[Req, Res]) Wait(ctx context.Context) (*Res, error) { return nil, errNotBuilt }
func (c *Call[Req, Res]) Cancel()                                {}

type ItemsOptions struct {
	Window int
	Logger *slog.Logger
}

// ServeItems: one message in, one answer out, matched by id, any order.
func ServeItems[Req, Res any](stream grpc.BidiStreamingServer[Req, Res], opt ItemsOptions,
	handle func(ctx context.Context, req *Req) *Res, onPanic func(req *Req, v any) *Res) error {
	return errNotBuilt
}

// ServeCalls: several messages in (head, chunks, end) and out (partials, then
// the answer) under one id.
type CallsOptions[Req any] struct {
	Window int
	Queue  int
	ID     func(*Req) uint64
	First  func(*Req) bool // a message that opens a call; nil: every message does
	Logger *slog.Logger
}
type ServerCall[Req, Res any] struct{}

func (c *ServerCall[Req, Res]) First() *Req                            { return nil }
func (c *ServerCall[Req, Res]) Recv(ctx context.Context) (*Req, error) { return nil, errNotBuilt }
func (c *ServerCall[Req, Res]) Send(res *Res) error                    { return errNotBuilt } // a partial
func ServeCalls[Req, Res any](stream grpc.BidiStreamingServer[Req, Res], opt CallsOptions[Req],
	handle func(ctx context.Context, call *ServerCall[Req, Res]) *Res, onPanic func(first *Req, v any) *Res) error {
	return errNotBuilt
}

// Step is one long-running part of a process.
type Step struct {
	Name string
	Run  func(ctx context.Context) error
}

// RunAll runs the steps together; they stop in reverse order.
func RunAll(ctx context.Context, log *slog.Logger, grace time.Duration, steps ...Step) error {
	return errNotBuilt
}

// Main runs a process: signals, exit code.
func Main(name string, run func(ctx context.Context) error) {}
