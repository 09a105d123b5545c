package frontier

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	specs "lycosa.dev/internal/job"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/sieve"
	"lycosa.dev/scheduler/internal/frontier/store"
)

const (
	jobCreated  = schedulerv1.JobState_JOB_STATE_CREATED
	jobRunning  = schedulerv1.JobState_JOB_STATE_RUNNING
	jobPausing  = schedulerv1.JobState_JOB_STATE_PAUSING
	jobPaused   = schedulerv1.JobState_JOB_STATE_PAUSED
	jobStopping = schedulerv1.JobState_JOB_STATE_STOPPING
	jobFinished = schedulerv1.JobState_JOB_STATE_FINISHED
	jobFailed   = schedulerv1.JobState_JOB_STATE_FAILED
)

// Reasons for which a job finishes.
const (
	reasonEmpty       = "empty"
	reasonMaxPages    = "max-pages"
	reasonMaxBytes    = "max-bytes"
	reasonMaxDuration = "max-duration"
	reasonStopped     = "stopped"
	reasonMore        = "more-queued" // it had finished as empty, and got URLs since
	reasonRetired     = "retired"     // only queues retired by hand are left
)

// job is one crawl. Everything is guarded by the frontier's mutex.
type job struct {
	id      string
	num     uint32 // stands for the id in keys
	secret  uint64 // seeds the URL keys
	epoch   uint64
	spec    *jobv1.Spec // immutable; a change makes a new one
	version uint64
	state   schedulerv1.JobState
	reason  string
	round   uint32
	created time.Time
	started time.Time
	ended   time.Time
	roots   []string
	rootSet map[string]bool // what the roots add to the scope

	// from the spec
	settings // without overlays
	capacity int
	maxPages uint64
	maxBytes int64
	maxTime  time.Duration
	maxDepth int64 // -1: none
	maxURL   int
	strategy strategy
	recrawl  recrawl
	budgets  bool // hosts or domains have some
	pageMax  int64
	drain    time.Duration

	cnt       counters
	ran       time.Duration // without the present run
	runsSince time.Time     // zero: not running
	base      limitsBase    // where the round began

	queues     map[string]*queue
	held       map[string]*held // queues that are left alone, by hand
	excludes   exclusions       // from the spec
	hist       history
	overlays   *overlaid     // from the spec; nil: none
	sweep      *sweep        // a change of rules under way; nil: none
	capped     []*queue      // held by a limit
	ready      []readyQueues // by shard
	leased     int           // leases out, robots.txt included
	bytesOut   int64         // bytes that the leases out may take
	drainUntil time.Time     // stopping: leases end then
	stopReason string        // stopping: what it will have finished for
	requeue    []byte        // recrawl under way: where it stands; nil: none

	tallies      map[string]*tally // of hosts and domains, by key
	looseTallies []*tally          // some that no queue uses any more
	deferred     []deferredHost    // hosts of which URLs have failed
	lowering     bool              // there may be pages whose links are to come nearer
	anyRetired   bool              // there may be retired queues
	forgiving    bool              // dead hosts get another try in the look at retired queues that is under way
	unretire     []byte            // where the search for those that come back stands; nil: none

	seen     *sieve.Set // the URL keys known; guarded by the frontier's decideMu
	seenNext uint64     // number of the next record of keys that are in no run; guarded by decideMu
	anyDepth bool       // without max_depth the least depth of a known URL does not matter; guarded by decideMu
	seenBad  bool       // the set cannot be read and is to be built anew; guarded by decideMu

	inactiveFrom []byte // where the search for queues without a slot goes on
	moreInactive bool   // there may be such queues
	nextDue      int64  // when the next of them is due; 0: unknown or none
}

// limitsBase is what a round's limits are counted from.
type limitsBase struct {
	pages uint64
	bytes uint64
	ran   time.Duration
}

// counters are written with every batch that changes them.
type counters struct {
	queued, leased, done, excluded, failed, pending uint64
	pages, bytes, fetches, robots, errors, lost     uint64
	found, outOfScope, duplicates, reserved, seq    uint64
	status                                          [6]uint64
	ran                                             time.Duration
	due                                             int64 // the due clock when they were written
}

func (c *counters) known() uint64 { return c.queued + c.leased + c.done + c.excluded + c.failed }

// of is the counter of a state.
func (c *counters) of(s schedulerv1.UrlState) *uint64 {
	switch s {
	case stateQueued:
		return &c.queued
	case stateLeased:
		return &c.leased
	case stateDone:
		return &c.done
	case stateExcluded:
		return &c.excluded
	}
	return &c.failed
}

func (c *counters) fields() []*uint64 {
	list := []*uint64{
		&c.queued, &c.leased, &c.done, &c.excluded, &c.failed, &c.pending,
		&c.pages, &c.bytes, &c.fetches, &c.robots, &c.errors, &c.lost,
		&c.found, &c.outOfScope, &c.duplicates, &c.reserved, &c.seq,
	}
	for i := range c.status {
		list = append(list, &c.status[i])
	}
	return list
}

func (c *counters) encode(key []byte) []byte {
	w := newWriter()
	for _, v := range c.fields() {
		w.uint(*v)
	}
	w.int(int64(c.ran))
	w.int(c.due)
	return w.seal(key)
}

func decodeCounters(key, value []byte) (counters, error) {
	var c counters
	r, err := open(key, value)
	if err != nil {
		return c, err
	}
	for _, v := range c.fields() {
		*v = r.uint()
	}
	c.ran, c.due = time.Duration(r.int()), r.int()
	return c, r.err
}

func (c *counters) proto() *schedulerv1.Counters {
	return &schedulerv1.Counters{
		Known: c.known(), Queued: c.queued, Leased: c.leased, Done: c.done, Excluded: c.excluded, Failed: c.failed,
		Pending: c.pending, Pages: c.pages, ReceivedBytes: c.bytes, Fetches: c.fetches, RobotsFetches: c.robots,
		FetchErrors: c.errors, LostLeases: c.lost, LinksFound: c.found, LinksOutOfScope: c.outOfScope,
		Duplicates: c.duplicates, StatusClasses: slices.Clone(c.status[:]),
	}
}

// saveCounters puts the job's counters into a batch.
func (f *Frontier) saveCounters(b *store.Batch, j *job) {
	now := f.now()
	j.cnt.ran, j.cnt.due = j.running(now), f.dueNow(now)
	key := countersKey(j.num)
	b.Set(key, j.cnt.encode(key))
}

// saveJob puts the job into a batch.
func (f *Frontier) saveJob(b *store.Batch, j *job) {
	w := j.payload()
	for _, key := range [][]byte{jobKey(j.id), jobCopyKey(j.id)} {
		b.Set(key, w.seal(key))
	}
	f.saveCounters(b, j)
}

// payload is what the job's record and its copy hold.
func (j *job) payload() *writer {
	w := newWriter()
	w.uint(uint64(j.num))
	w.fixed(j.secret)
	w.fixed(j.epoch)
	w.uint(j.version)
	w.uint(uint64(j.state))
	w.str(j.reason)
	w.uint(uint64(j.round))
	for _, t := range []time.Time{j.created, j.started, j.ended} {
		w.int(unixNano(t))
	}
	w.uint(j.base.pages)
	w.uint(j.base.bytes)
	w.int(int64(j.base.ran))
	w.str(j.stopReason)
	w.bytes(j.requeue)
	w.uint(uint64(len(j.roots)))
	for _, r := range j.roots {
		w.str(r)
	}
	spec, _ := proto.Marshal(j.spec) // a message made by proto.Clone marshals
	w.bytes(spec)
	return w
}

func decodeJob(key, value []byte) (*job, error) {
	r, err := open(key, value)
	if err != nil {
		return nil, err
	}
	j := &job{id: string(key[1:]), num: r.u32(), secret: r.fixed(), epoch: r.fixed(), version: r.uint(),
		state: schedulerv1.JobState(r.uint()), reason: r.str(), round: r.u32()}
	j.created, j.started, j.ended = fromUnixNano(r.int()), fromUnixNano(r.int()), fromUnixNano(r.int())
	j.base = limitsBase{pages: r.uint(), bytes: r.uint(), ran: time.Duration(r.int())}
	j.stopReason, j.requeue = r.str(), r.bytes()
	n := r.uint()
	for range min(n, uint64(len(r.b))) {
		j.roots = append(j.roots, r.str())
	}
	spec := &jobv1.Spec{}
	raw := r.raw()
	if r.err != nil {
		return nil, r.err
	}
	if err := proto.Unmarshal(raw, spec); err != nil {
		return nil, fmt.Errorf("%w: spec: %w", errBadRecord, err)
	}
	j.init()
	j.setSpec(spec)
	return j, nil
}

func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromUnixNano(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}

// init makes what lives in memory only.
func (j *job) init() {
	j.queues = map[string]*queue{}
	j.held = map[string]*held{}
	j.inactiveFrom = numbered(kindInactive, j.num)
	j.moreInactive = true
	j.tallies = map[string]*tally{}
	j.anyRetired = true
	j.lookAtRetired()
	j.lowering = true
}

// setSpec takes an effective spec.
func (j *job) setSpec(spec *jobv1.Spec) {
	j.spec = spec
	j.excludes = compileExclusions(spec)
	j.hist.set(spec)
	if j.overlays = newOverlaid(spec); j.overlays != nil && j.overlays.excludes {
		j.excludes.job = j
	}
	j.rootSet = map[string]bool{}
	for _, r := range j.roots {
		j.rootSet[specs.RootKey(spec, r)] = true
	}
	j.settings = *settingsOf(spec, nil)
	l := spec.GetLimits()
	j.capacity = int(l.GetConcurrency())
	if j.capacity == 0 {
		j.capacity = 128
	}
	j.maxPages, j.maxBytes, j.maxTime = l.GetMaxPages(), l.GetMaxTotalBytes(), l.GetMaxDuration().AsDuration()
	j.maxDepth = -1
	if l != nil && l.MaxDepth != nil {
		j.maxDepth = int64(l.GetMaxDepth())
	}
	j.strategy = strategyOf(spec)
	j.recrawl = recrawlOf(spec.GetRecrawl())
	j.budgets = hasBudgets(spec)
	j.maxURL = int(l.GetMaxUrlLength())
	if j.maxURL == 0 {
		j.maxURL = 8192
	}
	j.pageMax = l.GetMaxPageBytes()
	if j.pageMax <= 0 {
		j.pageMax = 100 << 20
	}
	j.drain = 30 * time.Second
	if l.GetDrainTimeout() != nil {
		j.drain = l.GetDrainTimeout().AsDuration()
	}
}

// takeRoot lets a URL join the scope's roots; false: it would add nothing. Of a
// hundred thousand seeds on one host a host scope keeps one.
func (j *job) takeRoot(url string) bool {
	key := specs.RootKey(j.spec, url)
	if j.rootSet[key] {
		return false
	}
	j.rootSet[key] = true
	j.roots = append(j.roots, url)
	return true
}

// running is the time the job has run, pauses apart.
func (j *job) running(now time.Time) time.Duration {
	if j.runsSince.IsZero() {
		return j.ran
	}
	return j.ran + now.Sub(j.runsSince)
}

// runFor starts or stops the job's own time.
func (j *job) runFor(now time.Time, on bool) {
	switch {
	case on && j.runsSince.IsZero():
		j.runsSince = now
	case !on && !j.runsSince.IsZero():
		j.ran = j.running(now)
		j.runsSince = time.Time{}
	}
}

// pagesLeft says whether one more page may be leased.
func (j *job) pagesLeft() bool {
	return j.maxPages == 0 || j.cnt.pages-j.base.pages+j.cnt.reserved < j.maxPages
}

// bytesLeft is what neither was received nor is promised to leases.
func (j *job) bytesLeft() int64 {
	return j.maxBytes - int64(j.cnt.bytes-j.base.bytes) - j.bytesOut
}

func (j *job) over() bool { return j.state == jobFinished || j.state == jobFailed }

// status shows the job. Called with mu held.
func (f *Frontier) status(j *job) *schedulerv1.JobStatus {
	now := f.now()
	s := &schedulerv1.JobStatus{
		JobId: j.id, State: j.state, Reason: j.reason, Spec: j.spec, SpecVersion: j.version, Counters: j.cnt.proto(),
		CreatedAt: timestamp(j.created), StartedAt: timestamp(j.started), FinishedAt: timestamp(j.ended),
		Running: durationpb.New(j.running(now)), Round: j.round,
	}
	var next time.Time
	for _, q := range j.queues {
		if q.empty() && q.leased == 0 {
			continue
		}
		s.ActiveHosts++
		switch {
		case q.inReady:
			s.ReadyHosts++
		case !q.host.at.IsZero() && (next.IsZero() || q.host.at.Before(next)):
			next = q.host.at
		}
	}
	s.Retired, s.Deferred = f.retiredOf(j), f.deferredOf(j, now)
	if s.ReadyHosts == 0 {
		s.NextReadyAt = timestamp(next)
	}
	switch {
	case j.state != jobRunning:
	default:
		s.Trouble, s.Problem = f.trouble(j)
	}
	return s
}

func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// saveMeta writes the deployment's own record.
func (f *Frontier) saveMeta(b *store.Batch) {
	key := []byte{kindMeta}
	b.Set(key, encodeMeta(key, f.nextNum))
}

func encodeMeta(key []byte, nextNum uint32) []byte {
	w := newWriter()
	w.uint(storeFormat)
	w.uint(uint64(nextNum))
	return w.seal(key)
}

// meta is the deployment's own record.
type meta struct {
	format  uint64
	nextNum uint32
}

func decodeMeta(key, value []byte) (meta, error) {
	r, err := open(key, value)
	if err != nil {
		return meta{}, err
	}
	m := meta{format: r.uint()}
	if r.err == nil && m.format != storeFormat {
		return m, nil // what follows is that format's
	}
	m.nextNum = r.u32()
	return m, r.err
}

func jobNumberOf(key []byte) uint32 { return binary.BigEndian.Uint32(key[1:5]) }
