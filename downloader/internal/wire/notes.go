// Package wire reads HTTP/1.x responses off a socket: where the header block
// ends, how the body is framed, and where the body ends. It is as tolerant as
// browsers are and says what it tolerated. It changes and stores nothing, for
// the bytes go to the archive as they came; taking the transfer and content
// codings off is the extractor's work.
package wire

import "math/bits"

// Note is a set of things that were tolerated in a response.
type Note uint32

// What can be noted.
const (
	NoteHTTP09             Note = 1 << iota // the response is a bare HTTP/0.9 body
	NoteLeadingJunk                         // bytes before the status line were skipped
	NoteOddStatusLine                       // the status line is not as RFC 9112 section 4 says
	NoteNoStatus                            // the status line has no status; taken for 200 as browsers do
	NoteInterim                             // 1xx responses were skipped
	NoteBareLF                              // a line of the header block ended in LF alone
	NoteFoldedHeader                        // a header line was continued (RFC 9112 section 5.2)
	NoteBadHeaderLine                       // a line without colon was skipped
	NoteHeaderCut                           // the connection ended inside the header block
	NoteBadContentLength                    // a Content-Length that is no number was ignored
	NoteLengthRepeated                      // Content-Length came twice with the same value
	NoteLengthAndChunked                    // Content-Length was ignored beside chunked
	NoteChunkedHTTP10                       // chunked from an HTTP/1.0 server
	NoteTransferCoding                      // a transfer coding besides chunked
	NoteChunkError                          // the chunked framing broke; the body is what came before and after
	NoteTrailerCut                          // the connection ended after the last chunk, before the end of the trailer
	NoteLengthMismatch                      // the connection ended before Content-Length bytes had come
	NoteExcessBytes                         // bytes came after the end of the response
	NoteBodyWithoutChunks                   // chunked was claimed and the body has no chunks
	NoteAllowanceUsedUp                     // the lease's byte allowance cut the body
	NoteCertificateInvalid                  // the certificate was not accepted, and the setting says to go on
	noteEnd
)

var noteCodes = [...]string{
	"http09", "leading-junk", "odd-status-line", "no-status", "interim-response", "bare-lf", "folded-header",
	"bad-header-line", "header-cut", "bad-content-length", "content-length-repeated", "content-length-and-chunked",
	"chunked-http10", "transfer-coding", "chunk-error", "trailer-cut", "content-length-mismatch", "excess-bytes",
	"chunked-without-chunks", "byte-allowance", "certificate-invalid",
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
