package extractor

import (
	"context"
	"slices"
	"sync"

	"lycosa.dev/extractor/internal/page"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
)

// keptPages bounds the pages that kept remembers.
const keptPages = 4096

// kept remembers where pages are durable that the frontier has not answered
// for: the scheduler may be away for longer than a page waits. Such a page,
// sent again under its lease, is not stored a second time. When there are too
// many the oldest are forgotten; those would be stored twice, never lost.
//
// A page that comes again while its first try is still in work waits for that
// one's end and has its answer, or what it kept. Pages that another extractor
// gets, or that are fetched again under a new lease, are other pages here.
type kept struct {
	mu    sync.Mutex
	pages map[uint64]keptPage // by lease
	order []uint64            // oldest first
	tries map[uint64]*try     // in work, by lease
}

// try is a page in work.
type try struct {
	ended  chan struct{}
	answer *crawlv1.Answer // set before ended is closed
}

type keptPage struct {
	stores  *jobStores // a folder that was removed meanwhile holds nothing
	records []*crawlv1.StoredRecord
	digest  string
}

// begin makes the caller the only one that works on the lease's page; it is to
// call end with what came of it. Where an earlier try has brought the page to
// its end, final is its answer and there is nothing to do. An error is ctx's,
// while an earlier try is still in work.
func (k *kept) begin(ctx context.Context, lease uint64) (end func(*crawlv1.Answer), final *crawlv1.Answer, err error) {
	for {
		k.mu.Lock()
		before := k.tries[lease]
		if before == nil {
			t := &try{ended: make(chan struct{})}
			if k.tries == nil {
				k.tries = map[uint64]*try{}
			}
			k.tries[lease] = t
			k.mu.Unlock()
			return func(ans *crawlv1.Answer) {
				k.mu.Lock()
				delete(k.tries, lease)
				k.mu.Unlock()
				t.answer = ans
				close(t.ended)
			}, nil, nil
		}
		k.mu.Unlock()
		select {
		case <-before.ended:
			if finalAnswer(before.answer) {
				return nil, before.answer, nil
			}
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// finalAnswer says that a page with this answer need not be sent again.
func finalAnswer(a *crawlv1.Answer) bool {
	v := a.GetVerdict()
	return v == crawlv1.Verdict_VERDICT_DONE || v == crawlv1.Verdict_VERDICT_NEVER
}

// put remembers a page that is stored and not answered for.
func (k *kept) put(stores *jobStores, p *page.Page) {
	if len(p.Stored) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pages == nil {
		k.pages = map[uint64]keptPage{}
	}
	id := p.Lease.GetId()
	if _, ok := k.pages[id]; !ok {
		k.order = append(k.order, id)
	}
	k.pages[id] = keptPage{stores, p.Stored, p.PayloadDigest}
	for len(k.order) > keptPages {
		delete(k.pages, k.order[0])
		k.order = k.order[1:]
	}
}

// take tells a page that comes again where it is stored, and forgets it.
func (k *kept) take(stores *jobStores, p *page.Page) {
	k.mu.Lock()
	defer k.mu.Unlock()
	id := p.Lease.GetId()
	was, ok := k.pages[id]
	if !ok {
		return
	}
	delete(k.pages, id)
	k.order = slices.DeleteFunc(k.order, func(o uint64) bool { return o == id })
	if was.stores == stores {
		p.StoredBefore, p.PayloadDigest = was.records, was.digest
	}
}
