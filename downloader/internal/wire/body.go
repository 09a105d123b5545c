package wire

import "lycosa.dev/internal/httpwire"

// Body finds the end of one body in the bytes that come off the wire. It
// counts framing as part of the body. The zero Body is a body of no bytes.
type Body struct {
	framing httpwire.Framing
	left    int64 // bytes that Content-Length still promises
	chunks  httpwire.Dechunker
	broken  bool // the chunk framing is lost; all that comes counts as body
	done    bool
}

// NewBody starts a body framed as h says.
func NewBody(h *Head) Body {
	b := Body{framing: h.Framing, left: h.Framing.Length}
	b.done = h.Framing.Kind == httpwire.FramingNone || (h.Framing.Kind == httpwire.FramingLength && b.left == 0)
	return b
}

// Done tells whether the whole body has been seen.
func (b *Body) Done() bool { return b.done }

// Lost tells whether chunked framing broke after it had begun, so that nobody
// can say where the body ends. Where it never began (a server that claims
// chunked and sends none) the body is what comes until the connection ends.
func (b *Body) Lost() bool { return b.broken && b.chunks.Started() }

// Scan takes the next bytes and returns how many of them belong to the body:
// all but those after its end.
func (b *Body) Scan(p []byte) int {
	switch {
	case b.done:
		return 0
	case b.framing.Kind == httpwire.FramingLength:
		n := int(min(int64(len(p)), b.left))
		b.left -= int64(n)
		b.done = b.left == 0
		return n
	case b.framing.Kind == httpwire.FramingClose, b.broken:
		return len(p)
	}
	for n := 0; n < len(p); {
		_, m, err := b.chunks.Next(p[n:])
		n += m
		if err != nil {
			b.broken = true
			return len(p)
		}
		if b.chunks.Done() {
			b.done = true
			return n
		}
	}
	return len(p)
}

// End is how a body stands when the connection has ended.
type End uint8

// How a body can end.
const (
	EndWhole   End = iota // nothing is missing
	EndCut                // bytes are missing
	EndGarbled            // the chunked framing was lost; what is missing is unknown
)

// Close tells how the body stands if the connection ends now, and what is to
// be noted.
func (b *Body) Close() (End, Note, httpwire.Note) {
	switch {
	case b.done, b.framing.Kind == httpwire.FramingClose:
		return EndWhole, 0, 0
	case b.framing.Kind == httpwire.FramingLength:
		return EndCut, NoteLengthMismatch, 0
	case b.Lost():
		return EndGarbled, 0, httpwire.NoteChunkMalformed
	case b.broken:
		return EndWhole, 0, httpwire.NoteNotChunked
	}
	end := EndWhole
	if b.chunks.Finish() != nil {
		end = EndCut
	}
	return end, 0, b.chunks.Notes() & Told
}
