package frontier

import (
	"encoding/binary"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// journalKept bounds the candidates of the journal that are kept in memory;
// those beyond are read from disk when their turn comes.
const journalKept = 1 << 15

// journal is the commits' candidates that are not decided yet, oldest first.
// Entries from next on do not exist; those in kept are in memory, the first of
// them being entry first, without a gap.
type journal struct {
	first, next uint64
	kept        []journalEntry
	keptCands   int
	stalled     bool // entries exist behind those kept: they are only on disk
}

// journalEntry is one commit's candidates.
type journalEntry struct {
	seq     uint64
	job     uint32
	cands   []*crawlv1.Candidate
	hosts   []*crawlv1.HostAddresses
	foundBy string
}

// append journals candidates; they are pending until they are decided.
func (f *Frontier) append(b *store.Batch, j *job, cands []*crawlv1.Candidate, hosts []*crawlv1.HostAddresses, traceparent string) {
	e := journalEntry{seq: f.journal.next, job: j.num, cands: cands, hosts: hosts, foundBy: sampled(traceparent)}
	f.journal.next++
	key := journalKey(e.seq)
	b.Set(key, e.encode(key))
	j.cnt.pending += uint64(len(cands))
	f.journal.keep(e)
	if f.hungry || f.journal.keptCands >= decideBatch {
		f.notify(f.kickDecide)
	} else if len(f.journal.kept) == 1 {
		f.dueAt(f.now().Add(f.o.DecideDelay))
	}
}

func (jl *journal) keep(e journalEntry) {
	if jl.stalled || jl.keptCands >= journalKept {
		jl.stalled = true
		return
	}
	jl.kept = append(jl.kept, e)
	jl.keptCands += len(e.cands)
}

// forget drops a deleted job's entries from memory; on disk the decider does.
func (jl *journal) forget(j *job) {
	for i := range jl.kept {
		if jl.kept[i].job == j.num {
			jl.keptCands -= len(jl.kept[i].cands)
			jl.kept[i].cands = nil
		}
	}
}

// sampled is a traceparent worth keeping: one whose trace is recorded.
func sampled(tp string) string {
	if len(tp) == 55 && tp[54]&1 == 1 {
		return tp
	}
	return ""
}

func (e *journalEntry) encode(key []byte) []byte {
	w := newWriter()
	w.uint(uint64(e.job))
	w.str(e.foundBy)
	w.uint(uint64(len(e.cands)))
	for _, c := range e.cands {
		writeCandidate(w, c)
	}
	w.uint(uint64(len(e.hosts)))
	for _, h := range e.hosts {
		raw, _ := proto.Marshal(h)
		w.bytes(raw)
	}
	return w.seal(key)
}

func writeCandidate(w *writer, c *crawlv1.Candidate) {
	w.str(c.GetUrl())
	w.str(c.GetHostKey())
	w.uint(uint64(c.GetPriority()))
	w.uint(uint64(c.GetDepth()))
	w.str(c.GetHopPath())
	w.str(c.GetReferrer())
	w.bool(c.GetSeed())
	w.uint(uint64(c.GetRedirects()))
	w.str(c.GetRule())
	w.int(c.GetLastModified().GetSeconds())
}

func readCandidate(r *reader) *crawlv1.Candidate {
	c := &crawlv1.Candidate{Url: r.str(), HostKey: r.str(), Priority: r.u32(), Depth: r.u32(), HopPath: r.str(),
		Referrer: r.str(), Seed: r.bool(), Redirects: r.u32(), Rule: r.str()}
	if s := r.int(); s != 0 {
		c.LastModified = unixTimestamp(s)
	}
	return c
}

func decodeJournal(key, value []byte) (journalEntry, error) {
	var e journalEntry
	if len(key) != 9 {
		return e, fmt.Errorf("%w: key of %d bytes", errBadRecord, len(key))
	}
	r, err := open(key, value)
	if err != nil {
		return e, err
	}
	e.seq = binary.BigEndian.Uint64(key[1:])
	e.job, e.foundBy = r.u32(), r.str()
	for range min(r.uint(), uint64(len(r.b))) {
		e.cands = append(e.cands, readCandidate(r))
	}
	for range min(r.uint(), uint64(len(r.b))) {
		h := &crawlv1.HostAddresses{}
		if err := proto.Unmarshal(r.raw(), h); err != nil {
			return e, fmt.Errorf("%w: addresses: %w", errBadRecord, err)
		}
		e.hosts = append(e.hosts, h)
	}
	return e, r.err
}

// take returns the oldest entries, at least one where there is one and at
// most about max candidates. They stay in the journal until dropped.
func (f *Frontier) take(max int) []journalEntry {
	jl := &f.journal
	if len(jl.kept) == 0 && jl.stalled {
		f.reload()
	}
	n, cands := 0, 0
	for n < len(jl.kept) && (n == 0 || cands+len(jl.kept[n].cands) <= max) {
		cands += len(jl.kept[n].cands)
		n++
	}
	return slices.Clone(jl.kept[:n])
}

// drop forgets the n oldest entries: they are decided.
func (jl *journal) drop(n int) {
	for _, e := range jl.kept[:n] {
		jl.keptCands -= len(e.cands)
	}
	jl.first = jl.kept[n-1].seq + 1
	clear(jl.kept[:n])
	jl.kept = jl.kept[n:]
	if len(jl.kept) == 0 {
		jl.kept = nil
	}
}

// reload reads the journal from disk where memory has none of it. Called with
// mu held.
func (f *Frontier) reload() {
	jl := &f.journal
	jl.stalled = false
	err := f.st.Scan(journalKey(jl.first), after([]byte{kindJournal}), func(k, v []byte) bool {
		e, err := decodeJournal(k, v)
		if err != nil {
			f.noteBad(k, v)
			return true
		}
		jl.keep(e)
		return !jl.stalled
	})
	if err != nil {
		f.fail(err)
	}
}

// candidate is how an entry came into the frontier.
func (e *entry) candidate(host string) *crawlv1.Candidate {
	c := &crawlv1.Candidate{Url: e.url, HostKey: host, Priority: e.pos.prio, Depth: e.depth, HopPath: e.hop,
		Referrer: e.referrer, Seed: e.seed, Redirects: e.redirects, Rule: e.rule}
	if e.lastMod != 0 {
		c.LastModified = unixTimestamp(e.lastMod)
	}
	return c
}

// outcomeOf shows the last try of an entry.
func (e *entry) outcomeOf(job, host string) *crawlv1.Outcome {
	if len(e.outcome) == 0 {
		return nil
	}
	o := &crawlv1.Outcome{}
	if proto.Unmarshal(e.outcome, o) != nil {
		return nil
	}
	o.JobId, o.Url, o.HostKey = job, e.url, host
	return o
}
