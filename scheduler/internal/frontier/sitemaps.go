package frontier

import (
	"lycosa.dev/internal/robots"
	"lycosa.dev/internal/weburl"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"

	specs "lycosa.dev/internal/job"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// tellSitemaps gives a job the sitemaps of an origin whose robots.txt is known
// from before: the extractor tells them to the job that fetches the file, and
// robots.txt belongs to all jobs. What a job has been told already is found
// known by the decider, so that a queue which gets its slot again costs a
// candidate or two and needs no record.
func (f *Frontier) tellSitemaps(b *store.Batch, q *queue, o *origin) {
	q.told[o.scheme] = true
	j := q.job
	if !j.spec.GetLinks().GetSitemaps() || !o.known || o.rec.gaveUp {
		return
	}
	urls := []string{schemeName(o.scheme) + "://" + o.host.key + "/sitemap.xml"}
	if o.rec.status/100 == 2 {
		key := robotsKey(o.scheme, o.host.key)
		if v, ok := f.get(key); ok {
			if rec, err := decodeRobots(key, v); err == nil {
				if named := robots.Parse(rec.body).SitemapURLs(o.url()); len(named) > 0 {
					urls = named
				}
			}
		}
	}
	scope, err := specs.NewScope(j.spec, j.roots)
	if err != nil {
		f.log.Error("the scope of a job cannot be compiled", "job", j.id, "err", err)
		return
	}
	canon := weburl.NewCanonicalizer(specs.Rules(j.spec))
	var cands []*crawlv1.Candidate
	for _, raw := range urls {
		u, err := weburl.ParseCanonical(raw)
		if err != nil || !u.IsHTTP() {
			continue
		}
		u = canon.Canonical(u)
		v := scope.Judge(u, false, true)
		if !v.In {
			continue
		}
		cands = append(cands, &crawlv1.Candidate{
			Url: u.String(), HostKey: u.HostKey(), Referrer: o.url(), Rule: v.Rule,
			HopPath: string([]byte{specs.HopPrerequisite, specs.HopSitemap}),
		})
	}
	if len(cands) > 0 {
		f.append(b, j, cands, nil, "")
	}
}

// toldByFetch notes that the extractor tells a job the sitemaps of the
// robots.txt that the job has just fetched.
func (o *origin) toldByFetch(j *job) {
	for _, q := range o.host.queues {
		if q.job == j {
			q.told[o.scheme] = true
		}
	}
}
