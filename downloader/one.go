package downloader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"lycosa.dev/downloader/internal/bufpool"
	"lycosa.dev/downloader/internal/cookie"
	"lycosa.dev/downloader/internal/fetch"
	"lycosa.dev/downloader/internal/profile"
	"lycosa.dev/downloader/internal/secret"
	"lycosa.dev/internal/charset"
	"lycosa.dev/internal/httpwire"
	"lycosa.dev/internal/job"
	"lycosa.dev/internal/telemetry"
	"lycosa.dev/internal/weburl"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// OneOptions are the options of FetchOne. The zero value fetches as a crawl
// with default settings would.
type OneOptions struct {
	// Spec says how: its identity, limits and fetch settings count. nil: defaults.
	Spec *jobv1.Spec
	// Redirects is how many redirects are followed; each is a step of the report.
	Redirects int
	// Lookup finds a host's addresses; nil: the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// SecretsDir and CookiesDir are as in Config.
	SecretsDir, CookiesDir string
	// ETag and LastModified make the first request conditional.
	ETag, LastModified string
	// configure changes the engine, for tests.
	configure func(*fetch.Config)
}

// TLSFacts describes a TLS session.
type TLSFacts = fetch.TLSFacts

// Step is one exchange of a report. Bytes are as they went over the wire (of
// HTTP/2, in the form of HTTP/1.1), with the values of secret fields of the
// request replaced.
type Step struct {
	// URL is what was asked for, in canonical form.
	URL string
	// Class says in which stage it ended ("response", "dns", "connect", "tls",
	// "timeout", "protocol", "policy", "not_started"); Code and Detail say why
	// where there is no whole response.
	Class, Code, Detail string
	// Status is the HTTP status, 0 without one; Protocol "http/1.1", "h2" …
	Status   int
	Protocol string
	// Addresses are those of the host; Address was connected to, or tried last.
	Addresses []netip.Addr
	Address   netip.AddrPort
	// Lengths of the phases; 0 where one did not occur.
	DNS, Connect, Handshake, FirstByte, Content, Total time.Duration
	// Started is when the exchange began.
	Started time.Time
	// TLS is nil without a session.
	TLS *TLSFacts
	// SentBytes and ReceivedBytes count the wire above TLS.
	SentBytes, ReceivedBytes int64
	// Reused tells that a kept connection was used.
	Reused bool
	// Truncated says why the body is not whole ("length", "time", "disconnect",
	// "unspecified"); Annotations are what was tolerated.
	Truncated   string
	Annotations []string
	// Request, Head and Body are the bytes; Decoded is the body with transfer and
	// content codings undone.
	Request, Head, Body, Decoded []byte
	// ContentType is the header as received; Charset the encoding of the text and
	// CharsetGround on what it rests; both empty where the content is no text.
	ContentType, Charset, CharsetGround string
	// Redirect is where a redirect leads, in canonical form; empty: nowhere.
	Redirect string
}

// Report is what came of FetchOne: its steps in order, at least one. The last
// is the answer; those before are redirects, and requests that had to be made
// again (a challenge, a cookie).
type Report struct{ Steps []Step }

// Final returns the last step.
func (r *Report) Final() *Step { return &r.Steps[len(r.Steps)-1] }

// maxAgain is how often FetchOne repeats a request that was not made.
const maxAgain = 4

// FetchOne fetches one URL as the downloader does, under the same address policy
// and limits, without any other service. What the web does is in the report; an
// error means that the URL or the options cannot be used.
func FetchOne(ctx context.Context, url string, opts OneOptions) (*Report, error) {
	u, err := job.ParseSeed(url)
	if err != nil {
		return nil, err
	}
	one, err := newOne(opts)
	if err != nil {
		return nil, err
	}
	defer one.close()
	r := &Report{}
	seen := map[string]bool{}
	for followed := 0; ; followed++ {
		text, _, _ := strings.Cut(u.String(), "#")
		seen[text] = true
		for range maxAgain {
			r.Steps = append(r.Steps, one.step(ctx, u, text))
			opts.ETag, opts.LastModified = "", ""
			one.opts.ETag, one.opts.LastModified = "", ""
			if s := r.Final(); s.Class != fetch.ClassNotStarted.String() || ctx.Err() != nil {
				break
			}
		}
		next := r.Final().Redirect
		if next == "" || followed >= opts.Redirects || seen[next] {
			return r, nil
		}
		if u, err = weburl.Parse(next); err != nil {
			return r, nil // it was parsed before
		}
	}
}

// one is a downloader of a single URL.
type one struct {
	opts     OneOptions
	engine   *fetch.Engine
	settings *fetch.Settings
	jars     *cookie.Jars
	resolve  map[string][]netip.Addr
	limits   httpwire.Limits
	stop     context.CancelFunc
	done     chan struct{}
}

func newOne(opts OneOptions) (*one, error) {
	spec := job.WithDefaults(&jobv1.Spec{}, telemetry.Version())
	if opts.Spec != nil {
		spec = job.WithDefaults(opts.Spec, telemetry.Version())
	}
	if err := job.Validate(spec); err != nil {
		return nil, err
	}
	cfg, err := Default().engine()
	if err != nil {
		return nil, err
	}
	// The proxies that whoever runs this names are the runner's own affair.
	cfg.ProxyNets = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	if opts.configure != nil {
		opts.configure(&cfg)
	}
	o := &one{opts: opts, jars: cookie.NewJars(opts.CookiesDir), resolve: map[string][]netip.Addr{}, done: make(chan struct{})}
	o.limits = httpwire.Limits{MaxBytes: spec.GetFetch().GetMaxDecodedBytes(), MaxRatio: int64(spec.GetFetch().GetMaxDecodedRatio())}
	profiles := profile.New(profile.Options{Base: cfg.Settings, JobNets: true, Secrets: secret.Store{Dir: opts.SecretsDir}, Jars: o.jars})
	if o.settings, err = profiles.For(&schedulerv1.JobSpec{JobId: "fetch", SpecVersion: 1, Spec: spec}); err != nil {
		return nil, err
	}
	for _, r := range spec.GetFetch().GetResolve() {
		host, addr, err := job.ParseResolve(r)
		if err != nil {
			return nil, err
		}
		o.resolve[host] = append(o.resolve[host], addr)
	}
	if o.engine, err = fetch.New(cfg); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	o.stop = stop
	go func() { o.engine.Run(ctx); close(o.done) }()
	return o, nil
}

func (o *one) close() {
	o.stop()
	<-o.done
	_ = o.jars.Save()
}

// lookup finds the addresses of a host.
func (o *one) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	for _, name := range []string{host, "*"} {
		if a := o.resolve[name]; a != nil {
			return a, nil
		}
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, o.settings.ConnectTimeout)
	defer cancel()
	if o.opts.Lookup != nil {
		return o.opts.Lookup(ctx, host)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// step makes one exchange.
func (o *one) step(ctx context.Context, u weburl.URL, text string) Step {
	s := Step{URL: text, Started: time.Now()}
	target, err := fetch.ParseTarget(text)
	if err != nil {
		s.Class, s.Code, s.Detail = fetch.ClassPolicy.String(), "bad-url", err.Error()
		return s
	}
	if s.Addresses, err = o.lookup(ctx, target.Host); err != nil || len(s.Addresses) == 0 {
		s.Class, s.Code, s.Detail = "dns", "dns-failed", "the host has no address"
		var dns *net.DNSError
		switch {
		case errors.As(err, &dns):
			s.Detail = dns.Err
		case err != nil:
			s.Detail = err.Error()
		}
		return s
	}
	for i, a := range s.Addresses {
		s.Addresses[i] = a.Unmap()
	}
	s.DNS = time.Since(s.Started)
	var kept collected
	req := &fetch.Request{
		Target: target, Addresses: s.Addresses, Settings: o.settings, ETag: o.opts.ETag, LastModified: o.opts.LastModified,
		Facts: func(f *fetch.TLSFacts) { s.TLS = f },
	}
	res := o.engine.Fetch(ctx, req, &kept)
	kept.release()
	s.Class, s.Code, s.Detail = res.Class.String(), res.Code, res.Detail
	s.Status, s.Protocol, s.Address, s.Reused = res.Status, res.Protocol, res.Address, res.Reused
	s.Connect, s.Handshake, s.FirstByte = res.Timings.Connect, res.Timings.TLS, res.Timings.FirstByte
	s.Content, s.Total = res.Timings.Body, s.DNS+res.Timings.Total
	s.SentBytes, s.ReceivedBytes, s.Truncated = res.SentBytes, res.ReceivedBytes, string(res.Truncated)
	s.Annotations = append(res.Notes.Codes(), res.Odd.Names()...)
	if res.Class != fetch.ClassResponse {
		s.Status = 0
		return s
	}
	s.Request, s.Head, s.Body = kept.request, kept.head, kept.body
	o.read(&s, u)
	return s
}

// read says what the response is.
func (o *one) read(s *Step, u weburl.URL) {
	var h httpwire.Head
	if _, err := h.ParseStored(s.Head); err != nil {
		s.Decoded = s.Body // HTTP/0.9
		return
	}
	var notes httpwire.Note
	s.Decoded, notes = httpwire.DecodeBytes(nil, &h, s.Body, o.limits)
	for _, n := range notes.Names() {
		if !slices.Contains(s.Annotations, n) {
			s.Annotations = append(s.Annotations, n)
		}
	}
	s.ContentType = string(h.Get("Content-Type"))
	if loc := h.Get("Location"); loc != nil && s.Status/100 == 3 && s.Status != 304 {
		if to, err := u.Resolve(string(weburl.FromHeader(loc))); err == nil && to.IsHTTP() {
			s.Redirect, _, _ = strings.Cut(to.Canonical().String(), "#")
		}
	}
	if kind := strings.ToLower(s.ContentType); len(s.Decoded) > 0 && (kind == "" || strings.HasPrefix(kind, "text/") || strings.Contains(kind, "xml") || strings.Contains(kind, "json") || strings.Contains(kind, "javascript")) {
		head := s.Decoded[:min(len(s.Decoded), 64<<10)]
		d := charset.Decide(head, charset.Hints{ContentType: s.ContentType, Partial: len(head) < len(s.Decoded)})
		s.Charset, s.CharsetGround = d.Encoding.Name(), d.Ground.String()
		if !d.Ground.Declared() {
			s.CharsetGround += fmt.Sprintf(", %d %% sure", d.Confidence)
		}
		if d.Mislabelled {
			s.Annotations = append(s.Annotations, charset.MislabelledAnnotation)
		}
	}
}

// collected is a Sink that keeps copies.
type collected struct {
	request, head, body []byte
	buffers             []*bufpool.Buffer
}

func (c *collected) Own(b *bufpool.Buffer) { c.buffers = append(c.buffers, b) }

func (c *collected) Head(request, head []byte) error {
	c.request, c.head = bytes.Clone(request), bytes.Clone(head)
	return nil
}

func (c *collected) Body(b []byte) error {
	c.body = append(c.body, b...)
	return nil
}

func (c *collected) release() {
	for _, b := range c.buffers {
		b.Release()
	}
}
