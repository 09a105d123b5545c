package frontier

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// stepsOf are the steps of a URL, oldest first: those of the history, and what
// its records say.
func (f *Frontier) stepsOf(j *job, rec *urlRecord, r *schedulerv1.ExplainResponse, now time.Time) []*schedulerv1.UrlStep {
	kept := f.stepsUnder(j, r.UrlKey)
	first := uint64(0)
	note := func(seq uint64) {
		if seq != 0 && (first == 0 || seq < first) {
			first = seq
		}
	}
	for _, s := range kept {
		note(s.seq)
	}
	var l *lease
	switch rec.state {
	case stateQueued:
		note(rec.pos.given())
	case stateLeased:
		if l = f.leases[rec.lease]; l != nil && l.page != nil {
			note(l.page.pos.given())
		}
	}
	var out []*schedulerv1.UrlStep
	add := func(s *schedulerv1.UrlStep) { out = append(out, s) }
	if c := r.Found; c != nil {
		at := time.Time{}
		if first != 0 {
			at = f.queuedAt(j, first)
		}
		found := "a seed"
		if !c.GetSeed() || c.GetReferrer() != "" {
			found = "found at " + c.GetReferrer()
		}
		found += fmt.Sprintf("; depth %d, hops %q", c.GetDepth(), c.GetHopPath())
		add(&schedulerv1.UrlStep{Kind: schedulerv1.UrlStepKind_URL_STEP_KIND_FOUND, At: timestamp(at), Reason: found})
		if first != 0 {
			add(&schedulerv1.UrlStep{Kind: schedulerv1.UrlStepKind_URL_STEP_KIND_QUEUED, At: timestamp(at),
				Reason: fmt.Sprintf("new; accepted by rule %q into queue %s", c.GetRule(), rec.host)})
		}
	}
	for _, s := range f.withRobots(j, r.CanonicalUrl, rec, kept) {
		add(s.proto())
	}
	switch {
	case l != nil:
		add(&schedulerv1.UrlStep{Kind: schedulerv1.UrlStepKind_URL_STEP_KIND_LEASED, At: timestamp(l.issued), LeasedAt: timestamp(l.issued),
			Downloader: l.member, LeaseId: l.id, Attempt: r.Attempts + 1, Robots: l.robots, Reason: r.Reason})
	case rec.state == stateQueued:
		add(&schedulerv1.UrlStep{Kind: schedulerv1.UrlStepKind_URL_STEP_KIND_WAITS, At: timestamp(now), Reason: r.Reason, NextAt: r.NextAt})
	case rec.entry != nil && !endsWith(kept, rec):
		add(&schedulerv1.UrlStep{Kind: schedulerv1.UrlStepKind_URL_STEP_KIND_ENDED, At: timestamp(fromUnixNano(rec.at)),
			Reason: urlStateName(rec.state) + ": " + rec.reason, Fetch: r.GetLastOutcome().GetFetch()})
	}
	return out
}

// robotsShown is how many tries of a robots.txt are told with a URL.
const robotsShown = 8

// stepsUnder reads a history under one key, oldest first.
func (f *Frontier) stepsUnder(j *job, url uint64) []*step {
	var list []*step
	for _, g := range j.hist.gens {
		prefix := stepPrefix(j.num, g.num, url)
		_ = f.st.Scan(prefix, after(prefix), func(k, v []byte) bool {
			if s, err := decodeStep(k, v); err == nil {
				list = append(list, s)
			} else {
				f.noteBad(k, v)
			}
			return len(list) < 1000
		})
	}
	return list
}

// withRobots adds the last tries of the robots.txt of a URL's origin, up to the
// URL's end, in the order of time.
func (f *Frontier) withRobots(j *job, url string, rec *urlRecord, kept []*step) []*step {
	if j.polOf(rec.host).IgnoreRobots {
		return kept
	}
	o := &origin{host: &host{key: rec.host}, scheme: schemeOf(url)}
	var robots []*step
	for _, s := range f.stepsUnder(j, j.key(o.url())) {
		ended := rec.state != stateQueued && rec.state != stateLeased && s.at > rec.at
		if s.kind == schedulerv1.UrlStepKind_URL_STEP_KIND_ROBOTS && !ended {
			robots = append(robots, s)
		}
	}
	robots = robots[max(0, len(robots)-robotsShown):]
	own := slices.DeleteFunc(slices.Clone(kept), func(s *step) bool { return s.kind == schedulerv1.UrlStepKind_URL_STEP_KIND_ROBOTS })
	all := append(robots, own...)
	slices.SortStableFunc(all, func(a, b *step) int { return cmp.Compare(a.at, b.at) })
	return all
}

// endsWith tells whether the last step is the end that the record tells.
func endsWith(kept []*step, rec *urlRecord) bool {
	return slices.ContainsFunc(kept, func(s *step) bool { return s.state == rec.state && s.at == rec.at })
}

// proto shows a step.
func (s *step) proto() *schedulerv1.UrlStep {
	p := &schedulerv1.UrlStep{Kind: s.kind, At: timestamp(fromUnixNano(s.at)), Reason: s.reason, Downloader: s.member, LeaseId: s.lease,
		Attempt: s.attempt, Robots: s.robots, Fetch: s.fetch, NextAt: timestamp(fromUnixNano(s.next)), LeasedAt: timestamp(fromUnixNano(s.leased))}
	switch {
	case s.state == stateQueued && s.kind == schedulerv1.UrlStepKind_URL_STEP_KIND_TRIED:
		p.Reason = "queued for another try"
	case s.state != stateQueued && s.state != schedulerv1.UrlState_URL_STATE_UNSPECIFIED:
		p.Reason = urlStateName(s.state) + ": " + s.reason
	}
	return p
}

func urlStateName(s schedulerv1.UrlState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "URL_STATE_"))
}
