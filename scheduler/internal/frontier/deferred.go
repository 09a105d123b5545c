package frontier

import (
	"slices"
	"strings"
	"time"

	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// What a job has deferred: hosts that failed and whose URLs wait, and those
// whose URLs have failed for the host's sake. The latter are kept with the job,
// the latest of them, so that a crawl with dead hosts can tell of them when it
// has ended.

// deferredHost is a host of which URLs have failed.
type deferredHost struct{ host, reason string }

func encodeDeferred(key []byte, list []deferredHost) []byte {
	w := newWriter()
	w.uint(uint64(len(list)))
	for _, d := range list {
		w.str(d.host)
		w.str(d.reason)
	}
	return w.seal(key)
}

func decodeDeferred(key, value []byte) ([]deferredHost, error) {
	r, err := open(key, value)
	if err != nil {
		return nil, err
	}
	var list []deferredHost
	for range min(r.uint(), statusListed) {
		list = append(list, deferredHost{r.str(), r.str()})
	}
	return list, r.err
}

// failed counts a failure of a class and returns how many there were.
func (e *entry) failed(class jobv1.FailureClass) uint32 {
	shift := 8 * uint(class&7)
	n := e.failures >> shift & 0xff
	if n < 0xff {
		n++
		e.failures = e.failures&^(0xff<<shift) | n<<shift
	}
	return uint32(n)
}

// unfailed gives a try that failed back.
func (e *entry) unfailed(class jobv1.FailureClass) {
	shift := 8 * uint(class&7)
	if n := e.failures >> shift & 0xff; n > 0 {
		e.failures = e.failures&^(0xff<<shift) | (n-1)<<shift
	}
	if e.attempts > 0 {
		e.attempts--
	}
}

// gaveUp notes that a host's URLs fail for its sake.
func (f *Frontier) gaveUp(b *store.Batch, j *job, hostKey, reason string) {
	i := slices.IndexFunc(j.deferred, func(d deferredHost) bool { return d.host == hostKey })
	if i >= 0 {
		if j.deferred[i].reason == reason {
			return
		}
		j.deferred[i].reason = reason
	} else {
		if len(j.deferred) == statusListed {
			j.deferred = slices.Delete(j.deferred, 0, 1)
		}
		j.deferred = append(j.deferred, deferredHost{hostKey, reason})
	}
	f.saveDeferred(b, j)
}

func (f *Frontier) saveDeferred(b *store.Batch, j *job) {
	key := numbered(kindDeferred, j.num)
	b.Set(key, encodeDeferred(key, j.deferred))
}

// answered notes that a host works after all.
func (f *Frontier) answered(j *job, h *host) {
	if i := slices.IndexFunc(j.deferred, func(d deferredHost) bool { return d.host == h.key }); i >= 0 {
		j.deferred = slices.Delete(j.deferred, i, i+1)
	}
}

func (f *Frontier) loadDeferred(j *job) {
	key := numbered(kindDeferred, j.num)
	if v, ok := f.get(key); ok {
		list, err := decodeDeferred(key, v)
		if err != nil {
			f.noteBad(key, v)
			return
		}
		j.deferred = list
	}
}

// deferredOf lists the hosts that wait after failures, and those that were
// given up.
func (f *Frontier) deferredOf(j *job, now time.Time) []*schedulerv1.DeferredHost {
	var list []*schedulerv1.DeferredHost
	for _, d := range j.deferred {
		list = append(list, &schedulerv1.DeferredHost{HostKey: d.host, Reason: d.reason})
	}
	for key, q := range j.queues {
		if len(list) >= statusListed {
			break
		}
		if h := q.host; h.failures > 0 && h.next.After(now) && !q.empty() {
			list = append(list, &schedulerv1.DeferredHost{HostKey: key, Reason: "back-off", Failures: h.failures, NextAt: timestamp(h.next)})
		}
	}
	slices.SortFunc(list, func(a, b *schedulerv1.DeferredHost) int { return strings.Compare(a.HostKey, b.HostKey) })
	return list
}
