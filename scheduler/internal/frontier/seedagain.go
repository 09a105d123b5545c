package frontier

import (
	"context"
	"slices"
	"strings"
	"time"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// A seed that is given again by hand is a wish to fetch it. Where it was done
// there is nothing to do; where its fetch had failed, or its host was not
// allowed, did not resolve or had no readable robots.txt, it is queued again
// with all its tries, and what was remembered against the host is forgotten, so
// that a network that was opened since, or a server that was started, is seen.

// triedInVain tells whether a URL ended for a reason that may have gone away.
func triedInVain(rec *urlRecord) bool {
	switch rec.state {
	case stateFailed:
		return rec.entry.url != "" // a damaged record has lost its URL
	case stateExcluded:
		for _, prefix := range []string{"address-policy: ", "dns", "robots-unreachable: "} {
			if strings.HasPrefix(rec.reason, prefix) {
				return true
			}
		}
	}
	return false
}

// SeedsAdded says what became of seeds.
type SeedsAdded struct {
	Added  int // new to the job
	Known  int // known before
	Queued int // of those known, the ones that are queued again
}

// AddSeedsByHand adds seeds that somebody gives now: as AddSeeds, and those
// that were tried in vain are queued again. Errors: ErrNoJob.
func (f *Frontier) AddSeedsByHand(ctx context.Context, id string, cands []*crawlv1.Candidate) (SeedsAdded, error) {
	var sum SeedsAdded
	var err error
	if sum.Added, sum.Known, err = f.AddSeeds(ctx, id, cands); err != nil || sum.Known == 0 {
		return sum, err
	}
	for batch := range slices.Chunk(cands, decideBatch) {
		_, err := f.control(func(b *store.Batch, now time.Time) (*job, error) {
			j, err := f.find(id)
			if err != nil {
				return nil, err
			}
			a := admission{f: f, b: b, now: now, stored: map[queueName]bool{}, touched: map[*host]struct{}{}}
			given := map[uint64]bool{}
			for _, c := range batch {
				if key := j.key(c.GetUrl()); !given[key] && a.seedAgain(j, key) {
					sum.Queued++
					given[key] = true
				}
			}
			for h := range a.touched {
				f.place(h, now)
			}
			f.saveCounters(b, j)
			return j, nil
		})
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// seedAgain queues a known seed again if it was tried in vain, and says whether
// it did.
func (a *admission) seedAgain(j *job, k uint64) bool {
	f := a.f
	key := urlKey(j.num, k)
	v, ok := f.get(key)
	if !ok {
		return false
	}
	rec, err := decodeURL(key, v)
	if err != nil || !triedInVain(rec) {
		return false
	}
	h := f.load(rec.host, a.now)
	a.forgive(h, rec)
	rec.entry.seed, rec.entry.attempts, rec.entry.crashes = true, 0, 0
	a.again(j, rec)
	a.touched[h] = struct{}{}
	return true
}

// again queues a URL that had ended. Its record is not written before.
func (a *admission) again(j *job, rec *urlRecord) {
	a.f.record(a.b, j, rec.entry.key, &step{kind: schedulerv1.UrlStepKind_URL_STEP_KIND_QUEUED_AGAIN, reason: "it had ended before: " + rec.reason}, a.now)
	*j.cnt.of(rec.state)--
	j.cnt.queued++
	rec.entry.pos = j.position(rec.entry.depth, rec.entry.priority)
	a.enqueue(j, rec.host, rec.entry)
}

// forgive forgets what is remembered against a host: addresses that were
// refused or not found, a robots.txt that could not be reached, and the back-off
// after failures. What a server asked for itself, of this URL or another, and
// the delays stand.
func (a *admission) forgive(h *host, rec *urlRecord) {
	f := a.f
	if h.status != crawlv1.HostStatus_HOST_STATUS_RESOLVED {
		a.b.Delete(dnsKey(hostName(h.key)))
		h.status, h.addrs, h.addrsError = crawlv1.HostStatus_HOST_STATUS_UNSPECIFIED, nil, ""
		h.addrsUntil, h.lookupAt, h.lookups = time.Time{}, time.Time{}, 0
		h.refresh = true
	}
	h.addrsUntil = earliestSet(h.addrsUntil, a.now)
	for _, o := range h.origins {
		f.loadRobots(o)
		if o.known && o.rec.gaveUp {
			a.b.Delete(robotsKey(o.scheme, h.key))
			o.known, o.rules, o.rec = false, nil, robotsRecord{}
		}
		if !o.known {
			o.tries, o.retryAt = 0, time.Time{}
		}
	}
	for _, q := range h.queues {
		q.ending = nil
	}
	if out := rec.entry.outcomeOf("", ""); out.GetFetch().GetStatus() == 0 && h.failures > 0 {
		h.failures, h.failedAt = 0, time.Time{}
		h.forgetBackOff(a.now)
		f.saveHost(a.b, h, a.now)
	}
}

// earliestSet is the earlier of two times, of which the first may be unset.
func earliestSet(t, o time.Time) time.Time {
	if !t.IsZero() && t.Before(o) {
		return t
	}
	return o
}
