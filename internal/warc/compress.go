package warc

import (
	"context"
	"crypto/sha1"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/gzip"

	"lycosa.dev/internal/httpwire"
)

// compressor makes gzip members out of records. One is used by one goroutine
// at a time.
type compressor struct {
	z       *gzip.Writer
	payload hash.Hash
	block   hash.Hash
	header  []byte
	piece   []byte // for bodies that are read
	head    httpwire.Head
	entity  httpwire.Entity
}

// pieceBytes is how much of a spooled body is in memory at a time.
const pieceBytes = 64 << 10

func newCompressor(level int) (*compressor, error) {
	z, err := gzip.NewWriterLevel(io.Discard, level)
	if err != nil {
		return nil, fmt.Errorf("warc: compression level %d: %w", level, err)
	}
	return &compressor{z: z, payload: sha1.New(), block: sha1.New()}, nil
}

// encode appends the record as one member to out. It fills the record's payload
// digest. An error of the record's own reader is returned as it is; ctx ends the
// reading of a spooled body.
func (c *compressor) encode(ctx context.Context, r *Record, out io.Writer, blockDigests bool) error {
	hasPayload := r.hasPayload()
	if hasPayload && r.hasHTTP() && httpwire.HeadEnd(r.Head) != len(r.Head) {
		// Readers look for the payload behind the first empty line: without a
		// whole head (HTTP/0.9, a cut one) there is none to speak of.
		hasPayload, r.PayloadDigest = false, Digest{}
	}
	wantPayload := hasPayload && r.PayloadDigest.IsZero()
	wantBlock := blockDigests || !hasPayload
	blockDigest, err := c.digests(ctx, r, wantPayload, wantBlock)
	if err != nil {
		return err
	}
	c.header = r.appendHeader(c.header[:0], blockDigest, int64(len(r.Head))+r.bodyLen())
	c.z.Reset(out)
	if _, err := c.z.Write(c.header); err != nil {
		return err
	}
	if err := c.eachPiece(ctx, r, func(b []byte) error { _, err := c.z.Write(b); return err }); err != nil {
		return err
	}
	if _, err := c.z.Write(blockEnd); err != nil {
		return err
	}
	return c.z.Close()
}

var blockEnd = []byte("\r\n\r\n")

// digests reads the block once for both digests.
func (c *compressor) digests(ctx context.Context, r *Record, wantPayload, wantBlock bool) (block Digest, err error) {
	if !wantPayload && !wantBlock {
		return block, nil
	}
	c.payload.Reset()
	c.block.Reset()
	framed := false // whether the payload differs from the stored body
	if wantPayload && r.hasHTTP() {
		// A head that does not parse says nothing about a framing.
		if _, err := c.head.ParseStored(r.Head); err == nil && c.head.Chunked() {
			framed = true
			c.entity.Reset(&c.head)
		}
	}
	headLen := len(r.Head)
	emit := func(b []byte) { c.payload.Write(b) }
	if err := c.eachPiece(ctx, r, func(b []byte) error {
		if wantBlock {
			c.block.Write(b)
		}
		switch {
		case !wantPayload:
		case headLen > 0: // the first piece is the head
			headLen = 0
			if !r.hasHTTP() {
				emit(b)
			}
		case framed:
			c.entity.Feed(b, emit)
		default:
			emit(b)
		}
		return nil
	}); err != nil {
		return block, err
	}
	if wantBlock {
		c.block.Sum(block[:0])
	}
	if wantPayload && !(framed && c.entity.Finish(emit).Has(httpwire.NoteChunkMalformed)) {
		c.payload.Sum(r.PayloadDigest[:0])
	}
	return block, nil
}

// eachPiece gives the block to f piece by piece, the head as one piece.
func (c *compressor) eachPiece(ctx context.Context, r *Record, f func([]byte) error) error {
	if len(r.Head) > 0 {
		if err := f(r.Head); err != nil {
			return err
		}
	}
	if len(r.Body) > 0 {
		if err := f(r.Body); err != nil {
			return err
		}
	}
	for _, p := range r.BodyParts {
		if len(p) > 0 {
			if err := f(p); err != nil {
				return err
			}
		}
	}
	if r.BodyAt == nil {
		return nil
	}
	if c.piece == nil {
		c.piece = make([]byte, pieceBytes)
	}
	for off := int64(0); off < r.BodySize; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.BodyAt.ReadAt(c.piece[:min(pieceBytes, r.BodySize-off)], off)
		if n == 0 {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("warc: body of %s, byte %d of %d: %w", r.TargetURI, off, r.BodySize, err)
		}
		if err := f(c.piece[:n]); err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

// spill collects the compressed records of one Write: in memory up to a limit,
// then in a file without a name.
type spill struct {
	w     *Writer
	mem   []byte
	file  File
	size  int64
	limit int
}

func (s *spill) Write(p []byte) (int, error) {
	if s.file == nil && len(s.mem)+len(p) > s.limit {
		f, err := s.w.spillFile()
		if err != nil {
			return 0, err
		}
		s.file = f
		if err := writeFull(f, s.mem); err != nil {
			return 0, storageError("write", "temporary file in "+s.w.cfg.Dir, err)
		}
		s.mem = s.mem[:0]
	}
	if s.file != nil {
		if err := writeFull(s.file, p); err != nil {
			return 0, storageError("write", "temporary file in "+s.w.cfg.Dir, err)
		}
	} else {
		s.mem = append(s.mem, p...)
	}
	s.size += int64(len(p))
	return len(p), nil
}

func (s *spill) reset() {
	if s.file != nil {
		_ = s.file.Close() // it has no name: closing frees it
		s.file = nil
	}
	s.mem, s.size = s.mem[:0], 0
}

// writeFull writes all of p and makes a short write an error.
func writeFull(w io.Writer, p []byte) error {
	n, err := w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return err
}
