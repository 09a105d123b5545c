package httpwire_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"lycosa.dev/internal/httpwire"
)

// zeros compresses n zero bytes, layer on layer.
func zeros(t *testing.T, n int64, layers ...func(io.Writer) io.WriteCloser) []byte {
	t.Helper()
	var out bytes.Buffer
	top := io.WriteCloser(nopCloser{&out})
	var closers []io.Closer
	for i := len(layers) - 1; i >= 0; i-- {
		top = layers[i](top)
		closers = append(closers, top)
	}
	piece := make([]byte, 1<<20)
	for ; n > 0; n -= int64(len(piece)) {
		if _, err := top.Write(piece[:min(n, int64(len(piece)))]); err != nil {
			t.Fatal(err)
		}
	}
	for i := len(closers) - 1; i >= 0; i-- {
		if err := closers[i].Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// Bodies made to fill a reader's memory or disk are cut, with a note, at the
// limit that they reach first; what a decoder holds meanwhile is bounded.
func TestBombs(t *testing.T) {
	gz := func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }
	br := func(w io.Writer) io.WriteCloser { return brotli.NewWriterLevel(w, 5) }
	zs := func(w io.Writer) io.WriteCloser {
		z, err := zstd.NewWriter(w, zstd.WithWindowSize(1<<20))
		if err != nil {
			t.Fatal(err)
		}
		return z
	}
	const size = 256 << 20
	for _, c := range []struct {
		coding string
		layers []func(io.Writer) io.WriteCloser
		lim    httpwire.Limits
		most   int64
		note   httpwire.Note
	}{
		{"gzip", []func(io.Writer) io.WriteCloser{gz}, httpwire.Limits{}, 8 << 20, httpwire.NoteRatioLimit},
		{"br", []func(io.Writer) io.WriteCloser{br}, httpwire.Limits{}, 8 << 20, httpwire.NoteRatioLimit},
		{"zstd", []func(io.Writer) io.WriteCloser{zs}, httpwire.Limits{}, 8 << 20, httpwire.NoteRatioLimit},
		{"gzip, gzip", []func(io.Writer) io.WriteCloser{gz, gz}, httpwire.Limits{}, 8 << 20, httpwire.NoteRatioLimit},
		{"gzip, br, zstd", []func(io.Writer) io.WriteCloser{gz, br, zs}, httpwire.Limits{}, 8 << 20, httpwire.NoteRatioLimit},
		{"gzip", []func(io.Writer) io.WriteCloser{gz}, httpwire.Limits{MaxRatio: 1 << 40, MaxBytes: 3 << 20}, 3 << 20, httpwire.NoteSizeLimit},
		{"gzip, gzip, gzip, gzip, gzip", []func(io.Writer) io.WriteCloser{gz, gz, gz, gz, gz}, httpwire.Limits{}, 8 << 20, httpwire.NoteTooManyCodings},
	} {
		t.Run(fmt.Sprintf("%s to %d", c.coding, c.most), func(t *testing.T) {
			// The header names the coding applied first at the left.
			reversed := make([]func(io.Writer) io.WriteCloser, 0, len(c.layers))
			reversed = append(reversed, c.layers...)
			body := zeros(t, size, reversed...)
			var h httpwire.Head
			if _, err := h.Parse([]byte("HTTP/1.1 200 OK\r\nContent-Encoding: " + c.coding + "\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			r := httpwire.OpenBody(&h, bytes.NewReader(body), c.lim)
			n, err := io.Copy(io.Discard, r)
			runtime.ReadMemStats(&after)
			if err != nil || n > c.most || !r.Notes().Has(c.note) {
				t.Errorf("%d bytes of %d out of %d, %v, %v", n, size, len(body), err, r.Notes())
			}
			if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 64<<20 {
				t.Errorf("%d MiB are held", held>>20)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			out, notes := httpwire.DecodeBytes(nil, &h, body, c.lim)
			if int64(len(out)) > c.most || int64(cap(out)) > 4*c.most || !notes.Has(c.note) {
				t.Errorf("in memory: %d bytes, room for %d, %v", len(out), cap(out), notes)
			}
		})
	}
	// An honest page that compresses well is whole.
	text := strings.Repeat("<tr><td>0</td></tr>\n", 40<<10)
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	var h httpwire.Head
	_, _ = h.Parse([]byte("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"))
	if out, notes := httpwire.DecodeBytes(nil, &h, z.Bytes(), httpwire.Limits{}); string(out) != text || notes != 0 {
		t.Errorf("%d of %d bytes, %v", len(out), len(text), notes)
	}
}
