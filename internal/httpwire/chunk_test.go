package httpwire_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"lycosa.dev/internal/httpwire"
)

func TestDechunker(t *testing.T) {
	for _, tc := range []struct {
		name, in, want string
		notes          httpwire.Note
		kind           httpwire.ChunkKind
		offset         int64
	}{
		{name: "two chunks", in: "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", want: "abcde"},
		{name: "empty", in: "0\r\n\r\n"},
		{name: "extension", in: "3;a=b;c=\"d\"\r\nabc\r\n0;x\r\n\r\n", want: "abc"},
		{name: "trailer", in: "3\r\nabc\r\n0\r\nA: 1\r\nB: 2\r\n\r\n", want: "abc"},
		{name: "bare LF", in: "3\nabc\n0\n\n", want: "abc", notes: httpwire.NoteChunkLine},
		{name: "blanks", in: " 3  \r\nabc\r\n0\t\r\n\r\n", want: "abc", notes: httpwire.NoteChunkLine},
		{name: "leading zeros", in: "0000000000000000000000003\r\nabc\r\n00\r\n\r\n", want: "abc"},
		{name: "upper case", in: "A\r\n0123456789\r\n0\r\n\r\n", want: "0123456789"},
		{name: "no final line", in: "3\r\nabc\r\n0\r\n", want: "abc", notes: httpwire.NoteNoFinalLine},
		{name: "cut in data", in: "5\r\nabc", want: "abc", notes: httpwire.NoteChunkTruncated, kind: httpwire.ChunkTruncated, offset: 6},
		{name: "cut before the last chunk", in: "3\r\nabc\r\n", want: "abc", notes: httpwire.NoteChunkTruncated, kind: httpwire.ChunkTruncated, offset: 8},
		{name: "cut in the last size line", in: "3\r\nabc\r\n0", want: "abc", notes: httpwire.NoteChunkTruncated, kind: httpwire.ChunkTruncated, offset: 9},
		{name: "nothing", in: "", notes: httpwire.NoteChunkTruncated, kind: httpwire.ChunkTruncated},
		{name: "not hex", in: "xyz\r\n", kind: httpwire.ChunkBadSize},
		{name: "empty size", in: "3\r\nabc\r\n\r\n", want: "abc", kind: httpwire.ChunkBadSize, offset: 8},
		{name: "negative", in: "-1\r\n", kind: httpwire.ChunkBadSize},
		{name: "junk after the size", in: "3x\r\nabc", kind: httpwire.ChunkBadSize, offset: 1},
		{name: "CR alone", in: "3\rabc", kind: httpwire.ChunkBadSize, offset: 2},
		{name: "no line end", in: "3\r\nabcd\r\n", want: "abc", kind: httpwire.ChunkNoLineEnd, offset: 6},
		{name: "overflow", in: "8000000000000000\r\n", kind: httpwire.ChunkSizeOverflow, offset: 15},
		{name: "long overflow", in: "fffffffffffffffffff\r\n", kind: httpwire.ChunkSizeOverflow, offset: 15},
		{name: "long line", in: "3;" + strings.Repeat("x", 5000), kind: httpwire.ChunkLineTooLong, offset: 4096},
		{name: "long trailer", in: "0\r\n" + strings.Repeat("A: b\r\n", 20000), kind: httpwire.ChunkTrailerTooLong, offset: 65539},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, notes, err := httpwire.AppendDechunked(nil, []byte(tc.in))
			if string(got) != tc.want {
				t.Errorf("body %q, want %q", got, tc.want)
			}
			checkChunkError(t, err, tc.kind, tc.offset)
			if notes != tc.notes {
				t.Errorf("notes %v, want %v", notes, tc.notes)
			}
			if len(tc.in) > 1000 {
				return
			}
			// The same in two pieces cut anywhere, and as a reader.
			for cut := range len(tc.in) + 1 {
				got, notes, err := inPieces(tc.in[:cut], tc.in[cut:])
				if string(got) != tc.want || notes != tc.notes {
					t.Errorf("cut at %d: %q %v", cut, got, notes)
				}
				checkChunkError(t, err, tc.kind, tc.offset)
			}
			for name, r := range map[string]io.Reader{
				"whole": strings.NewReader(tc.in), "bytes": iotest.OneByteReader(strings.NewReader(tc.in)),
				"data with EOF": iotest.DataErrReader(strings.NewReader(tc.in)),
			} {
				got, err := io.ReadAll(httpwire.NewChunkedReader(r))
				if string(got) != tc.want {
					t.Errorf("reader %s: %q, want %q", name, got, tc.want)
				}
				checkChunkError(t, err, tc.kind, tc.offset)
			}
		})
	}
}

func checkChunkError(t *testing.T, err error, kind httpwire.ChunkKind, offset int64) {
	t.Helper()
	var ce *httpwire.ChunkError
	switch {
	case kind == 0 && err != nil:
		t.Errorf("error %v", err)
	case kind != 0 && !errors.As(err, &ce):
		t.Errorf("no error, want kind %d", kind)
	case kind != 0 && (ce.Kind != kind || ce.Offset != offset):
		t.Errorf("kind %d at %d, want %d at %d", ce.Kind, ce.Offset, kind, offset)
	case kind != 0 && errors.Is(err, io.ErrUnexpectedEOF) != (kind == httpwire.ChunkTruncated):
		t.Errorf("io.ErrUnexpectedEOF is wrong for kind %d", kind)
	}
}

func inPieces(pieces ...string) (out []byte, notes httpwire.Note, err error) {
	var d httpwire.Dechunker
	for _, p := range pieces {
		for b := []byte(p); len(b) > 0 && !d.Done(); {
			data, n, err := d.Next(b)
			if err != nil {
				return out, d.Notes(), err
			}
			out = append(out, data...)
			b = b[n:]
		}
	}
	err = d.Finish()
	return out, d.Notes(), err
}

// TestDechunkerLeavesTheNextResponse: what follows the body stays with the caller.
func TestDechunkerLeavesTheNextResponse(t *testing.T) {
	var d httpwire.Dechunker
	src := []byte("1\r\na\r\n0\r\n\r\nHTTP/1.1 200 OK")
	rest := src
	for !d.Done() {
		_, n, err := d.Next(rest)
		if err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if string(rest) != "HTTP/1.1 200 OK" || d.Consumed() != int64(len(src)-len(rest)) {
		t.Fatalf("rest %q, consumed %d", rest, d.Consumed())
	}
	if _, n, err := d.Next(rest); n != 0 || err != nil {
		t.Fatalf("took %d more, %v", n, err)
	}
}

// FuzzChunked: the incremental, the reading and the entity form agree.
func FuzzChunked(f *testing.F) {
	for _, s := range []string{"3\r\nabc\r\n0\r\n\r\n", "3\nabc\n0\n\n", "5\r\nab", "<html>", "3 ;x\r\nabc\r\n0\r\nA: b\r\n\r\nmore", " 4"} {
		f.Add([]byte(s), uint8(1))
	}
	var head httpwire.Head
	if _, err := head.Parse([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in []byte, step uint8) {
		want, _, werr := httpwire.AppendDechunked(nil, in)
		got, gerr := io.ReadAll(httpwire.NewChunkedReader(bytes.NewReader(in)))
		if !bytes.Equal(want, got) || (werr == nil) != (gerr == nil) {
			t.Fatalf("reader: %q %v, want %q %v", got, gerr, want, werr)
		}
		var e httpwire.Entity
		e.Reset(&head)
		var ent []byte
		emit := func(b []byte) { ent = append(ent, b...) }
		for rest := in; len(rest) > 0; {
			n := min(int(step)+1, len(rest))
			e.Feed(rest[:n], emit)
			rest = rest[n:]
		}
		notes := e.Finish(emit)
		dec, dnotes := httpwire.DecodeBytes(nil, &head, in, httpwire.Limits{})
		if !bytes.Equal(ent, dec) {
			t.Fatalf("entity %q (%v), decoded %q (%v)", ent, notes, dec, dnotes)
		}
		if notes.Has(httpwire.NoteNotChunked) && !bytes.Equal(ent, in) {
			t.Fatalf("passed through %q as %q", in, ent)
		}
	})
}
