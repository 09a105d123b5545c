package frontier

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// A page that is fetched again waits under its due time, a time of the due
// clock as those of the queues: an order on disk of which only what is due is
// read. Until then it is done; when it is due it is queued as any other URL,
// with the validators of its last fetch.

// dueChunk is the number of pages that are queued again in one batch.
const dueChunk = 1000

// recrawl is a job's policy.
type recrawl struct {
	policy             jobv1.RecrawlPolicy
	every, least, most time.Duration
	factor             float64
}

func recrawlOf(r *jobv1.Recrawl) recrawl {
	c := recrawl{policy: r.GetPolicy(), every: r.GetInterval().AsDuration(), least: r.GetMinInterval().AsDuration(),
		most: r.GetMaxInterval().AsDuration(), factor: r.GetFactor()}
	if c.every <= 0 {
		c.every = 24 * time.Hour
	}
	if c.least <= 0 {
		c.least = time.Hour
	}
	c.most = max(c.most, c.least)
	if r.GetMaxInterval() == nil {
		c.most = max(720*time.Hour, c.least)
	}
	if r == nil || r.Factor == nil {
		c.factor = 2
	}
	c.factor = max(1, c.factor)
	return c
}

// again tells whether pages are fetched again.
func (c *recrawl) again() bool {
	return c.policy > jobv1.RecrawlPolicy_RECRAWL_POLICY_NEVER
}

// next is the interval after a fetch, from the one before it (0: this was the
// first); 0: none.
func (c *recrawl) next(e *entry, before time.Duration, changed bool) time.Duration {
	switch c.policy {
	case jobv1.RecrawlPolicy_RECRAWL_POLICY_FIXED:
		return c.every
	case jobv1.RecrawlPolicy_RECRAWL_POLICY_ADAPTIVE:
		next := float64(before)
		switch {
		case before == 0:
			next = float64(c.every)
		case changed:
			next /= c.factor
		default:
			next *= c.factor
		}
		return min(max(time.Duration(min(next, float64(c.most))), c.least), c.most)
	case jobv1.RecrawlPolicy_RECRAWL_POLICY_SITEMAP:
		if e.isSitemap() {
			return c.every
		}
	}
	return 0
}

// isSitemap tells whether a page lists others with their lastmod: it was
// reached as a sitemap and is XML by its name or its type.
func (e *entry) isSitemap() bool {
	if !strings.HasSuffix(e.hop, "M") {
		return false
	}
	path, _, _ := strings.Cut(pathOf(e.url), "?")
	if strings.HasSuffix(path, ".xml") || strings.HasSuffix(path, ".xml.gz") {
		return true
	}
	o := &crawlv1.Outcome{}
	return proto.Unmarshal(e.outcome, o) == nil && strings.HasSuffix(o.GetContentType(), "xml")
}

func dueKey(num uint32, due int64, key uint64) []byte {
	b := binary.BigEndian.AppendUint64(numbered(kindDue, num), uint64(due))
	return binary.BigEndian.AppendUint64(b, key)
}

// remember takes from an outcome what the next visit is compared with and asks
// by, and tells whether the page has changed since the last.
func (e *entry) remember(out *crawlv1.Outcome) (changed bool) {
	res := out.GetFetch()
	if res.GetClass() != crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP || res.GetStatus() == 304 {
		return false
	}
	was := &crawlv1.Validators{}
	_ = proto.Unmarshal(e.validators, was) // what cannot be read has changed
	v := out.GetValidators()
	if v == nil {
		v = &crawlv1.Validators{FetchedAt: res.GetStartedAt()}
	}
	if v.GetPayloadDigest() == "" {
		v = proto.CloneOf(v)
		v.PayloadDigest = out.GetPayloadDigest()
	}
	e.validators, _ = proto.Marshal(v) // from a message that was received
	return was.GetPayloadDigest() == "" || was.GetPayloadDigest() != v.GetPayloadDigest()
}

// conditional are the validators for a request; nil: an ordinary one.
func (e *entry) conditional() *crawlv1.Validators {
	if len(e.validators) == 0 {
		return nil
	}
	v := &crawlv1.Validators{}
	if proto.Unmarshal(e.validators, v) != nil || v.GetEtag() == "" && v.GetLastModified() == "" {
		return nil
	}
	return v
}

// visitAgain gives a page that has ended its next due time.
func (f *Frontier) visitAgain(b *store.Batch, j *job, e *entry, out *crawlv1.Outcome, now time.Time) {
	if !j.recrawl.again() {
		return
	}
	changed := e.remember(out)
	e.due = 0
	e.interval = j.recrawl.next(e, e.interval, changed)
	if e.interval <= 0 {
		return
	}
	e.due = f.dueNow(now.Add(e.interval))
	b.Set(dueKey(j.num, e.due, e.key), nil)
	f.dueAt(now.Add(e.interval))
}

// queueDue queues the pages that are due.
func (f *Frontier) queueDue(now time.Time) {
	for _, j := range f.order {
		if !j.recrawl.again() || j.state != jobRunning {
			continue
		}
		var keys [][]byte
		prefix := numbered(kindDue, j.num)
		more := false
		err := f.st.Scan(prefix, after(prefix), func(k, _ []byte) bool {
			if len(k) != 21 {
				return true
			}
			due := int64(binary.BigEndian.Uint64(k[5:]))
			if wait := due - f.dueNow(now); wait > 0 {
				f.dueAt(now.Add(time.Duration(wait)))
				return false
			}
			keys = append(keys, slices.Clone(k))
			more = len(keys) == dueChunk
			return !more
		})
		if err != nil {
			f.fail(err)
			return
		}
		if len(keys) == 0 {
			continue
		}
		b := f.newBatch()
		a := admission{f: f, b: b, now: now, stored: map[queueName]bool{}, touched: map[*host]struct{}{}}
		for _, k := range keys {
			b.Delete(k)
			a.visit(j, keyNumber(k), func(rec *urlRecord) bool {
				return rec.entry.due == int64(binary.BigEndian.Uint64(k[5:]))
			})
		}
		for h := range a.touched {
			f.place(h, now)
		}
		f.saveCounters(b, j)
		if _, err := f.apply(b, false); err != nil {
			return
		}
		if more {
			f.dueAt(now)
		}
	}
}

// visit queues a URL that is done or has failed, if when says so.
func (a *admission) visit(j *job, key uint64, when func(*urlRecord) bool) {
	k := urlKey(j.num, key)
	v, ok := a.f.get(k)
	if !ok {
		return
	}
	rec, err := decodeURL(k, v)
	if err != nil || rec.state != stateDone && rec.state != stateFailed || !when(rec) {
		return
	}
	e := rec.entry
	e.attempts, e.failures, e.crashes, e.due = 0, 0, 0, 0
	*j.cnt.of(rec.state)--
	j.cnt.queued++
	e.pos = j.position(e.depth, e.priority)
	a.enqueue(j, rec.host, e)
}

// latestOf is the latest time that a sitemap's lastmod may mean: a date alone,
// which is read as its midnight, is some time of that day.
func latestOf(lastMod int64) int64 {
	const day = 24 * 60 * 60
	if lastMod%day == 0 {
		return lastMod + day - 1
	}
	return lastMod
}

// listed queues a known page that a sitemap lists as changed since its last
// fetch.
func (a *admission) listed(p pick) {
	if p.lastMod == 0 || p.job.recrawl.policy != jobv1.RecrawlPolicy_RECRAWL_POLICY_SITEMAP {
		return
	}
	a.visit(p.job, p.key, func(rec *urlRecord) bool {
		if p.lastMod <= rec.entry.lastMod || latestOf(p.lastMod) <= rec.at/int64(time.Second) {
			return false
		}
		rec.entry.lastMod = p.lastMod
		return true
	})
}
