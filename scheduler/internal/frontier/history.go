package frontier

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"google.golang.org/protobuf/types/known/durationpb"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// The history of URLs: what happened to each, for people who ask why. A step is
// written where a try ends, in the batch that ends it, so that it costs one
// record a page and no sync; what a URL's own records say (who found it, by
// which rule) is not repeated. When a URL was queued is not written with it but
// found by its sequence number, of which the time is noted once a second.
//
// Steps lie in generations, a few for the time that they are kept and for their
// bytes; the oldest generation goes as a whole, by one deletion of a range. So
// the disk is bounded, and nothing is searched to forget. A question looks into
// every generation under the URL's key.

const (
	// historyGenerations is in how many generations a history is kept.
	historyGenerations = 8
	historyKeep        = 30 * 24 * time.Hour
	historyBytes       = 256 << 20
	// markEvery is how often the time of a sequence number is noted.
	markEvery = time.Second
)

// history is a job's. It is guarded by the frontier's mutex.
type history struct {
	off      bool
	keep     time.Duration
	maxBytes int64

	gens   []generation // oldest first; steps go into the last
	dirty  bool         // the last one's bytes are not on disk
	n      uint16       // tells steps of one instant apart
	marked time.Time    // when a sequence number's time was noted last
}

// generation is some of a history.
type generation struct {
	num   uint32
	start int64  // Unix nanoseconds
	seq   uint64 // the job's sequence number then
	bytes int64
}

// fate is what became of a URL last: of the one whose outcome is being taken.
type fate struct {
	state  schedulerv1.UrlState
	reason string
}

func (h *history) set(spec *jobv1.Spec) {
	s := spec.GetHistory()
	h.off, h.keep, h.maxBytes = s.GetOff(), historyKeep, historyBytes
	if d := s.GetKeep().AsDuration(); d > 0 {
		h.keep = d
	}
	if n := s.GetMaxBytes(); n > 0 {
		h.maxBytes = n
	}
}

func generationKey(num, gen uint32) []byte {
	return binary.BigEndian.AppendUint32(numbered(kindGeneration, num), gen)
}

func stepPrefix(num, gen uint32, key uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(numbered(kindStep, num), gen), key)
}

func markKey(num uint32, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(numbered(kindMark, num), seq)
}

func (g *generation) encode(key []byte) []byte {
	w := newWriter()
	w.int(g.start)
	w.uint(g.seq)
	w.int(g.bytes)
	return w.seal(key)
}

func decodeGeneration(key, value []byte) (generation, error) {
	g := generation{}
	r, err := open(key, value)
	if err != nil {
		return g, err
	}
	if len(key) != 9 {
		return g, fmt.Errorf("%w: key of %d bytes", errBadRecord, len(key))
	}
	g = generation{num: binary.BigEndian.Uint32(key[5:]), start: r.int(), seq: r.uint(), bytes: r.int()}
	return g, r.err
}

// step is one thing that happened, as it is on disk.
type step struct {
	kind    schedulerv1.UrlStepKind
	at      int64 // Unix nanoseconds; in the key
	seq     uint64
	state   schedulerv1.UrlState // what became of the URL
	reason  string
	lease   uint64 // 0: none
	leased  int64
	attempt uint32
	member  string
	robots  string
	next    int64 // 0: none
	fetch   *crawlv1.FetchResult
}

func (s *step) encode(key []byte) []byte {
	w := newWriter()
	w.uint(uint64(s.kind))
	w.uint(s.seq)
	w.uint(uint64(s.state))
	w.str(s.reason)
	w.fixed(s.lease)
	if s.lease != 0 {
		w.int(s.leased)
		w.uint(uint64(s.attempt))
		w.str(s.member)
		w.str(s.robots)
	}
	w.int(s.next)
	w.bool(s.fetch != nil)
	if r := s.fetch; r != nil {
		w.uint(uint64(r.GetClass()))
		w.uint(uint64(r.GetStatus()))
		w.str(r.GetError())
		w.bytes(r.GetAddress())
		w.int(r.GetReceivedBytes())
		w.bool(r.GetReusedConnection())
		t := r.GetTimings()
		for _, d := range [...]*durationpb.Duration{t.GetQueue(), t.GetConnect(), t.GetTls(), t.GetFirstByte(), t.GetBody(), t.GetTotal()} {
			w.int(int64(d.AsDuration()))
		}
	}
	return w.seal(key)
}

// stepKeySize is the length of a step's key.
const stepKeySize = 1 + 4 + 4 + 8 + 8 + 2

func decodeStep(key, value []byte) (*step, error) {
	r, err := open(key, value)
	if err != nil {
		return nil, err
	}
	if len(key) != stepKeySize {
		return nil, fmt.Errorf("%w: key of %d bytes", errBadRecord, len(key))
	}
	s := &step{at: int64(binary.BigEndian.Uint64(key[17:])), kind: schedulerv1.UrlStepKind(r.uint()), seq: r.uint(),
		state: schedulerv1.UrlState(r.uint()), reason: r.str(), lease: r.fixed()}
	if s.lease != 0 {
		s.leased, s.attempt, s.member, s.robots = r.int(), r.u32(), r.str(), r.str()
	}
	s.next = r.int()
	if r.bool() {
		s.fetch = &crawlv1.FetchResult{Class: crawlv1.OutcomeClass(r.uint()), Status: r.u32(), Error: r.str(), Address: r.bytes(),
			ReceivedBytes: r.int(), ReusedConnection: r.bool()}
		d := func() *durationpb.Duration {
			if n := r.int(); n != 0 {
				return durationpb.New(time.Duration(n))
			}
			return nil
		}
		s.fetch.Timings = &crawlv1.Timings{Queue: d(), Connect: d(), Tls: d(), FirstByte: d(), Body: d(), Total: d()}
	}
	return s, r.err
}

// given is the job's sequence number that a position was made of, whatever the
// strategy made of it.
func (p position) given() uint64 {
	if p.seq>>63 != 0 {
		return ^p.seq
	}
	return p.seq
}

// record writes a step of a URL.
func (f *Frontier) record(b *store.Batch, j *job, url uint64, s *step, now time.Time) {
	h := &j.hist
	if h.off {
		return
	}
	if len(h.gens) == 0 || h.gens[len(h.gens)-1].bytes > h.maxBytes/historyGenerations ||
		now.UnixNano()-h.gens[len(h.gens)-1].start > int64(h.keep)/historyGenerations {
		f.newGeneration(b, j, now)
	}
	g := &h.gens[len(h.gens)-1]
	h.n++
	key := binary.BigEndian.AppendUint64(stepPrefix(j.num, g.num, url), uint64(now.UnixNano()))
	key = binary.BigEndian.AppendUint16(key, h.n)
	value := s.encode(key)
	b.Set(key, value)
	g.bytes += int64(len(key) + len(value))
	h.dirty = true
}

// newGeneration begins a generation and forgets what is over time or size.
func (f *Frontier) newGeneration(b *store.Batch, j *job, now time.Time) {
	h := &j.hist
	g := generation{start: now.UnixNano(), seq: j.cnt.seq}
	if n := len(h.gens); n > 0 {
		last := &h.gens[n-1]
		key := generationKey(j.num, last.num)
		b.Set(key, last.encode(key))
		g.num = last.num + 1
	}
	h.gens = append(h.gens, g)
	key := generationKey(j.num, g.num)
	b.Set(key, g.encode(key))
	h.dirty = false
	f.forgetSteps(b, j, now)
}

// forgetSteps drops the generations that are over time or size.
func (f *Frontier) forgetSteps(b *store.Batch, j *job, now time.Time) {
	h := &j.hist
	var total int64
	for _, g := range h.gens {
		total += g.bytes
	}
	for len(h.gens) > 1 && (total > h.maxBytes-h.maxBytes/historyGenerations || now.UnixNano()-h.gens[1].start > int64(h.keep)) {
		old := h.gens[0]
		total -= old.bytes
		from := binary.BigEndian.AppendUint32(numbered(kindStep, j.num), old.num)
		b.DeleteRange(from, after(from))
		b.Delete(generationKey(j.num, old.num))
		h.gens = slices.Delete(h.gens, 0, 1)
		b.DeleteRange(markKey(j.num, 0), markKey(j.num, h.gens[0].seq))
	}
}

// saveHistories writes how large the histories are, for the next start, and
// forgets what is over time.
func (f *Frontier) saveHistories(now time.Time) {
	b := f.newBatch()
	for _, j := range f.order {
		h := &j.hist
		if len(h.gens) == 0 {
			continue
		}
		if h.dirty {
			h.dirty = false
			g := &h.gens[len(h.gens)-1]
			key := generationKey(j.num, g.num)
			b.Set(key, g.encode(key))
		}
		f.forgetSteps(b, j, now)
	}
	_, _ = f.apply(b, false)
}

// loadHistories finds the generations of all jobs.
func (f *Frontier) loadHistories() error {
	return f.st.Scan([]byte{kindGeneration}, after([]byte{kindGeneration}), func(k, v []byte) bool {
		if len(k) != 9 {
			return true
		}
		j := f.byNum[jobNumberOf(k)]
		g, err := decodeGeneration(k, v)
		switch {
		case j == nil:
		case err != nil:
			// Its steps are found by the number in the key all the same.
			f.noteBad(k, v)
		default:
			j.hist.gens = append(j.hist.gens, g)
		}
		return true
	})
}

// mark notes the time of the job's sequence number, now and then.
func (f *Frontier) mark(b *store.Batch, j *job, now time.Time) {
	h := &j.hist
	if h.off || !h.marked.IsZero() && now.Sub(h.marked) < markEvery {
		return
	}
	h.marked = now
	key := markKey(j.num, j.cnt.seq)
	b.Set(key, encodeMark(key, now))
}

func encodeMark(key []byte, at time.Time) []byte {
	w := newWriter()
	w.int(at.UnixNano())
	return w.seal(key)
}

func decodeMark(key, value []byte) (time.Time, error) {
	r, err := open(key, value)
	if err != nil {
		return time.Time{}, err
	}
	if len(key) != 13 {
		return time.Time{}, fmt.Errorf("%w: key of %d bytes", errBadRecord, len(key))
	}
	at := fromUnixNano(r.int())
	return at, r.err
}

// queuedAt is when a sequence number was given, within a second; zero: that is
// not known any more.
func (f *Frontier) queuedAt(j *job, seq uint64) time.Time {
	// The last mark at or before it; marks are dense, so that a few steps back
	// by doubling find one.
	var found time.Time
	for back := uint64(1 << 12); ; back <<= 3 {
		from := uint64(0)
		if seq > back {
			from = seq - back
		}
		_ = f.st.Scan(markKey(j.num, from), markKey(j.num, seq+1), func(k, v []byte) bool {
			if at, err := decodeMark(k, v); err == nil {
				found = at
			} else {
				f.noteBad(k, v)
			}
			return true
		})
		if !found.IsZero() || from == 0 {
			return found
		}
	}
}

// tried records what came of a lease whose outcome was taken.
func (f *Frontier) tried(b *store.Batch, l *lease, res *crawlv1.FetchResult, now time.Time) {
	j, e := l.job, l.page
	if j.hist.off {
		return
	}
	s := step{kind: schedulerv1.UrlStepKind_URL_STEP_KIND_TRIED, seq: e.pos.given(), state: f.fate.state, reason: f.fate.reason, lease: l.id,
		leased: unixNano(l.issued), attempt: max(1, e.attempts), member: l.member, robots: l.robots, fetch: res}
	if f.fate.state == stateQueued {
		s.next = unixNano(latest(now, l.queue.host.next))
	}
	f.record(b, j, e.key, &s, now)
}

// triedRobots records what came of a try of a robots.txt, under the URL of its
// origin's own.
func (f *Frontier) triedRobots(b *store.Batch, l *lease, out *crawlv1.Outcome, now time.Time) {
	j, t, res := l.job, l.task, out.GetFetch()
	if j.hist.off {
		return
	}
	why := l.url + ": "
	switch {
	case res.GetClass() != crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP:
		why += orElse(res.GetError(), className(res.GetClass()))
	case out.GetRedirectUrl() != "":
		why += fmt.Sprintf("HTTP %d to %s", res.GetStatus(), out.GetRedirectUrl())
	default:
		why += fmt.Sprintf("HTTP %d", res.GetStatus())
	}
	f.record(b, j, j.key(t.origin.url()), &step{kind: schedulerv1.UrlStepKind_URL_STEP_KIND_ROBOTS, reason: why, lease: l.id,
		leased: unixNano(l.issued), attempt: t.origin.tries + 1, member: l.member, fetch: res}, now)
}

// returned records a lease that nothing came of.
func (f *Frontier) returned(b *store.Batch, l *lease, crashed bool, now time.Time) {
	if l.job.hist.off {
		return
	}
	why := "the lease came back without an outcome; it does not count as a try"
	if crashed {
		why = "the process ended while it was leased; it does not count as a try"
	}
	e := l.page
	f.record(b, l.job, e.key, &step{kind: schedulerv1.UrlStepKind_URL_STEP_KIND_RETURNED, seq: e.pos.given(), state: f.fate.state, reason: why,
		lease: l.id, leased: unixNano(l.issued), attempt: e.attempts + 1, member: l.member, robots: l.robots}, now)
}

// endedWithoutFetch records that a queued URL ended by a rule.
func (f *Frontier) endedWithoutFetch(b *store.Batch, j *job, e *entry, to schedulerv1.UrlState, reason string, now time.Time) {
	f.record(b, j, e.key, &step{kind: schedulerv1.UrlStepKind_URL_STEP_KIND_ENDED, seq: e.pos.given(), state: to, reason: reason}, now)
}
