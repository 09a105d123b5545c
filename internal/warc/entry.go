package warc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// ErrDamaged is a record whose bytes are not all there or not as they were.
var ErrDamaged = errors.New("warc: damaged record")

// Close reads what is left of the record, checks that it ends as it must, and
// sets Length. It returns an error that matches ErrDamaged if the record is cut
// or its gzip member broken; then Length is 0. Next closes by itself.
func (e *Entry) Close() error {
	if e.closed {
		return e.err
	}
	e.closed = true
	if e.err = e.finish(); e.err != nil && e.r.src.err != nil {
		e.err = e.r.src.err
	}
	return e.err
}

func (e *Entry) finish() error {
	r := e.r
	if _, err := io.Copy(io.Discard, &e.body); err != nil {
		return e.broken("the gzip member is broken: %v", err)
	}
	if e.body.N > 0 {
		return e.broken("the block has %d bytes, Content-Length says %d", e.ContentLength-e.body.N, e.ContentLength)
	}
	if e.InMember == 0 {
		return e.finishPlain()
	}
	end, err := r.zbuf.Peek(len(blockEnd) + 1)
	if err != nil && err != io.EOF {
		return e.broken("the gzip member is broken: %v", err)
	}
	switch {
	case string(end) == string(blockEnd):
		_, _ = r.zbuf.Discard(len(end))
		r.inMember = false
	case bytes.HasPrefix(end, blockEnd):
		// The next record, if it is one, stands in the same member.
		_, _ = r.zbuf.Discard(len(blockEnd))
		if next, _ := r.zbuf.Peek(5); string(next) == "WARC/" {
			r.inMember = true
			return nil
		}
		fallthrough
	default:
		r.problem(Error, "block-end", e.Offset, "the block is followed by %q; CR LF CR LF and nothing more is right (is Content-Length %d too small?)", end, e.ContentLength)
		if _, err := io.Copy(io.Discard, r.zbuf); err != nil {
			return e.broken("the gzip member is broken: %v", err)
		}
		r.inMember = false
	}
	// Reading to the end has checked the member's CRC and length.
	if _, err := r.zbuf.ReadByte(); err != io.EOF {
		return e.broken("the gzip member is broken: %v", err)
	}
	e.Length = r.src.pos() - e.Offset
	return nil
}

func (e *Entry) finishPlain() error {
	r := e.r
	end, _ := r.src.br.Peek(len(blockEnd))
	n := 0
	for n < len(end) && end[n] == blockEnd[n] {
		n++
	}
	if n < len(blockEnd) {
		if len(end) < len(blockEnd) && n == len(end) {
			return e.broken("the file ends before the record's last CR LF CR LF")
		}
		n = 0
		for n < len(end) && (end[n] == '\r' || end[n] == '\n') {
			n++
		}
		r.problem(Error, "block-end", e.Offset, "the block is followed by %q; CR LF CR LF is right (is Content-Length %d wrong?)", end, e.ContentLength)
	}
	_, _ = r.src.br.Discard(n)
	e.Length = r.src.pos() - e.Offset
	return nil
}

// broken reports damage of this record and makes the reader look for the next.
func (e *Entry) broken(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if e.r.src.err == nil {
		e.r.damaged(e.Offset, "%s", text)
	}
	return fmt.Errorf("%w at offset %d: %s", ErrDamaged, e.Offset, text)
}
