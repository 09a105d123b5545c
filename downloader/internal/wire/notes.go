// Package wire reads HTTP/1.x responses off a socket: where the header block
// begins and ends, how the body is framed, and where the body ends. It is as
// tolerant as browsers are and says what it tolerated. It changes and stores
// nothing, for the bytes go to the archive as they came; taking the codings off
// is the extractor's work. What the bytes mean is decided by package httpwire,
// which the extractor and the archive's verifier use too, so that all of them
// see the same response.
package wire

import (
	"math/bits"

	"lycosa.dev/internal/httpwire"
)

// Note is a set of things that were tolerated in an exchange. What was odd in
// the response's own bytes is in its httpwire.Note.
type Note uint32

// What can be noted.
const (
	NoteHTTP09             Note = 1 << iota // the response is a bare HTTP/0.9 body
	NoteLeadingJunk                         // bytes before the status line were skipped
	NoteInterim                             // 1xx responses were skipped
	NoteBadLength                           // a Content-Length that is no number was ignored
	NoteChunkedHTTP10                       // chunked from an HTTP/1.0 server
	NoteLengthMismatch                      // the connection ended before Content-Length bytes had come
	NoteExcessBytes                         // bytes came after the end of the response
	NoteAllowanceUsedUp                     // the lease's byte allowance cut the body
	NoteCertificateInvalid                  // the certificate was not accepted, and the setting says to go on
	NoteLegacyTLS                           // TLS of the fallback for old servers
	NoteTrailers                            // fields came after the body; they are not kept (HTTP/2)
	noteEnd
)

var noteCodes = [...]string{
	"http09", "leading-junk", "interim-response", "bad-content-length", "chunked-http10",
	"content-length-mismatch", "excess-bytes", "byte-allowance", "certificate-invalid",
	"legacy-tls", "trailers",
}

// Codes returns the set as short fixed codes, in a fixed order; nil for the
// empty set.
func (n Note) Codes() []string {
	n &= noteEnd - 1
	if n == 0 {
		return nil
	}
	out := make([]string, 0, bits.OnesCount32(uint32(n)))
	for ; n != 0; n &= n - 1 {
		out = append(out, noteCodes[bits.TrailingZeros32(uint32(n))])
	}
	return out
}

// Told are the notes about a response's bytes that say something of the
// exchange; others, such as bytes above ASCII in a value, are no oddity of it.
const Told = httpwire.NoteOddStatusLine | httpwire.NoteBareLF | httpwire.NoteFolded | httpwire.NoteJunkLine |
	httpwire.NoteTooManyFields | httpwire.NoteLengthIgnored | httpwire.NoteLengthRepeated | httpwire.NoteNotChunked |
	httpwire.NoteChunkTruncated | httpwire.NoteChunkMalformed | httpwire.NoteNoFinalLine
