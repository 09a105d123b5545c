package frontier

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/zeebo/xxh3"
	"google.golang.org/protobuf/types/known/timestamppb"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"

	"lycosa.dev/scheduler/internal/frontier/sieve"
	"lycosa.dev/scheduler/internal/frontier/store"
)

// decideBatch is about the number of candidates decided at a time.
const decideBatch = 4096

// lowerBatch is the number of pages whose links are lowered at a time.
const lowerBatch = 256

func unixTimestamp(s int64) *timestamppb.Timestamp { return &timestamppb.Timestamp{Seconds: s} }

// key is the fingerprint of a canonical URL, keyed with the job's secret so
// that nobody can make two URLs collide on purpose.
func (j *job) key(url string) uint64 { return xxh3.HashStringSeed(url, j.secret) }

// pick is a candidate to be decided.
type pick struct {
	job     *job
	key     uint64
	order   int // of first sight
	cand    *crawlv1.Candidate
	depth   uint32 // the least of those that name the URL
	entry   int    // index of its journal entry
	lastMod int64  // the latest lastmod of those that name it; 0: none
	same    int    // further candidates that name the URL
	fresh   bool
	shorter bool // known, with a greater depth
}

// decide decides the oldest candidates of the journal: which are new, which
// known. It is called with decideMu held, and is the only one that makes URLs
// known; what it reads without mu can therefore change its state meanwhile, not
// its being known. It returns the number of journal entries decided.
func (f *Frontier) decide(max int) (int, error) {
	if err := f.flushSeen(); err != nil {
		return 0, err
	}
	f.mu.Lock()
	if err := f.usable(); err != nil {
		f.mu.Unlock()
		return 0, err
	}
	entries := f.take(max)
	jobs := f.entryJobs(entries)
	f.mu.Unlock()
	if len(entries) == 0 {
		return f.lowerSome(lowerBatch)
	}
	start := time.Now()
	picks := f.pick(entries, jobs)
	if err := f.sift(picks); err != nil {
		f.mu.Lock()
		f.fail(err)
		f.mu.Unlock()
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return 0, f.err
	}
	now := f.now()
	b := f.newBatch()
	f.admit(b, picks, entries, now)
	for _, e := range entries {
		b.Delete(journalKey(e.seq))
		if j := f.byNum[e.job]; j != nil {
			j.cnt.pending -= uint64(len(e.cands))
		}
	}
	f.journal.drop(len(entries))
	for i := range entries {
		if j := f.byNum[entries[i].job]; j != nil && (i == 0 || entries[i-1].job != entries[i].job) {
			f.saveCounters(b, j)
			f.settle(b, j, now)
		}
	}
	if _, err := f.apply(b, false); err != nil {
		return 0, err
	}
	f.activate(now)
	f.met.decideSeconds.Observe(time.Since(start).Seconds())
	return len(entries), nil
}

// pickRef stands for a candidate while they are sorted.
type pickRef struct {
	key   uint64
	job   uint32
	entry uint32 // index of the journal entry
	cand  uint32 // index in it
	order uint32 // of first sight
}

func (a pickRef) compare(b pickRef) int {
	switch {
	case a.key != b.key:
		if a.key < b.key {
			return -1
		}
		return 1
	case a.job != b.job:
		return cmp.Compare(a.job, b.job)
	}
	return cmp.Compare(a.order, b.order)
}

// entryJobs finds the entries' jobs; nil: it was deleted. Called with both
// mutexes held.
func (f *Frontier) entryJobs(entries []journalEntry) []*job {
	jobs := make([]*job, len(entries))
	for i, e := range entries {
		if j := f.byNum[e.job]; j != nil {
			j.anyDepth = j.maxDepth < 0
			jobs[i] = j
		}
	}
	return jobs
}

// pick lists the candidates by key, each URL once; first seen first among
// equals. Called with decideMu held: what it returns is valid until the next
// call.
func (f *Frontier) pick(entries []journalEntry, jobs []*job) []pick {
	refs := f.refs[:0]
	for i, e := range entries {
		j := jobs[i]
		if j == nil {
			continue
		}
		for k, c := range e.cands {
			refs = append(refs, pickRef{key: j.key(c.GetUrl()), job: j.num, entry: uint32(i), cand: uint32(k), order: uint32(len(refs))})
		}
	}
	f.refs = refs
	f.met.decided.Add(float64(len(refs)))
	slices.SortFunc(refs, pickRef.compare)
	clear(f.picks)
	out := f.picks[:0]
	for i, r := range refs {
		c := entries[r.entry].cands[r.cand]
		depth, lastMod := c.GetDepth(), c.GetLastModified().GetSeconds()
		if i > 0 && refs[i-1].key == r.key && refs[i-1].job == r.job {
			p := &out[len(out)-1]
			p.same++
			p.lastMod = max(p.lastMod, lastMod)
			if depth < p.depth {
				// The shorter way is the one that is told.
				p.depth, p.cand, p.entry = depth, c, int(r.entry)
			}
			continue
		}
		out = append(out, pick{job: jobs[r.entry], key: r.key, order: int(r.order), cand: c, depth: depth, entry: int(r.entry), lastMod: lastMod})
	}
	f.picks = out
	return out
}

// runKeys are the keys of a batch, of one job, that the runs are asked for.
type runKeys struct {
	job  *job
	at   []int32 // of the picks
	list []sieve.Lookup
}

// runKeysOf is the list of a job's; memory of earlier batches is used again.
func (f *Frontier) runKeysOf(j *job) *runKeys {
	for i := range f.inRuns {
		if f.inRuns[i].job == j {
			return &f.inRuns[i]
		}
	}
	n := len(f.inRuns)
	if n < cap(f.inRuns) {
		f.inRuns = f.inRuns[:n+1]
	} else {
		f.inRuns = append(f.inRuns, runKeys{})
	}
	l := &f.inRuns[n]
	l.job, l.at, l.list = j, l.at[:0], l.list[:0]
	return l
}

// sift finds out which picks are new. What memory knows is asked first, of all
// of them, and then the runs for the rest of each job: keys come sorted, so that
// a run is gone through in one direction.
func (f *Frontier) sift(picks []pick) error {
	f.inRuns = f.inRuns[:0]
	var a *runKeys
	for i := range picks {
		p := &picks[i]
		t := tag(p.job, p.key)
		if f.known.has(t, p.depth) {
			continue
		}
		if f.filter.absent(t) {
			p.fresh = true
			continue
		}
		if a == nil || a.job != p.job {
			a = f.runKeysOf(p.job)
		}
		a.at, a.list = append(a.at, int32(i)), append(a.list, sieve.Lookup{Key: p.key})
	}
	for i := range f.inRuns {
		a := &f.inRuns[i]
		if err := f.findSeen(a.job, a.list); err != nil {
			return err
		}
		for k, l := range a.list {
			p := &picks[a.at[k]]
			switch {
			case !l.Found:
				p.fresh = true
			case sieve.Depth(p.depth) < l.Depth:
				p.shorter = true
				f.known.put(tag(p.job, p.key), p.depth)
			default:
				f.known.put(tag(p.job, p.key), uint32(l.Depth))
			}
		}
	}
	for i := range picks {
		if p := &picks[i]; p.fresh {
			t := tag(p.job, p.key)
			f.filter.add(t)
			f.known.put(t, p.depth)
		}
	}
	if f.filter.wantsMore() {
		f.notify(f.kickFill)
	}
	return nil
}

// admit puts the new URLs into their queues, in the order in which they were
// first seen, and takes the shorter ways to known ones in jobs with max_depth;
// elsewhere a depth is that of the first way, and no record is read.
func (f *Frontier) admit(b *store.Batch, picks []pick, entries []journalEntry, now time.Time) {
	rest := picks[:0]
	var listed []pick
	for _, p := range picks {
		if f.jobs[p.job.id] != p.job {
			continue
		}
		p.job.cnt.duplicates += uint64(p.same)
		switch {
		case p.fresh, p.shorter && p.job.maxDepth >= 0:
			rest = append(rest, p)
		default:
			p.job.cnt.duplicates++
			if p.lastMod > 0 {
				listed = append(listed, p)
			}
		}
	}
	slices.SortFunc(rest, func(a, b pick) int { return cmp.Compare(a.order, b.order) })
	a := admission{f: f, b: b, now: now, stored: map[queueName]bool{}, touched: map[*host]struct{}{}}
	f.keepSeen(b, rest)
	for _, p := range rest {
		if p.fresh {
			a.hosts, a.foundBy = entries[p.entry].hosts, entries[p.entry].foundBy
			a.add(p)
			f.met.fresh.Inc()
		} else {
			p.job.cnt.duplicates++
			a.nearer(p.job, p.key, p.depth, p.cand)
		}
	}
	for _, p := range listed {
		a.listed(p)
	}
	for h := range a.touched {
		f.place(h, now)
	}
}

type queueName struct {
	job  uint32
	host string
}

// admission is one batch of new URLs.
type admission struct {
	f       *Frontier
	b       *store.Batch
	now     time.Time
	hosts   []*crawlv1.HostAddresses
	foundBy string
	stored  map[queueName]bool // queues that have their records
	touched map[*host]struct{}
}

// add makes a new URL known.
func (a *admission) add(p pick) {
	j, c := p.job, p.cand
	e := &entry{
		key: p.key, url: c.GetUrl(), pos: j.position(p.depth, c.GetPriority()), priority: c.GetPriority(),
		depth: p.depth, redirects: c.GetRedirects(), seed: c.GetSeed(), hop: c.GetHopPath(), referrer: c.GetReferrer(),
		rule: c.GetRule(), foundBy: a.foundBy, lastMod: c.GetLastModified().GetSeconds(),
	}
	a.f.mark(a.b, j, a.now)
	host := c.GetHostKey()
	switch {
	case host == "" || len(host) > 300:
		a.f.bornEnded(a.b, j, host, e, fmt.Sprintf("bad host key %.40q", host), a.now)
	case len(e.url) > j.maxURL:
		a.f.bornEnded(a.b, j, host, e, fmt.Sprintf("max-url-length %d", j.maxURL), a.now)
	case j.tooDeep(e.depth):
		a.f.bornEnded(a.b, j, host, e, maxDepthReason(j), a.now)
	default:
		if why := a.f.trap(j, host, e, a.now); why != "" {
			a.f.bornEnded(a.b, j, host, e, why, a.now)
			return
		}
		j.cnt.queued++
		a.enqueue(j, host, e)
	}
}

// bornEnded records a URL that a limit keeps out of its queue.
func (f *Frontier) bornEnded(b *store.Batch, j *job, host string, e *entry, reason string, now time.Time) {
	j.cnt.excluded++
	key := urlKey(j.num, e.key)
	rec := urlRecord{state: stateExcluded, depth: e.depth, host: host, reason: reason, at: now.UnixNano(), entry: e}
	b.Set(key, rec.encode(key))
}

// enqueue puts a URL that is counted as queued into its queue, and the queue
// into the order if it is new.
func (a *admission) enqueue(j *job, host string, e *entry) {
	f := a.f
	f.writeQueued(a.b, j, host, e)
	if j.state == jobFinished && j.reason == reasonEmpty {
		j.reason = reasonMore
		f.saveJob(a.b, j)
	}
	q := j.queues[host]
	name := queueName{j.num, host}
	if (q == nil || !q.stored) && !a.stored[name] {
		a.stored[name] = true
		if !a.register(j, q, host) {
			q = j.queues[host]
		} else {
			return // it was on disk already and has its turn
		}
	}
	if q == nil {
		return
	}
	q.subs[e.scheme()].insert(e)
	a.touched[q.host] = struct{}{}
}

// register makes sure that a queue has its records. It returns true where the
// queue was on disk before and the URL needs no place in memory.
func (a *admission) register(j *job, q *queue, host string) bool {
	f := a.f
	name := queueName{j.num, host}
	if q == nil && f.onDisk.has(name) {
		return true
	}
	key := queueKey(j.num, host)
	if v, ok := f.get(key); ok {
		if due, err := decodeQueue(key, v); err == nil {
			f.onDisk.put(name)
			if q != nil {
				q.stored, q.due, q.subs = true, due, onDisk()
				a.touched[q.host] = struct{}{}
			}
			return true
		}
	}
	due := f.nextDue(a.now)
	writeQueue(a.b, j.num, host, due)
	f.onDisk.put(name)
	for _, h := range a.hosts {
		if h.GetHost() == hostName(host) && h.GetStatus() != crawlv1.HostStatus_HOST_STATUS_UNSPECIFIED {
			k := dnsKey(h.GetHost())
			a.b.Set(k, encodeAddresses(k, h))
		}
	}
	if q == nil && j.state == jobRunning && f.active < f.o.MaxActiveHosts && !j.moreInactive && j.held[host] == nil {
		q = f.addQueue(j, host, a.now)
		for _, h := range a.hosts {
			if h.GetHost() == hostName(host) {
				q.host.news(h, a.now)
			}
		}
		// Found again by the search for queues without a slot, and passed over.
	}
	if q != nil {
		q.stored, q.due = true, due
	} else {
		f.inactiveAdded(j, host, due)
	}
	return false
}

func isMaxDepth(reason string) bool { return len(reason) > 10 && reason[:10] == "max-depth " }
