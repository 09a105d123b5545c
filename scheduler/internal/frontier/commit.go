package frontier

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	specs "lycosa.dev/internal/job"

	"lycosa.dev/scheduler/internal/frontier/store"
	"lycosa.dev/scheduler/internal/politeness"
)

// Commit takes what came of a lease, with the links found. One batch holds the
// outcome, the lease's end, the host's clock, the counters and the candidates
// as one entry of the journal; it is durable when Commit answers. No link is
// looked up. A commit is idempotent by lease id and part: part 0 is the
// outcome's, the others bring candidates only, and candidates are decided as
// known the second time.
func (f *Frontier) Commit(ctx context.Context, req *schedulerv1.CommitRequest) *crawlv1.Answer {
	out := req.GetOutcome()
	kept := keptOutcome(out)
	f.mu.Lock()
	p, ans := f.commit(req, kept)
	f.mu.Unlock()
	if p != nil {
		if err := f.await(p); err != nil {
			return failedAnswer(err)
		}
	}
	return ans
}

func failedAnswer(err error) *crawlv1.Answer {
	return &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_RETRY_LATER, Reason: err.Error(),
		RetryAfter: durationpb.New(5 * time.Second), StorageUnavailable: true}
}

// keptOutcome is what a URL's record keeps of an outcome: not what it says
// itself.
func keptOutcome(out *crawlv1.Outcome) []byte {
	o := &crawlv1.Outcome{
		LeaseId: out.GetLeaseId(), Purpose: out.GetPurpose(), Fetch: out.GetFetch(), Stored: out.GetStored(), SkippedBy: out.GetSkippedBy(), SkippedStores: out.GetSkippedStores(),
		ContentType: out.GetContentType(), PayloadDigest: out.GetPayloadDigest(), PayloadBytes: out.GetPayloadBytes(),
		Validators: out.GetValidators(), RedirectUrl: out.GetRedirectUrl(), LinksFound: out.GetLinksFound(),
		LinksOutOfScope: out.GetLinksOutOfScope(), LinksKnown: out.GetLinksKnown(), NofollowBy: out.GetNofollowBy(),
		Annotations: out.GetAnnotations(),
	}
	raw, err := proto.Marshal(o)
	if err != nil {
		return nil // a string that is not UTF-8: the outcome counts, it is not shown
	}
	return raw
}

func (f *Frontier) commit(req *schedulerv1.CommitRequest, kept []byte) (store.Pending, *crawlv1.Answer) {
	if err := f.usable(); err != nil {
		return nil, failedAnswer(err)
	}
	out := req.GetOutcome()
	j := f.jobs[out.GetJobId()]
	if j == nil {
		return nil, &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_NEVER, Reason: fmt.Sprintf("job %q does not exist any more", out.GetJobId())}
	}
	now := f.now()
	b := f.newBatch()
	cands := req.GetCandidates()
	if req.GetPart() == 0 {
		told, known := uint32(0), false
		if l := f.leases[out.GetLeaseId()]; l != nil {
			told, known = l.told, true
		}
		c, page := f.outcome(b, j, out, kept, now)
		if page != nil && j.maxDepth >= 0 {
			if !known {
				told = page.depth
			}
			cands = f.keepEdges(b, j, found{key: page.key, depth: page.depth, told: told, late: !known}, cands)
			if page.depth < told || !known {
				// It came nearer after parts of its links had come, perhaps.
				f.lowerLater(b, j, page.key, page.depth)
			}
		}
		if c != nil {
			cands = append([]*crawlv1.Candidate{c}, cands...)
		}
	}
	if part := req.GetPart(); part > 0 {
		if page, ok := f.leasedPage(j, out, part); ok {
			cands = f.keepEdges(b, j, page, cands)
		}
	}
	f.commitAddresses(b, req.GetHosts(), now)
	if len(cands) > 0 {
		f.append(b, j, cands, req.GetHosts(), req.GetTraceparent())
	}
	f.giveBack(b, now)
	f.saveCounters(b, j)
	f.settle(b, j, now)
	p, err := f.apply(b, true)
	if err != nil {
		return nil, failedAnswer(err)
	}
	f.met.commits.Inc()
	return p, &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_DONE}
}

// outcome takes part 0 of a commit. It returns the candidate that a seed's
// redirect adds, if any, and the page.
func (f *Frontier) outcome(b *store.Batch, j *job, out *crawlv1.Outcome, kept []byte, now time.Time) (*crawlv1.Candidate, *entry) {
	l := f.leases[out.GetLeaseId()]
	if l == nil || l.job != j {
		return f.lateOutcome(b, j, out, kept, now)
	}
	f.account(j, out, l.page == nil)
	f.spend(b, j, l.queue.host.key, 0, out.GetFetch().GetReceivedBytes())
	res := out.GetFetch()
	took := res.GetTimings().GetTotal().AsDuration()
	h := l.queue.host
	f.observe(h, out, now)
	f.closeLease(b, l, endOf{took: took, known: true, connected: res.GetAddress(),
		bytes: res.GetReceivedBytes(), page: l.page != nil && res.GetClass() == crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP}, now)
	if l.task != nil {
		f.triedRobots(b, l, out, now)
		switch v := f.hostResult(h, j, out, now); {
		case v == networkLost:
			f.taskAgain(l.task, now)
		default:
			if v == pageRetry && netClass(res.GetClass()) {
				f.network.tried(netTry{job: j, host: h.key, origin: l.task.origin})
			}
			f.robotsOutcome(b, l, out, now)
		}
		f.saveHost(b, h, now)
		f.retireEmpty(b, l.queue)
		f.place(h, now)
		return nil, nil
	}
	e := l.page
	e.lastLease, e.outcome = l.id, kept
	f.pageOutcome(b, j, h, e, out, now)
	f.tried(b, l, res, now)
	f.saveHost(b, h, now)
	f.retireEmpty(b, l.queue)
	f.place(h, now)
	return f.seedRedirect(b, j, e, out), e
}

// account adds an outcome to the job's figures.
func (f *Frontier) account(j *job, out *crawlv1.Outcome, robots bool) {
	res := out.GetFetch()
	if res.GetClass() != crawlv1.OutcomeClass_OUTCOME_CLASS_NOT_STARTED {
		j.cnt.fetches++
		if robots {
			j.cnt.robots++
		}
	}
	j.cnt.bytes += uint64(max(0, res.GetReceivedBytes()))
	j.cnt.found += uint64(out.GetLinksFound())
	j.cnt.outOfScope += uint64(out.GetLinksOutOfScope())
	j.cnt.duplicates += uint64(out.GetLinksKnown())
	f.met.outcomes.WithLabelValues(res.GetClass().String()).Inc()
}

// observe tells the outages what the outcome shows of them.
func (f *Frontier) observe(h *host, out *crawlv1.Outcome, now time.Time) {
	if out.GetFetch().GetClass() == crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP {
		f.storageBack()
		if f.network.reached(h.key) {
			f.log.Info("the network is back")
			f.signalAll()
		}
	}
}

// failure classes: what a result means for the URL and its host.
type verdict int

const (
	pageDone    verdict = iota
	pageRetry           // the host failed
	pageFailed          // the page cannot be had
	pageAgain           // not a try
	networkLost         // the network failed, not the host: not a try
)

// hostResult moves the host's back-off by what came of a fetch.
func (f *Frontier) hostResult(h *host, j *job, out *crawlv1.Outcome, now time.Time) verdict {
	res := out.GetFetch()
	class := res.GetClass()
	if class == crawlv1.OutcomeClass_OUTCOME_CLASS_UNSPECIFIED || class == crawlv1.OutcomeClass_OUTCOME_CLASS_NOT_STARTED {
		return pageAgain
	}
	if class == crawlv1.OutcomeClass_OUTCOME_CLASS_POLICY {
		return pageFailed
	}
	if s := res.GetStatus(); class == crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP && s != 429 && s < 500 {
		h.failures = 0
		f.answered(j, h)
		return pageDone
	}
	rule := j.polOf(h.key).Failure(politeness.ClassOf(class))
	switch class {
	case crawlv1.OutcomeClass_OUTCOME_CLASS_DNS, crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT:
		if f.network.failed(h.key, h.failures > 0, now) {
			return networkLost
		}
		h.addrsUntil = now // asked again: the addresses may have changed
	case crawlv1.OutcomeClass_OUTCOME_CLASS_CONTENT:
		if rule.Tries <= 1 && rule.Wait == 0 {
			return pageFailed
		}
	}
	f.hostFailed(h, rule.Wait, res.GetRetryAfter(), now)
	return pageRetry
}

// hostFailed backs a host off. Failures of fetches that were out together are
// one: while a back-off runs no further one is counted.
func (f *Frontier) hostFailed(h *host, first time.Duration, retryAfter *durationpb.Duration, now time.Time) {
	if h.failures == 0 || !now.Before(h.failedAt) {
		h.failures++
	}
	wait := f.backOff(first, h.failures)
	raise := h.backOff
	if retryAfter != nil {
		wait = min(max(0, retryAfter.AsDuration()), politeness.MaxBackOff)
		raise = h.notBefore
	}
	h.failedAt = latest(h.failedAt, now.Add(wait))
	raise(now.Add(wait), wait)
}

func (f *Frontier) backOff(first time.Duration, n uint32) time.Duration {
	return politeness.BackOffAfter(first, max(1, n), f.rng.Float64())
}

// pageOutcome decides what becomes of a URL after a try.
func (f *Frontier) pageOutcome(b *store.Batch, j *job, h *host, e *entry, out *crawlv1.Outcome, now time.Time) {
	res := out.GetFetch()
	http := res.GetClass() == crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP
	v := f.hostResult(h, j, out, now)
	if !http && v != pageAgain {
		j.cnt.errors++
	}
	e.crashes = 0
	switch v {
	case pageAgain, networkLost:
		e.pos.class = classRetry
		f.requeue(b, j, h.key, e, now)
		return
	case pageRetry:
		e.attempts++
		class := politeness.ClassOf(res.GetClass())
		if netClass(res.GetClass()) {
			f.network.tried(netTry{job: j, host: h.key, key: e.key, class: class})
		}
		if tries := e.failed(class); tries < j.polOf(h.key).Failure(class).Tries && e.attempts < j.polOf(h.key).MostTries() {
			e.pos.class = classRetry
			f.requeue(b, j, h.key, e, now)
			return
		}
	default:
		e.attempts++
	}
	var state schedulerv1.UrlState
	var reason string
	switch {
	case http && v == pageDone:
		state, reason = stateDone, fmt.Sprintf("HTTP %d", res.GetStatus())
	case http:
		state, reason = stateFailed, fmt.Sprintf("HTTP %d after %d tries", res.GetStatus(), e.attempts)
	default:
		state, reason = stateFailed, orElse(res.GetError(), className(res.GetClass()))
	}
	if state == stateFailed && v == pageRetry {
		f.gaveUp(b, j, h.key, reason)
	}
	if http {
		f.spend(b, j, h.key, 1, 0)
		j.cnt.pages++
		j.cnt.status[min(5, res.GetStatus()/100)]++
	}
	f.learn(j, h.key, e, out)
	f.visitAgain(b, j, e, out, now)
	f.finish(b, j, h.key, e, stateLeased, state, reason, now)
}

// finish ends a URL that stood in state from. Its page unit is spent or given
// back: a page that counts has been counted.
func (f *Frontier) finish(b *store.Batch, j *job, host string, e *entry, from, to schedulerv1.UrlState, reason string, now time.Time) {
	f.fate = fate{to, reason}
	if from == stateQueued {
		f.endedWithoutFetch(b, j, e, to, reason, now)
	}
	*j.cnt.of(from)--
	*j.cnt.of(to)++
	if e.reserved {
		e.reserved = false
		j.cnt.reserved--
		f.uncap(j, now)
	}
	if e.round = 0; j.requeue != nil && to == stateDone {
		e.round = j.round // the pass may still come to it
	}
	key := urlKey(j.num, e.key)
	rec := urlRecord{state: to, depth: e.depth, host: host, reason: reason, at: now.UnixNano(), entry: e}
	b.Set(key, rec.encode(key))
}

// requeue puts a leased URL back to its place.
func (f *Frontier) requeue(b *store.Batch, j *job, host string, e *entry, now time.Time) {
	f.fate = fate{state: stateQueued}
	j.cnt.leased--
	j.cnt.queued++
	if e.pos.class == classNormal && e.reserved {
		e.reserved = false
		j.cnt.reserved--
		f.uncap(j, now)
	}
	f.writeQueued(b, j, host, e)
	if q := j.queues[host]; q != nil {
		q.subs[e.scheme()].insert(e)
	}
}

// writeQueued puts a queued URL's two records into a batch.
func (f *Frontier) writeQueued(b *store.Batch, j *job, host string, e *entry) {
	key := urlKey(j.num, e.key)
	rec := urlRecord{state: stateQueued, depth: e.depth, host: host, scheme: e.scheme(), pos: e.pos}
	b.Set(key, rec.encode(key))
	qk := queuedKey(j.num, host, e.scheme(), e.pos, e.key)
	b.Set(qk, encodeQueued(qk, e))
}

// lateOutcome takes an outcome whose lease has ended. It counts if its URL is
// queued and not leased again, and no outcome of the same lease has counted.
func (f *Frontier) lateOutcome(b *store.Batch, j *job, out *crawlv1.Outcome, kept []byte, now time.Time) (*crawlv1.Candidate, *entry) {
	if out.GetPurpose() != crawlv1.Purpose_PURPOSE_PAGE {
		return nil, nil
	}
	fingerprint := j.key(out.GetUrl())
	key := urlKey(j.num, fingerprint)
	v, ok := f.get(key)
	if !ok {
		return nil, nil
	}
	rec, err := decodeURL(key, v)
	if err != nil || rec.state != stateQueued {
		return nil, nil
	}
	e := f.queuedEntry(j, rec, fingerprint)
	if e == nil || e.lastLease == out.GetLeaseId() || e.url != out.GetUrl() {
		return nil, nil
	}
	if !e.reserved && !j.pagesLeft() {
		return nil, nil // its unit has gone to another page: the limit is exact
	}
	q := j.queues[rec.host]
	if q != nil {
		q.subs[rec.scheme].remove(e.pos)
	}
	b.Delete(queuedKey(j.num, rec.host, rec.scheme, rec.pos, fingerprint))
	j.cnt.queued--
	j.cnt.leased++ // as if it were still out: pageOutcome moves it on
	if !e.reserved {
		e.reserved = true
		j.cnt.reserved++
	}
	e.lastLease, e.outcome = out.GetLeaseId(), kept
	f.account(j, out, false)
	f.spend(b, j, rec.host, 0, out.GetFetch().GetReceivedBytes())
	h := f.load(rec.host, now)
	f.ended(h, j, out.GetUrl(), out.GetFetch().GetTimings().GetTotal().AsDuration(), true, now)
	f.pageOutcome(b, j, h, e, out, now)
	f.saveHost(b, h, now)
	if q != nil {
		f.retireEmpty(b, q)
	}
	f.place(h, now)
	return f.seedRedirect(b, j, e, out), e
}

// seedRedirect lets where a seed's redirect leads join the scope.
func (f *Frontier) seedRedirect(b *store.Batch, j *job, e *entry, out *crawlv1.Outcome) *crawlv1.Candidate {
	target := out.GetRedirectUrl()
	if !e.seed || target == "" || e.redirects >= specs.MaxSeedRedirects {
		return nil
	}
	if s := j.spec.GetScope(); s != nil && s.SeedRedirects != nil && !s.GetSeedRedirects() {
		return nil
	}
	f.addRoot(b, j, target)
	return &crawlv1.Candidate{
		Url: target, HostKey: hostKeyFromURL(target), Depth: e.depth, HopPath: specs.AppendHop(e.hop, specs.HopSeedRedirect),
		Referrer: e.url, Seed: true, Redirects: e.redirects + 1, Rule: "seed redirect",
	}
}
