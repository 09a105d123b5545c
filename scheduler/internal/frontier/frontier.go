package frontier

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	mrand "math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lycosa.dev/scheduler/internal/frontier/sieve"
	"lycosa.dev/scheduler/internal/frontier/store"
	"lycosa.dev/scheduler/internal/politeness"
	"lycosa.dev/scheduler/internal/shard"
)

// Frontier is every job's URLs and their order. Make one with Open.
//
// One mutex guards all that is in memory; nothing is read from the network or
// synced to disk under it. Batches are applied under it, so that their order on
// disk is the order of the changes in memory, and awaited outside, so that all
// who wait share one sync.
type Frontier struct {
	o   Options
	st  store.Store
	log *slog.Logger
	met *metrics

	// decideMu is held while a batch of candidates is decided; taken before mu.
	decideMu sync.Mutex
	known    knownCache // guarded by decideMu
	filter   filter     // guarded by decideMu
	refs     []pickRef  // kept for reuse by pick; guarded by decideMu
	picks    []pick     // kept for reuse by pick; guarded by decideMu
	inRuns   []runKeys  // kept for reuse by sift; guarded by decideMu
	seenDir  *sieve.Dir // guarded by decideMu, as are the jobs' seen sets
	seenFull []*job     // jobs whose table is to become a run; guarded by decideMu

	mu       sync.Mutex
	jobs     map[string]*job
	byNum    map[uint32]*job
	order    []*job // by number; leases go round
	turn     int    // index in order of whose turn it is
	nextNum  uint32
	hosts    map[string]*host
	addrs    map[netip.Addr]*limiter
	limiters map[string]*limiter
	groups   []politeness.Group // the deployment's; never changes
	closed   limiterHeap        // clocks with waiters
	traps    trapTable
	sweptAt  time.Time // when idle clocks were forgotten last
	tickets  uint64
	leases   map[uint64]*lease
	waiting  hostHeap
	expiry   leaseHeap
	active   int // queues in memory
	idlers   []*queue
	lastDue  int64
	onDisk   queueCache
	views    sync.WaitGroup // of the store, that are open
	closing  atomic.Bool
	served   uint64 // counts leases, for turns
	members  shard.Members
	ready    map[string]chan struct{}
	journal  journal
	lookups  []*host // hosts to be resolved
	hungry   bool    // a downloader asked for more than was ready
	rng      *mrand.Rand
	openedAt time.Time
	hold     outage // storage
	network  netWindow
	solo     *lease // a URL that runs alone
	wantSolo *queue // the first URL of this queue waits for all leases to end
	err      error  // why nothing is taken any more
	changed  chan struct{}
	batch    store.Batch
	fate     fate // of the URL that was finished or put back last
	readOnly bool
	bad      uint64      // records set aside
	damaged  [][2][]byte // keys and values of bad records that the tick sets aside

	restarted bool // there were jobs before this start

	kickTick   chan struct{}
	kickDecide chan struct{}
	kickLookup chan struct{}
	kickMerge  chan struct{}
	kickFill   chan struct{}
	timerAt    time.Time // when the tick is due next
	ticking    bool      // the tick is under way
	dueBase    int64     // the due clock at openedAt: see dueNow
}

// withDefaults fills in what is unset.
func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = ClockFunc(time.Now)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.RandomID == nil {
		o.RandomID = randomID
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.LeaseDeadline, 5*time.Minute)
	def(&o.LeaseGrace, 15*time.Second)
	def(&o.MaxLease, time.Hour)
	def(&o.AdoptWait, o.LeaseDeadline+o.LeaseGrace)
	def(&o.ProbeInterval, 10*time.Second)
	def(&o.DecideDelay, 50*time.Millisecond)
	if o.MaxActiveHosts <= 0 {
		o.MaxActiveHosts = 10000
	}
	if o.MaxCrashes <= 0 {
		o.MaxCrashes = 5
	}
	if o.SeenTable <= 0 {
		o.SeenTable = 1 << 17
	}
	if o.SeenFilterBytes <= 0 {
		o.SeenFilterBytes = 128 << 20
	}
	if o.SeenCacheBytes <= 0 {
		o.SeenCacheBytes = 64 << 20
	}
	if o.Lookups <= 0 {
		o.Lookups = 16
	}
	return o
}

func randomID() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

// newID returns a number that is not 0.
func (f *Frontier) newID() uint64 {
	for {
		if id := f.o.RandomID(); id != 0 {
			return id
		}
	}
}

func newFrontier(o Options) *Frontier {
	o = o.withDefaults()
	f := &Frontier{
		o: o, st: o.Store, log: o.Logger, met: newMetrics(o.Registerer), groups: politeness.GroupsOf(o.Groups),
		jobs: map[string]*job{}, byNum: map[uint32]*job{}, nextNum: 1,
		hosts: map[string]*host{}, addrs: map[netip.Addr]*limiter{}, limiters: map[string]*limiter{}, leases: map[uint64]*lease{},
		ready: map[string]chan struct{}{}, changed: make(chan struct{}),
		kickTick: make(chan struct{}, 1), kickDecide: make(chan struct{}, 1), kickLookup: make(chan struct{}, 1),
		kickMerge: make(chan struct{}, 1), kickFill: make(chan struct{}, 1),
	}
	if !o.questionsOnly {
		f.known.init()
		f.filter.init(o.SeenFilterBytes)
	}
	f.openedAt = f.now()
	f.dueBase = f.openedAt.UnixNano()
	f.rng = mrand.New(mrand.NewPCG(f.newID(), f.newID()))
	return f
}

func (f *Frontier) now() time.Time { return f.o.Clock.Now() }

// usable says why nothing can be asked any more. Called with mu held.
func (f *Frontier) usable() error {
	if f.err != nil {
		return f.err
	}
	if f.readOnly {
		return fmt.Errorf("%w: it is open for reading only", ErrState)
	}
	return nil
}

// newBatch returns the empty batch. Called with mu held; the batch must be
// applied before mu is let go.
func (f *Frontier) newBatch() *store.Batch {
	f.batch.Reset()
	return &f.batch
}

// apply applies a batch. Called with mu held. A failure is the frontier's end:
// memory is ahead of the disk then, and only the disk is true.
func (f *Frontier) apply(b *store.Batch, durable bool) (store.Pending, error) {
	if b.Len() == 0 && !durable {
		return nil, nil
	}
	p, err := f.st.Apply(b, durable)
	if err != nil {
		f.fail(err)
		return nil, f.err
	}
	f.met.batches.Inc()
	return p, nil
}

// await waits for a durable batch. Called without mu.
func (f *Frontier) await(p store.Pending) error {
	if err := p.Wait(); err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.fail(err)
		return f.err
	}
	return nil
}

// fail ends the frontier. Called with mu held.
func (f *Frontier) fail(err error) {
	if f.err == nil {
		f.err = err
		f.log.Error("the frontier cannot go on", "error", err)
		f.notify(f.kickTick)
		f.notify(f.kickDecide)
		f.notify(f.kickLookup)
	}
}

// notify wakes whoever waits for the channel of capacity 1.
func (f *Frontier) notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// publish tells that jobs changed. Called with mu held.
func (f *Frontier) publish() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// Changed returns a channel that is closed at the next change of a job's spec,
// scope roots or state, or of the set of jobs. Take it before reading.
func (f *Frontier) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// quarantine sets a bad record aside.
func (f *Frontier) quarantine(b *store.Batch, key, value []byte, err error) {
	f.bad++
	f.met.bad.Inc()
	f.log.Error("a record of the frontier is damaged and was set aside", "key", fmt.Sprintf("%q", key), "error", err)
	if b != nil && !f.readOnly {
		b.Set(append([]byte{kindBad}, key...), value)
		b.Delete(key)
	}
}

// noteBad has the tick set a bad record aside. Called with mu held.
func (f *Frontier) noteBad(key, value []byte) {
	if !f.readOnly {
		f.damaged = append(f.damaged, [2][]byte{slices.Clone(key), slices.Clone(value)})
	}
}

// SetMembers tells the living downloaders. Hosts are dealt anew.
func (f *Frontier) SetMembers(epoch uint64, ids []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members = shard.New(epoch, ids)
	for _, j := range f.order {
		j.ready = make([]readyQueues, max(1, f.members.Len()))
	}
	now := f.now()
	for _, h := range f.hosts {
		for _, q := range h.queues {
			q.inReady = false
		}
		f.place(h, now)
	}
	f.signalAll()
}

// Ready returns a channel that receives when Lease may return something. It is
// the same for a member until MemberGone, whatever SetMembers tells before: a
// downloader may ask for it before it is among the members.
func (f *Frontier) Ready(member string) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.readyChan(member)
}

func (f *Frontier) readyChan(member string) chan struct{} {
	ch := f.ready[member]
	if ch == nil {
		ch = make(chan struct{}, 1)
		f.ready[member] = ch
	}
	return ch
}

// signal wakes the downloader of a shard.
func (f *Frontier) signal(shard int) {
	if shard < f.members.Len() {
		f.notify(f.readyChan(f.members.IDs()[shard]))
	}
}

// signalAll wakes every downloader: something other than a clock changed.
func (f *Frontier) signalAll() {
	for _, id := range f.members.IDs() {
		f.notify(f.readyChan(id))
	}
}
