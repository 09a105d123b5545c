package extractor

import (
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
type kept struct {
	mu    sync.Mutex
	pages map[uint64]keptPage // by lease
	order []uint64            // oldest first
}

type keptPage struct {
	stores  *jobStores // a folder that was removed meanwhile holds nothing
	records []*crawlv1.StoredRecord
	digest  string
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
