package frontier

import (
	"slices"

	specs "lycosa.dev/internal/job"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// maxChain bounds how far redirects are followed in either direction for an
// explanation; jobs follow fewer in a row.
const maxChain = 50

// chainOf is the chain of redirects that a URL is part of, nil where there is
// none. A redirect is followed back by who found the URL, whether by Location,
// Refresh or a page's own refresh, and on by the last outcome.
func (f *Frontier) chainOf(j *job, r *schedulerv1.ExplainResponse) []*schedulerv1.RedirectHop {
	self := &schedulerv1.RedirectHop{Url: r.CanonicalUrl, State: r.State, Status: r.GetLastOutcome().GetFetch().GetStatus()}
	if r.State != stateQueued && r.State != stateLeased && self.Status == 0 {
		self.Reason = r.Reason
	}
	chain := []*schedulerv1.RedirectHop{self}
	seen := map[string]bool{self.Url: true}
	for c := r.Found; byRedirect(c) && len(chain) < maxChain; {
		url := c.GetReferrer()
		if seen[url] {
			break // its beginning has been forgotten, or it was found again
		}
		seen[url] = true
		var hop *schedulerv1.RedirectHop
		if hop, c, _ = f.hopOf(j, url); hop.State == schedulerv1.UrlState_URL_STATE_UNKNOWN {
			hop.Reason = "" // the other schedulers', or no longer kept
		}
		chain = append(chain, hop)
	}
	slices.Reverse(chain)
	for o := r.LastOutcome; o.GetRedirectUrl() != "" && len(chain) < 2*maxChain; {
		url, last := o.GetRedirectUrl(), chain[len(chain)-1]
		if seen[url] {
			last.Reason = "a loop: it leads back to " + url
			break
		}
		seen[url] = true
		var hop *schedulerv1.RedirectHop
		hop, _, o = f.hopOf(j, url)
		chain = append(chain, hop)
	}
	if len(chain) == 1 && r.GetLastOutcome().GetRedirectUrl() == "" {
		return nil
	}
	return chain
}

func byRedirect(c *crawlv1.Candidate) bool {
	if c.GetReferrer() == "" || c.GetHopPath() == "" {
		return false
	}
	last := c.GetHopPath()[len(c.GetHopPath())-1]
	return last == specs.HopRedirect || last == specs.HopSeedRedirect
}

// hopOf is what is known of another URL: how it stands, how it was found, and
// what came of it.
func (f *Frontier) hopOf(j *job, url string) (*schedulerv1.RedirectHop, *crawlv1.Candidate, *crawlv1.Outcome) {
	hop := &schedulerv1.RedirectHop{Url: url, State: schedulerv1.UrlState_URL_STATE_UNKNOWN, Reason: "not known here; " + j.scopeVerdict(url)}
	fingerprint := j.key(url)
	key := urlKey(j.num, fingerprint)
	v, ok, err := f.st.Get(key)
	if err != nil || !ok {
		return hop, nil, nil
	}
	rec, err := decodeURL(key, v)
	if err != nil {
		hop.Reason = "its record is damaged: " + err.Error()
		return hop, nil, nil
	}
	hop.State, hop.Reason = rec.state, ""
	e, err := f.entryOf(j, rec, fingerprint)
	if e == nil || err != nil {
		return hop, nil, nil
	}
	o := e.outcomeOf(j.id, rec.host)
	hop.Status = o.GetFetch().GetStatus()
	if hop.Status == 0 && rec.state != stateQueued && rec.state != stateLeased {
		hop.Reason = rec.reason
	}
	return hop, e.candidate(rec.host), o
}
