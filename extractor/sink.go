package extractor

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"lycosa.dev/extractor/internal/page"
	"lycosa.dev/extractor/internal/seen"
	"lycosa.dev/internal/job"
	"lycosa.dev/internal/robots"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/telemetry"
	"lycosa.dev/internal/weburl"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	dnserv1 "lycosa.dev/proto/gen/lycosa/dnser/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// sink makes the outcome and the candidates of a page and sends them on. What
// it answers is what the frontier has answered.
func (e *Extractor) sink(ctx context.Context, c *compiled, p *page.Page) *crawlv1.Answer {
	o := outcome(p)
	cands, keys := e.candidates(c, p, o)
	ans := e.forwardAll(ctx, p, o, cands)
	if ans.GetVerdict() == crawlv1.Verdict_VERDICT_DONE {
		for i, k := range keys {
			e.seen.Add(k, cands[i].GetDepth())
		}
		e.mu.Lock()
		log := e.crawlLog
		e.mu.Unlock()
		if err := log.Write(p.Lease, o, time.Now()); err != nil {
			e.log.Error("crawl.log cannot be written", "err", err)
		}
	}
	return ans
}

func outcome(p *page.Page) *crawlv1.Outcome {
	o := &crawlv1.Outcome{
		LeaseId: p.Lease.GetId(), JobId: p.Lease.GetJobId(), Url: p.Lease.GetUrl(), HostKey: p.Lease.GetHostKey(),
		Purpose: p.Lease.GetPurpose(), Fetch: p.Result, Stored: p.Stored, SkippedBy: p.SkippedBy, SkippedStores: p.SkippedStores,
		ContentType: p.ContentType, PayloadDigest: p.PayloadDigest, PayloadBytes: p.PayloadBytes,
		LinksFound: uint32(p.LinksFound), NofollowBy: p.NofollowBy, Annotations: p.Annotations,
	}
	if !p.RedirectURL.IsZero() {
		o.RedirectUrl = p.RedirectURL.String()
	}
	if !p.HasResponse() {
		return o
	}
	if p.Lease.GetPurpose() == crawlv1.Purpose_PURPOSE_ROBOTS {
		if robots.StatusPolicy(int(p.Result.GetStatus())) == robots.UseBody {
			// The page's memory is the sender's; the outcome outlives it.
			o.RobotsBody = append([]byte(nil), robots.Bound(p.Prefix(robots.MaxBytes+1))...)
		}
		return o
	}
	etag, modified := string(p.Head.Get("ETag")), string(p.Head.Get("Last-Modified"))
	if (etag != "" || modified != "") && p.Result.GetStatus() == 200 && len(etag) < 1024 && len(modified) < 128 {
		o.Validators = &crawlv1.Validators{
			Etag: strings.ToValidUTF8(etag, ""), LastModified: strings.ToValidUTF8(modified, ""),
			PayloadDigest: p.PayloadDigest, FetchedAt: p.Result.GetStartedAt(),
		}
	}
	return o
}

// candidates judges the page's links. The keys are those of the cache of
// acknowledged links, a candidate each.
func (e *Extractor) candidates(c *compiled, p *page.Page, o *crawlv1.Outcome) ([]*crawlv1.Candidate, []uint64) {
	lease := p.Lease
	spec := c.spec.GetSpec()
	nofollow := p.NofollowBy != "" && !spec.GetPoliteness().GetFollowNofollow()
	robotsPage := lease.GetPurpose() == crawlv1.Purpose_PURPOSE_ROBOTS
	parentIn := c.scope.InKind(p.URL)
	// With a limit of depth the frontier keeps the links of pages that may come
	// nearer to the seeds: it is told all of them.
	whole := spec.GetLimits() != nil && spec.Limits.MaxDepth != nil && lease.GetDepth() > 0
	lastMods := spec.GetRecrawl().GetPolicy() == jobv1.RecrawlPolicy_RECRAWL_POLICY_SITEMAP
	cands := make([]*crawlv1.Candidate, 0, 8)
	keys := make([]uint64, 0, 8)
	for i := range p.Links {
		l := &p.Links[i]
		redirect := l.Hop == job.HopRedirect
		if robotsPage && !l.Sitemap || nofollow && !redirect && !l.Sitemap {
			continue
		}
		depth := lease.GetDepth()
		if !l.Sitemap {
			depth += job.DepthAdded(l.Hop)
		}
		hop := l.Hop
		seedRedirect := redirect && lease.GetSeed() && lease.GetRedirects() < job.MaxSeedRedirects &&
			spec.GetScope().GetSeedRedirects() && sameURL(p.RedirectURL, l.URL)
		rule := "seed redirect"
		if seedRedirect {
			hop = job.HopSeedRedirect
		} else {
			v := c.scope.Judge(l.URL, l.Embed, parentIn)
			if !v.In {
				o.LinksOutOfScope++
				continue
			}
			rule = v.Rule
		}
		generation := c.generation
		dated := lastMods && l.LastMod != 0
		if dated {
			// A link with another lastmod is news, however well it is known.
			generation = seen.Dated(generation, l.LastMod)
		}
		// Nearly all links end here: nothing is made for them before.
		key := e.seen.Key(generation, l.URL.String())
		if !seedRedirect && !whole && e.seen.Knows(key, depth) {
			o.LinksKnown++
			continue
		}
		cand := &crawlv1.Candidate{
			Url: l.URL.String(), HostKey: l.URL.HostKey(), Depth: depth, Referrer: lease.GetUrl(), Rule: rule, Seed: seedRedirect,
			HopPath: job.AppendHop(lease.GetHopPath(), hop), Priority: priority(l),
		}
		if redirect {
			cand.Redirects = lease.GetRedirects() + 1
		}
		if dated {
			cand.LastModified = &timestamppb.Timestamp{Seconds: l.LastMod}
		}
		cands = append(cands, cand)
		keys = append(keys, key)
	}
	e.metrics.sent.Add(float64(len(cands)))
	e.metrics.known.Add(float64(o.LinksKnown))
	e.metrics.outOfScope.Add(float64(o.LinksOutOfScope))
	return cands, keys
}

// priority orders a queue: redirects and sitemaps lead to everything else and
// go first, then pages in the order found, then what pages embed.
func priority(l *page.Link) uint32 {
	switch {
	case l.Hop == job.HopRedirect || l.Hop == job.HopSeedRedirect || l.Sitemap:
		return 0
	case l.Embed:
		return 2
	}
	return 1
}

func sameURL(a, b weburl.URL) bool { return !a.IsZero() && a.String() == b.String() }

// partBytes is about how much of a page's links goes into one message, far
// below what the chassis takes.
const partBytes = 4 << 20

// split cuts a page's links into parts of about partBytes.
func split(cands []*crawlv1.Candidate) [][]*crawlv1.Candidate {
	var parts [][]*crawlv1.Candidate
	start, size := 0, 0
	for i, c := range cands {
		n := len(c.GetUrl()) + len(c.GetReferrer()) + len(c.GetHostKey()) + len(c.GetRule()) + 100
		if size+n > partBytes && i > start {
			parts = append(parts, cands[start:i])
			start, size = i, 0
		}
		size += n
	}
	return append(parts, cands[start:])
}

// forwardAll sends a page on: in one message, or the links of a very long page
// in parts first and the outcome when they are safe.
func (e *Extractor) forwardAll(ctx context.Context, p *page.Page, o *crawlv1.Outcome, cands []*crawlv1.Candidate) *crawlv1.Answer {
	parts := split(cands)
	for i := len(parts) - 1; i > 0; i-- {
		if ans := e.forward(ctx, p, o, parts[i], uint32(i)); ans.GetVerdict() != crawlv1.Verdict_VERDICT_DONE {
			return ans
		}
	}
	return e.forward(ctx, p, o, parts[0], 0)
}

// forward sends outcome and candidates on and waits for the frontier. A page
// that is stored is worth some patience: sending it again is idempotent. An
// extractor that stops has none: what is on its way is waited for, and no more.
func (e *Extractor) forward(ctx context.Context, p *page.Page, o *crawlv1.Outcome, cands []*crawlv1.Candidate, part uint32) *crawlv1.Answer {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.ForwardWait)
	defer cancel()
	traceparent := telemetry.Inject(ctx)
	wait := 50 * time.Millisecond
	var last *crawlv1.Answer
	for {
		req := &dnserv1.ResolveRequest{Outcome: o, Candidates: cands, Traceparent: traceparent, Part: part}
		res, err := e.resolve(ctx, p.Lease.GetId(), req)
		switch {
		case err == nil && res.GetAnswer().GetVerdict() != crawlv1.Verdict_VERDICT_RETRY_LATER &&
			res.GetAnswer().GetVerdict() != crawlv1.Verdict_VERDICT_UNSPECIFIED:
			return res.GetAnswer()
		case err == nil:
			last = res.GetAnswer()
			if last.GetStorageUnavailable() {
				return last
			}
			wait = max(wait, last.GetRetryAfter().AsDuration())
		case errors.Is(err, rpc.ErrStopped), ctx.Err() != nil:
			if last != nil {
				return last
			}
			return retry("dnser: "+err.Error(), time.Second)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-e.stopping.Done():
			timer.Stop()
			if last != nil {
				return last
			}
			return retry("the extractor stops and has no dnser", time.Second)
		case <-ctx.Done():
			timer.Stop()
			if last != nil {
				return last
			}
			return retry("no dnser took the page in time", time.Second)
		}
		wait = min(2*wait, 5*time.Second)
	}
}

// resolve asks a dnser. It waits for one to be there only while the extractor
// does not stop.
func (e *Extractor) resolve(ctx context.Context, lease uint64, req *dnserv1.ResolveRequest) (*dnserv1.ResolveResponse, error) {
	call, err := e.begin(ctx, lease)
	if err != nil {
		return nil, err
	}
	if err := call.Send(ctx, req); err != nil && !errors.Is(err, rpc.ErrAnswered) {
		call.Cancel()
		return nil, err
	}
	return call.Wait(ctx)
}

// begin begins a call to a dnser.
func (e *Extractor) begin(ctx context.Context, lease uint64) (*rpc.Call[dnserv1.ResolveRequest, dnserv1.ResolveResponse], error) {
	if e.dnsers.Len() > 0 {
		caller, err := e.dnsers.Pick(ctx, lease)
		if err == nil && caller.Connected() {
			return caller.Begin(ctx)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.stopping, cancel)()
	caller, err := e.dnsers.Pick(ctx, lease)
	if err != nil {
		return nil, err
	}
	return caller.Begin(ctx)
}
