package frontier

import (
	"time"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// limiterKey is where a clock is kept.
func limiterKey(name string) []byte { return append([]byte{kindLimiter}, name...) }

// limiterRecord is a shared clock on disk; times are the due clock's.
type limiterRecord struct {
	next, lastEnd, paid int64
	day                 int64
	pages               uint64
}

func (r *limiterRecord) encode(key []byte) []byte {
	w := newWriter()
	w.int(r.next)
	w.int(r.lastEnd)
	w.int(r.paid)
	w.int(r.day)
	w.uint(r.pages)
	return w.seal(key)
}

func decodeLimiter(key, value []byte) (*limiterRecord, error) {
	r, err := open(key, value)
	if err != nil {
		return nil, err
	}
	l := &limiterRecord{next: r.int(), lastEnd: r.int(), paid: r.int(), day: r.int(), pages: r.uint()}
	return l, r.err
}

func (f *Frontier) saveLimiter(b *store.Batch, l *limiter) {
	due := func(t time.Time) int64 {
		if t.IsZero() {
			return 0
		}
		return f.dueNow(t)
	}
	r := limiterRecord{next: due(l.next), lastEnd: due(l.lastEnd), paid: due(l.paid), day: l.day, pages: l.pages}
	key := limiterKey(l.name)
	b.Set(key, r.encode(key))
}

func (f *Frontier) loadLimiter(l *limiter) {
	key := limiterKey(l.name)
	v, ok := f.get(key)
	if !ok {
		return
	}
	r, err := decodeLimiter(key, v)
	if err != nil {
		f.noteBad(key, v)
		return
	}
	at := func(due int64) time.Time {
		if due == 0 {
			return time.Time{}
		}
		return f.openedAt.Add(time.Duration(due - f.dueBase))
	}
	l.next, l.paid, l.day, l.pages = at(r.next), at(r.paid), r.day, r.pages
	l.lastEnd = latest(l.lastEnd, at(r.lastEnd))
}
