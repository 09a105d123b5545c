package rpc

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// LocalScheme begins the addresses of in-process services.
const LocalScheme = "inproc:"

// Local holds the services of one process by name and is the Dialer to them.
// Services may be dialled before they are registered; a call to one that is not
// there yet is Unavailable, as over a network.
type Local struct {
	unary  grpc.UnaryServerInterceptor
	stream grpc.StreamServerInterceptor

	drain chan struct{} // closed when Shutdown begins

	mu       sync.Mutex
	services map[string]map[string]inprocMethod // name -> full method -> method
	active   map[*inprocCall]context.CancelFunc // calls whose handler runs
	draining bool
	idle     chan struct{} // closed when draining and no call is active
}

// NewLocal returns an empty registry. Of opt it uses the logger, the metrics
// registerer and the validation of messages (of unary calls; of streams only
// where ValidateStreams says so, since both ends are this binary).
func NewLocal(opt ServerOptions) *Local {
	l := &Local{
		drain:    make(chan struct{}),
		services: map[string]map[string]inprocMethod{},
		active:   map[*inprocCall]context.CancelFunc{},
		idle:     make(chan struct{}),
	}
	l.unary, l.stream = localInterceptors(opt)
	return l
}

// Register adds a service instance under a name, "scheduler" or
// "downloader/2"; register is its Register method. A name registered again
// gets the services of both.
func (l *Local) Register(name string, register func(grpc.ServiceRegistrar)) {
	r := &localRegistrar{methods: map[string]inprocMethod{}}
	register(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.services[name] == nil {
		l.services[name] = map[string]inprocMethod{}
	}
	for method, m := range r.methods {
		l.services[name][method] = m
	}
}

// Unregister removes a name; calls that run go on, new ones are Unavailable.
func (l *Local) Unregister(name string) {
	l.mu.Lock()
	delete(l.services, name)
	l.mu.Unlock()
}

// Dial returns the channel to "inproc:<name>". The closer does nothing.
func (l *Local) Dial(_ context.Context, addr string) (grpc.ClientConnInterface, io.Closer, error) {
	name, ok := strings.CutPrefix(addr, LocalScheme)
	if !ok || name == "" {
		return nil, nil, fmt.Errorf("address %q: must be %s<service> in one process", addr, LocalScheme)
	}
	return &localConn{local: l, name: name}, nopCloser{}, nil
}

// Shutdown refuses new calls, tells streams to drain (see Draining), and waits
// until all calls have ended; when ctx is done first, it cancels those left and
// waits for their handlers to return. It returns ctx's error if it had to.
func (l *Local) Shutdown(ctx context.Context) error {
	l.mu.Lock()
	if !l.draining {
		l.draining = true
		close(l.drain)
		if len(l.active) == 0 {
			close(l.idle)
		}
	}
	l.mu.Unlock()
	select {
	case <-l.idle:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	for _, cancel := range l.active {
		cancel()
	}
	l.mu.Unlock()
	<-l.idle
	return ctx.Err()
}

// Run waits for ctx, then shuts down, giving calls until the step's grace ends:
// the form in which a Local joins RunAll.
func (l *Local) Run(ctx context.Context) error {
	<-ctx.Done()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), DefaultDrainTimeout)
	defer cancel()
	if err := l.Shutdown(grace); err != nil {
		return fmt.Errorf("in-process calls did not end within %s", DefaultDrainTimeout)
	}
	return nil
}

// begin admits a call: it finds the method and makes the two ends.
func (l *Local) begin(ctx context.Context, name, method string) (*inprocCall, inprocMethod, error) {
	if err := ctx.Err(); err != nil {
		return nil, inprocMethod{}, contextStatus(ctx)
	}
	c := &inprocCall{
		method:     method,
		clientCtx:  ctx,
		headerSent: make(chan struct{}),
		done:       make(chan struct{}),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.draining {
		return nil, inprocMethod{}, status.Errorf(codes.Unavailable, "%s%s: the process is shutting down", LocalScheme, name)
	}
	methods, ok := l.services[name]
	if !ok {
		return nil, inprocMethod{}, status.Errorf(codes.Unavailable, "%s%s: no such service in this process", LocalScheme, name)
	}
	m, ok := methods[method]
	if !ok {
		return nil, inprocMethod{}, status.Errorf(codes.Unimplemented, "%s%s: unknown method %s", LocalScheme, name, method)
	}
	// The handler gets none of the client's context values, only its
	// cancellation, deadline and metadata, as it would over a network.
	base := context.WithValue(context.Background(), drainKey{}, (<-chan struct{})(l.drain))
	base = peer.NewContext(base, inprocPeer)
	if md, ok := metadata.FromOutgoingContext(ctx); ok {
		base = metadata.NewIncomingContext(base, md)
	} else {
		base = metadata.NewIncomingContext(base, metadata.MD{})
	}
	base = grpc.NewContextWithServerTransportStream(base, transportStream{&inprocServer{c}})
	var cancel context.CancelFunc
	if deadline, ok := ctx.Deadline(); ok {
		c.serverCtx, cancel = context.WithDeadline(base, deadline)
	} else {
		c.serverCtx, cancel = context.WithCancel(base)
	}
	stop := context.AfterFunc(ctx, cancel)
	l.active[c] = func() { stop(); cancel() }
	return c, m, nil
}

// end takes a call whose handler has returned off the books.
func (l *Local) end(c *inprocCall) {
	l.mu.Lock()
	cancel := l.active[c]
	delete(l.active, c)
	if l.draining && len(l.active) == 0 {
		close(l.idle)
	}
	l.mu.Unlock()
	cancel()
}

type localRegistrar struct{ methods map[string]inprocMethod }

func (r *localRegistrar) RegisterService(desc *grpc.ServiceDesc, impl any) {
	for name, m := range methodsOf(desc, impl) {
		r.methods[name] = m
	}
}

// localConn is the channel to one name.
type localConn struct {
	local *Local
	name  string
}

// Invoke implements grpc.ClientConnInterface.
func (c *localConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	o := parseCallOptions(opts)
	call, m, err := c.local.begin(withTraceparent(ctx), c.name, method)
	if err != nil {
		o.finish(nil, nil, err)
		return err
	}
	if m.unary == nil {
		c.local.end(call)
		return status.Errorf(codes.Internal, "%s is a stream, called as unary", method)
	}
	var answer any
	go func() {
		defer c.local.end(call)
		res, err := serveUnary(call, m, args, c.local.unary)
		answer = res
		call.finish(err)
	}()
	select {
	case <-call.done:
		err = call.err
	case <-ctx.Done():
		// The handler may go on; its answer is dropped with the call.
		err = contextStatus(ctx)
		o.finish(nil, nil, err)
		return err
	}
	if err == nil {
		err = handOver(reply, answer)
	}
	o.finish(call.header, call.trailer, err)
	return err
}

func serveUnary(call *inprocCall, m inprocMethod, args any, ic grpc.UnaryServerInterceptor) (res any, err error) {
	defer func() {
		if v := recover(); v != nil {
			res, err = nil, recovered(call.method, v)
		}
	}()
	decode := func(dst any) error { return handOver(dst, args) }
	res, err = m.unary.Handler(m.impl, call.serverCtx, decode, ic)
	if err == nil && res == nil {
		err = status.Errorf(codes.Internal, "%s returned neither answer nor error", call.method)
	}
	return res, err
}

// NewStream implements grpc.ClientConnInterface.
func (c *localConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	o := parseCallOptions(opts)
	call, m, err := c.local.begin(ctx, c.name, method)
	if err != nil {
		o.finish(nil, nil, err)
		return nil, err
	}
	if m.stream == nil {
		c.local.end(call)
		return nil, status.Errorf(codes.Internal, "%s is unary, called as a stream", method)
	}
	call.reqs = make(chan any, inprocBuffer)
	call.ress = make(chan any, inprocBuffer)
	go func() {
		defer c.local.end(call)
		call.finish(serveStream(call, m, c.local.stream))
	}()
	return &inprocClient{inprocCall: call, serverStreams: desc.ServerStreams, opts: o}, nil
}

func serveStream(call *inprocCall, m inprocMethod, ic grpc.StreamServerInterceptor) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = recovered(call.method, v)
		}
	}()
	info := &grpc.StreamServerInfo{
		FullMethod:     call.method,
		IsClientStream: m.stream.ClientStreams,
		IsServerStream: m.stream.ServerStreams,
	}
	return ic(m.impl, &inprocServer{call}, info, m.stream.Handler)
}

type nopCloser struct{}

func (nopCloser) Close() error { return nil }
