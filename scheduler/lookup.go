package scheduler

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	"lycosa.dev/internal/rpc"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	dnserv1 "lycosa.dev/proto/gen/lycosa/dnser/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// errNoDnser: nobody can be asked for addresses.
var errNoDnser = errors.New("no dnser has joined")

// lookup asks a dnser for a host's addresses; each in turn until one answers.
func (s *Scheduler) lookup(ctx context.Context, host, jobID string, refresh bool) (*crawlv1.HostAddresses, error) {
	err := errNoDnser
	for _, addr := range s.members.addresses(schedulerv1.ServiceKind_SERVICE_KIND_DNSER) {
		var conn grpc.ClientConnInterface
		if conn, err = s.dnsers.get(ctx, addr); err != nil {
			continue
		}
		var res *dnserv1.LookupResponse
		res, err = dnserv1.NewDnserServiceClient(conn).Lookup(ctx, &dnserv1.LookupRequest{Host: host, JobId: jobID, Refresh: refresh})
		if err == nil {
			return res.GetHost(), nil
		}
	}
	return nil, err
}

// clientPool keeps one connection an address.
type clientPool struct {
	dialer rpc.Dialer
	mu     sync.Mutex
	conns  map[string]pooled
	closed bool
}

type pooled struct {
	conn   grpc.ClientConnInterface
	closer io.Closer
}

func newClientPool(d rpc.Dialer) *clientPool {
	return &clientPool{dialer: d, conns: map[string]pooled{}}
}

func (p *clientPool) get(ctx context.Context, addr string) (grpc.ClientConnInterface, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.New("connections are closed")
	}
	if c, ok := p.conns[addr]; ok {
		return c.conn, nil
	}
	conn, closer, err := p.dialer.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	p.conns[addr] = pooled{conn, closer}
	return conn, nil
}

func (p *clientPool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.conns {
		_ = c.closer.Close()
	}
	clear(p.conns)
}
