package httpwire

import (
	"errors"
	"fmt"
	"io"
)

// Bounds of the chunk framing.
const (
	maxChunkLine = 4096  // a size line, extensions included
	maxTrailer   = 65536 // all trailer fields
)

// ChunkKind says what is wrong with chunk framing.
type ChunkKind uint8

const (
	// ChunkBadSize: a size line does not start with a hexadecimal number.
	ChunkBadSize ChunkKind = iota + 1
	// ChunkSizeOverflow: the size does not fit 63 bits.
	ChunkSizeOverflow
	// ChunkLineTooLong: a size line with its extensions is longer than 4096 bytes.
	ChunkLineTooLong
	// ChunkNoLineEnd: a chunk's data is not followed by a line end.
	ChunkNoLineEnd
	// ChunkTrailerTooLong: the trailer is longer than 64 KiB.
	ChunkTrailerTooLong
	// ChunkTruncated: the input ended before the last chunk.
	ChunkTruncated
)

var chunkKindText = [...]string{
	ChunkBadSize:        "a chunk's size line does not start with a hexadecimal number",
	ChunkSizeOverflow:   "a chunk's size does not fit 63 bits",
	ChunkLineTooLong:    "a chunk's size line is longer than 4096 bytes",
	ChunkNoLineEnd:      "a chunk's data is not followed by a line end",
	ChunkTrailerTooLong: "the trailer is longer than 64 KiB",
	ChunkTruncated:      "the body ended before its last chunk",
}

// ChunkError is broken or unfinished chunk framing.
type ChunkError struct {
	Kind ChunkKind
	// Offset is where, in bytes of the chunked body.
	Offset int64
}

func (e *ChunkError) Error() string {
	return fmt.Sprintf("httpwire: chunked body, byte %d: %s", e.Offset, chunkKindText[e.Kind])
}

// Is makes a truncated body match [io.ErrUnexpectedEOF].
func (e *ChunkError) Is(target error) bool {
	return target == io.ErrUnexpectedEOF && e.Kind == ChunkTruncated
}

type chunkState uint8

const (
	chunkSizeStart chunkState = iota // before the first digit
	chunkSize                        // in the digits
	chunkSizeBlank                   // blanks after the digits
	chunkExtension                   // after ';', to the line's end
	chunkSizeLF                      // after the line's CR
	chunkData                        // in the data
	chunkDataEnd                     // after the data, before its CR or LF
	chunkDataLF                      // after that CR
	chunkTrailer                     // at the start of a trailer line
	chunkTrailerCR                   // after a CR at the start of a trailer line
	chunkTrailerIn                   // inside a trailer line
	chunkDone
)

// Dechunker takes the chunked transfer coding off (RFC 9112 section 7.1)
// piece by piece, without copying. The zero value is ready. It takes bare LF
// and blanks around a size; extensions and trailers are skipped.
type Dechunker struct {
	state  chunkState
	left   int64 // of the chunk's data
	size   int64
	line   int
	offset int64
	chunks int64
	notes  Note
	err    *ChunkError
}

// Reset makes d ready for another body.
func (d *Dechunker) Reset() { *d = Dechunker{} }

// Done reports whether the body is complete, its trailer included.
func (d *Dechunker) Done() bool { return d.state == chunkDone }

// Notes returns the oddities so far.
func (d *Dechunker) Notes() Note { return d.notes }

// Consumed returns how many bytes of the chunked body were taken.
func (d *Dechunker) Consumed() int64 { return d.offset }

// Started reports whether at least one chunk's size line was complete and
// right: before that, an error means that the body is not chunked at all.
func (d *Dechunker) Started() bool { return d.chunks > 0 }

// Next takes bytes from the front of src: n were consumed, data is the piece
// of src that is body (often empty). Call it again with the rest until n equals
// len(src) or Done; after Done it takes nothing more. An error is a *ChunkError
// and final.
func (d *Dechunker) Next(src []byte) (data []byte, n int, err error) {
	if d.err != nil {
		return nil, 0, d.err
	}
	for n < len(src) && d.state != chunkDone {
		if d.state == chunkData {
			m := int(min(int64(len(src)-n), d.left))
			data = src[n : n+m : n+m]
			d.left -= int64(m)
			if d.left == 0 {
				d.state = chunkDataEnd
			}
			d.offset += int64(m)
			return data, n + m, nil
		}
		if kind := d.step(src[n]); kind != 0 {
			d.err = &ChunkError{Kind: kind, Offset: d.offset}
			return nil, n, d.err
		}
		n++
		d.offset++
	}
	return nil, n, nil
}

// step takes one byte of framing.
func (d *Dechunker) step(c byte) ChunkKind {
	switch d.state {
	case chunkSizeStart, chunkSize:
		if v := hexValue(c); v >= 0 {
			if d.size > (1<<63-1)>>4 {
				return ChunkSizeOverflow
			}
			d.size = d.size<<4 | int64(v)
			d.state = chunkSize
			return d.lengthen()
		}
		if d.state == chunkSizeStart {
			if isBlank(c) {
				d.notes |= NoteChunkLine
				return d.lengthen()
			}
			return ChunkBadSize
		}
		return d.afterSize(c)
	case chunkSizeBlank:
		return d.afterSize(c)
	case chunkExtension:
		if c == '\n' {
			d.endSizeLine()
			return 0
		}
		return d.lengthen()
	case chunkSizeLF:
		if c != '\n' {
			return ChunkBadSize
		}
		d.endSizeLine()
	case chunkDataEnd:
		switch c {
		case '\r':
			d.state = chunkDataLF
		case '\n':
			d.notes |= NoteChunkLine
			d.state = chunkSizeStart
		default:
			return ChunkNoLineEnd
		}
	case chunkDataLF:
		if c != '\n' {
			return ChunkNoLineEnd
		}
		d.state = chunkSizeStart
	case chunkTrailer:
		switch c {
		case '\r':
			d.state = chunkTrailerCR
		case '\n':
			d.notes |= NoteChunkLine
			d.state = chunkDone
		default:
			d.state = chunkTrailerIn
		}
		return d.trailer()
	case chunkTrailerCR:
		if c == '\n' {
			d.state = chunkDone
		} else {
			d.state = chunkTrailerIn
		}
		return d.trailer()
	case chunkTrailerIn:
		if c == '\n' {
			d.state = chunkTrailer
		}
		return d.trailer()
	}
	return 0
}

func (d *Dechunker) afterSize(c byte) ChunkKind {
	switch {
	case c == '\r':
		d.state = chunkSizeLF
	case c == '\n':
		d.notes |= NoteChunkLine
		d.endSizeLine()
	case c == ';':
		d.state = chunkExtension
	case isBlank(c):
		d.notes |= NoteChunkLine
		d.state = chunkSizeBlank
	default:
		return ChunkBadSize
	}
	return d.lengthen()
}

func (d *Dechunker) lengthen() ChunkKind {
	if d.line++; d.line > maxChunkLine {
		return ChunkLineTooLong
	}
	return 0
}

func (d *Dechunker) trailer() ChunkKind {
	if d.line++; d.line > maxTrailer {
		return ChunkTrailerTooLong
	}
	return 0
}

func (d *Dechunker) endSizeLine() {
	d.chunks++
	d.line = 0
	if d.size == 0 {
		d.state = chunkTrailer
		return
	}
	d.left, d.size, d.state = d.size, 0, chunkData
}

// Finish is called when the input has ended. It returns nil if the body is
// complete; the empty line after the last chunk may be missing, with a note.
func (d *Dechunker) Finish() error {
	switch {
	case d.err != nil:
		return d.err
	case d.state == chunkDone:
		return nil
	case d.state >= chunkTrailer:
		d.notes |= NoteNoFinalLine
		return nil
	}
	d.notes |= NoteChunkTruncated
	d.err = &ChunkError{Kind: ChunkTruncated, Offset: d.offset}
	return d.err
}

func hexValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// AppendDechunked appends the body in src, a whole chunked body, to dst. What
// was decoded before an error is appended as well. Bytes after the end are noted.
func AppendDechunked(dst, src []byte) ([]byte, Note, error) {
	var d Dechunker
	for len(src) > 0 && !d.Done() {
		data, n, err := d.Next(src)
		if err != nil {
			return dst, d.notes, err
		}
		dst = append(dst, data...)
		src = src[n:]
	}
	err := d.Finish()
	if len(src) > 0 {
		d.notes |= NoteExtraBytes
	}
	return dst, d.notes, err
}

// ChunkedReader takes the chunked coding off a reader. It reads ahead, so bytes
// after the body's end are lost: it is for stored bodies and for connections
// that are not used again. Its errors are *ChunkError or the source's own.
type ChunkedReader struct {
	src io.Reader
	d   Dechunker
	err error
}

// NewChunkedReader reads the body out of src.
func NewChunkedReader(src io.Reader) *ChunkedReader { return &ChunkedReader{src: src} }

// Notes returns the oddities so far.
func (r *ChunkedReader) Notes() Note { return r.d.notes }

// Started is [Dechunker.Started].
func (r *ChunkedReader) Started() bool { return r.d.Started() }

// Read decodes in place: the raw bytes are read into p and moved down over
// their framing.
func (r *ChunkedReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for r.err == nil {
		n, rerr := r.src.Read(p)
		out := r.compact(p, n)
		if r.err == nil && rerr != nil {
			if r.err = rerr; errors.Is(rerr, io.EOF) {
				if r.err = r.d.Finish(); r.err == nil {
					r.err = io.EOF
				}
			}
		}
		if out > 0 {
			return out, nil
		}
	}
	return 0, r.err
}

// compact moves the body bytes of p[:n] to its front.
func (r *ChunkedReader) compact(p []byte, n int) (out int) {
	for raw := p[:n]; len(raw) > 0; {
		if r.d.Done() {
			r.d.notes |= NoteExtraBytes
			break
		}
		data, used, err := r.d.Next(raw)
		if err != nil {
			r.err = err
			return out
		}
		out += copy(p[out:], data)
		raw = raw[used:]
	}
	if r.d.Done() && r.err == nil {
		r.err = io.EOF
	}
	return out
}
