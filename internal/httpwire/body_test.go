package httpwire_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"lycosa.dev/internal/httpwire"
)

const page = "<html><head><title>T</title></head><body><p>hello</p><a href=\"/ok/next.html\">next</a></body></html>"

func encode(t testing.TB, coding string, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&out)
	case "zlib":
		w = zlib.NewWriter(&out)
	case "flate":
		w, _ = flate.NewWriter(&out, 6)
	case "br":
		w = brotli.NewWriter(&out)
	case "zstd":
		w, _ = zstd.NewWriter(&out)
	case "chunked":
		for i := 0; i < len(b); i += 1000 {
			p := b[i:min(i+1000, len(b))]
			out.WriteString(hex(len(p)) + "\r\n")
			out.Write(p)
			out.WriteString("\r\n")
		}
		out.WriteString("0\r\n\r\n")
		return out.Bytes()
	default:
		t.Fatalf("coding %q", coding)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func hex(n int) string {
	const digits = "0123456789abcdef"
	s := ""
	for ; n > 0 || s == ""; n /= 16 {
		s = string(digits[n%16]) + s
	}
	return s
}

func head(t testing.TB, fields ...string) *httpwire.Head {
	t.Helper()
	h := new(httpwire.Head)
	if _, err := h.Parse([]byte("HTTP/1.1 200 OK\r\n" + strings.Join(append(fields, ""), "\r\n") + "\r\n")); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestBody(t *testing.T) {
	enc := func(b string, codings ...string) string {
		for _, c := range codings {
			b = string(encode(t, c, []byte(b)))
		}
		return b
	}
	long := strings.Repeat(page, 400)
	for _, tc := range []struct {
		name   string
		fields []string
		body   string
		want   string
		notes  httpwire.Note
	}{
		{name: "plain", body: page, want: page},
		{name: "empty gzip", fields: []string{"Content-Encoding: gzip"}},
		{name: "gzip", fields: []string{"Content-Encoding: gzip"}, body: enc(long, "gzip"), want: long},
		{name: "x-gzip", fields: []string{"Content-Encoding: X-GZIP"}, body: enc(page, "gzip"), want: page},
		{name: "zlib", fields: []string{"Content-Encoding: deflate"}, body: enc(long, "zlib"), want: long},
		{name: "raw deflate", fields: []string{"Content-Encoding: deflate"}, body: enc(long, "flate"), want: long, notes: httpwire.NoteRawDeflate},
		{name: "br", fields: []string{"Content-Encoding: br"}, body: enc(long, "br"), want: long},
		{name: "zstd", fields: []string{"Content-Encoding: zstd"}, body: enc(long, "zstd"), want: long},
		{name: "identity", fields: []string{"Content-Encoding: identity"}, body: page, want: page},
		{name: "chunked", fields: []string{"Transfer-Encoding: chunked"}, body: enc(long, "chunked"), want: long},
		{name: "gzip in chunks", fields: []string{"Transfer-Encoding: chunked", "Content-Encoding: gzip"}, body: enc(long, "gzip", "chunked"), want: long},
		{name: "gzip as a transfer coding", fields: []string{"Transfer-Encoding: gzip, chunked"}, body: enc(long, "gzip", "chunked"), want: long},
		{name: "stacked", fields: []string{"Content-Encoding: br, gzip", "Content-Encoding: zstd"}, body: enc(long, "br", "gzip", "zstd"), want: long},
		{name: "gzip twice", fields: []string{"Content-Encoding: gzip, gzip"}, body: enc(page, "gzip", "gzip"), want: page},
		{name: "gzip twice said, once done", fields: []string{"Content-Encoding: gzip, gzip"}, body: enc(page, "gzip"), want: page, notes: httpwire.NoteMislabelled},
		{name: "two members", fields: []string{"Content-Encoding: gzip"}, body: enc("a", "gzip") + enc("b", "gzip"), want: "ab"},
		{name: "gzip claimed, plain", fields: []string{"Content-Encoding: gzip"}, body: page, want: page, notes: httpwire.NoteMislabelled},
		{name: "deflate claimed, plain", fields: []string{"Content-Encoding: deflate"}, body: page, want: page, notes: httpwire.NoteMislabelled},
		{name: "deflate claimed, plain that looks as zlib", fields: []string{"Content-Encoding: deflate"}, body: "x^ is a word", want: "x^ is a word", notes: httpwire.NoteMislabelled},
		{name: "br claimed, plain", fields: []string{"Content-Encoding: br"}, body: page, want: page, notes: httpwire.NoteMislabelled},
		{name: "br claimed, long plain", fields: []string{"Content-Encoding: br"}, body: long, want: long, notes: httpwire.NoteMislabelled},
		{name: "br claimed, short plain", fields: []string{"Content-Encoding: br"}, body: "ok\n", want: "ok\n", notes: httpwire.NoteMislabelled},
		{name: "zstd claimed, plain", fields: []string{"Content-Encoding: zstd"}, body: page, want: page, notes: httpwire.NoteMislabelled},
		{name: "br claimed, gzip", fields: []string{"Content-Encoding: br"}, body: enc(page, "gzip"), want: page, notes: httpwire.NoteOtherCoding},
		{name: "deflate claimed, gzip", fields: []string{"Content-Encoding: deflate"}, body: enc(page, "gzip"), want: page, notes: httpwire.NoteOtherCoding},
		{name: "gzip claimed, zlib", fields: []string{"Content-Encoding: gzip"}, body: enc(long, "zlib"), want: long, notes: httpwire.NoteOtherCoding},
		{name: "unknown coding", fields: []string{"Content-Encoding: utf-8"}, body: page, want: page, notes: httpwire.NoteUnknownCoding},
		{name: "chunked claimed, plain", fields: []string{"Transfer-Encoding: chunked"}, body: page, want: page, notes: httpwire.NoteNotChunked},
		{name: "chunked cut", fields: []string{"Transfer-Encoding: chunked"}, body: "5\r\nabc", want: "abc", notes: httpwire.NoteChunkTruncated},
		{name: "chunked broken", fields: []string{"Transfer-Encoding: chunked"}, body: "3\r\nabcXYZ", want: "abc", notes: httpwire.NoteChunkMalformed},
		{name: "garbage after gzip", fields: []string{"Content-Encoding: gzip"}, body: enc(page, "gzip") + "\r\n", want: page, notes: httpwire.NoteTrailingGarbage},
		{name: "garbage after zlib", fields: []string{"Content-Encoding: deflate"}, body: enc(page, "zlib") + "\r\n", want: page, notes: httpwire.NoteTrailingGarbage},
		{name: "garbage after br", fields: []string{"Content-Encoding: br"}, body: enc(long, "br") + "\r\n", want: long, notes: httpwire.NoteTrailingGarbage},
		{name: "garbage after zstd", fields: []string{"Content-Encoding: zstd"}, body: enc(page, "zstd") + "junk", want: page, notes: httpwire.NoteTrailingGarbage},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := head(t, tc.fields...)
			got, notes := httpwire.DecodeBytes(nil, h, []byte(tc.body), httpwire.Limits{})
			if string(got) != tc.want {
				t.Errorf("%d bytes %.60q, want %d bytes %.60q", len(got), got, len(tc.want), tc.want)
			}
			if notes != tc.notes {
				t.Errorf("notes %v, want %v", notes, tc.notes)
			}
			r := httpwire.OpenBody(h, iotest.OneByteReader(strings.NewReader(tc.body)), httpwire.Limits{})
			defer r.Close()
			if err := iotest.TestReader(r, []byte(tc.want)); err != nil {
				t.Errorf("byte by byte: %v", err)
			}
			if r.Notes() != tc.notes {
				t.Errorf("byte by byte: notes %v, want %v", r.Notes(), tc.notes)
			}
		})
	}
}

// TestBodyCut: whatever the coding, a body cut anywhere gives a prefix and says so.
func TestBodyCut(t *testing.T) {
	text := strings.Repeat(page, 20)
	for label, coding := range map[string]string{"gzip": "gzip", "deflate": "zlib", "br": "br", "zstd": "zstd"} {
		h := head(t, "Content-Encoding: "+label)
		full := encode(t, coding, []byte(text))
		for cut := 8; cut < len(full)-8; cut++ {
			got, notes := httpwire.DecodeBytes(nil, h, full[:cut], httpwire.Limits{})
			if !strings.HasPrefix(text, string(got)) {
				t.Fatalf("%s cut at %d of %d: not a prefix", label, cut, len(full))
			}
			if !notes.Incomplete() {
				t.Fatalf("%s cut at %d of %d: notes %v", label, cut, len(full), notes)
			}
		}
	}
}

// TestBodyCorrupt: no flipped byte makes it panic, and a gzip body says so.
func TestBodyCorrupt(t *testing.T) {
	text := strings.Repeat(page, 20)
	for label, coding := range map[string]string{"gzip": "gzip", "deflate": "zlib", "br": "br", "zstd": "zstd"} {
		h := head(t, "Content-Encoding: "+label)
		full := encode(t, coding, []byte(text))
		for i := range full {
			b := bytes.Clone(full)
			b[i] ^= 0x55
			got, notes := httpwire.DecodeBytes(nil, h, b, httpwire.Limits{})
			if label == "gzip" && i >= 10 && notes == 0 {
				t.Fatalf("gzip byte %d flipped: no note, %d bytes", i, len(got))
			}
		}
	}
}

func TestBodyLimits(t *testing.T) {
	zeros := make([]byte, 32<<20)
	for label, coding := range map[string]string{"gzip": "gzip", "deflate": "zlib", "br": "br", "zstd": "zstd"} {
		body := encode(t, coding, zeros)
		h := head(t, "Content-Encoding: "+label)
		got, notes := httpwire.DecodeBytes(nil, h, body, httpwire.Limits{MaxBytes: 5 << 20, MaxRatio: 1 << 30})
		if len(got) != 5<<20 || notes != httpwire.NoteSizeLimit {
			t.Errorf("%s: %d bytes, %v", label, len(got), notes)
		}
		got, notes = httpwire.DecodeBytes(nil, h, body, httpwire.Limits{MaxRatio: 100})
		if len(got) >= len(zeros) || notes != httpwire.NoteRatioLimit {
			t.Errorf("%s: ratio: %d bytes, %v", label, len(got), notes)
		}
	}
	// A bomb in a bomb: the outer layer is bounded as well.
	twice := encode(t, "gzip", encode(t, "gzip", zeros))
	got, notes := httpwire.DecodeBytes(nil, head(t, "Content-Encoding: gzip, gzip"), twice, httpwire.Limits{})
	if len(got) >= len(zeros) || !notes.Has(httpwire.NoteRatioLimit) {
		t.Errorf("twice: %d bytes, %v", len(got), notes)
	}
	// A plain body.
	got, notes = httpwire.DecodeBytes(nil, head(t), zeros, httpwire.Limits{MaxBytes: 1000})
	if len(got) != 1000 || notes != httpwire.NoteSizeLimit {
		t.Errorf("plain: %d bytes, %v", len(got), notes)
	}
	r := httpwire.OpenBody(head(t), bytes.NewReader(zeros), httpwire.Limits{MaxBytes: 1000})
	b, err := io.ReadAll(r)
	if len(b) != 1000 || err != nil || r.Notes() != httpwire.NoteSizeLimit {
		t.Errorf("plain reader: %d bytes, %v, %v", len(b), err, r.Notes())
	}
	// Exactly the limit is no excess.
	got, notes = httpwire.DecodeBytes(nil, head(t, "Content-Encoding: gzip"), encode(t, "gzip", zeros[:1000]), httpwire.Limits{MaxBytes: 1000})
	if len(got) != 1000 || notes != 0 {
		t.Errorf("exact: %d bytes, %v", len(got), notes)
	}
}

func TestBodySourceError(t *testing.T) {
	boom := errors.New("boom")
	full := encode(t, "gzip", []byte(strings.Repeat(page, 1000)))
	for _, fields := range [][]string{{"Content-Encoding: gzip"}, {"Content-Encoding: br"}, {"Transfer-Encoding: chunked"}, nil} {
		src := io.MultiReader(bytes.NewReader(full[:len(full)/2]), iotest.ErrReader(boom))
		if fields != nil && strings.HasPrefix(fields[0], "Transfer") {
			src = io.MultiReader(strings.NewReader("5\r\nab"), iotest.ErrReader(boom))
		}
		r := httpwire.OpenBody(head(t, fields...), src, httpwire.Limits{})
		if _, err := io.ReadAll(r); !errors.Is(err, boom) {
			t.Errorf("%v: error %v", fields, err)
		}
		_ = r.Close()
	}
}

func TestPlainBodyIsNotCopied(t *testing.T) {
	b := []byte(page)
	got, _ := httpwire.DecodeBytes(nil, head(t, "Content-Type: text/html"), b, httpwire.Limits{})
	if &got[0] != &b[0] || len(got) != len(b) {
		t.Error("the plain body was copied")
	}
}

func FuzzBody(f *testing.F) {
	for i, c := range []string{"gzip", "zlib", "br", "zstd", "flate"} {
		f.Add(encode(f, c, []byte(page)), uint8(i))
		f.Add([]byte(page), uint8(i))
	}
	heads := []*httpwire.Head{
		head(f, "Content-Encoding: gzip"), head(f, "Content-Encoding: deflate"), head(f, "Content-Encoding: br"),
		head(f, "Content-Encoding: zstd"), head(f, "Content-Encoding: gzip, br", "Transfer-Encoding: chunked"),
	}
	lim := httpwire.Limits{MaxBytes: 1 << 20}
	f.Fuzz(func(t *testing.T, b []byte, which uint8) {
		h := heads[int(which)%len(heads)]
		got, notes := httpwire.DecodeBytes(nil, h, b, lim)
		if int64(len(got)) > lim.MaxBytes {
			t.Fatal("beyond the limit")
		}
		// A used decoder gives the same again.
		again, anotes := httpwire.DecodeBytes(nil, h, b, lim)
		if !bytes.Equal(got, again) || notes != anotes {
			t.Fatalf("differs when decoded again: %v, %v", notes, anotes)
		}
	})
}

func benchPage() []byte {
	r := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields(strings.Repeat("the of and crawler page link host queue frontier archive record server river wooden between language number history ", 3))
	var b bytes.Buffer
	for b.Len() < 20<<10 {
		b.WriteString("<p class=\"c" + hex(r.IntN(99)) + "\">")
		for range 30 {
			b.WriteString(words[r.IntN(len(words))] + hex(r.IntN(40)) + " ")
		}
		b.WriteString("<a href=\"/d" + hex(r.IntN(1000)) + "/p" + hex(r.IntN(100000)) + ".html\">more</a></p>\n")
	}
	return b.Bytes()[:20<<10]
}

func BenchmarkDecodeBytes(b *testing.B) {
	text := benchPage()
	for label, coding := range map[string]string{"gzip": "gzip", "deflate": "zlib", "br": "br", "zstd": "zstd"} {
		body := encode(b, coding, text)
		h := head(b, "Content-Encoding: "+label)
		b.Run(label, func(b *testing.B) {
			var dst []byte
			b.ReportAllocs()
			for b.Loop() {
				dst, _ = httpwire.DecodeBytes(dst, h, body, httpwire.Limits{})
			}
		})
	}
	chunked := encode(b, "chunked", text)
	h := head(b, "Transfer-Encoding: chunked")
	b.Run("chunked", func(b *testing.B) {
		var dst []byte
		b.ReportAllocs()
		for b.Loop() {
			dst, _ = httpwire.DecodeBytes(dst, h, chunked, httpwire.Limits{})
		}
	})
}

func BenchmarkHead(b *testing.B) {
	raw := []byte("HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Mon, 30 Nov 2026 20:00:00 GMT\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 20480\r\nLast-Modified: Mon, 30 Nov 2026 20:00:00 GMT\r\nConnection: keep-alive\r\nETag: \"65f1-5000\"\r\nAccept-Ranges: bytes\r\n\r\n")
	var h httpwire.Head
	b.ReportAllocs()
	for b.Loop() {
		_, _ = h.Parse(raw)
		_, _ = h.Framing("GET")
	}
}
