package frontier

import (
	"encoding/binary"
	"fmt"
	"slices"

	specs "lycosa.dev/internal/job"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// The depth of a URL is its distance from the seeds on the shortest way known.
// A page may be fetched on a longer way before a shorter one is found: its own
// depth becomes less then, and with it that of all that it leads to, of which
// max_depth may have cut some. So in a job with max_depth each page's links are
// kept as keys, and a page whose links are known and whose depth becomes less is
// put among those whose links are lowered as well. That is written with the
// change, and the job does not end before it is done; so the pages within
// max_depth of the seeds are the same in whatever order they come. It holds for
// URLs in every state: one that failed or was kept out may come back, and its
// links are then as deep as its shortest way makes them.

// edge is a link of a page, by the target's key.
type edge struct {
	key  uint64
	adds uint32 // to the page's depth: 0 or 1
}

func edgesKey(num uint32, key uint64) []byte {
	return binary.BigEndian.AppendUint64(numbered(kindEdges, num), key)
}

// edgesPart is the key of the links of a part of a page's commit. They lie
// behind the page's own, in order.
func edgesPart(num uint32, key uint64, part uint32) []byte {
	k := edgesKey(num, key)
	if part > 0 {
		k = binary.BigEndian.AppendUint32(k, part)
	}
	return k
}

func lowerKey(num uint32, key uint64) []byte {
	return binary.BigEndian.AppendUint64(numbered(kindLower, num), key)
}

func encodeEdges(key []byte, list []edge) []byte {
	w := newWriter()
	w.uint(uint64(len(list)))
	for _, e := range list {
		w.fixed(e.key)
		w.uint(uint64(e.adds))
	}
	return w.seal(key)
}

func decodeEdges(key, value []byte) ([]edge, error) {
	r, err := open(key, value)
	if err != nil {
		return nil, err
	}
	var list []edge
	for n := r.uint(); n > 0 && r.err == nil; n-- {
		list = append(list, edge{key: r.fixed(), adds: r.u32()})
	}
	return list, r.err
}

// found is a page whose links are committed.
type found struct {
	key   uint64
	depth uint32 // where it stands
	told  uint32 // where its lease stood
	late  bool   // the lease is not known any more: told is the page's depth
	part  uint32 // of the commit
}

// leasedPage is the page of a part of a commit that has no outcome; false: none
// whose links can come nearer.
func (f *Frontier) leasedPage(j *job, out *crawlv1.Outcome, part uint32) (found, bool) {
	if j.maxDepth < 0 || out.GetPurpose() != crawlv1.Purpose_PURPOSE_PAGE {
		return found{}, false
	}
	if l := f.leases[out.GetLeaseId()]; l != nil && l.page != nil {
		return found{key: l.page.key, depth: l.page.depth, told: l.told, part: part}, true
	}
	k := j.key(out.GetUrl())
	v, ok := f.get(urlKey(j.num, k))
	if !ok {
		return found{}, false
	}
	rec, err := decodeURL(urlKey(j.num, k), v)
	if err != nil {
		return found{}, false
	}
	return found{key: k, depth: rec.depth, told: rec.depth, late: true, part: part}, true
}

// keepEdges keeps the links of a page, or of a part of them, that may come
// nearer to the seeds, and corrects the depth of those that were found by a
// lease that was told another.
func (f *Frontier) keepEdges(b *store.Batch, j *job, page found, cands []*crawlv1.Candidate) []*crawlv1.Candidate {
	copied := false
	least := make(map[uint64]uint32, len(cands))
	for i, c := range cands {
		if c.GetSeed() {
			continue
		}
		more := c.GetDepth() - min(page.told, c.GetDepth())
		if page.late && c.GetHopPath() != "" { // the lease may have been told more
			more = min(more, specs.DepthAdded(c.GetHopPath()[len(c.GetHopPath())-1]))
		}
		if depth := page.depth + more; depth < c.GetDepth() {
			near := &crawlv1.Candidate{Url: c.GetUrl(), HostKey: c.GetHostKey(), Priority: c.GetPriority(), Depth: depth,
				HopPath: c.GetHopPath(), Referrer: c.GetReferrer(), Redirects: c.GetRedirects(), Rule: c.GetRule(), LastModified: c.GetLastModified()}
			if !copied {
				cands, copied = slices.Clone(cands), true // the sender's list stays as it is
			}
			cands[i] = near
		}
		k := j.key(c.GetUrl())
		if was, ok := least[k]; !ok || more < was {
			least[k] = more
		}
	}
	if len(least) == 0 || page.depth == 0 { // none is nearer than a seed
		return cands
	}
	list := make([]edge, 0, len(least))
	for k, n := range least {
		list = append(list, edge{k, n})
	}
	slices.SortFunc(list, func(a, b edge) int {
		if a.key < b.key {
			return -1
		}
		return 1
	})
	key := edgesPart(j.num, page.key, page.part)
	b.Set(key, encodeEdges(key, list))
	return cands
}

// lowerLater puts a page among those whose links come nearer with it, if any of
// its links are known. One that lies too deep is too: max_depth may be raised.
func (f *Frontier) lowerLater(b *store.Batch, j *job, key uint64, depth uint32) {
	if f.hasEdges(j, key) {
		f.lowerFrom(b, j, key, depth, 0)
	}
}

// hasEdges tells whether links of a page are kept: it was fetched once, or some
// parts of its links have come.
func (f *Frontier) hasEdges(j *job, page uint64) bool {
	some, err := f.anyUnder(edgesKey(j.num, page))
	if err != nil {
		f.fail(err)
	}
	return some
}

// lowerFrom puts a page among those whose links come nearer, from a part of
// them on.
func (f *Frontier) lowerFrom(b *store.Batch, j *job, key uint64, depth, part uint32) {
	k := lowerKey(j.num, key)
	b.Set(k, encodeLower(k, depth, part))
	j.lowering = true
}

func encodeLower(key []byte, depth, part uint32) []byte {
	w := newWriter()
	w.uint(uint64(depth))
	w.uint(uint64(part))
	return w.seal(key)
}

// decodeLower returns the page's depth, and the part of its links to go on from.
func decodeLower(key, value []byte) (depth, part uint32, err error) {
	r, err := open(key, value)
	if err != nil {
		return 0, 0, err
	}
	if len(key) != 13 {
		return 0, 0, fmt.Errorf("%w: key of %d bytes", errBadRecord, len(key))
	}
	depth, part = r.u32(), r.u32()
	return depth, part, r.err
}

// lowerSome lowers the links of the next pages. It is called with decideMu
// held, and returns how many there were.
func (f *Frontier) lowerSome(max int) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, j := range f.order {
		for j.lowering && n < max {
			if f.err != nil {
				return n, f.err
			}
			prefix := numbered(kindLower, j.num)
			var key, value []byte
			if err := f.st.Scan(prefix, after(prefix), func(k, v []byte) bool {
				key, value = slices.Clone(k), slices.Clone(v)
				return false
			}); err != nil {
				f.fail(err)
				return n, f.err
			}
			if key == nil {
				j.lowering = false
				break
			}
			n++
			if err := f.lowerLinks(j, key, value); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// lowerLinks gives the links of one page what its depth makes of theirs, those
// of one part at a time.
func (f *Frontier) lowerLinks(j *job, key, value []byte) error {
	now := f.now()
	b := f.newBatch()
	page := binary.BigEndian.Uint64(key[5:])
	depth, from, err := decodeLower(key, value)
	var picks []pick
	if b.Delete(key); err != nil {
		f.quarantine(b, key, value, err)
	} else {
		var list []edge
		part, seen := uint32(0), false
		prefix := edgesKey(j.num, page)
		if err := f.st.Scan(edgesPart(j.num, page, from), after(prefix), func(k, v []byte) bool {
			if seen {
				part = binary.BigEndian.Uint32(k[len(prefix):]) // the next one
				return false
			}
			seen = true
			var err error
			if list, err = decodeEdges(k, v); err != nil {
				f.noteBad(k, v)
			}
			return true
		}); err != nil {
			f.fail(err)
			return f.err
		}
		if part > 0 {
			f.lowerFrom(b, j, page, depth, part)
		}
		a := admission{f: f, b: b, now: now, stored: map[queueName]bool{}, touched: map[*host]struct{}{}}
		for _, e := range list {
			if a.nearer(j, e.key, depth+e.adds, nil) {
				picks = append(picks, pick{job: j, key: e.key, depth: depth + e.adds})
			}
		}
		f.keepSeen(b, picks)
		for h := range a.touched {
			f.place(h, now)
		}
	}
	f.saveCounters(b, j)
	_, err = f.apply(b, false)
	return err
}

// nearer takes a shorter way to a known URL: a queued one's depth becomes less,
// and its place by it; one that max_depth had cut is queued if it does not any
// more; the others keep it for when they come back. The links that are known of
// it come nearer as well. found tells of the way, where known. It returns false
// where nothing changes.
func (a *admission) nearer(j *job, k uint64, depth uint32, found *crawlv1.Candidate) bool {
	f := a.f
	key := urlKey(j.num, k)
	v, ok := f.get(key)
	if !ok {
		return false
	}
	rec, err := decodeURL(key, v)
	if err != nil || depth >= rec.depth {
		return false
	}
	take := func(e *entry) {
		e.depth = depth
		if found != nil {
			e.hop, e.referrer, e.rule = found.GetHopPath(), found.GetReferrer(), found.GetRule()
		}
	}
	switch rec.state {
	case stateQueued:
		e := f.queuedEntry(j, rec, k)
		if e == nil {
			return false
		}
		q := j.queues[rec.host]
		take(e)
		if prio, _ := j.strategy.place(depth, e.priority, 0); e.pos.class == classNormal && prio != e.pos.prio {
			if q != nil {
				q.subs[rec.scheme].remove(e.pos)
			}
			a.b.Delete(queuedKey(j.num, rec.host, rec.scheme, rec.pos, k))
			e.pos.prio = prio
			if q != nil {
				q.subs[rec.scheme].insert(e)
			}
		}
		f.writeQueued(a.b, j, rec.host, e)
	case stateLeased:
		l := f.leases[rec.lease]
		if l == nil || l.page == nil {
			return false
		}
		take(l.page)
		rec.depth = depth
		a.b.Set(key, rec.encode(key))
		f.saveLease(a.b, l, l.issued)
	default:
		take(rec.entry)
		rec.depth = depth
		if rec.state != stateExcluded || !isMaxDepth(rec.reason) || j.tooDeep(depth) {
			a.b.Set(key, rec.encode(key))
			break
		}
		j.cnt.excluded--
		j.cnt.queued++
		if found != nil {
			rec.entry.priority = found.GetPriority()
		}
		rec.entry.pos = j.position(depth, rec.entry.priority)
		a.enqueue(j, rec.host, rec.entry)
	}
	f.lowerLater(a.b, j, k, depth)
	return true
}
