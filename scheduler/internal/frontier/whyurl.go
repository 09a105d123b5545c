package frontier

import (
	"fmt"
	"slices"
	"strings"
	"time"

	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// stepsOf are the steps of a URL, oldest first: those of the history, and what
// its records say.
func (f *Frontier) stepsOf(j *job, rec *urlRecord, r *schedulerv1.ExplainResponse, now time.Time) []*schedulerv1.UrlStep {
	var kept []*step
	for _, g := range j.hist.gens {
		prefix := stepPrefix(j.num, g.num, r.UrlKey)
		_ = f.st.Scan(prefix, after(prefix), func(k, v []byte) bool {
			if s, err := decodeStep(k, v); err == nil {
				kept = append(kept, s)
			}
			return len(kept) < 1000
		})
	}
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
	for _, s := range kept {
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
