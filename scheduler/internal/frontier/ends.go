package frontier

import (
	"container/heap"
	"context"
	"fmt"
	"strings"
	"time"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	downloaderv1 "lycosa.dev/proto/gen/lycosa/downloader/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

func className(c crawlv1.OutcomeClass) string {
	return strings.ToLower(strings.TrimPrefix(c.String(), "OUTCOME_CLASS_"))
}

// endOf says how the fetch of a lease ended, as far as it matters to clocks.
type endOf struct {
	took      time.Duration
	known     bool   // took is true, and the fetch ended just now
	untouched bool   // no request can have reached the host
	connected []byte // address; empty: none, where known
	bytes     int64  // received
	page      bool   // it was a page
}

// closeLease takes a lease out of all that counts it and starts the clocks.
// The URL's or task's further way is the caller's.
func (f *Frontier) closeLease(b *store.Batch, l *lease, end endOf, now time.Time) {
	j, q, h := l.job, l.queue, l.queue.host
	delete(f.leases, l.id)
	if l.index >= 0 {
		heap.Remove(&f.expiry, l.index)
	}
	b.Delete(leaseKey(l.id))
	q.leased--
	if j.leased >= j.capacity || f.wantSolo != nil && len(f.leases) == 0 {
		f.signalAll()
	}
	j.leased--
	if j.maxBytes > 0 {
		j.bytesOut = max(0, j.bytesOut-l.allowance)
		f.uncap(j, now)
	}
	if f.solo == l {
		f.solo = nil
		f.signalAll()
	}
	f.settleClocks(b, l, end, now)
	f.settleBudget(l, now)
	if l.fetched {
		return
	}
	h.out--
	if end.untouched {
		return
	}
	f.ended(h, j, l.url, end.took, end.known, now)
}

// Renew extends a lease that is being worked on, up to MaxLease. Once the
// fetch has ended (STAGE_FETCHED) the host's clock runs from now, by the
// fetch's length if it is known.
func (f *Frontier) Renew(leaseID uint64, stage downloaderv1.Stage, fetchDuration *time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.leases[leaseID]
	if l == nil || f.err != nil {
		return
	}
	now := f.now()
	l.expires = now.Add(l.length + f.o.LeaseGrace)
	if l.expires.After(l.latest) {
		l.expires = l.latest
	}
	heap.Fix(&f.expiry, l.index)
	if stage != downloaderv1.Stage_STAGE_FETCHED || l.fetched {
		return
	}
	l.fetched = true
	var took time.Duration
	if fetchDuration != nil {
		took = *fetchDuration
	}
	h := l.queue.host
	h.out--
	f.fetchEnded(l, nil, false, false, now) // which address was connected is told later: all are charged
	f.ended(h, l.job, l.url, took, fetchDuration != nil, now)
	f.place(h, now)
}

// Release ends a lease by the downloader's answer, where no commit has ended
// it: the ring could not take the page (RETRY_LATER) or will not (NEVER). It
// is not a web failure: the URL keeps its tries.
func (f *Frontier) Release(ctx context.Context, leaseID uint64, ans *downloaderv1.FetchAnswer) error {
	f.mu.Lock()
	p, err := f.release(leaseID, ans)
	f.mu.Unlock()
	if err != nil || p == nil {
		return err
	}
	return f.await(p)
}

func (f *Frontier) release(id uint64, ans *downloaderv1.FetchAnswer) (store.Pending, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	l := f.leases[id]
	if l == nil {
		return nil, nil
	}
	now := f.now()
	b := f.newBatch()
	end := endOf{untouched: !ans.GetFetched()}
	if d := ans.GetFetchDuration(); d != nil {
		end.took, end.known = d.AsDuration(), true
		end.connected = nil
	}
	a := ans.GetAnswer()
	h := l.queue.host
	switch {
	case a.GetVerdict() == crawlv1.Verdict_VERDICT_NEVER && l.page != nil:
		f.closeLease(b, l, end, now)
		f.finish(b, l.job, h.key, l.page, stateLeased, stateFailed, "refused: "+orElse(a.GetReason(), "the ring does not take it"), now)
		f.retireEmpty(b, l.queue)
	default:
		if wait := a.GetRetryAfter().AsDuration(); wait > 0 {
			h.notBefore(now.Add(min(wait, time.Hour)), min(wait, time.Hour))
		}
		f.lose(b, l, end, false, now)
	}
	f.saveHost(b, h, now)
	f.saveCounters(b, l.job)
	f.settle(b, l.job, now)
	f.place(h, now)
	if a.GetStorageUnavailable() {
		f.hold = outage{reason: orElse(a.GetReason(), "no reason given"), probe: now.Add(f.o.ProbeInterval)}
		f.dueAt(f.hold.probe)
	}
	return f.apply(b, true)
}

// lose ends a lease that nothing came of. crashed says that its process died
// with it.
func (f *Frontier) lose(b *store.Batch, l *lease, end endOf, crashed bool, now time.Time) {
	j, key := l.job, l.queue.host.key
	f.closeLease(b, l, end, now)
	j.cnt.lost++
	if t := l.task; t != nil {
		f.closeTask(t) // the origin is unknown again: its next URL asks
		f.place(t.origin.host, now)
		f.retireEmpty(b, l.queue)
		return
	}
	f.putBack(b, j, key, l.page, l.solo, crashed, now)
	f.returned(b, l, crashed, now)
}

// putBack queues a URL whose lease was lost; one that has taken its process
// down too often runs alone, once, and then fails.
func (f *Frontier) putBack(b *store.Batch, j *job, host string, e *entry, solo, crashed bool, now time.Time) {
	if crashed {
		e.crashes++
		if solo {
			f.finish(b, j, host, e, stateLeased, stateFailed,
				fmt.Sprintf("poison: the process died %d times with it, at last with it alone", e.crashes), now)
			return
		}
		// Behind the others: a URL is not the first at every crash.
		e.pos = j.position(e.depth, e.priority)
	}
	if e.pos.class != classRetry || crashed {
		e.pos.class = classNormal
	}
	f.requeue(b, j, host, e, now)
}

// expire ends the leases whose deadline and grace have passed.
func (f *Frontier) expire(now time.Time) {
	for len(f.expiry) > 0 && !f.expiry[0].expires.After(now) {
		b := f.newBatch()
		for n := 0; n < 256 && len(f.expiry) > 0 && !f.expiry[0].expires.After(now); n++ {
			l := f.expiry[0]
			f.log.Warn("a lease has run out", "job", l.job.id, "url", l.url, "downloader", l.member)
			f.loseAndSave(b, l, now)
		}
		if _, err := f.apply(b, false); err != nil {
			return
		}
	}
	if len(f.expiry) > 0 {
		f.dueAt(f.expiry[0].expires)
	}
}

func (f *Frontier) loseAndSave(b *store.Batch, l *lease, now time.Time) {
	h := l.queue.host
	f.lose(b, l, endOf{}, false, now)
	f.saveHost(b, h, now)
	f.saveCounters(b, l.job)
	f.settle(b, l.job, now)
	f.place(h, now)
}

// Adopt settles the leases of a downloader that joins (again): those it holds
// go on, the others that were made for it have ended without our knowledge and
// go back to their queues.
func (f *Frontier) Adopt(member string, held []*schedulerv1.HeldLease) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.usable() != nil {
		return
	}
	now := f.now()
	holds := make(map[uint64]*schedulerv1.HeldLease, len(held))
	for _, h := range held {
		holds[h.GetLeaseId()] = h
	}
	b := f.newBatch()
	for _, l := range f.leases {
		if l.member != member {
			continue
		}
		if holds[l.id] == nil {
			f.loseAndSave(b, l, now)
			continue
		}
		l.expires = earliest(l.latest, now.Add(l.length+f.o.LeaseGrace))
		heap.Fix(&f.expiry, l.index)
	}
	_, _ = f.apply(b, false)
}

// MemberGone tells that a downloader's stream broke. Its leases live on until
// it joins again or they run out.
func (f *Frontier) MemberGone(member string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.ready, member)
	n := 0
	for _, l := range f.leases {
		if l.member == member {
			n++
		}
	}
	f.log.Info("a downloader is gone", "downloader", member, "leases", n)
}
