package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// inprocBuffer is how many messages wait in each direction of an in-process
// stream before Send blocks: back-pressure as HTTP/2's window, in messages.
const inprocBuffer = 16

var inprocPeer = &peer.Peer{Addr: inprocAddr{}}

type inprocAddr struct{}

func (inprocAddr) Network() string { return "inproc" }
func (inprocAddr) String() string  { return "inproc" }

// inprocCall is what the two ends of an in-process call share. The client's end
// is inprocClient, the server's inprocServer.
type inprocCall struct {
	method    string
	clientCtx context.Context
	serverCtx context.Context

	reqs chan any // nil is the client's half-close
	ress chan any

	headerSent chan struct{} // closed when header may be read
	done       chan struct{} // closed when the handler has returned; then err and trailer may be read

	mu      sync.Mutex
	header  metadata.MD // guarded by mu until headerSent is closed
	trailer metadata.MD // guarded by mu until done is closed
	sentHdr bool        // guarded by mu
	err     error       // written before done is closed; a status error or nil
}

// finish records how the handler ended and releases the client.
func (c *inprocCall) finish(err error) {
	c.mu.Lock()
	if !c.sentHdr {
		c.sentHdr = true
		close(c.headerSent)
	}
	c.mu.Unlock()
	c.err = handlerStatus(err)
	close(c.done)
}

// handlerStatus turns a handler's error into what a client may see, as grpc-go
// does on the wire: a status, and nothing of the Go error behind it.
func handlerStatus(err error) error {
	if err == nil {
		return nil
	}
	if st, ok := status.FromError(err); ok {
		return st.Err()
	}
	return status.FromContextError(err).Err()
}

func contextStatus(ctx context.Context) error {
	return status.FromContextError(ctx.Err()).Err()
}

// recovered turns a panic into the error of the call, should one pass the
// interceptors by.
func recovered(method string, v any) error {
	return status.Errorf(codes.Internal, "panic in %s: %v", method, v)
}

// inprocClient is the client's end. As in grpc-go, one goroutine may send and
// another receive, but no two do the same at once.
type inprocClient struct {
	*inprocCall
	serverStreams bool
	opts          callOptions
	closed        bool // CloseSend was called; owned by the sending goroutine
	final         error
	finished      bool // owned by the receiving goroutine
}

func (s *inprocClient) Context() context.Context { return s.clientCtx }

func (s *inprocClient) Header() (metadata.MD, error) {
	select {
	case <-s.headerSent:
		return s.header, nil
	case <-s.clientCtx.Done():
		return nil, contextStatus(s.clientCtx)
	}
}

func (s *inprocClient) Trailer() metadata.MD {
	select {
	case <-s.done:
		return s.trailer
	default:
		return nil
	}
}

func (s *inprocClient) CloseSend() error {
	if s.closed {
		return nil
	}
	s.closed = true
	select {
	case s.reqs <- nil:
	case <-s.done:
	case <-s.clientCtx.Done():
	}
	return nil
}

func (s *inprocClient) SendMsg(m any) error {
	if s.closed {
		return status.Errorf(codes.Internal, "SendMsg called after CloseSend on %s", s.method)
	}
	if m == nil {
		return status.Errorf(codes.Internal, "nil message sent on %s", s.method)
	}
	if s.clientCtx.Err() != nil {
		return contextStatus(s.clientCtx)
	}
	select {
	case <-s.done:
		return io.EOF
	default:
	}
	select {
	case s.reqs <- m:
		return nil
	default:
	}
	select {
	case s.reqs <- m:
		return nil
	case <-s.done:
		return io.EOF
	case <-s.clientCtx.Done():
		return contextStatus(s.clientCtx)
	}
}

func (s *inprocClient) RecvMsg(m any) error {
	if s.finished {
		return s.final
	}
	err := s.recv(m)
	if err == nil && !s.serverStreams {
		// One answer: the status that follows it decides.
		if err = s.wait(); errors.Is(err, io.EOF) {
			s.end(nil)
			return nil
		}
	}
	if err != nil {
		s.end(err)
	}
	return err
}

// end closes the books of the call: its status was seen by the client.
func (s *inprocClient) end(err error) {
	s.finished = true
	s.final = err
	if err == nil {
		s.final = io.EOF
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	s.opts.finish(s.header, s.Trailer(), err)
}

func (s *inprocClient) recv(m any) error {
	if s.clientCtx.Err() != nil {
		return contextStatus(s.clientCtx)
	}
	var v any
	select {
	case v = <-s.ress:
		return handOver(m, v)
	default:
	}
	select {
	case v = <-s.ress:
		return handOver(m, v)
	case <-s.clientCtx.Done():
		return contextStatus(s.clientCtx)
	case <-s.done:
		select {
		case v = <-s.ress: // sent before the handler returned
			return handOver(m, v)
		default:
			return s.wait()
		}
	}
}

// wait returns the call's status once the handler has returned, io.EOF for OK.
func (s *inprocClient) wait() error {
	select {
	case <-s.done:
	case <-s.clientCtx.Done():
		return contextStatus(s.clientCtx)
	}
	if s.err != nil {
		return s.err
	}
	return io.EOF
}

// inprocServer is the server's end, and what grpc.SetHeader and its kin find in
// the handler's context.
type inprocServer struct{ *inprocCall }

func (s *inprocServer) Context() context.Context { return s.serverCtx }

func (s *inprocServer) SetHeader(md metadata.MD) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sentHdr {
		return status.Errorf(codes.Internal, "header of %s was sent already", s.method)
	}
	s.header = metadata.Join(s.header, md)
	return nil
}

func (s *inprocServer) SendHeader(md metadata.MD) error {
	if err := s.SetHeader(md); err != nil {
		return err
	}
	s.flushHeader()
	return nil
}

func (s *inprocServer) flushHeader() {
	s.mu.Lock()
	if !s.sentHdr {
		s.sentHdr = true
		close(s.headerSent)
	}
	s.mu.Unlock()
}

func (s *inprocServer) SetTrailer(md metadata.MD) {
	s.mu.Lock()
	s.trailer = metadata.Join(s.trailer, md)
	s.mu.Unlock()
}

func (s *inprocServer) SendMsg(m any) error {
	if m == nil {
		return status.Errorf(codes.Internal, "nil message sent on %s", s.method)
	}
	if s.serverCtx.Err() != nil {
		return contextStatus(s.serverCtx)
	}
	s.flushHeader()
	select {
	case s.ress <- m:
		return nil
	default:
	}
	select {
	case s.ress <- m:
		return nil
	case <-s.serverCtx.Done():
		return contextStatus(s.serverCtx)
	}
}

func (s *inprocServer) RecvMsg(m any) error {
	if s.serverCtx.Err() != nil {
		return contextStatus(s.serverCtx)
	}
	var v any
	select {
	case v = <-s.reqs:
	default:
		select {
		case v = <-s.reqs:
		case <-s.serverCtx.Done():
			return contextStatus(s.serverCtx)
		}
	}
	if v == nil {
		select { // the half-close stays for whoever asks again
		case s.reqs <- nil:
		default:
		}
		return io.EOF
	}
	return handOver(m, v)
}

// transportStream gives the handler's context grpc.SetHeader, SendHeader,
// SetTrailer and Method.
type transportStream struct{ *inprocServer }

func (t transportStream) Method() string { return t.method }

func (t transportStream) SetTrailer(md metadata.MD) error {
	t.inprocServer.SetTrailer(md)
	return nil
}

// callOptions are the call options that mean something without a network.
type callOptions struct {
	header, trailer []*metadata.MD
	onFinish        []func(error)
}

func parseCallOptions(opts []grpc.CallOption) (o callOptions) {
	for _, opt := range opts {
		switch opt := opt.(type) {
		case grpc.HeaderCallOption:
			o.header = append(o.header, opt.HeaderAddr)
		case grpc.TrailerCallOption:
			o.trailer = append(o.trailer, opt.TrailerAddr)
		case grpc.PeerCallOption:
			*opt.PeerAddr = *inprocPeer
		case grpc.OnFinishCallOption:
			o.onFinish = append(o.onFinish, opt.OnFinish)
		}
	}
	return o
}

func (o *callOptions) finish(header, trailer metadata.MD, err error) {
	for _, h := range o.header {
		*h = header
	}
	for _, t := range o.trailer {
		*t = trailer
	}
	for _, f := range o.onFinish {
		f(err)
	}
}

// inprocMethod is one method of a registered service.
type inprocMethod struct {
	impl   any
	unary  *grpc.MethodDesc
	stream *grpc.StreamDesc
}

// methodsOf lists the methods of a service by their full names.
func methodsOf(desc *grpc.ServiceDesc, impl any) map[string]inprocMethod {
	m := make(map[string]inprocMethod, len(desc.Methods)+len(desc.Streams))
	for i := range desc.Methods {
		d := &desc.Methods[i]
		m[fmt.Sprintf("/%s/%s", desc.ServiceName, d.MethodName)] = inprocMethod{impl: impl, unary: d}
	}
	for i := range desc.Streams {
		d := &desc.Streams[i]
		m[fmt.Sprintf("/%s/%s", desc.ServiceName, d.StreamName)] = inprocMethod{impl: impl, stream: d}
	}
	return m
}
