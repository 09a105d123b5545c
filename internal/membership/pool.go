package membership

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"

	"lycosa.dev/internal/rpc"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// ErrNone: no instance of the kind is there.
var ErrNone = errors.New("no instance has joined")

// PoolOptions configures a Pool. All fields are needed.
type PoolOptions[Req, Res any] struct {
	// Client tells who is there; Kind says which of them.
	Client *Client
	Kind   schedulerv1.ServiceKind
	// Dialer connects to them.
	Dialer rpc.Dialer
	// Caller makes the options of one instance's Caller; open opens its stream.
	Caller func(conn grpc.ClientConnInterface, instance *schedulerv1.Instance) rpc.CallerOptions[Req, Res]
}

// Pool keeps one Caller to each instance of a kind, as the topology tells. An
// instance that leaves keeps its Caller until the calls in flight have ended.
type Pool[Req, Res any] struct {
	opt PoolOptions[Req, Res]

	mu      sync.Mutex
	members []*poolMember[Req, Res] // sorted by address
	changed chan struct{}           // closed and replaced when members changes
}

type poolMember[Req, Res any] struct {
	address string
	caller  *rpc.Caller[Req, Res]
	leave   context.CancelFunc
}

// NewPool returns a Pool that works while Run runs.
func NewPool[Req, Res any](opt PoolOptions[Req, Res]) *Pool[Req, Res] {
	return &Pool[Req, Res]{opt: opt, changed: make(chan struct{})}
}

// Run follows the topology until ctx ends, then ends all streams.
func (p *Pool[Req, Res]) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		changed := p.opt.Client.Changed()
		p.follow(ctx, &running)
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func (p *Pool[Req, Res]) follow(ctx context.Context, running *sync.WaitGroup) {
	if p.opt.Client.Topology() == nil {
		return
	}
	there := map[string]*schedulerv1.Instance{}
	for _, i := range p.opt.Client.Instances(p.opt.Kind) {
		there[i.GetAddress()] = i
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var next []*poolMember[Req, Res]
	dirty := false
	for _, m := range p.members {
		if there[m.address] == nil {
			dirty = true
			m.leave()
			continue
		}
		delete(there, m.address)
		next = append(next, m)
	}
	for addr, instance := range there {
		conn, closer, err := p.opt.Dialer.Dial(ctx, addr)
		if err != nil {
			p.opt.Client.log.Error("cannot reach an instance", "address", addr, "err", err)
			continue
		}
		dirty = true
		memberCtx, leave := context.WithCancel(context.WithoutCancel(ctx))
		m := &poolMember[Req, Res]{address: addr, caller: rpc.NewCaller(p.opt.Caller(conn, instance)), leave: leave}
		next = append(next, m)
		running.Go(func() {
			defer closer.Close()
			runCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
			defer stop()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				// The Caller ends only with runCtx; there is no error to tell.
				_ = m.caller.Run(runCtx)
			}()
			select {
			case <-ctx.Done():
			case <-memberCtx.Done():
				// Calls in flight end in their own time, unless all ends.
				_ = m.caller.Drain(ctx)
			}
			leave()
			stop()
			<-ended
		})
	}
	if dirty {
		slices.SortFunc(next, func(a, b *poolMember[Req, Res]) int { return strings.Compare(a.address, b.address) })
		p.members = next
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// Pick returns the Caller of one instance, the same for the same key while the
// instances are the same. It waits for an instance until ctx ends.
func (p *Pool[Req, Res]) Pick(ctx context.Context, key uint64) (*rpc.Caller[Req, Res], error) {
	for {
		p.mu.Lock()
		members, changed := p.members, p.changed
		p.mu.Unlock()
		// One whose stream is down is passed over while another's is up.
		for i := range members {
			if m := members[(key+uint64(i))%uint64(len(members))]; m.caller.Connected() {
				return m.caller, nil
			}
		}
		if len(members) > 0 {
			return members[key%uint64(len(members))].caller, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, errors.Join(ErrNone, ctx.Err())
		}
	}
}

// Len is the number of instances.
func (p *Pool[Req, Res]) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.members)
}
