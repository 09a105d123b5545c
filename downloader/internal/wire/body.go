package wire

import (
	"bytes"
	"math"
)

// Limits of the parts of chunked framing that are not the body itself.
const (
	maxChunkLine = 16 << 10
	maxTrailer   = 64 << 10
)

// Body finds the end of one body in the bytes that come off the wire. It
// counts framing as part of the body. The zero Body is a body of no bytes.
type Body struct {
	framing Framing
	left    int64 // bytes left of the body (FramingLength) or of the chunk
	state   chunkState
	line    int // bytes of the current chunk line or of the trailer so far
	digits  int // hexadecimal digits of the current chunk size
	chunks  int // chunk sizes read
	empty   bool
	cr      bool
	done    bool
}

type chunkState uint8

const (
	inSize     chunkState = iota // hexadecimal digits
	inSizeRest                   // white space after them
	inExt                        // chunk extension
	inData
	inDataEnd // the line end after the data
	inTrailer
	broken // the framing is lost; all that comes counts as body
)

// NewBody starts a body framed as h says.
func NewBody(h *Head) Body {
	b := Body{framing: h.Framing, left: h.Length}
	switch h.Framing {
	case FramingNone:
		b.done = true
	case FramingLength:
		b.done = h.Length == 0
	case FramingChunked:
		b.left = 0
	}
	return b
}

// Done tells whether the whole body has been seen.
func (b *Body) Done() bool { return b.done }

// Lost tells whether chunked framing broke after it had begun, so that nobody
// can say where the body ends. Where it never began (a server that claims
// chunked and sends none) the body is what comes until the connection ends.
func (b *Body) Lost() bool { return b.state == broken && b.chunks > 0 }

// Left returns how many bytes of the body are known to be missing; 0 where
// that is not known.
func (b *Body) Left() int64 {
	if b.framing == FramingLength {
		return b.left
	}
	return 0
}

// Scan takes the next bytes and returns how many of them belong to the body:
// all but those after its end.
func (b *Body) Scan(p []byte) int {
	switch {
	case b.done:
		return 0
	case b.framing == FramingLength:
		n := int(min(int64(len(p)), b.left))
		b.left -= int64(n)
		b.done = b.left == 0
		return n
	case b.framing == FramingClose:
		return len(p)
	}
	return b.scanChunks(p)
}

func (b *Body) scanChunks(p []byte) int {
	for i := 0; i < len(p); {
		switch b.state {
		case inData:
			n := int(min(int64(len(p)-i), b.left))
			i += n
			if b.left -= int64(n); b.left == 0 {
				b.state = inDataEnd
			}
			continue
		case broken:
			return len(p)
		case inExt:
			n := bytes.IndexByte(p[i:], '\n')
			if n < 0 {
				if b.line += len(p) - i; b.line > maxChunkLine {
					b.state = broken
				}
				return len(p)
			}
			i += n + 1
			b.sizeDone()
			continue
		}
		c := p[i]
		i++
		switch b.state {
		case inSize:
			b.size(c)
		case inSizeRest:
			switch c {
			case ' ', '\t', '\r':
				if b.line++; b.line > maxChunkLine {
					b.state = broken
				}
			case ';':
				b.state = inExt
			case '\n':
				b.sizeDone()
			default:
				b.state = broken
			}
		case inDataEnd:
			switch {
			case c == '\n':
				b.startSize()
			case c == '\r' && !b.cr:
				b.cr = true
			default:
				b.state = broken
			}
		case inTrailer:
			if b.trailer(c); b.done {
				return i
			}
		}
	}
	return len(p)
}

func (b *Body) startSize() {
	b.state, b.left, b.digits, b.line, b.cr = inSize, 0, 0, 0, false
}

// size takes one byte of a chunk size.
func (b *Body) size(c byte) {
	var d byte
	switch {
	case '0' <= c && c <= '9':
		d = c - '0'
	case 'a' <= c && c <= 'f':
		d = c - 'a' + 10
	case 'A' <= c && c <= 'F':
		d = c - 'A' + 10
	case b.digits == 0:
		b.state = broken
		return
	case c == ';':
		b.state = inExt
		return
	case c == '\n':
		b.sizeDone()
		return
	case c == ' ' || c == '\t' || c == '\r':
		b.state = inSizeRest
		return
	default:
		b.state = broken
		return
	}
	if b.left > math.MaxInt64>>5 || b.digits > maxChunkLine {
		b.state = broken
		return
	}
	b.left = b.left<<4 | int64(d)
	b.digits++
}

// sizeDone is called at the end of a chunk size line.
func (b *Body) sizeDone() {
	b.chunks++
	b.line = 0
	if b.left > 0 {
		b.state = inData
		return
	}
	b.state, b.empty = inTrailer, true
}

// trailer takes one byte of the trailer, which ends with an empty line.
func (b *Body) trailer(c byte) {
	b.line++
	switch {
	case c == '\n' && b.empty:
		b.done = true
	case c == '\n':
		b.empty = true
	case c == '\r':
	default:
		b.empty = false
	}
	if b.line > maxTrailer {
		b.state = broken
	}
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
func (b *Body) Close() (End, Note) {
	switch {
	case b.done, b.framing == FramingClose:
		return EndWhole, 0
	case b.framing == FramingLength:
		return EndCut, NoteLengthMismatch
	case b.state == broken && b.chunks == 0:
		return EndWhole, NoteBodyWithoutChunks
	case b.state == broken:
		return EndGarbled, NoteChunkError
	case b.state == inTrailer, b.lastSizePending():
		return EndWhole, NoteTrailerCut
	}
	return EndCut, NoteChunkError
}

// lastSizePending tells whether the last chunk's "0" has come and only its
// line end is missing.
func (b *Body) lastSizePending() bool {
	return b.digits > 0 && b.left == 0 && b.state <= inExt
}
