package frontier

import (
	"encoding/binary"
	"slices"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// The depth of a URL is its distance from the seeds on the shortest way known.
// A page may be fetched on a longer way before a shorter one is found: its own
// depth becomes less then, and with it that of all that it leads to, of which
// max_depth may have cut some. So in a job with max_depth each page's links are
// kept as keys, and a page that is done and whose depth becomes less is put
// among those whose links are lowered as well. That is written with the change,
// and the job does not end before it is done; so the pages within max_depth of
// the seeds are the same in whatever order they come.

// edge is a link of a page, by the target's key.
type edge struct {
	key  uint64
	adds uint32 // to the page's depth: 0 or 1
}

func edgesKey(num uint32, key uint64) []byte {
	return binary.BigEndian.AppendUint64(numbered(kindEdges, num), key)
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

// keepEdges keeps the links of a page that may come nearer to the seeds, and
// corrects the depth of those that were found by a lease that was told another:
// told.
func (f *Frontier) keepEdges(b *store.Batch, j *job, page *entry, told uint32, cands []*crawlv1.Candidate) []*crawlv1.Candidate {
	if j.maxDepth < 0 || page == nil {
		return cands
	}
	copied := false
	least := make(map[uint64]uint32, len(cands))
	for i, c := range cands {
		if c.GetSeed() {
			continue
		}
		more := c.GetDepth() - min(told, c.GetDepth())
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
	key := edgesKey(j.num, page.key)
	b.Set(key, encodeEdges(key, list))
	return cands
}

// lowerLater puts a page that is done among those whose links come nearer with
// it.
func (f *Frontier) lowerLater(b *store.Batch, j *job, key uint64, depth uint32) {
	if j.maxDepth < 0 || int64(depth) > j.maxDepth {
		return // its links have a place only if they are within max_depth
	}
	k := lowerKey(j.num, key)
	w := newWriter()
	w.uint(uint64(depth))
	b.Set(k, w.seal(k))
	j.lowering = true
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

// lowerLinks gives the links of one page what its depth makes of theirs.
func (f *Frontier) lowerLinks(j *job, key, value []byte) error {
	now := f.now()
	b := f.newBatch()
	b.Delete(key)
	page := binary.BigEndian.Uint64(key[5:])
	r, err := open(key, value)
	var list []edge
	var picks []pick
	if err == nil {
		depth := r.u32()
		if v, ok := f.get(edgesKey(j.num, page)); ok {
			if list, err = decodeEdges(edgesKey(j.num, page), v); err != nil {
				f.damaged = append(f.damaged, [2][]byte{edgesKey(j.num, page), slices.Clone(v)})
			}
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
// and its place by it; one that max_depth had cut is queued after all; a done
// one's links come nearer as well. found tells of the way, where known. It returns
// false where nothing changes.
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
		qk := queuedKey(j.num, rec.host, rec.scheme, rec.pos, k)
		v, ok := f.get(qk)
		if !ok {
			return false
		}
		e, err := decodeQueued(qk, v)
		if err != nil {
			return false
		}
		q := j.queues[rec.host]
		if q != nil {
			for _, h := range q.subs[rec.scheme].heads {
				if h.pos == e.pos {
					e = h
				}
			}
		}
		take(e)
		if prio, _ := j.strategy.place(depth, e.priority, 0); e.pos.class == classNormal && prio != e.pos.prio {
			if q != nil {
				q.subs[rec.scheme].remove(e.pos)
			}
			a.b.Delete(qk)
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
	case stateDone:
		take(rec.entry)
		rec.depth = depth
		a.b.Set(key, rec.encode(key))
		f.lowerLater(a.b, j, k, depth)
	case schedulerv1.UrlState_URL_STATE_EXCLUDED:
		if !isMaxDepth(rec.reason) || j.maxDepth >= 0 && int64(depth) > j.maxDepth {
			return false
		}
		take(rec.entry)
		j.cnt.excluded--
		j.cnt.queued++
		if found != nil {
			rec.entry.priority = found.GetPriority()
		}
		rec.entry.pos = j.position(depth, rec.entry.priority)
		a.enqueue(j, rec.host, rec.entry)
	}
	return true
}
