package httpwire

import "io"

// Entity takes the transfer coding off a stored body piece by piece, so that a
// digest can be made of what RFC 2616 calls the entity-body: chunk framing
// removed, content coding kept. It is tolerant: a body that claims to be
// chunked and does not start so is passed through, one that breaks in the
// middle ends there, both with a note.
type Entity struct {
	chunked, raw, over bool
	d                  Dechunker
	held               []byte // bytes taken before the first size line was complete
	notes              Note
}

// Reset makes e ready for the body of a response with that head.
func (e *Entity) Reset(head *Head) {
	*e = Entity{chunked: head.Chunked(), held: e.held[:0]}
	e.raw = !e.chunked
}

// Feed takes the next piece of the stored body and gives its body bytes to
// emit, as slices of b (or of what Feed held back before; valid during the call).
func (e *Entity) Feed(b []byte, emit func([]byte)) {
	for len(b) > 0 {
		switch {
		case e.raw:
			emit(b)
			return
		case e.over:
			return
		case e.d.Done():
			e.notes |= NoteExtraBytes
			e.over = true
			return
		}
		started := e.d.Started()
		data, n, err := e.d.Next(b)
		if err != nil && !e.d.Started() {
			e.passThrough(emit)
			continue
		}
		if err != nil {
			e.notes |= NoteChunkMalformed
			e.over = true
			return
		}
		if !started && !e.d.Started() {
			e.held = append(e.held, b[:n]...)
		}
		if len(data) > 0 {
			emit(data)
		}
		b = b[n:]
	}
}

// Finish ends the body and returns the notes.
func (e *Entity) Finish(emit func([]byte)) Note {
	if e.chunked && !e.raw && !e.over {
		if e.d.Consumed() > 0 && !e.d.Started() {
			e.passThrough(emit)
		} else {
			_ = e.d.Finish() // a cut is a note
		}
	}
	return e.notes | e.d.Notes()
}

func (e *Entity) passThrough(emit func([]byte)) {
	e.notes |= NoteNotChunked
	e.raw = true
	e.d.Reset()
	if len(e.held) > 0 {
		emit(e.held)
	}
}

// transferReader is Entity as a reader: the base layer of a BodyReader.
type transferReader struct {
	buf     *pooledBuf
	chunked bool
	cr      *ChunkedReader
	notes   *Note
}

func (t *transferReader) Read(p []byte) (int, error) {
	if t.chunked && t.cr == nil {
		peek, err := t.buf.Peek(maxChunkLine + 2)
		if err != nil && err != io.EOF {
			return 0, err
		}
		var d Dechunker
		_, _, _ = d.Next(peek)
		if len(peek) > 0 && !d.Started() {
			*t.notes |= NoteNotChunked
			t.chunked = false
		} else {
			t.cr = NewChunkedReader(t.buf)
		}
	}
	if !t.chunked {
		return t.buf.Read(p)
	}
	n, err := t.cr.Read(p)
	*t.notes |= t.cr.Notes()
	if _, bad := err.(*ChunkError); bad {
		if err.(*ChunkError).Kind != ChunkTruncated {
			*t.notes |= NoteChunkMalformed
		}
		err = io.EOF
	}
	return n, err
}
