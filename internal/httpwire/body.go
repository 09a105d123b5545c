package httpwire

import (
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Limits bound what a body may decode to. A zero field means its default.
type Limits struct {
	// MaxBytes is the largest decoded body, in bytes; more is cut. Default 64 MiB.
	MaxBytes int64
	// MaxRatio is the largest ratio of decoded to stored bytes once the decoded
	// body is larger than 1 MiB. Default 500.
	MaxRatio int64
	// MaxCodings is how many layers of codings are undone. Default 4.
	MaxCodings int
}

// ratioFree is how much a body may decode to before its ratio matters.
const ratioFree = 1 << 20

func (l Limits) withDefaults() Limits {
	if l.MaxBytes <= 0 {
		l.MaxBytes = 64 << 20
	}
	if l.MaxRatio <= 0 {
		l.MaxRatio = 500
	}
	if l.MaxCodings <= 0 {
		l.MaxCodings = 4
	}
	return l
}

// Coded reports whether the response has a transfer or content coding to undo.
func (h *Head) Coded() bool {
	for i := range h.Fields {
		f := &h.Fields[i]
		// Both names are 16 or 17 bytes: nearly every field ends here.
		if n := len(f.Name); (n == 16 && equalFold(f.Name, "Content-Encoding")) ||
			(n == 17 && equalFold(f.Name, "Transfer-Encoding")) {
			return true
		}
	}
	return false
}

// BodyReader reads a body with its transfer and content codings undone.
//
// Read ends with io.EOF also where the data is cut, corrupt or beyond a limit:
// what there was is given, and Notes says why it ended. Any other error is the
// source's own.
type BodyReader struct {
	top    io.Reader
	base   countingReader
	layers []*layer
	bufs   []*pooledBuf
	lim    Limits
	notes  Note
}

// OpenBody reads the body of a response with that head out of raw, which gives
// the body's bytes as they came and ends with them (its length is not checked
// here). Nothing is read before the first Read. Close gives the decoders back.
func OpenBody(head *Head, raw io.Reader, lim Limits) *BodyReader {
	b := &BodyReader{lim: lim.withDefaults()}
	b.base.src = raw
	if !head.Coded() {
		b.top = &b.base
		return b
	}
	b.top = &transferReader{buf: b.buffer(&b.base), chunked: head.Chunked(), notes: &b.notes}
	codings := b.codings(head)
	// The last coding named was applied last: it is undone first.
	for i := len(codings) - 1; i >= 0; i-- {
		l := &layer{b: b, claim: codings[i], src: b.buffer(b.top)}
		b.layers = append(b.layers, l)
		b.top = l
	}
	return b
}

// codings lists the codings to undo in the order they were applied: content
// codings, then transfer codings other than chunked.
func (b *BodyReader) codings(head *Head) []coding {
	var cs []coding
	for _, name := range [...]string{"Content-Encoding", "Transfer-Encoding"} {
		for e := range head.Elements(name) {
			if name == "Transfer-Encoding" && equalFold(e, "chunked") {
				continue
			}
			c, identity := parseCoding(e)
			switch {
			case identity:
			case c == codingUnknown:
				b.notes |= NoteUnknownCoding
			default:
				cs = append(cs, c)
			}
		}
	}
	if d := len(cs) - b.lim.MaxCodings; d > 0 {
		b.notes |= NoteTooManyCodings
		cs = cs[d:]
	}
	return cs
}

func (b *BodyReader) buffer(src io.Reader) *pooledBuf {
	buf := bufPool.Get().(*pooledBuf)
	buf.Reset(src)
	b.bufs = append(b.bufs, buf)
	return buf
}

// Notes returns the oddities so far; they are complete after io.EOF.
func (b *BodyReader) Notes() Note { return b.notes }

// Annotations returns the notes as words.
func (b *BodyReader) Annotations() []string { return b.notes.Names() }

// StoredBytes is how many bytes of the stored body were read (read ahead included).
func (b *BodyReader) StoredBytes() int64 { return b.base.n }

// Read implements io.Reader.
func (b *BodyReader) Read(p []byte) (int, error) {
	if b.top == nil {
		return 0, errors.New("httpwire: read of a closed body")
	}
	if len(b.layers) > 0 {
		return b.top.Read(p)
	}
	// No content coding: the size limit still holds.
	n, err := b.top.Read(p)
	b.base.out += int64(n)
	if over := b.base.out - b.lim.MaxBytes; over > 0 {
		b.notes |= NoteSizeLimit
		b.base.out = b.lim.MaxBytes
		return n - int(over), io.EOF
	}
	return n, err
}

// Close gives the decoders back to their pools. It does not close the source.
func (b *BodyReader) Close() error {
	for _, l := range b.layers {
		l.dec.release()
		l.dec = decoder{}
	}
	for _, buf := range b.bufs {
		buf.Reset(eofReader)
		bufPool.Put(buf)
	}
	b.layers, b.bufs, b.top = nil, nil, nil
	return nil
}

// countingReader counts the stored bytes and keeps the source's own error
// apart from those of the decoders.
type countingReader struct {
	src io.Reader
	n   int64
	out int64
	err error
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	c.n += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// layer undoes one content coding.
type layer struct {
	b     *BodyReader
	claim coding
	is    coding
	src   *pooledBuf
	dec   decoder
	out   int64
	err   error
}

func (l *layer) Read(p []byte) (int, error) {
	if l.err != nil {
		return 0, l.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if l.dec.Reader == nil {
		if l.err = l.open(); l.err != nil {
			return 0, l.err
		}
	}
	n, err := l.dec.Read(p)
	l.out += int64(n)
	if err == io.EOF && l.is == codingGzip {
		err = l.nextMember()
	}
	if over := l.out - l.b.lim.MaxBytes; over > 0 {
		l.b.notes |= NoteSizeLimit
		n -= int(over)
		l.out, l.err = l.b.lim.MaxBytes, io.EOF
		return n, l.err
	}
	if l.out > ratioFree && l.out/l.b.lim.MaxRatio > l.b.base.n {
		l.b.notes |= NoteRatioLimit
		l.err = io.EOF
		return n, l.err
	}
	if err != nil {
		l.err = l.ended(err)
	}
	return n, l.err
}

// open looks at the first bytes and picks the decoder.
func (l *layer) open() error {
	peek, err := l.src.Peek(peekBytes)
	if err != nil && err != io.EOF {
		return l.ended(err)
	}
	if len(peek) == 0 {
		return io.EOF
	}
	var note Note
	l.is, note = recognise(l.claim, peek, err == io.EOF)
	l.b.notes |= note
	if l.dec, err = newDecoder(l.is, &l.src.Reader); err != nil {
		return l.ended(err)
	}
	return nil
}

// nextMember goes on with the next gzip member (RFC 1952 section 2.2), if what
// follows is one.
func (l *layer) nextMember() error {
	peek, err := l.src.Peek(3)
	if len(peek) == 0 {
		return err
	}
	if c, ok := byMagic(peek); !ok || c != codingGzip {
		l.b.notes |= NoteTrailingGarbage
		return io.EOF
	}
	z := l.dec.Reader.(*gzip.Reader)
	if err := z.Reset(&l.src.Reader); err != nil {
		return err
	}
	z.Multistream(false)
	return nil
}

// ended turns the end of the decoder's data, right or wrong, into io.EOF and a
// note, and hands on the errors of the source.
func (l *layer) ended(err error) error {
	switch {
	case l.b.base.err != nil:
		return l.b.base.err
	case err == io.EOF:
		if l.is == codingDeflate {
			_, _ = l.src.Discard(4) // the Adler-32 of zlib
		}
		if l.is == codingDeflate || l.is == codingRawDeflate {
			if _, more := l.src.Peek(1); more == nil {
				l.b.notes |= NoteTrailingGarbage
			}
		}
	case errors.Is(err, io.ErrUnexpectedEOF):
		l.b.notes |= NoteDecodeTruncated
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, zstd.ErrCRCMismatch):
		l.b.notes |= NoteChecksum
	case l.out > 0 && (errors.Is(err, zstd.ErrMagicMismatch) ||
		err.Error() == "brotli: excessive input"):
		l.b.notes |= NoteTrailingGarbage
	default:
		l.b.notes |= NoteDecodeError
	}
	return io.EOF
}

// DecodeBytes is OpenBody for a body in memory. Where no coding applies it
// returns body itself, without a copy; else the decoded body, appended to
// dst[:0]. A body beyond lim is cut, with a note.
func DecodeBytes(dst []byte, head *Head, body []byte, lim Limits) ([]byte, Note) {
	lim = lim.withDefaults()
	if !head.Coded() {
		if int64(len(body)) > lim.MaxBytes {
			return body[:lim.MaxBytes:lim.MaxBytes], NoteSizeLimit
		}
		return body, 0
	}
	src := sliceReader{b: body}
	r := OpenBody(head, &src, lim)
	defer r.Close()
	dst = dst[:0]
	if hint := sizeHint(body, lim); cap(dst) < hint {
		dst = make([]byte, 0, hint)
	}
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if err != nil { // io.EOF: a slice has no other error
			return dst, r.Notes()
		}
	}
}

// sizeHint guesses the decoded size: gzip says it in its last four bytes.
func sizeHint(body []byte, lim Limits) int {
	n := int64(len(body)) * 4
	if c, _ := byMagic(body); c == codingGzip && len(body) >= 18 {
		t := body[len(body)-4:]
		said := int64(t[0]) | int64(t[1])<<8 | int64(t[2])<<16 | int64(t[3])<<24
		if said <= int64(len(body))*64 {
			n = said
		}
	}
	// One byte more: the end is seen without growing.
	return int(min(n, lim.MaxBytes, 4<<20)) + 1
}

type sliceReader struct{ b []byte }

func (s *sliceReader) Read(p []byte) (int, error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.b)
	s.b = s.b[n:]
	return n, nil
}
