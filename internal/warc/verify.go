package warc

import (
	"bytes"
	"context"
	"crypto/sha1"
	"fmt"
	"hash"
	"io"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"lycosa.dev/internal/httpwire"
)

// maxProblems is how many problems of a file are kept; more are counted.
const maxProblems = 1000

// maxHTTPHead is how much of a block is searched for the end of its HTTP head.
const maxHTTPHead = 1 << 20

// Report is what Verify found out about a file.
type Report struct {
	// File is the path as it was given, Bytes its size.
	File  string
	Bytes int64
	// Records counts the records that are complete, by type.
	Records map[RecordType]int
	// Digests counts the block and payload digests that were checked and are right.
	Digests int
	// Problems are in the order of the file, the first 1000; Errors and
	// Warnings count all.
	Problems         []Problem
	Errors, Warnings int
}

// OK reports whether the file has no errors; it may have warnings.
func (r *Report) OK() bool { return r.Errors == 0 }

// Total is how many complete records there are.
func (r *Report) Total() int {
	n := 0
	for _, k := range r.Records {
		n += k
	}
	return n
}

func (r *Report) add(p Problem) {
	if p.Severity == Error {
		r.Errors++
	} else {
		r.Warnings++
	}
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, p)
	}
}

// Verify reads a whole file, plain or gzipped, and checks every record: that
// its gzip member is whole and its own, its header, its length, its digests,
// that no record id comes twice, and that nothing else is in the file. What is
// wrong is in the report; an error means that the file could not be read.
func Verify(ctx context.Context, path string) (*Report, error) {
	f, err := OS().Open(path)
	if err != nil {
		return nil, storageError("open", path, err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, storageError("stat", path, err)
	}
	return VerifyReaderAt(ctx, path, f, size)
}

// VerifyReaderAt is Verify for an open file; name is for the report.
func VerifyReaderAt(ctx context.Context, name string, at io.ReaderAt, size int64) (*Report, error) {
	v := verifier{
		report: &Report{File: name, Bytes: size, Records: map[RecordType]int{}},
		r:      NewReaderAt(at, size),
		ids:    map[[12]byte]int64{},
		plain:  !strings.Contains(filepath.Base(name), ".gz"),
	}
	v.r.OnProblem = v.report.add
	for {
		if err := ctx.Err(); err != nil {
			return v.report, err
		}
		e, err := v.r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return v.report, storageError("read", name, err)
		}
		if err := v.record(e); err != nil {
			return v.report, storageError("read", name, err)
		}
	}
	if v.records == 0 && v.report.Errors == 0 {
		v.report.add(Problem{Severity: Error, Kind: "junk", Text: "the file holds no record"})
	}
	return v.report, nil
}

type verifier struct {
	report  *Report
	r       *Reader
	ids     map[[12]byte]int64 // a hash of each record id, and where it was
	records int
	plain   bool

	head    []byte
	http    httpwire.Head
	entity  httpwire.Entity
	buf     [32 << 10]byte
	current *Entry
}

func (v *verifier) problem(sev Severity, kind, format string, args ...any) {
	e := v.current
	v.report.add(Problem{
		Severity: sev, Kind: kind, Offset: e.Offset,
		RecordID: e.Get("WARC-Record-ID"), Target: e.Get("WARC-Target-URI"), Text: fmt.Sprintf(format, args...),
	})
}

// record checks one record; an error is the file's own.
func (v *verifier) record(e *Entry) error {
	v.current = e
	v.fields(e)
	if v.records == 0 && e.Type != Warcinfo {
		v.problem(Warning, "warcinfo", "the file does not begin with a warcinfo record")
	}
	if !v.plain && e.InMember == 0 {
		v.problem(Error, "member", "the record is not compressed in a file named .gz")
	}
	v.records++
	checks := v.digests(e)
	if err := v.block(e, checks); err != nil {
		return err
	}
	if e.Close() != nil {
		return v.r.sourceErr() // the reader has reported the damage
	}
	v.report.Records[e.Type]++
	v.compare(e, checks)
	return nil
}

// block reads the block into the digests.
func (v *verifier) block(e *Entry, checks []digestCheck) error {
	isHTTP := hasPrefixFold(e.Get("Content-Type"), "application/http")
	sink := func(b []byte, take func(*digestCheck) bool) {
		for i := range checks {
			if take(&checks[i]) {
				checks[i].h.Write(b)
			}
		}
	}
	entity := func(b []byte) { sink(b, func(c *digestCheck) bool { return c.of == ofEntity }) }
	body := func(b []byte) {
		v.entity.Feed(b, entity)
		sink(b, func(c *digestCheck) bool { return c.of == ofFramed })
	}
	inHead := isHTTP
	v.head = v.head[:0]
	endHead := func(n int) {
		inHead = false
		v.httpHead(e, v.head[:n])
		v.entity.Reset(&v.http)
		body(v.head[n:])
	}
	if !isHTTP {
		v.http = httpwire.Head{}
		v.entity.Reset(&v.http) // the payload is the block
	}
	for {
		n, err := e.Block.Read(v.buf[:])
		b := v.buf[:n]
		sink(b, func(c *digestCheck) bool { return c.of == ofBlock })
		if inHead {
			v.head = append(v.head, b...)
			if end := httpwire.HeadEnd(v.head); end >= 0 {
				endHead(end)
			} else if len(v.head) > maxHTTPHead {
				endHead(len(v.head))
			}
		} else {
			body(b)
		}
		if err != nil {
			break // cut or broken: Close says it
		}
	}
	noHead := inHead && e.Type == Response
	if inHead {
		endHead(len(v.head))
	}
	if notes := v.entity.Finish(entity); noHead || notes.Has(httpwire.NoteChunkMalformed) {
		// The payload is not defined: neither digest can be called wrong.
		for i := range checks {
			checks[i].undefined = checks[i].of != ofBlock
		}
	}
	return v.r.sourceErr()
}

// httpHead parses the head of an HTTP block; one that cannot be parsed is the
// server's doing and only a warning.
func (v *verifier) httpHead(e *Entry, head []byte) {
	if e.Type == Request || len(head) == 0 {
		v.http = httpwire.Head{}
		if e.Type == Request && !bytes.Contains(head, []byte(" HTTP/")) {
			v.problem(Warning, "http", "the block is no HTTP request: %.60q", head)
		}
		return
	}
	if _, err := v.http.ParseStored(head); err != nil {
		v.problem(Warning, "http", "the block is no HTTP response: %v", err)
		v.http = httpwire.Head{}
	}
}

type digestOf uint8

const (
	ofBlock  digestOf = iota
	ofEntity          // the payload by the standard
	ofFramed          // the body as it is stored, chunk framing included
)

type digestCheck struct {
	of        digestOf
	alg       string
	want      []byte
	h         hash.Hash
	undefined bool
}

// digests prepares the digests that the header asks to check.
func (v *verifier) digests(e *Entry) []digestCheck {
	var checks []digestCheck
	prepare := func(field, kind string, ofs ...digestOf) {
		value := e.Get(field)
		if value == "" {
			return
		}
		alg, want, err := parseDigest(value)
		if err != nil {
			v.problem(Warning, kind, "%s cannot be checked: %v", field, err)
			return
		}
		for _, of := range ofs {
			checks = append(checks, digestCheck{of: of, alg: alg, want: want, h: newHash(alg)})
		}
	}
	prepare("WARC-Block-Digest", "block-digest", ofBlock)
	// A revisit's payload is elsewhere, a segment's is more than its block.
	if e.Type != Revisit && e.Type != Continuation && !e.Has("WARC-Segment-Number") {
		prepare("WARC-Payload-Digest", "payload-digest", ofEntity, ofFramed)
	}
	return checks
}

func (v *verifier) compare(e *Entry, checks []digestCheck) {
	var entityOK, framedOK, payload bool
	var got string
	for _, c := range checks {
		sum := c.h.Sum(nil)
		ok := bytes.Equal(sum, c.want)
		switch {
		case c.undefined:
		case c.of == ofBlock && ok:
			v.report.Digests++
		case c.of == ofBlock:
			v.problem(Error, "block-digest", "WARC-Block-Digest is %s, the block's is %s", e.Get("WARC-Block-Digest"), formatDigest(c.alg, sum))
		case c.of == ofEntity:
			payload, entityOK, got = true, ok, formatDigest(c.alg, sum)
		case c.of == ofFramed:
			framedOK = ok
		}
	}
	switch {
	case !payload:
	case entityOK:
		v.report.Digests++
	case framedOK:
		v.problem(Warning, "payload-digest", "WARC-Payload-Digest covers the chunk framing; ISO 28500 section 6.3.2 says without transfer coding, which is %s", got)
	default:
		v.problem(Error, "payload-digest", "WARC-Payload-Digest is %s, the payload's is %s", e.Get("WARC-Payload-Digest"), got)
	}
}

func formatDigest(alg string, sum []byte) string {
	if alg == "sha1" {
		return Digest(sum).String()
	}
	return fmt.Sprintf("%s:%x", alg, sum)
}

// fields checks the header against sections 5 and 6.
func (v *verifier) fields(e *Entry) {
	seen := map[string]bool{}
	for _, f := range e.Fields {
		name := strings.ToLower(f.Name)
		if seen[name] && name != "warc-concurrent-to" && knownField[name] {
			v.problem(Error, "field", "%s is given more than once", f.Name)
		}
		seen[name] = true
	}
	need := func(name string) string {
		value := e.Get(name)
		if value == "" {
			v.problem(Error, "field", "%s is missing", name)
		}
		return value
	}
	if t := need("WARC-Type"); t != "" && e.Type == 0 {
		v.problem(Warning, "field", "WARC-Type %q is not of the standard", t)
	}
	v.id(e, need("WARC-Record-ID"))
	if d := need("WARC-Date"); d != "" && !validDate(d) {
		v.problem(Error, "field", "WARC-Date is %q; a form of 2006-01-02T15:04:05Z is right", d)
	}
	switch e.Type {
	case Response, Resource, Request, Revisit, Conversion, Continuation:
		v.target(need("WARC-Target-URI"))
	case Warcinfo:
		if e.Has("WARC-Target-URI") {
			v.problem(Warning, "field", "a warcinfo record has no WARC-Target-URI")
		}
	}
	if e.ContentLength > 0 && e.Type != Continuation && !e.Has("Content-Type") {
		v.problem(Warning, "field", "Content-Type is missing")
	}
	if e.Has("WARC-Concurrent-To") && (e.Type == Warcinfo || e.Type == Conversion || e.Type == Continuation) {
		v.problem(Error, "field", "WARC-Concurrent-To may not be in a %s record", e.Type)
	}
	if e.Type == Revisit {
		if need("WARC-Profile") == ProfileIdenticalPayload {
			need("WARC-Payload-Digest")
		}
	}
	if e.Type == Continuation {
		need("WARC-Segment-Number")
		need("WARC-Segment-Origin-ID")
	}
	if t := e.Get("WARC-Truncated"); t != "" && !Truncation(t).known() {
		v.problem(Warning, "field", "WARC-Truncated is %q; length, time, disconnect and unspecified are known", t)
	}
	if ip := e.Get("WARC-IP-Address"); ip != "" {
		if _, err := netip.ParseAddr(ip); err != nil {
			v.problem(Error, "field", "WARC-IP-Address is %q, not an address", ip)
		}
	}
}

// knownField are the standard's fields, which may come once.
var knownField = func() map[string]bool {
	m := map[string]bool{}
	for _, f := range strings.Fields(`warc-type warc-record-id warc-date content-length content-type warc-concurrent-to
		warc-block-digest warc-payload-digest warc-ip-address warc-refers-to warc-refers-to-target-uri warc-refers-to-date
		warc-target-uri warc-truncated warc-warcinfo-id warc-filename warc-profile warc-identified-payload-type
		warc-segment-number warc-segment-origin-id warc-segment-total-length`) {
		m[f] = true
	}
	return m
}()

func (v *verifier) id(e *Entry, id string) {
	if id == "" {
		return
	}
	inner, ok := strings.CutPrefix(id, "<")
	if inner, ok2 := strings.CutSuffix(inner, ">"); !ok || !ok2 || !hasScheme(inner) {
		v.problem(Error, "field", "WARC-Record-ID is %q; a URI in angle brackets is right", id)
	}
	sum := sha1.Sum([]byte(id))
	key := [12]byte(sum[:12])
	if at, dup := v.ids[key]; dup {
		v.problem(Error, "duplicate-id", "the record at offset %d has the same WARC-Record-ID", at)
		return
	}
	v.ids[key] = e.Offset
}

func (v *verifier) target(uri string) {
	switch {
	case uri == "":
	case strings.HasPrefix(uri, "<") && strings.HasSuffix(uri, ">"):
		v.problem(Warning, "field", "WARC-Target-URI is in angle brackets; WARC 1.1 writes it without")
	case !hasScheme(uri) || strings.ContainsAny(uri, " \t"):
		v.problem(Error, "field", "WARC-Target-URI %.100q is no absolute URI", uri)
	}
}

func hasScheme(s string) bool {
	scheme, _, ok := strings.Cut(s, ":")
	if !ok || scheme == "" {
		return false
	}
	u, err := url.Parse(scheme + ":x")
	return err == nil && u.Scheme != ""
}

// validDate takes the forms of section 5.4: any precision from the year on in
// WARC 1.1, up to nine digits of a second.
func validDate(s string) bool {
	for _, layout := range [...]string{time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02", "2006-01", "2006"} {
		if _, err := time.Parse(layout, s); err == nil {
			return true
		}
	}
	return false
}
