// Package links finds the links of a page: in HTTP headers, HTML, CSS,
// sitemaps and feeds, each resolved to its canonical form, once a page.
package links

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"lycosa.dev/extractor/internal/linkscan"
	"lycosa.dev/extractor/internal/page"
	"lycosa.dev/internal/charset"
	"lycosa.dev/internal/job"
	"lycosa.dev/internal/robots"
	"lycosa.dev/internal/sitemap"
	"lycosa.dev/internal/weburl"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// maxLinks bounds the links that are kept of one page; more are counted and
// annotated.
const maxLinks = 1_000_000

// Finder is the "links" handler of a job; safe for concurrent use.
type Finder struct {
	kinds          linkscan.Kinds
	headers        bool
	sitemaps       bool
	followNofollow bool
	agent          string
	elements       map[string]bool // nil: all
	canon          *weburl.Canonicalizer
	workers        sync.Pool
}

// worker is what one page at a time needs.
type worker struct {
	f        *Finder
	agent    string // by which directives of the page are read
	scanner  linkscan.Scanner
	resolver *weburl.Resolver
	charset  string
	seen     map[string]struct{}
	arena    []byte
	raw      []rawLink
	header   []linkscan.Link
}

type rawLink struct {
	start, end int
	link       linkscan.Link
}

// New makes the handler of an effective spec.
func New(spec *jobv1.Spec) *Finder {
	l := spec.GetLinks()
	f := &Finder{
		headers: l.GetNavigation(), sitemaps: l.GetSitemaps(),
		followNofollow: spec.GetPoliteness().GetFollowNofollow(),
		agent:          spec.GetIdentity().GetRobotsAgent(),
		canon:          weburl.NewCanonicalizer(job.Rules(spec)),
	}
	if l.GetNavigation() {
		f.kinds |= linkscan.Navigation
	}
	if l.GetEmbeds() {
		f.kinds |= linkscan.Resources
	}
	if l.GetForms() {
		f.kinds |= linkscan.Forms
	}
	if l.GetDataAttributes() {
		f.kinds |= linkscan.Data
	}
	if f.kinds == 0 {
		f.kinds = linkscan.NoLinks
	}
	if names := l.GetElements(); len(names) > 0 {
		f.elements = map[string]bool{}
		for _, n := range names {
			f.elements[strings.ToLower(n)] = true
		}
	}
	f.workers.New = func() any {
		return &worker{f: f, resolver: weburl.NewResolver(weburl.URL{}, f.canon), seen: map[string]struct{}{}}
	}
	return f
}

// Handle fills the page's links, its directives and its redirect.
func (f *Finder) Handle(_ context.Context, p *page.Page) error {
	if !p.HasResponse() {
		return nil
	}
	w := f.workers.Get().(*worker)
	defer w.done()
	w.resolver.Reset(p.URL)
	w.fromHeaders(p)
	w.agent = f.agent
	if a := p.Lease.GetOverlay().GetRobotsAgent(); a != "" {
		w.agent = a
	}
	p.Directives = robots.ParseXRobotsTag(headerValues(p, "X-Robots-Tag"), w.agent)
	if p.Directives.NoFollow {
		p.NofollowBy = "x-robots-tag nofollow"
	}
	if p.Lease.GetPurpose() == crawlv1.Purpose_PURPOSE_ROBOTS {
		w.fromRobots(p)
		return nil
	}
	if p.Body.Size() == 0 {
		return nil
	}
	// The body of a redirect is for people whose browser does not follow.
	switch {
	case isHTML(p.ContentType), looksXHTML(p):
		return w.fromHTML(p)
	case p.ContentType == "text/css":
		return w.fromCSS(p)
	case f.sitemaps && maybeSitemap(p):
		return w.fromSitemap(p)
	}
	return nil
}

// done makes the worker ready for another page; memory grown by an unusual
// page is let go.
func (w *worker) done() {
	if len(w.seen) > 10_000 || cap(w.arena) > 1<<20 {
		w.seen, w.arena, w.raw = map[string]struct{}{}, nil, nil
	}
	clear(w.seen)
	w.arena, w.raw = w.arena[:0], w.raw[:0]
	w.f.workers.Put(w)
}

// add resolves one link and keeps it if it is new to the page.
func (w *worker) add(p *page.Page, ref []byte, hop byte, embed, sitemap bool) {
	p.LinksFound++
	u, ok := w.resolver.Resolve(ref)
	if !ok {
		return
	}
	w.keep(p, page.Link{URL: u, Hop: hop, Embed: embed, Sitemap: sitemap})
}

func (w *worker) keep(p *page.Page, l page.Link) {
	text := l.URL.String()
	if _, dup := w.seen[text]; dup {
		return
	}
	if len(p.Links) >= maxLinks {
		p.Annotate("links-cut")
		return
	}
	w.seen[text] = struct{}{}
	p.Links = append(p.Links, l)
}

func headerValues(p *page.Page, name string) []string {
	var out []string
	for v := range p.Head.Values(name) {
		out = append(out, string(v))
	}
	return out
}

// fromHeaders takes Location, Link, Refresh and Content-Location.
func (w *worker) fromHeaders(p *page.Page) {
	status := p.Result.GetStatus()
	for i := range p.Head.Fields {
		field := &p.Head.Fields[i]
		// All four names have 4, 7, 8 or 16 letters: nearly every field ends here.
		switch len(field.Name) {
		case len("Link"), len("Refresh"), len("Location"), len("Content-Location"):
		default:
			continue
		}
		w.header = linkscan.HeaderLinks(w.header[:0], string(field.Name), string(field.Value))
		for _, l := range w.header {
			l.URL = weburl.FromHeader(l.URL)
			switch l.Attr {
			case linkscan.AttrHeaderLocation:
				p.LinksFound++
				u, ok := w.resolver.Resolve(l.URL)
				if !ok {
					p.Annotate("bad-location")
					continue
				}
				if status >= 300 && status < 400 && p.RedirectURL.IsZero() {
					p.RedirectURL = u
				}
				w.keep(p, page.Link{URL: u, Hop: job.HopRedirect})
			case linkscan.AttrHeaderRefresh:
				w.add(p, l.URL, job.HopRedirect, false, false)
			default:
				if w.f.headers && w.allowed(l) {
					w.addLink(p, l, l.URL)
				}
			}
		}
	}
}

// addLink adds what the scanner found.
func (w *worker) addLink(p *page.Page, l linkscan.Link, ref []byte) {
	hop := byte(job.HopLink)
	switch {
	case l.Kind == linkscan.Embed:
		hop = job.HopEmbed
	case l.Kind == linkscan.Speculative:
		hop = job.HopSpeculative
	case l.Element == linkscan.ElementMeta && l.Attr == linkscan.AttrContent:
		hop = job.HopRedirect
	}
	w.add(p, ref, hop, l.Kind == linkscan.Embed, l.Rel&linkscan.RelSitemap != 0)
}

// allowed tells whether the job wants this link: its element, and rel=nofollow.
func (w *worker) allowed(l linkscan.Link) bool {
	if w.f.elements != nil && l.Element != linkscan.ElementHeader && !w.f.elements[l.Element.String()] {
		return false
	}
	return w.f.followNofollow || l.Rel&linkscan.RelNofollow == 0
}

// options of the scanner for a document.
func (w *worker) options(e *charset.Encoding) linkscan.Options {
	opt := linkscan.Options{Kinds: w.f.kinds, Charset: e}
	if w.agent != "" {
		opt.RobotsNames = []string{strings.ToLower(w.agent)}
	}
	return opt
}

// fromHTML scans a document. Links are resolved at its end, when its base is
// known.
func (w *worker) fromHTML(p *page.Page) error {
	e := p.Charset().Encoding
	w.charset = e.Name()
	w.resolver.SetCharset(w.charset)
	if p.InMemory() {
		body := p.Decoded()
		if !e.ASCIICompatible() {
			body, e = e.Decode(body), charset.UTF8
		}
		found, doc := w.scanner.Collect(body, w.options(e))
		w.finish(p, doc)
		if p.NofollowBy != "" && !w.f.followNofollow {
			p.LinksFound += len(found)
			return nil
		}
		p.Links = slices.Grow(p.Links, min(len(found), 256))
		for _, l := range found {
			if w.allowed(l) {
				w.addLink(p, l, l.URL)
			} else {
				p.LinksFound++
			}
		}
		return nil
	}
	body := p.Open()
	defer body.Close()
	var src io.Reader = body
	if !e.ASCIICompatible() {
		src, e = e.NewReader(body), charset.UTF8
	}
	w.scanner.Begin(w.options(e), func(l linkscan.Link) {
		p.LinksFound++
		if len(w.raw) >= maxLinks {
			p.Annotate("links-cut")
			return
		}
		start := len(w.arena)
		w.arena = append(w.arena, l.URL...)
		w.raw = append(w.raw, rawLink{start, len(w.arena), l})
	})
	if err := copyTo(w.scanner.Feed, src); err != nil {
		return err
	}
	w.finish(p, w.scanner.End())
	if p.NofollowBy != "" && !w.f.followNofollow {
		return nil
	}
	for _, r := range w.raw {
		if w.allowed(r.link) {
			p.LinksFound-- // counted when it was found
			w.addLink(p, r.link, w.arena[r.start:r.end])
		}
	}
	return nil
}

// finish takes what the document says of itself.
func (w *worker) finish(p *page.Page, doc *linkscan.Doc) {
	for _, m := range doc.Robots {
		d := robots.ParseDirectives(string(m.Content))
		if d.NoFollow && p.NofollowBy == "" {
			p.NofollowBy = "meta " + string(m.Name) + " nofollow"
		}
		p.Directives = p.Directives.Merge(d)
	}
	if doc.HasBase {
		if base, err := p.URL.Resolve(string(bytes.TrimSpace(doc.Base))); err == nil && base.IsHTTP() {
			w.resolver.Reset(base)
			w.resolver.SetCharset(w.charset)
		}
	}
	if doc.TooLong > 0 {
		p.Annotate("link-too-long")
	}
}

func copyTo(feed func([]byte), r io.Reader) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		feed(buf[:n])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// maxCSS bounds how much of a style sheet that is not in memory is scanned.
const maxCSS = 16 << 20

func (w *worker) fromCSS(p *page.Page) error {
	if w.f.kinds&linkscan.CSS == 0 {
		return nil
	}
	// A style sheet's encoding has no part in its URLs' queries.
	e := p.Charset().Encoding
	css := p.Prefix(maxCSS)
	if !e.ASCIICompatible() {
		css, e = e.Decode(css), charset.UTF8
	}
	w.scanner.ScanCSS(css, linkscan.Options{Kinds: linkscan.CSS, Charset: e}, func(l linkscan.Link) {
		if w.allowed(l) {
			w.add(p, l.URL, job.HopEmbed, true, false)
		}
	})
	return nil
}

// fromRobots takes the sitemaps that a robots.txt names, or the usual place.
func (w *worker) fromRobots(p *page.Page) {
	if !w.f.sitemaps {
		return
	}
	var urls []string
	if robots.StatusPolicy(int(p.Result.GetStatus())) == robots.UseBody {
		urls = robots.Parse(p.Prefix(robots.MaxBytes)).SitemapURLs(p.URL.String())
	}
	if len(urls) == 0 {
		urls = []string{"/sitemap.xml"}
	}
	for _, u := range urls {
		w.add(p, []byte(u), job.HopSitemap, false, true)
	}
}

func (w *worker) fromSitemap(p *page.Page) error {
	body := p.Open()
	defer body.Close()
	viaSitemap := strings.HasSuffix(p.Lease.GetHopPath(), string(rune(job.HopSitemap)))
	var entries []sitemap.Entry
	kind, err := sitemap.Walk(body, sitemap.Options{URL: p.URL.String()}, func(e sitemap.Entry) error {
		entries = append(entries, e)
		return nil
	})
	switch {
	case kind == sitemap.Unknown, kind == sitemap.Text && !viaSitemap:
		return nil
	case errors.Is(err, sitemap.ErrBroken), errors.Is(err, sitemap.ErrLimit):
		p.Annotate("sitemap-damaged")
	case err != nil && !errors.Is(err, sitemap.ErrFormat):
		return err
	}
	hop := byte(job.HopSitemap)
	if kind.IsFeed() {
		hop = job.HopFeed
	}
	for _, e := range entries {
		n := len(p.Links)
		w.add(p, []byte(e.Loc), hop, false, e.Sitemap)
		if len(p.Links) > n && !e.LastMod.IsZero() {
			p.Links[n].LastMod = max(e.LastMod.Unix(), 0)
		}
		for _, alt := range e.Alternates {
			w.add(p, []byte(alt), hop, false, false)
		}
	}
	return nil
}

func isHTML(mt string) bool {
	return mt == "text/html" || mt == "application/xhtml+xml" || mt == "image/svg+xml"
}

// looksXHTML finds XHTML that is served as XML.
func looksXHTML(p *page.Page) bool {
	return (p.ContentType == "text/xml" || p.ContentType == "application/xml") && bytes.Contains(p.Prefix(1024), []byte("<html"))
}

// maybeSitemap tells whether a page may be a sitemap or a feed: XML, or what a
// sitemap led to and is no image or the like.
func maybeSitemap(p *page.Page) bool {
	mt := p.ContentType
	if strings.HasSuffix(mt, "/xml") || strings.HasSuffix(mt, "+xml") {
		return true
	}
	if !strings.HasSuffix(p.Lease.GetHopPath(), string(rune(job.HopSitemap))) {
		return false
	}
	switch mt {
	case "text/plain", "application/gzip", "application/x-gzip", "application/octet-stream", "binary/octet-stream", "":
		return true
	}
	return false
}
