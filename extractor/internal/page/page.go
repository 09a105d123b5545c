// Package page is a fetched page on its way through the extractor: what came
// over the wire, decoded on demand, and what the handlers have found out.
//
// A Page belongs to one goroutine. Its memory is the sender's or the Body's:
// nothing of it may be kept after the page was answered.
package page

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"lycosa.dev/internal/charset"
	"lycosa.dev/internal/httpwire"
	"lycosa.dev/internal/robots"
	"lycosa.dev/internal/weburl"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
)

// Page is one fetched URL.
type Page struct {
	// Lease is what was fetched, Result what the downloader saw.
	Lease  *crawlv1.Lease
	Result *crawlv1.FetchResult
	// URL is the lease's URL.
	URL weburl.URL
	// Request and ResponseHead are the exact bytes; empty where there are none.
	Request, ResponseHead []byte
	// Head is ResponseHead parsed; zero where there is none.
	Head httpwire.Head
	// Body is the body as received.
	Body Body

	// ContentType is the declared media type, lower case without parameters,
	// or what the first bytes look like where none is declared.
	ContentType string
	// Directives are what X-Robots-Tag and meta robots say to us.
	Directives robots.Directives
	// Links are the links found, before the scope has judged them.
	Links []Link
	// NofollowBy names the directive that forbade following all links.
	NofollowBy string
	// LinksFound counts links, those too that are dropped as duplicates.
	LinksFound int
	// RedirectURL is where a redirect leads; zero: nowhere.
	RedirectURL weburl.URL
	// Stored says where the page is durable.
	Stored []*crawlv1.StoredRecord
	// StoredBefore says where it is durable since it came before, under the same
	// lease.
	StoredBefore []*crawlv1.StoredRecord
	// SkippedBy names the rule that let the page go unstored.
	SkippedBy string
	// SkippedStores names the stores that SkippedBy concerns; empty: all.
	SkippedStores []string
	// PayloadDigest is set by a store that computes it ("sha1:BASE32").
	PayloadDigest string
	// PayloadBytes is the size after decoding, once Decoded was called.
	PayloadBytes int64
	// Annotations are short fixed codes of what was noticed.
	Annotations []string

	limits  httpwire.Limits
	charset charset.Decision
	decoded []byte
	isDone  bool
}

// Link is a link of the page, resolved and canonical.
type Link struct {
	URL weburl.URL
	// Hop is its letter in a hop path (package job).
	Hop byte
	// Embed is whether the page loads it to be shown.
	Embed bool
	// Sitemap is whether the link is itself a sitemap, which adds no depth.
	Sitemap bool
	// LastMod is when its target has changed last, Unix seconds, as a sitemap
	// says; 0: not said.
	LastMod int64
}

// New makes a page of what arrived. limits bound the decoded body.
func New(lease *crawlv1.Lease, result *crawlv1.FetchResult, request, head []byte, limits httpwire.Limits) (*Page, error) {
	u, err := weburl.ParseCanonical(lease.GetUrl())
	if err != nil {
		return nil, fmt.Errorf("lease %x: url %q: %w", lease.GetId(), lease.GetUrl(), err)
	}
	p := &Page{
		Lease: lease, Result: result, URL: u, Request: request, ResponseHead: head,
		limits: limits,
	}
	if len(head) > 0 {
		// The downloader has judged the head; what it tolerated is in its
		// annotations.
		_, _ = p.Head.ParseStored(head)
	}
	return p, nil
}

// HasResponse tells whether there is a response to store and to read.
func (p *Page) HasResponse() bool {
	return p.Result.GetClass() == crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP
}

// Annotate adds a code once.
func (p *Page) Annotate(codes ...string) {
	for _, c := range codes {
		have := false
		for _, a := range p.Annotations {
			have = have || a == c
		}
		if !have {
			p.Annotations = append(p.Annotations, c)
		}
	}
}

// InMemory tells whether the whole body is in memory.
func (p *Page) InMemory() bool { return p.Body.file == nil }

// Decoded returns the body with transfer and content coding undone, for a page
// that is InMemory; the bytes are shared with Body where no coding applies.
func (p *Page) Decoded() []byte {
	if !p.isDone {
		p.isDone = true
		var notes httpwire.Note
		p.decoded, notes = httpwire.DecodeBytes(nil, &p.Head, p.Body.Bytes(), p.limits)
		p.PayloadBytes = int64(len(p.decoded))
		p.Annotate(notes.Names()...)
		p.Body.one = nil
	}
	return p.decoded
}

// Open reads the decoded body of any page from its start. After the reader
// has ended, its notes are in the page's annotations when it is closed.
func (p *Page) Open() io.ReadCloser {
	if p.InMemory() {
		return io.NopCloser(bytes.NewReader(p.Decoded()))
	}
	return &opened{p: p, r: httpwire.OpenBody(&p.Head, p.Body.reader(), p.limits)}
}

type opened struct {
	p *Page
	r *httpwire.BodyReader
	n int64
}

func (o *opened) Read(b []byte) (int, error) {
	n, err := o.r.Read(b)
	o.n += int64(n)
	return n, err
}

func (o *opened) Close() error {
	o.p.PayloadBytes = max(o.p.PayloadBytes, o.n)
	o.p.Annotate(o.r.Annotations()...)
	return o.r.Close()
}

// Charset decides the encoding of a page that is text, once, and notes the
// decision with its ground and what contradicts it in the annotations.
func (p *Page) Charset() charset.Decision {
	if p.charset.Encoding != nil {
		return p.charset
	}
	h := charset.Hints{ContentType: string(p.Head.Get("Content-Type"))}
	if p.InMemory() {
		p.charset = charset.Decide(p.Decoded(), h)
	} else {
		r := p.Open()
		// What cannot be read here fails where the page is read.
		p.charset, _ = charset.DecideReader(r, h)
		_ = r.Close()
	}
	p.Annotate(p.charset.Annotation())
	if p.charset.Mislabelled {
		p.Annotate(charset.MislabelledAnnotation)
	}
	return p.charset
}

// Prefix returns up to n decoded bytes from the start.
func (p *Page) Prefix(n int) []byte {
	if p.InMemory() {
		d := p.Decoded()
		return d[:min(n, len(d))]
	}
	r := p.Open()
	defer r.Close()
	b := make([]byte, n)
	got, _ := io.ReadFull(r, b)
	return b[:got]
}

// SetContentType finds the media type: declared, or by the first bytes (WHATWG
// MIME Sniffing as net/http has it).
func (p *Page) SetContentType() {
	declared := string(p.Head.Get("Content-Type"))
	if mt, _, err := mime.ParseMediaType(declared); err == nil && strings.Contains(mt, "/") {
		p.ContentType = mt
		return
	}
	// A parameter that is no parameter must not cost the type.
	mt, _, _ := strings.Cut(declared, ";")
	mt = strings.ToLower(strings.TrimSpace(mt))
	if strings.Count(mt, "/") == 1 && !strings.ContainsAny(mt, " ,\t") {
		p.ContentType = mt
		return
	}
	if prefix := p.Prefix(512); len(prefix) > 0 {
		mt, _, _ = strings.Cut(http.DetectContentType(prefix), ";")
		p.ContentType = mt
		p.Annotate("type-sniffed")
	}
}

// Body is a body as received: in memory, or in a spool file once it has grown
// over the limit.
type Body struct {
	chunks [][]byte
	one    []byte
	size   int64
	file   *os.File
}

// Size is the number of bytes.
func (b *Body) Size() int64 { return b.size }

// Append adds bytes; they are not copied while the body is in memory. Over
// limit bytes the body moves to an unnamed file in dir.
func (b *Body) Append(chunk []byte, limit int64, dir string) error {
	b.size += int64(len(chunk))
	if b.file == nil && b.size <= limit {
		b.chunks = append(b.chunks, chunk)
		return nil
	}
	if b.file == nil {
		f, err := os.CreateTemp(dir, "spool-*")
		if err != nil {
			return fmt.Errorf("spool a large page: %w", err)
		}
		b.file = f
		// Without a name the file is gone with the process, however it ends.
		if err := os.Remove(f.Name()); err != nil {
			return fmt.Errorf("spool a large page: %w", err)
		}
		for _, c := range b.chunks {
			if _, err := f.Write(c); err != nil {
				return fmt.Errorf("spool a large page: %w", err)
			}
		}
		b.chunks = nil
	}
	if _, err := b.file.Write(chunk); err != nil {
		return fmt.Errorf("spool a large page: %w", err)
	}
	return nil
}

// Bytes returns a body that is in memory as one slice, joining it if need be.
func (b *Body) Bytes() []byte {
	switch {
	case len(b.chunks) == 0:
		return nil
	case len(b.chunks) == 1:
		return b.chunks[0]
	case b.one == nil:
		b.one = bytes.Join(b.chunks, nil)
		b.chunks = [][]byte{b.one}
	}
	return b.one
}

// Chunks returns a body that is in memory as it came.
func (b *Body) Chunks() [][]byte { return b.chunks }

// File returns the spool file; nil for a body in memory.
func (b *Body) File() *os.File { return b.file }

func (b *Body) reader() io.Reader {
	if b.file != nil {
		return io.NewSectionReader(b.file, 0, b.size)
	}
	return bytes.NewReader(b.Bytes())
}

// Close lets go of the memory and the spool file.
func (b *Body) Close() {
	b.chunks, b.one = nil, nil
	if b.file != nil {
		_ = b.file.Close()
		b.file = nil
	}
}
