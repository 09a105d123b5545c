package fetch

import (
	"net/netip"
	"time"

	"lycosa.dev/downloader/internal/bufpool"
	"lycosa.dev/downloader/internal/wire"
	"lycosa.dev/internal/httpwire"
)

// Class says in which stage an exchange ended.
type Class uint8

// The classes of outcomes.
const (
	ClassResponse   Class = iota + 1 // a response with an HTTP status came
	ClassConnect                     // no TCP connection, or it broke before the first byte
	ClassTLS                         // no TLS session
	ClassTimeout                     // a time limit passed before a response could be kept
	ClassProtocol                    // what came is no HTTP response
	ClassPolicy                      // a rule of ours forbade it
	ClassNotStarted                  // given up before the server can have acted: not a try
	ClassContent                     // a response came that is beyond our limits: the page's failure, not its server's
	ClassCancelled                   // broken off on our side after the request was sent
)

// String names the class for metrics and logs.
func (c Class) String() string {
	switch c {
	case ClassResponse:
		return "response"
	case ClassConnect:
		return "connect"
	case ClassTLS:
		return "tls"
	case ClassTimeout:
		return "timeout"
	case ClassProtocol:
		return "protocol"
	case ClassContent:
		return "content"
	case ClassPolicy:
		return "policy"
	case ClassNotStarted:
		return "not_started"
	case ClassCancelled:
		return "cancelled"
	}
	return "unknown"
}

// Truncation is a WARC-Truncated reason (WARC 1.1 section 5.13); empty: whole.
type Truncation string

// The reasons.
const (
	TruncatedLength      Truncation = "length"
	TruncatedTime        Truncation = "time"
	TruncatedDisconnect  Truncation = "disconnect"
	TruncatedUnspecified Truncation = "unspecified"
)

// Timings are the lengths of an exchange's phases; 0 where one did not occur.
type Timings struct {
	Connect   time.Duration // TCP connect, over all addresses tried
	TLS       time.Duration // handshake
	FirstByte time.Duration // from the request's last byte to the response's first
	Body      time.Duration // from the response's first byte to its last
	Total     time.Duration // all of it
}

// Result is what came of an exchange.
type Result struct {
	// Class says in which stage it ended.
	Class Class
	// Code is a short fixed word for a failure or a cut body; "" for a whole
	// response.
	Code string
	// Detail says Code in words.
	Detail string
	// Status is the HTTP status; 0 without a response, and for HTTP/0.9 200.
	Status int
	// Truncated says why the body is not whole.
	Truncated Truncation
	// Notes is what was tolerated in the exchange, Odd what was odd in the
	// response's own bytes.
	Notes wire.Note
	Odd   httpwire.Note
	// Started is when the exchange began, by the wall clock.
	Started time.Time
	// Timings are the phases' lengths.
	Timings Timings
	// Address is the address connected to, or tried last.
	Address netip.AddrPort
	// SentBytes and ReceivedBytes count the wire above TLS.
	SentBytes, ReceivedBytes int64
	// BodyBytes is the length of the body handed on, framing included.
	BodyBytes int64
	// Reused tells that a kept connection was used.
	Reused bool
	// Written tells that at least a part of the request was given to the
	// network, so that the server may have seen it.
	Written bool
	// TLS names version and cipher suite, "" without TLS.
	TLS string
	// Resumed tells that the TLS session was resumed for this exchange.
	Resumed bool
	// Protocol is the response's by its ALPN name, "http/1.1" or "h2"; "" without
	// a response.
	Protocol string
	// CertError says why the certificate is not valid, where Verify is record.
	CertError string
	// RetryAfter is the Retry-After header as received.
	RetryAfter string
}

// Sink takes a response while it comes. Its methods are called in order, by one
// goroutine: Own for a buffer before anything that lies in it is passed, Head
// once if there is a response, Body any number of times. An error ends the
// exchange with ClassCancelled. A method may block: the time does not count
// against the server.
type Sink interface {
	// Own makes the sink the owner of a buffer: it releases it when nobody
	// needs what lies in it any more.
	Own(*bufpool.Buffer)
	// Head takes the request as sent and the response's header block as
	// received (empty for HTTP/0.9).
	Head(request, head []byte) error
	// Body takes the next bytes of the body as received.
	Body([]byte) error
}
