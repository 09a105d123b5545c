package wire

import (
	"bytes"
	"fmt"
	"time"
)

// Framing says how the end of a body is found (RFC 9112 section 6.3).
type Framing uint8

// The ways a body ends.
const (
	FramingNone    Framing = iota // there is no body
	FramingLength                 // after Content-Length bytes
	FramingChunked                // after the last chunk and its trailer
	FramingClose                  // with the connection
)

// Head is what the exchange needs to know of a header block. It refers to no
// memory but its own.
type Head struct {
	// Status is the HTTP status, 100 to 999.
	Status int
	// HTTP10 is true for versions below 1.1.
	HTTP10 bool
	// Framing is how the body ends.
	Framing Framing
	// Length is the body's length where Framing is FramingLength.
	Length int64
	// KeepAlive tells whether the server will take another request.
	KeepAlive bool
	// KeepAliveTimeout is how long the server says it keeps the connection
	// open without a request; 0: it does not say.
	KeepAliveTimeout time.Duration
	// RetryAfter is the value of Retry-After; empty: none.
	RetryAfter string
	// Notes is what was tolerated.
	Notes Note
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
			if eof {
				return 0, StartOther
			}
			if mayBegin(rest, i) {
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

// Parse reads a whole header block, as found by FindStart and FindEnd. The
// error is a *ProtocolError.
func Parse(b []byte) (Head, error) {
	var h Head
	line, rest := cutLine(b, &h.Notes)
	if err := h.statusLine(line); err != nil {
		return h, err
	}
	var f fields
	for len(rest) > 0 {
		line, rest = cutLine(rest, &h.Notes)
		if len(line) == 0 {
			break
		}
		if len(rest) > 0 && (rest[0] == ' ' || rest[0] == '\t') {
			h.Notes |= NoteFoldedHeader
			line, rest = unfold(line, rest, &h.Notes)
		}
		h.field(line, &f)
	}
	return h, h.frame(&f)
}

// fields gathers what several header lines may say together.
type fields struct {
	length                    int64
	lengths                   int
	conflict                  bool
	chunked, close, keepAlive bool
}

// cutLine returns the first line of b without its end, and the rest.
func cutLine(b []byte, notes *Note) (line, rest []byte) {
	n := bytes.IndexByte(b, '\n')
	if n < 0 {
		return b, nil
	}
	line, rest = b[:n], b[n+1:]
	if n > 0 && line[n-1] == '\r' {
		return line[:n-1], rest
	}
	*notes |= NoteBareLF
	return line, rest
}

// unfold joins a line with the lines that continue it (RFC 9112 section 5.2).
func unfold(line, rest []byte, notes *Note) (joined, after []byte) {
	joined = append(make([]byte, 0, 2*len(line)+64), line...)
	for len(rest) > 0 && (rest[0] == ' ' || rest[0] == '\t') {
		var more []byte
		more, rest = cutLine(rest, notes)
		joined = append(append(joined, ' '), more...)
	}
	return joined, rest
}

// statusLine reads "HTTP/1.1 200 OK" and what servers send in its stead.
func (h *Head) statusLine(line []byte) error {
	i := 4
	if equalFold(line[:min(4, len(line))], "icy ") {
		h.HTTP10 = true
		h.Notes |= NoteOddStatusLine
		i = 3
	} else {
		major, minor, n := version(line[min(4, len(line)):])
		h.HTTP10 = major == 0 || (major == 1 && minor == 0)
		if n == 0 || major != 1 {
			h.Notes |= NoteOddStatusLine
		}
		i += n
	}
	rest := line[min(i, len(line)):]
	trimmed := bytes.TrimLeft(rest, " \t")
	n := 0
	for n < len(trimmed) && '0' <= trimmed[n] && trimmed[n] <= '9' {
		n++
	}
	switch {
	case n == 0:
		h.Status = 200
		h.Notes |= NoteNoStatus
		return nil
	case n != 3 || trimmed[0] == '0':
		return &ProtocolError{"bad-status", fmt.Sprintf("status line %q: want a status of three digits", clip(line))}
	}
	h.Status = int(trimmed[0]-'0')*100 + int(trimmed[1]-'0')*10 + int(trimmed[2]-'0')
	if len(rest)-len(trimmed) != 1 || rest[0] != ' ' || (n < len(trimmed) && trimmed[n] != ' ') {
		h.Notes |= NoteOddStatusLine
	}
	return nil
}

// version reads "/1.1" at the start of b and returns the number of bytes read,
// 0 where there is no version (then it counts as 1.0, as in browsers).
func version(b []byte) (major, minor, n int) {
	if len(b) < 2 || b[0] != '/' || b[1] < '0' || b[1] > '9' {
		return 1, 0, 0
	}
	if len(b) >= 4 && b[2] == '.' && b[3] >= '0' && b[3] <= '9' {
		return int(b[1] - '0'), int(b[3] - '0'), 4
	}
	return int(b[1] - '0'), 0, 2
}

// field takes one header line into account.
func (h *Head) field(line []byte, f *fields) {
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 || line[0] == ' ' || line[0] == '\t' {
		h.Notes |= NoteBadHeaderLine
		return
	}
	name := bytes.TrimRight(line[:colon], " \t")
	value := bytes.Trim(line[colon+1:], " \t\r")
	switch len(name) {
	case 10:
		switch {
		case equalFold(name, "connection"):
			f.close = f.close || hasToken(value, "close")
			f.keepAlive = f.keepAlive || hasToken(value, "keep-alive")
		case equalFold(name, "keep-alive"):
			h.KeepAliveTimeout = keepAliveTimeout(value)
		}
	case 11:
		if equalFold(name, "retry-after") && len(value) <= 64 {
			h.RetryAfter = string(value)
		}
	case 14:
		if equalFold(name, "content-length") {
			h.contentLength(value, f)
		}
	case 17:
		if equalFold(name, "transfer-encoding") {
			for coding := range bytes.SplitSeq(value, comma) {
				switch coding = bytes.Trim(coding, " \t"); {
				case equalFold(coding, "chunked"):
					f.chunked = true
				case len(coding) > 0 && !equalFold(coding, "identity"):
					h.Notes |= NoteTransferCoding
				}
			}
		}
	}
}

var comma = []byte(",")

// contentLength reads one Content-Length value, which may be a list of equal
// numbers (RFC 9110 section 8.6).
func (h *Head) contentLength(value []byte, f *fields) {
	for part := range bytes.SplitSeq(value, comma) {
		n, ok := number(bytes.Trim(part, " \t"))
		if !ok {
			h.Notes |= NoteBadContentLength
		}
		if n < 0 {
			continue
		}
		if f.lengths++; f.lengths > 1 {
			if n != f.length {
				f.conflict = true
			} else {
				h.Notes |= NoteLengthRepeated
			}
			continue
		}
		f.length = n
	}
}

// number reads a decimal number. A NUL ends it, as in browsers. ok is false if
// anything but digits was there, n is negative if no number was found.
func number(b []byte) (n int64, ok bool) {
	ok = true
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b, ok = b[:i], false
	}
	if len(b) == 0 || len(b) > 18 {
		return -1, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return -1, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, ok
}

// frame decides how the body ends (RFC 9112 section 6.3).
func (h *Head) frame(f *fields) error {
	h.KeepAlive = !f.close && (!h.HTTP10 || f.keepAlive)
	switch {
	case h.Status < 200 || h.Status == 204 || h.Status == 304:
		h.Framing = FramingNone
	case f.chunked:
		h.Framing = FramingChunked
		if f.lengths > 0 {
			h.Notes |= NoteLengthAndChunked
		}
		if h.HTTP10 {
			h.Notes |= NoteChunkedHTTP10
			h.KeepAlive = false
		}
	case f.conflict:
		return &ProtocolError{"content-length-conflict", "several Content-Length header lines with different values (RFC 9112 section 6.3)"}
	case f.lengths > 0:
		h.Framing, h.Length = FramingLength, f.length
	default:
		h.Framing = FramingClose
		h.KeepAlive = false
	}
	return nil
}

// keepAliveTimeout reads "timeout=5, max=100".
func keepAliveTimeout(value []byte) time.Duration {
	for p := range bytes.SplitSeq(value, comma) {
		p = bytes.TrimSpace(p)
		if len(p) > 8 && equalFold(p[:8], "timeout=") {
			if n, ok := number(p[8:]); ok && n > 0 && n < 1e6 {
				return time.Duration(n) * time.Second
			}
		}
	}
	return 0
}

func hasToken(value []byte, token string) bool {
	for p := range bytes.SplitSeq(value, comma) {
		if equalFold(bytes.Trim(p, " \t"), token) {
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

func clip(b []byte) []byte { return b[:min(len(b), 80)] }
