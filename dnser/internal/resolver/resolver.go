// Package resolver tells the addresses of host names, for a crawler: thousands
// of different names, most of them asked again and again.
//
// A question goes the same way each time: a rule given by hand, an IP literal,
// a special name, the cache, and only then the servers, where one question a
// name is in flight whoever asks. A question outlives its asker: who cannot
// wait goes on without, and finds the answer in the cache later.
//
// The resolver judges no address: what may be connected to is for the address
// policy, job by job, after the resolver has answered.
//
// Invariants: at most Config.MaxInFlight names are asked at a time; at most
// Config.MaxEntries answers are kept; a temporary failure is never told as a
// denial, and a denial is told as confirmed only after a second one.
package resolver

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lycosa.dev/dnser/internal/cache"
	"lycosa.dev/dnser/internal/static"
	"lycosa.dev/dnser/internal/upstream"
)

// partialTTL bounds an answer of which one family is missing.
const partialTTL = time.Minute

// Config of a Resolver. Default gives every field but Servers.
type Config struct {
	// Servers in order of preference; at least one.
	Servers []netip.AddrPort
	// Rotate spreads the questions over the servers.
	Rotate bool
	// DisableIPv6 asks for IPv4 addresses only.
	DisableIPv6 bool
	// Rules come before everything else but the asker's own. Nil: none.
	Rules *static.Table

	// TryTimeout limits one try at one server; it doubles each round.
	TryTimeout time.Duration
	// Rounds is how often the list of servers is gone through.
	Rounds int
	// Timeout limits a name as a whole, second question included.
	Timeout time.Duration
	// FamilyGrace is how long the other address family is waited for once one
	// has answered.
	FamilyGrace time.Duration
	// MaxInFlight is the names being asked at a time; each takes up to two
	// sockets. Askers of more wait.
	MaxInFlight int
	// UDPSize is the EDNS0 payload size announced, bytes.
	UDPSize uint16

	// MaxEntries is the answers kept.
	MaxEntries int
	// MaxBytes is the memory that they take, as Answer.bytes counts; 0: no limit
	// but MaxEntries.
	MaxBytes int
	// MinTTL and MaxTTL bound how long addresses are kept.
	MinTTL, MaxTTL time.Duration
	// MinNegativeTTL and MaxNegativeTTL bound how long denials are kept.
	MinNegativeTTL, MaxNegativeTTL time.Duration
	// FailureTTL is how long a temporary failure is kept (RFC 9520: 1 s to
	// 5 min); when the name's servers fail again, twice as long each time, up to
	// MaxFailureTTL.
	FailureTTL, MaxFailureTTL time.Duration

	// MaxStale is how long after their expiry addresses are told while the
	// servers fail or are slow (RFC 8767); 0: never.
	MaxStale time.Duration
	// StaleWait is how long an asker waits for a fresh answer before it is told
	// the stale one.
	StaleWait time.Duration
	// StaleTTL is how long a stale answer may be used, and how long the servers
	// are left alone after they have failed.
	StaleTTL time.Duration
	// PrefetchUses is how often a name must have been asked for since it was
	// learned to be asked again shortly before it expires; 0: none is.
	PrefetchUses int

	// Hedge is how long a server may take before the next one is asked too; 0:
	// it is waited for. See upstream.Config.
	Hedge time.Duration
	// ServerRate is the packets a second that one server is sent at most; 0: no
	// limit.
	ServerRate int

	// File keeps the cache across restarts; empty: it is not kept.
	File string
	// SaveEvery is the time between two writes of File.
	SaveEvery time.Duration
}

// Default is the settings that a crawl uses, without servers.
func Default() Config {
	return Config{
		TryTimeout:     1500 * time.Millisecond,
		Rounds:         2,
		Timeout:        12 * time.Second,
		FamilyGrace:    200 * time.Millisecond,
		MaxInFlight:    512,
		UDPSize:        1232, // fits any path without fragments
		MaxEntries:     100_000,
		MinTTL:         time.Minute,
		MaxTTL:         24 * time.Hour,
		MinNegativeTTL: 30 * time.Second,
		MaxNegativeTTL: time.Hour,
		MaxBytes:       64 << 20,
		FailureTTL:     5 * time.Second,
		MaxFailureTTL:  time.Minute,
		MaxStale:       24 * time.Hour,
		StaleWait:      200 * time.Millisecond,
		StaleTTL:       30 * time.Second,
		PrefetchUses:   3,
		Hedge:          250 * time.Millisecond,
		SaveEvery:      5 * time.Minute,
	}
}

// Deps are what a Resolver needs from outside; every field may be zero.
type Deps struct {
	// Log is told of faults; nil: nobody.
	Log *slog.Logger
	// Metrics registers the resolver's metrics; nil: they are counted only.
	Metrics prometheus.Registerer
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Transport carries the questions; nil: the network.
	Transport upstream.Transport
	// Record, if set, is told of every name that the servers gave addresses for,
	// with the replies. It may wait until ctx ends; the name's askers wait for it.
	Record func(ctx context.Context, host string, seen []Seen)
}

// Resolver answers for names. It is safe for concurrent use.
type Resolver struct {
	cfg     Config
	log     *slog.Logger
	now     func() time.Time
	group   *upstream.Group
	cache   *cache.Cache[*Answer]
	metrics *metrics
	record  func(context.Context, string, []Seen)
	names   map[netip.AddrPort]string // the servers' addresses as text, made once

	prefetching atomic.Int32 // flights that nobody waits for

	slots  chan struct{}      // one is held by every name being asked
	base   context.Context    // ends every question when Run ends
	cancel context.CancelFunc // ends base
	wg     sync.WaitGroup     // every goroutine of the resolver

	mu      sync.Mutex
	flights map[string]*flight // by name, being asked
	stopped bool               // no flight starts any more
	changed bool               // the cache differs from the file
}

// flight is one name being asked. answer is set before done is closed.
type flight struct {
	done   chan struct{}
	answer *Answer
}

// New makes a resolver. It does no I/O: Run reads the file, the first question
// opens the first socket.
func New(cfg Config, deps Deps) *Resolver {
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	r := &Resolver{
		cfg:    cfg,
		log:    deps.Log,
		now:    deps.Now,
		record: deps.Record,
		names:  make(map[netip.AddrPort]string),
		cache: cache.NewLimited(cache.Limits[*Answer]{
			Entries: cfg.MaxEntries, Bytes: cfg.MaxBytes,
			Size: func(_ string, a *Answer) int { return a.bytes() },
		}),
		slots:   make(chan struct{}, max(cfg.MaxInFlight, 1)),
		flights: make(map[string]*flight),
	}
	for _, s := range cfg.Servers {
		r.names[s] = s.String()
	}
	r.base, r.cancel = context.WithCancel(context.Background())
	r.metrics = newMetrics(deps.Metrics, r)
	r.group = upstream.New(upstream.Config{
		Servers:    cfg.Servers,
		TryTimeout: cfg.TryTimeout,
		Rounds:     cfg.Rounds,
		UDPSize:    cfg.UDPSize,
		Rotate:     cfg.Rotate,
		Hedge:      cfg.Hedge,
		Rate:       cfg.ServerRate,
		Transport:  deps.Transport,
		Now:        deps.Now,
		Observe:    r.metrics.observeTry,
		Hedged:     r.metrics.hedges.Inc,
	})
	return r
}

// Run owns the resolver's goroutines: it reads the file, writes it from time to
// time, and when ctx ends it ends the questions in flight, waits for them and
// writes the file a last time. A file that cannot be read or written is logged,
// and the crawl goes on without. After Run, only what is cached is answered.
func (r *Resolver) Run(ctx context.Context) error {
	if r.cfg.File != "" {
		r.restore()
	}
	var tick <-chan time.Time
	if r.cfg.File != "" && r.cfg.SaveEvery > 0 {
		t := time.NewTicker(r.cfg.SaveEvery)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-tick:
			r.save()
			continue
		case <-ctx.Done():
		}
		r.mu.Lock()
		r.stopped = true
		r.mu.Unlock()
		r.cancel()
		r.wg.Wait()
		if r.cfg.File != "" {
			r.save()
		}
		return nil
	}
}

// Resolve tells what is known of host, which may be a host key with a port. It
// waits until the servers have answered or ctx ends; then the answer is Timeout
// and Pending, and the question goes on.
func (r *Resolver) Resolve(ctx context.Context, host string) Answer {
	return r.Lookup(ctx, host, Options{})
}

// Options of one Lookup. The zero value asks as Resolve does.
type Options struct {
	// Rules are the asker's own, before all others.
	Rules *static.Table
	// Refresh asks the servers even if the cache knows; a denial that was
	// cached then counts as the first of two.
	Refresh bool
}

// Lookup is Resolve with options.
func (r *Resolver) Lookup(ctx context.Context, host string, opt Options) Answer {
	a, name := r.local(host, opt.Rules)
	if name == "" {
		return a
	}
	var old *Answer
	if !opt.Refresh {
		var fresh bool
		if a, fresh, old = r.cached(name, r.now()); fresh {
			return a
		}
	}
	wait, cancel := r.patience(ctx, old)
	defer cancel()
	f, err := r.begin(wait, name, opt.Refresh)
	if err != nil {
		return r.impatient(name, old, err)
	}
	return r.await(wait, name, f, old)
}

// ResolveAll answers for all hosts, in their order, asking for those that need
// it at the same time. rules, if any, come before all others. It waits for all
// answers, or until ctx ends.
func (r *Resolver) ResolveAll(ctx context.Context, hosts []string, rules *static.Table) []Answer {
	answers := make([]Answer, len(hosts))
	type wait struct {
		i    int
		name string
		f    *flight
		old  *Answer
	}
	var waits []wait
	// The names that something stale is known of share one limit.
	var short context.Context
	stop := func() {}
	limit := func(old *Answer) context.Context {
		if old == nil {
			return ctx
		}
		if short == nil {
			short, stop = r.patience(ctx, old)
		}
		return short
	}
	defer func() { stop() }()
	now := r.now()
	for i, host := range hosts {
		a, name := r.local(host, rules)
		if name == "" {
			answers[i] = a
			continue
		}
		a, fresh, old := r.cached(name, now)
		if fresh {
			answers[i] = a
			continue
		}
		f, err := r.begin(limit(old), name, false)
		if err != nil {
			answers[i] = r.impatient(name, old, err)
			continue
		}
		waits = append(waits, wait{i, name, f, old})
	}
	for _, w := range waits {
		answers[w.i] = r.await(limit(w.old), w.name, w.f, w.old)
	}
	return answers
}

// local answers what needs no server and is not kept: then name is empty.
// Otherwise name is what to ask for.
func (r *Resolver) local(host string, rules *static.Table) (a Answer, name string) {
	name = canonical(hostOf(host))
	addrs := rules.Match(name)
	if addrs == nil {
		addrs = r.cfg.Rules.Match(name)
	}
	answer := func(status Status, addrs []netip.Addr, detail string, from source) (Answer, string) {
		return r.told(Answer{
			Host: name, Status: status, Addrs: addrs, Detail: detail,
			Confirmed: status.Negative(), Expires: r.now().Add(r.cfg.MaxTTL),
		}, from), ""
	}
	if addrs != nil {
		return answer(Resolved, addrs, "", fromRule)
	}
	if ip, ok := literal(name); ok {
		return answer(Resolved, []netip.Addr{ip}, "", fromLiteral)
	}
	if problem := checkName(name); problem != "" {
		return answer(Invalid, nil, problem, fromLiteral)
	}
	if addrs, status, detail := special(name); status != Unknown {
		return answer(status, addrs, detail, fromLiteral)
	}
	return Answer{}, name
}

// cached is the cache's answer, if it is fresh. If it is not, old is what was
// held that may still be told when the servers are slow.
func (r *Resolver) cached(name string, now time.Time) (a Answer, fresh bool, old *Answer) {
	held, fresh, ok, uses := r.cache.Use(name, now)
	if !fresh {
		if ok {
			if _, ok = r.stale(held, now); ok {
				old = held
			}
		}
		return Answer{}, false, old
	}
	if r.wantsPrefetch(held, uses, now) {
		r.prefetch(name)
	}
	a = *held
	a.FromCache = true
	from := fromCache
	if a.Stale {
		from = fromStale
	}
	return r.told(a, from), true, nil
}

// deniedBefore says whether the last answer kept, fresh or not, is negative.
func (r *Resolver) deniedBefore(name string) bool {
	held, ok := r.cache.Peek(name)
	return ok && held.Status.Negative()
}

// begin joins the flight for name or starts one, waiting for a slot while all
// are taken. Between a look into the cache and this, a flight may have landed:
// without refresh, its answer is taken.
func (r *Resolver) begin(ctx context.Context, name string, refresh bool) (*flight, error) {
	if f, err := r.flying(name); f != nil || err != nil {
		return f, err
	}
	select {
	case r.slots <- struct{}{}: // first, whoever has no time to wait
	default:
		select {
		case r.slots <- struct{}{}:
		case <-r.base.Done():
			return nil, errStopped
		case <-ctx.Done():
			return nil, errBusy
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.flights[name]
	if f == nil && !refresh {
		if held, fresh, _ := r.cache.Get(name, r.now()); fresh {
			f = &flight{done: make(chan struct{}), answer: held}
			close(f.done)
		}
	}
	if f != nil || r.stopped {
		<-r.slots
		if f == nil {
			return nil, errStopped
		}
		return f, nil
	}
	f = &flight{done: make(chan struct{})}
	r.flights[name] = f
	r.wg.Go(func() { r.fly(name, f) })
	return f, nil
}

func (r *Resolver) flying(name string) (*flight, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil, errStopped
	}
	return r.flights[name], nil
}

// fly asks for name and lands with an answer, which goes into the cache before
// the flight is taken from the list: nobody finds neither.
func (r *Resolver) fly(name string, f *flight) {
	ctx, cancel := context.WithTimeout(r.base, r.cfg.Timeout)
	a := r.settle(ctx, name, r.deniedBefore(name))
	if r.record != nil && a.Status == Resolved {
		r.record(ctx, name, a.seen)
	}
	a.seen = nil
	stopping := r.base.Err() != nil
	cancel()
	if a.Status.Temporary() && !stopping {
		r.metrics.failures[a.reason()].Inc()
	}
	told := r.keep(name, &a, stopping)
	r.mu.Lock()
	f.answer = told
	delete(r.flights, name)
	r.changed = r.changed || keeps(a.Status)
	r.mu.Unlock()
	close(f.done)
	<-r.slots
}

func (r *Resolver) await(ctx context.Context, name string, f *flight, old *Answer) Answer {
	select {
	case <-f.done:
		return r.landed(f)
	default:
	}
	select {
	case <-f.done:
		return r.landed(f)
	case <-ctx.Done():
		return r.impatient(name, old, errPending)
	}
}

func (r *Resolver) landed(f *flight) Answer {
	from := fromServer
	if f.answer.Stale {
		from = fromStale
	}
	return r.told(*f.answer, from)
}

// impatient is the answer for an asker who could not wait, or came too late: old
// if it may still be told.
func (r *Resolver) impatient(name string, old *Answer, why error) Answer {
	now := r.now()
	if a, ok := r.stale(old, now); ok {
		return r.told(a, fromStale)
	}
	a := Answer{
		Host:    name,
		Status:  Timeout,
		Pending: true,
		Expires: now,
		Detail:  why.Error(),
	}
	return r.told(a, fromServer)
}

func (r *Resolver) told(a Answer, from source) Answer {
	r.metrics.answers[a.Status][from].Inc()
	return a
}
