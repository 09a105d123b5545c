package httpwire

import (
	"bytes"
	"errors"
	"fmt"
	"math"
)

// Errors of the framing.
var (
	// ErrLengthConflict: two different lengths were given (RFC 9112 section 6.3).
	ErrLengthConflict = errors.New("httpwire: different Content-Length values in one response")
	// ErrBadLength: the length is not a number of bytes.
	ErrBadLength = errors.New("httpwire: Content-Length is not a number")
)

// FramingKind is how the end of a body is known.
type FramingKind uint8

const (
	// FramingNone: there is no body.
	FramingNone FramingKind = iota
	// FramingLength: the body is Length bytes.
	FramingLength
	// FramingChunked: the body ends with its last chunk.
	FramingChunked
	// FramingClose: the body ends with the connection.
	FramingClose
)

// Framing is how a body is delimited.
type Framing struct {
	Kind   FramingKind
	Length int64
}

// Framing tells how the body of the response to a request of that method ends,
// by RFC 9112 section 6.3. Notes about it are added to h.Notes.
func (h *Head) Framing(method string) (Framing, error) {
	if method == "HEAD" || h.Status/100 == 1 || h.Status == 204 || h.Status == 304 {
		return Framing{Kind: FramingNone}, nil
	}
	if te := h.transfer(); te.any {
		if h.Get("Content-Length") != nil {
			h.Notes |= NoteLengthIgnored
		}
		if te.chunked {
			return Framing{Kind: FramingChunked}, nil
		}
		return Framing{Kind: FramingClose}, nil
	}
	n, ok, err := h.ContentLength()
	switch {
	case err != nil:
		return Framing{}, err
	case ok:
		return Framing{Kind: FramingLength, Length: n}, nil
	}
	return Framing{Kind: FramingClose}, nil
}

// Chunked reports whether the body is chunked: chunked is the last transfer
// coding, whatever the version of the response says.
func (h *Head) Chunked() bool { return h.transfer().chunked }

type transferCodings struct {
	any     bool // a coding other than identity is named
	chunked bool // the last one is chunked
}

func (h *Head) transfer() (t transferCodings) {
	for e := range h.Elements("Transfer-Encoding") {
		if i := bytes.IndexByte(e, ';'); i >= 0 {
			e = trimOWS(e[:i])
		}
		if equalFold(e, "identity") {
			continue
		}
		t.any, t.chunked = true, equalFold(e, "chunked")
	}
	return t
}

// ContentLength returns the length said, and whether one is said at all. The
// same value repeated counts as one (RFC 9110 section 8.6); digits before a
// NUL count alone, as in browsers.
func (h *Head) ContentLength() (n int64, ok bool, err error) {
	for e := range h.Elements("Content-Length") {
		v, err := parseLength(e)
		if err != nil {
			return 0, false, err
		}
		if ok {
			if v != n {
				return 0, false, fmt.Errorf("%w: %d and %d", ErrLengthConflict, n, v)
			}
			h.Notes |= NoteLengthRepeated
		}
		n, ok = v, true
	}
	return n, ok, nil
}

func parseLength(b []byte) (int64, error) {
	d := b
	if i := bytes.IndexByte(d, 0); i >= 0 {
		d = trimOWS(d[:i])
	}
	if len(d) == 0 {
		return 0, fmt.Errorf("%w: %q", ErrBadLength, clip(b))
	}
	var n int64
	for _, c := range d {
		if !isDigit(c) || n > (math.MaxInt64-int64(c-'0'))/10 {
			return 0, fmt.Errorf("%w: %q", ErrBadLength, clip(b))
		}
		n = n*10 + int64(c-'0')
	}
	return n, nil
}
