package frontier

import (
	"context"
	"encoding/binary"
	"time"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// URLInfo is one URL of a job as its record has it.
type URLInfo struct {
	URL     string
	HostKey string
	// State is queued, leased, done, excluded or failed.
	State schedulerv1.UrlState
	// Reason says why it ended; empty while it has not.
	Reason string
	// EndedAt is when it ended; zero while it has not.
	EndedAt time.Time
	// Seed: it came as a seed.
	Seed bool
	// Depth counts links from a seed.
	Depth uint32
	// Attempts is the number of tries that count.
	Attempts uint32
	// Outcome of the last try; nil: none yet.
	Outcome *crawlv1.Outcome
}

// EachURL calls visit for every URL of a job: first those that are queued, then
// those that are leased, then those that have ended, in no further order; the
// *URLInfo is valid during the call. It holds one URL in memory at a time. An
// error of visit ends it and is returned. Of a frontier that works meanwhile,
// a URL that moves on during the call may come twice, and none is left out. Bad
// records are passed over: Audit names them. Errors: ErrNoJob.
func (f *Frontier) EachURL(ctx context.Context, jobID string, visit func(*URLInfo) error) error {
	f.mu.Lock()
	j, err := f.find(jobID)
	f.mu.Unlock()
	if err != nil {
		return err
	}
	w := urlWalk{ctx: ctx, job: j, visit: visit}
	queued := numbered(kindQueued, j.num)
	w.scan(f, queued, func(k, v []byte) error {
		e, err := decodeQueued(k, v)
		if err != nil {
			return nil //nolint:nilerr // bad records are audit's to report
		}
		_, host, _, _, _, _ := parseQueuedKey(k)
		return w.give(stateQueued, host, "", 0, e)
	})
	w.scan(f, []byte{kindLease}, func(k, v []byte) error {
		l, err := decodeLease(k, v)
		if err != nil || l.job != j.num || l.page == nil {
			return nil //nolint:nilerr // as above
		}
		return w.give(stateLeased, l.host, "", 0, l.page)
	})
	w.scan(f, numbered(kindURL, j.num), func(k, v []byte) error {
		u, err := decodeURL(k, v)
		if err != nil || u.entry == nil {
			return nil //nolint:nilerr // as above
		}
		u.entry.key = binary.BigEndian.Uint64(k[len(k)-8:])
		return w.give(u.state, u.host, u.reason, u.at, u.entry)
	})
	return w.err
}

// urlWalk is one EachURL.
type urlWalk struct {
	ctx   context.Context
	job   *job
	visit func(*URLInfo) error
	seen  int
	err   error
}

// scan visits the records under a prefix, until an error.
func (w *urlWalk) scan(f *Frontier, prefix []byte, each func(k, v []byte) error) {
	if w.err != nil {
		return
	}
	err := f.st.Scan(prefix, after(prefix), func(k, v []byte) bool {
		if w.seen++; w.seen%1024 == 0 && w.ctx.Err() != nil {
			w.err = w.ctx.Err()
			return false
		}
		w.err = each(k, v)
		return w.err == nil
	})
	if w.err == nil {
		w.err = err
	}
}

func (w *urlWalk) give(state schedulerv1.UrlState, host, reason string, at int64, e *entry) error {
	return w.visit(&URLInfo{
		URL: e.url, HostKey: host, State: state, Reason: reason, EndedAt: fromUnixNano(at),
		Seed: e.seed, Depth: e.depth, Attempts: e.attempts, Outcome: e.outcomeOf(w.job.id, host),
	})
}
