package wire

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"time"

	"lycosa.dev/internal/httpwire"
)

// Head is what the exchange needs to know of a header block. It refers to no
// memory but its own.
type Head struct {
	// Status is the HTTP status, 100 to 999.
	Status int
	// Protocol is "http/1.1" or "http/1.0" as the status line says, by its ALPN
	// name.
	Protocol string
	// Framing is how the body ends.
	Framing httpwire.Framing
	// KeepAlive tells whether the server will take another request.
	KeepAlive bool
	// KeepAliveTimeout is how long the server says it keeps the connection
	// open without a request; 0: it does not say.
	KeepAliveTimeout time.Duration
	// RetryAfter is the value of Retry-After; empty: none.
	RetryAfter string
	// Notes and Odd are what was tolerated.
	Notes Note
	Odd   httpwire.Note
}

// ProtocolError tells that the bytes received are no HTTP response that can be
// kept. Code is short and fixed; Detail says it in words.
type ProtocolError struct {
	Code, Detail string
}

// Error returns the code and the words.
func (e *ProtocolError) Error() string { return e.Code + ": " + e.Detail }

// Start is what the first bytes of a response are.
type Start uint8

// What the first bytes can be.
const (
	StartUnknown Start = iota // too few bytes to tell
	StartHTTP                 // a status line begins
	StartOther                // something else: HTTP/0.9 or no HTTP at all
)

// maxSlop is how many bytes of junk before a status line are skipped, as
// browsers do; empty lines before it do not count.
const maxSlop = 4

// FindStart tells whether a status line begins in b, and where: line ends left
// over from an earlier response and a little junk are skipped. eof says that
// no more bytes will come.
func FindStart(b []byte, eof bool) (at int, s Start) {
	for at < len(b) && (b[at] == '\r' || b[at] == '\n') {
		at++
	}
	rest := b[at:]
	for i := 0; i <= maxSlop; i++ {
		if len(rest) < i+4 {
			if !eof && mayBegin(rest, i) {
				return 0, StartUnknown
			}
			continue
		}
		if equalFold(rest[i:i+4], "http") || (i == 0 && equalFold(rest[:4], "icy ")) {
			return at + i, StartHTTP
		}
	}
	return 0, StartOther
}

// mayBegin tells whether the bytes from i on could still become "http" (or
// "icy " at 0).
func mayBegin(b []byte, i int) bool {
	if i >= len(b) {
		return true
	}
	tail := b[i:]
	return equalFold(tail, "http"[:len(tail)]) || (i == 0 && equalFold(tail, "icy "[:len(tail)]))
}

// FindEnd returns the length of the header block at the start of b, with its
// empty line, or 0 if its end is not in b. from is how much of b is known to
// hold no end.
func FindEnd(b []byte, from int) int {
	i := max(from-2, 0)
	for {
		n := bytes.IndexByte(b[i:], '\n')
		if n < 0 {
			return 0
		}
		i += n + 1
		switch {
		case i < len(b) && b[i] == '\n':
			return i + 1
		case i+1 < len(b) && b[i] == '\r' && b[i+1] == '\n':
			return i + 2
		}
	}
}

// maxKeptFields is for how many fields the memory of a head is kept; few
// servers send more than 50.
const maxKeptFields = 256

// Parse reads a whole header block, as found by FindStart and FindEnd. scratch
// is used again and again and refers to b no more when Parse returns. The error
// is a *ProtocolError.
func Parse(b []byte, scratch *httpwire.Head) (Head, error) {
	var h Head
	defer func() {
		clear(scratch.Fields)
		if cap(scratch.Fields) > maxKeptFields {
			scratch.Fields = nil
		}
	}()
	if _, err := scratch.Parse(b); err != nil {
		return h, protocolError(err)
	}
	h.Status = scratch.Status
	var err error
	h.Framing, err = scratch.Framing("GET")
	switch {
	case errors.Is(err, httpwire.ErrBadLength):
		// Browsers read on until the connection ends.
		h.Framing = httpwire.Framing{Kind: httpwire.FramingClose}
		h.Notes |= NoteBadLength
	case err != nil:
		return h, protocolError(err)
	}
	h.Odd = scratch.Notes & Told
	http10 := scratch.Major < 1 || (scratch.Major == 1 && scratch.Minor == 0)
	h.KeepAlive = !http10
	h.Protocol = "http/1.1"
	if http10 {
		h.Protocol = "http/1.0"
	}
	for i := range scratch.Fields {
		h.field(&scratch.Fields[i], http10)
	}
	switch h.Framing.Kind {
	case httpwire.FramingClose:
		h.KeepAlive = false
	case httpwire.FramingChunked:
		if http10 { // RFC 9112 section 6.1: the framing is to be taken for faulty
			h.Notes |= NoteChunkedHTTP10
			h.KeepAlive = false
		}
	}
	return h, nil
}

// field takes one header field into account, if it is about the connection.
func (h *Head) field(f *httpwire.Field, http10 bool) {
	switch len(f.Name) {
	case 10:
		switch {
		case equalFold(f.Name, "connection"):
			if hasToken(f.Value, "close") {
				h.KeepAlive = false
			} else if http10 && hasToken(f.Value, "keep-alive") {
				h.KeepAlive = true
			}
		case equalFold(f.Name, "keep-alive"):
			h.KeepAliveTimeout = keepAliveTimeout(f.Value)
		}
	case 11:
		if equalFold(f.Name, "retry-after") && len(f.Value) <= 64 {
			h.RetryAfter = string(f.Value)
		}
	}
}

func protocolError(err error) *ProtocolError {
	code := "bad-response"
	switch {
	case errors.Is(err, httpwire.ErrNoStatusLine):
		code = "bad-status-line"
	case errors.Is(err, httpwire.ErrBadStatus):
		code = "bad-status"
	case errors.Is(err, httpwire.ErrLengthConflict):
		code = "content-length-conflict"
	}
	return &ProtocolError{code, strings.TrimPrefix(err.Error(), "httpwire: ")}
}

var comma = []byte(",")

// keepAliveTimeout reads "timeout=5, max=100".
func keepAliveTimeout(value []byte) time.Duration {
	for p := range bytes.SplitSeq(value, comma) {
		p = bytes.TrimSpace(p)
		if len(p) > 8 && equalFold(p[:8], "timeout=") {
			if n, err := strconv.ParseUint(string(p[8:]), 10, 20); err == nil {
				return time.Duration(n) * time.Second
			}
		}
	}
	return 0
}

func hasToken(value []byte, token string) bool {
	for p := range bytes.SplitSeq(value, comma) {
		if equalFold(bytes.TrimSpace(p), token) {
			return true
		}
	}
	return false
}

// equalFold compares ASCII without regard to case; s is in lower case.
func equalFold(b []byte, s string) bool {
	if len(b) != len(s) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != s[i] {
			return false
		}
	}
	return true
}
