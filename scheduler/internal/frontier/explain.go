package frontier

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	specs "lycosa.dev/internal/job"
	"lycosa.dev/internal/weburl"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// Explain tells what is known of a canonical URL in a job: where it stands and
// why, and when it may be fetched. Errors: ErrNoJob.
func (f *Frontier) Explain(ctx context.Context, jobID, canonicalURL string) (r *schedulerv1.ExplainResponse, err error) {
	err = f.counted(jobID, func(j *job) ([]*schedulerv1.QueueStatus, error) {
		r, err = f.explain(j, canonicalURL)
		return some(r.GetQueue()), err
	})
	return r, err
}

func (f *Frontier) explain(j *job, canonicalURL string) (*schedulerv1.ExplainResponse, error) {
	now := f.now()
	r := &schedulerv1.ExplainResponse{CanonicalUrl: canonicalURL, UrlKey: j.key(canonicalURL)}
	host := hostKeyFromURL(canonicalURL)
	r.ScopeVerdict = j.scopeVerdict(canonicalURL)
	r.Overlays = overlayNames(specs.OverlaysFor(j.spec, host, canonicalURL))
	r.RobotsVerdict = f.robotsVerdict(j, host, canonicalURL, now)
	key := urlKey(j.num, r.UrlKey)
	v, ok, err := f.st.Get(key)
	if err != nil {
		return nil, err
	}
	if !ok {
		f.explainUnknown(j, r)
		return r, nil
	}
	rec, damage := decodeURL(key, v)
	if damage != nil {
		r.Reason = "its record is damaged: " + damage.Error()
		return r, nil //nolint:nilerr // that is the answer
	}
	r.State = rec.state
	e, err := f.entryOf(j, rec, r.UrlKey)
	if err != nil {
		return r, err
	}
	if e != nil {
		r.Found, r.Attempts, r.LastOutcome = e.candidate(rec.host), e.attempts, e.outcomeOf(j.id, rec.host)
	}
	switch rec.state {
	case stateQueued:
		f.explainQueued(j, rec, r, now)
	case stateLeased:
		if l := f.leases[rec.lease]; l != nil && l.page != nil {
			r.Reason = fmt.Sprintf("leased to %s as %016x; the lease runs out at %s", l.member, l.id, l.expires.UTC().Format(time.RFC3339))
			if l.fetched {
				r.Reason = fmt.Sprintf("fetched by %s, being stored (lease %016x)", l.member, l.id)
			}
		} else {
			r.Reason = fmt.Sprintf("leased as %016x by a process that has ended", rec.lease)
		}
		r.Queue = f.queueStatus(j, rec.host, now)
	default:
		r.Reason = rec.reason
	}
	r.Steps = f.stepsOf(j, rec, r, now)
	r.Redirects = f.chainOf(j, r)
	return r, nil
}

// entryOf is what is kept of a URL that stands as rec says; nil: nothing more.
// It is for questions: a store that cannot be read is their error.
func (f *Frontier) entryOf(j *job, rec *urlRecord, key uint64) (*entry, error) {
	switch rec.state {
	case stateQueued:
		qk := queuedKey(j.num, rec.host, rec.scheme, rec.pos, key)
		v, ok, err := f.st.Get(qk)
		if !ok || err != nil {
			return nil, err
		}
		if e, err := decodeQueued(qk, v); err == nil {
			return e, nil
		}
		return nil, nil
	case stateLeased:
		if l := f.leases[rec.lease]; l != nil {
			return l.page, nil
		}
		return nil, nil
	}
	return rec.entry, nil
}

func (f *Frontier) explainQueued(j *job, rec *urlRecord, r *schedulerv1.ExplainResponse, now time.Time) {
	r.Queue = f.queueStatus(j, rec.host, now)
	r.NextAt = r.Queue.NextAt
	switch {
	case j.state != jobRunning:
		r.Reason = "the job is " + stateName(j.state)
		if j.reason != "" {
			r.Reason += " (" + j.reason + ")"
		}
		r.NextAt = nil
	case f.hold.reason != "":
		r.Reason = "storage is unavailable: " + f.hold.reason
	case f.network.down.reason != "":
		r.Reason = f.network.down.reason
	default:
		r.Reason = r.Queue.Reason
		if q := j.queues[rec.host]; q != nil {
			o := q.host.origins[rec.scheme&1]
			if says, why := f.judge(o, j, r.CanonicalUrl, now); !j.polOf(rec.host).IgnoreRobots && (says == robotsWait || says == robotsUnknown) {
				r.Reason = why
				if o.retryAt.After(now) {
					r.NextAt = timestamp(o.retryAt)
				}
			}
		}
	}
}

// explainUnknown tells of a URL without a record: journalled, or never seen.
func (f *Frontier) explainUnknown(j *job, r *schedulerv1.ExplainResponse) {
	r.State = schedulerv1.UrlState_URL_STATE_UNKNOWN
	r.Reason = "the frontier has not been told of it"
	for _, e := range f.journal.kept {
		if e.job != j.num {
			continue
		}
		for _, c := range e.cands {
			if c.GetUrl() == r.CanonicalUrl {
				r.State = schedulerv1.UrlState_URL_STATE_PENDING
				r.Reason = "journalled; whether it is new is decided with the next batch"
				r.Found = c
				return
			}
		}
	}
}

func (j *job) scopeVerdict(url string) string {
	s, err := specs.NewScope(j.spec, j.roots)
	if err != nil {
		return "the scope cannot be compiled: " + err.Error()
	}
	u, err := weburl.ParseCanonical(url)
	if err != nil {
		return "not a canonical URL: " + err.Error()
	}
	v := s.Judge(u, false, false)
	if v.In {
		return "in scope: " + v.Rule
	}
	return "out of scope: " + v.Rule
}

// robotsVerdict is what is known of an origin's robots.txt, in memory or on
// disk.
func (f *Frontier) robotsVerdict(j *job, hostKey, url string, now time.Time) string {
	h := f.hosts[hostKey]
	if h == nil {
		o := &origin{host: &host{key: hostKey, index: -1}, scheme: schemeOf(url)}
		f.loadRobots(o)
		_, why := f.judge(o, j, url, now)
		return why
	}
	_, why := f.judge(h.origins[schemeOf(url)], j, url, now)
	return why
}

// queueStatus shows a job's queue of a host.
func (f *Frontier) queueStatus(j *job, key string, now time.Time) *schedulerv1.QueueStatus {
	s := f.queueAsItIs(j, key, now)
	if w := j.held[key]; w != nil {
		s.State, s.Reason, s.Hold, s.NextAt = w.state, w.why(), w.proto(), timestamp(w.until)
		if s.Leased > 0 {
			s.Reason += fmt.Sprintf("; %d of its URLs are still being fetched", s.Leased)
		}
	}
	return s
}

// queueAsItIs shows a queue, decisions by hand apart.
func (f *Frontier) queueAsItIs(j *job, key string, now time.Time) *schedulerv1.QueueStatus {
	s := &schedulerv1.QueueStatus{HostKey: key}
	q := j.queues[key]
	if q == nil {
		s.State, s.Reason = schedulerv1.QueueState_QUEUE_STATE_INACTIVE, "it has no slot in memory; it gets one in turn"
		if j.state != jobRunning {
			s.Reason = "the job is " + stateName(j.state)
		}
		holds := f.holdsURLs(j, key)
		if !holds {
			s.State, s.Reason = schedulerv1.QueueState_QUEUE_STATE_EXHAUSTED, "it holds no URL"
		}
		k := queueKey(j.num, key)
		if v, ok, _ := f.st.Get(k); ok {
			if due, err := decodeQueue(k, v); holds && err == nil && due > f.dueNow(now) {
				s.NextAt = timestamp(now.Add(time.Duration(due - f.dueNow(now))))
			}
			if why := retiredReason(k, v); why != "" {
				s.State, s.Reason, s.NextAt = schedulerv1.QueueState_QUEUE_STATE_RETIRED, why, nil
			}
		}
		if h := f.hosts[key]; h != nil {
			s.Failures = h.failures
		}
		return s
	}
	h := q.host
	s.Leased = uint64(q.leased)
	s.Failures = h.failures
	s.Delay = durationpb.New(max(j.polAfter(h).Delay(h.lastTook, j.pol.Inside(h.addrs)), h.crawlDelay(j)))
	for _, a := range h.addrs {
		s.Addresses = append(s.Addresses, a.AsSlice())
	}
	s.State, s.Reason = q.why(now)
	if q.parked != nil {
		s.NextAt = timestamp(q.parkedUntil)
	}
	if t, ok := q.at(now); ok && t.After(now) {
		s.NextAt = timestamp(t)
	}
	return s
}

// holdsURLs tells whether a queue has URLs on disk.
func (f *Frontier) holdsURLs(j *job, host string) bool {
	some, _ := f.anyUnder(queuePrefix(j.num, host))
	return some
}

// anyUnder tells whether any key begins with prefix.
func (f *Frontier) anyUnder(prefix []byte) (some bool, err error) {
	err = f.st.Scan(prefix, after(prefix), func(_, _ []byte) bool {
		some = true
		return false
	})
	return some, err
}

// why tells where a queue with a slot stands.
func (q *queue) why(now time.Time) (schedulerv1.QueueState, string) {
	const (
		ready   = schedulerv1.QueueState_QUEUE_STATE_READY
		waiting = schedulerv1.QueueState_QUEUE_STATE_WAITING
	)
	h, j := q.host, q.job
	switch {
	case q.ending != nil:
		return schedulerv1.QueueState_QUEUE_STATE_RETIRED, q.ending.reason
	case q.empty() && q.leased == 0:
		return schedulerv1.QueueState_QUEUE_STATE_EXHAUSTED, "it holds no URL"
	case h.out > 0 && h.out >= h.limit(j):
		return schedulerv1.QueueState_QUEUE_STATE_LEASED, fmt.Sprintf("%d of its URLs are being fetched", h.out)
	case h.lookupBusy:
		return waiting, "its addresses are being looked up"
	case h.lookupAt.After(now):
		return waiting, "its name does not resolve: " + orElse(h.addrsError, "no answer") + "; it is asked again"
	case h.next.After(now) && h.failures > 0:
		return waiting, fmt.Sprintf("back-off after %d failures", h.failures)
	case h.next.After(now):
		return waiting, fmt.Sprintf("delay %s after the last fetch", h.wait)
	case q.parked != nil:
		return waiting, q.parked.why(q, now)
	case q.capped:
		return waiting, "a limit of the job is reached, but for what is out"
	}
	for s := range q.subs {
		if o := h.origins[s]; !q.subs[s].empty() && !j.polOf(h.key).IgnoreRobots {
			if o.task != nil {
				return waiting, "robots.txt is being fetched"
			}
			if o.retryAt.After(now) {
				return waiting, "robots.txt is unreachable: " + o.rec.reason
			}
		}
	}
	if j.leased >= j.capacity {
		return ready, "as many leases as the job's concurrency are out"
	}
	return ready, "it waits for a downloader to take it"
}

// Queues lists a job's queues by host key, page by page. Errors: ErrNoJob.
func (f *Frontier) Queues(ctx context.Context, req *schedulerv1.ListQueuesRequest) (r *schedulerv1.ListQueuesResponse, err error) {
	err = f.counted(req.GetJobId(), func(j *job) ([]*schedulerv1.QueueStatus, error) {
		r, err = f.listQueues(j, req)
		return r.GetQueues(), err
	})
	return r, err
}

func (f *Frontier) listQueues(j *job, req *schedulerv1.ListQueuesRequest) (*schedulerv1.ListQueuesResponse, error) {
	size := int(req.GetPageSize())
	if size == 0 {
		size = 100
	}
	size = min(size, 1000)
	now := f.now()
	out := &schedulerv1.ListQueuesResponse{}
	from := append(queueKey(j.num, req.GetPageToken()), 0)
	if req.GetPageToken() == "" {
		from = queueKey(j.num, "")
	}
	// At most so many are looked at for one page, so that a rare state does
	// not hold the frontier.
	looked := 0
	var names []string
	prefix := numbered(kindQueue, j.num)
	err := f.st.Scan(from, after(prefix), func(k, _ []byte) bool {
		names = append(names, string(k[len(prefix):]))
		looked++
		return looked < 10*size+1
	})
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		s := f.queueStatus(j, name, now)
		if req.GetState() == schedulerv1.QueueState_QUEUE_STATE_UNSPECIFIED || s.State == req.GetState() {
			out.Queues = append(out.Queues, s)
		}
		if len(out.Queues) == size || i == len(names)-1 {
			if i < len(names)-1 || looked == 10*size+1 {
				out.NextPageToken = name
			}
			break
		}
	}
	return out, nil
}
