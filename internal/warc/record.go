package warc

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"time"
)

// RecordType is the WARC-Type of a record.
type RecordType uint8

// The types of ISO 28500 section 5.5; continuation is read and never written.
const (
	Warcinfo RecordType = iota + 1
	Response
	Resource
	Request
	Metadata
	Revisit
	Conversion
	Continuation
)

var typeNames = [...]string{
	Warcinfo: "warcinfo", Response: "response", Resource: "resource", Request: "request",
	Metadata: "metadata", Revisit: "revisit", Conversion: "conversion", Continuation: "continuation",
}

// String returns the type as headers write it.
func (t RecordType) String() string {
	if t == 0 || int(t) >= len(typeNames) {
		return "unknown"
	}
	return typeNames[t]
}

func parseType(s string) RecordType {
	for t, name := range typeNames {
		if name != "" && name == s {
			return RecordType(t)
		}
	}
	return 0
}

// The profiles of revisit records (sections 6.7.2 and 6.7.3).
const (
	ProfileIdenticalPayload = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
	ProfileNotModified      = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
)

// Truncation is a WARC-Truncated reason; empty means not truncated.
type Truncation string

// The reasons of section 5.13.
const (
	TruncatedLength      Truncation = "length"
	TruncatedTime        Truncation = "time"
	TruncatedDisconnect  Truncation = "disconnect"
	TruncatedUnspecified Truncation = "unspecified"
)

func (t Truncation) known() bool {
	switch t {
	case TruncatedLength, TruncatedTime, TruncatedDisconnect, TruncatedUnspecified:
		return true
	}
	return false
}

// ID is a record's UUID. The zero value means none.
type ID [16]byte

// NewID returns a random (version 4) id.
func NewID() ID {
	var id ID
	a, b := rand.Uint64(), rand.Uint64()
	for i := range 8 {
		id[i], id[8+i] = byte(a>>(8*i)), byte(b>>(8*i))
	}
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

// String returns the URN without angle brackets.
func (id ID) String() string {
	b := id.append(nil)
	return string(b[1 : len(b)-1])
}

func (id ID) append(b []byte) []byte {
	b = append(b, "<urn:uuid:"...)
	for i, part := range [...][]byte{id[0:4], id[4:6], id[6:8], id[8:10], id[10:16]} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, part)
	}
	return append(b, '>')
}

// Field is one named field of a record's header or of a warc-fields block.
type Field struct {
	Name, Value string
}

// Location is where a record or the records of one Write lie.
type Location struct {
	// File is the final name, without folder. While the file is being written
	// it has the suffix [OpenSuffix] on disk.
	File string
	// Offset is where the first byte is, Length how many bytes there are, both
	// in the compressed file.
	Offset, Length int64
}

// Record is one record to write. The block is Head, Body, BodyParts and BodyAt
// one after the other; all are only read, and not kept after Write returned.
type Record struct {
	Type RecordType
	// ID is made by Write where it is zero.
	ID ID
	// Date is when the capture began; the writer's clock where it is zero.
	// It is written in UTC with milliseconds.
	Date time.Time
	// TargetURI is the URI as it was requested; it must be absolute.
	TargetURI string
	// IP is the address that was connected.
	IP netip.Addr
	// ContentType of the block; the type's usual one where it is empty.
	ContentType string
	// PayloadType is the identified media type of the payload, if any.
	PayloadType string
	Truncated   Truncation
	// ConcurrentTo is the record of the same capture event; Write sets it to the
	// first record's id on the later ones where the type allows it and it is zero.
	ConcurrentTo ID

	// Profile, RefersTo, RefersToURI and RefersToDate are for revisits;
	// RefersTo also for metadata and conversions.
	Profile      string
	RefersTo     ID
	RefersToURI  string
	RefersToDate time.Time

	// PayloadDigest is computed where it is zero and the type has a payload. A
	// caller that has it saves the work; a revisit must bring it. It is cleared on
	// a response whose Head is not exactly one head with its empty line.
	PayloadDigest Digest

	// Fields are further header fields.
	Fields []Field

	// Head is the protocol head with its empty line (requests, responses,
	// revisits); the payload begins after it.
	Head      []byte
	Body      []byte
	BodyParts [][]byte
	// BodyAt holds BodySize bytes; it is read up to twice, in pieces.
	BodyAt   io.ReaderAt
	BodySize int64

	// Location is set by Write.
	Location Location
}

// ErrBadRecord is a record that cannot be written as it is.
var ErrBadRecord = errors.New("warc: bad record")

func (r *Record) bodyLen() int64 {
	n := int64(len(r.Body))
	for _, p := range r.BodyParts {
		n += int64(len(p))
	}
	if r.BodyAt != nil {
		n += r.BodySize
	}
	return n
}

// hasHTTP reports whether the block is an HTTP message.
func (r *Record) hasHTTP() bool {
	switch r.Type {
	case Request, Response, Revisit:
		return r.ContentType == "" || hasPrefixFold(r.ContentType, "application/http")
	}
	return false
}

// hasPayload reports whether a payload digest belongs into the header.
func (r *Record) hasPayload() bool {
	return r.Type == Response || r.Type == Resource || r.Type == Conversion
}

func (r *Record) contentType() string {
	if r.ContentType != "" {
		return r.ContentType
	}
	switch r.Type {
	case Request:
		return "application/http; msgtype=request"
	case Response, Revisit:
		return "application/http; msgtype=response"
	case Warcinfo, Metadata:
		return "application/warc-fields"
	}
	return "application/octet-stream"
}

// check refuses what would make a file that Verify refuses.
func (r *Record) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s of %q: %s", ErrBadRecord, r.Type, r.TargetURI, fmt.Sprintf(format, args...))
	}
	if r.Type == 0 || r.Type >= Continuation {
		return bad("type %d cannot be written", r.Type)
	}
	if r.TargetURI == "" && r.Type != Warcinfo && r.Type != Metadata {
		return bad("TargetURI is missing")
	}
	if r.Truncated != "" && !r.Truncated.known() {
		return bad("Truncated is %q; it must be length, time, disconnect or unspecified", r.Truncated)
	}
	if r.Type == Revisit {
		if r.Profile == "" {
			return bad("Profile is missing")
		}
		if r.Profile == ProfileIdenticalPayload && r.PayloadDigest.IsZero() {
			return bad("the identical-payload-digest profile needs PayloadDigest")
		}
	}
	if r.BodyAt != nil && r.BodySize < 0 {
		return bad("BodySize is %d", r.BodySize)
	}
	for _, s := range [...]string{r.TargetURI, r.ContentType, r.PayloadType, r.Profile, r.RefersToURI} {
		if hasControl(s) {
			return bad("a header value holds a control byte: %.80q", s)
		}
	}
	for _, f := range r.Fields {
		if f.Name == "" || !isToken(f.Name) || hasControl(f.Value) {
			return bad("header field %.80q: %.80q cannot be written", f.Name, f.Value)
		}
	}
	return nil
}

const dateLayout = "2006-01-02T15:04:05.000Z"

// appendHeader appends the record's header with its empty line.
func (r *Record) appendHeader(b []byte, blockDigest Digest, length int64) []byte {
	field := func(name, value string) {
		if value != "" {
			b = append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
		}
	}
	id := func(name string, v ID) {
		if v != (ID{}) {
			b = append(v.append(append(append(b, name...), ": "...)), "\r\n"...)
		}
	}
	date := func(name string, t time.Time) {
		b = append(t.UTC().AppendFormat(append(append(b, name...), ": "...), dateLayout), "\r\n"...)
	}
	digest := func(name string, d Digest) {
		if !d.IsZero() {
			b = append(d.append(append(append(b, name...), ": "...)), "\r\n"...)
		}
	}
	b = append(b, "WARC/1.1\r\n"...)
	field("WARC-Type", r.Type.String())
	id("WARC-Record-ID", r.ID)
	date("WARC-Date", r.Date)
	field("WARC-Target-URI", r.TargetURI)
	if r.IP.IsValid() {
		b = append(b, "WARC-IP-Address: "...)
		b = append(r.IP.Unmap().WithZone("").AppendTo(b), "\r\n"...)
	}
	id("WARC-Concurrent-To", r.ConcurrentTo)
	if r.Type == Revisit {
		field("WARC-Profile", r.Profile)
		field("WARC-Refers-To-Target-URI", r.RefersToURI)
		if !r.RefersToDate.IsZero() {
			date("WARC-Refers-To-Date", r.RefersToDate)
		}
	}
	if r.Type == Revisit || r.Type == Metadata || r.Type == Conversion {
		id("WARC-Refers-To", r.RefersTo)
	}
	field("WARC-Truncated", string(r.Truncated))
	field("WARC-Identified-Payload-Type", r.PayloadType)
	digest("WARC-Payload-Digest", r.PayloadDigest)
	digest("WARC-Block-Digest", blockDigest)
	for _, f := range r.Fields {
		field(f.Name, f.Value)
	}
	field("Content-Type", r.contentType())
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, length, 10)
	return append(b, "\r\n\r\n"...)
}

func hasControl(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] == 0x7f {
			return true
		}
	}
	return false
}

func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= 0x20 || c >= 0x7f || c == ':' {
			return false
		}
	}
	return true
}

func lowerASCII(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func hasPrefixFold(s, prefix string) bool {
	if len(s) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if lowerASCII(s[i]) != lowerASCII(prefix[i]) {
			return false
		}
	}
	return true
}

func equalFold(a, b string) bool { return len(a) == len(b) && hasPrefixFold(a, b) }
