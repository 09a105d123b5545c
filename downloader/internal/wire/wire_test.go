package wire_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lycosa.dev/downloader/internal/wire"
	"lycosa.dev/internal/httpwire"
)

func parse(t testing.TB, in string) (wire.Head, error) {
	t.Helper()
	at, s := wire.FindStart([]byte(in), false)
	if s != wire.StartHTTP {
		t.Fatalf("%q: start %v", in, s)
	}
	b := []byte(in)[at:]
	n := wire.FindEnd(b, 0)
	if n != len(b) {
		t.Fatalf("%q: end at %d of %d", in, n, len(b))
	}
	return wire.Parse(b, new(httpwire.Head))
}

func TestParse(t *testing.T) {
	type want struct {
		status  int
		framing httpwire.FramingKind
		length  int64
		keep    bool
		notes   wire.Note
		odd     httpwire.Note
		err     string
	}
	const (
		ok      = "HTTP/1.1 200 OK\r\n"
		none    = httpwire.FramingNone
		length  = httpwire.FramingLength
		chunked = httpwire.FramingChunked
		toClose = httpwire.FramingClose
	)
	for in, w := range map[string]want{
		ok + "Content-Length: 5\r\n\r\n":                      {200, length, 5, true, 0, 0, ""},
		ok + "content-LENGTH :\t5 \r\n\r\n":                   {200, length, 5, true, 0, 0, ""},
		ok + "\r\n":                                           {200, toClose, 0, false, 0, 0, ""},
		ok + "Content-Length: 0\r\n\r\n":                      {200, length, 0, true, 0, 0, ""},
		ok + "Content-Length: 9\r\nContent-Length: 9\r\n\r\n": {200, length, 9, true, 0, httpwire.NoteLengthRepeated, ""},
		ok + "Content-Length: 9, 9\r\n\r\n":                   {200, length, 9, true, 0, httpwire.NoteLengthRepeated, ""},
		ok + "Content-Length: 9\r\nContent-Length: 7\r\n\r\n": {err: "content-length-conflict"},
		ok + "Content-Length: 9, 7\r\n\r\n":                   {err: "content-length-conflict"},
		ok + "Content-Length: 9\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n": {200, chunked, 0, true, 0, httpwire.NoteLengthIgnored, ""},
		ok + "Content-Length:    9\x00\r\n\r\n":                                             {200, length, 9, true, 0, 0, ""},
		ok + "Content-Length: -1\r\n\r\n":                                                   {200, toClose, 0, false, wire.NoteBadLength, 0, ""},
		ok + "Content-Length: 99999999999999999999\r\n\r\n":                                 {200, toClose, 0, false, wire.NoteBadLength, 0, ""},
		ok + "Content-Length:\r\n 12\r\n\r\n":                                               {200, length, 12, true, 0, httpwire.NoteFolded, ""},
		ok + "Transfer-Encoding: gzip, Chunked\r\n\r\n":                                     {200, chunked, 0, true, 0, 0, ""},
		ok + "Transfer-Encoding: gzip\r\nContent-Length: 3\r\n\r\n":                         {200, toClose, 0, false, 0, httpwire.NoteLengthIgnored, ""},
		ok + "Transfer-Encoding: identity\r\nContent-Length: 3\r\n\r\n":                     {200, length, 3, true, 0, 0, ""},
		ok + "Connection: Close\r\nContent-Length: 3\r\n\r\n":                               {200, length, 3, false, 0, 0, ""},
		ok + "Connection: x, close\r\nContent-Length: 3\r\n\r\n":                            {200, length, 3, false, 0, 0, ""},
		ok + "Junk line\r\n: empty\r\nContent-Length: 3\r\n\r\n":                            {200, length, 3, true, 0, httpwire.NoteJunkLine, ""},
		"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n":                                      {200, length, 3, false, 0, 0, ""},
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\n":            {200, length, 3, true, 0, 0, ""},
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n":                             {200, chunked, 0, false, wire.NoteChunkedHTTP10, 0, ""},
		"HTTP/1.0 200 OK\r\nHTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n":                   {200, length, 3, false, 0, httpwire.NoteJunkLine, ""},
		"HTTP/1.1 200 OK\nContent-Length: 3\n\n":                                            {200, length, 3, true, 0, httpwire.NoteBareLF, ""},
		"HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\n":                                      {204, none, 0, true, 0, 0, ""},
		"HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\n":                             {304, none, 0, true, 0, 0, ""},
		"HTTP/1.1 100 Continue\r\n\r\n":                                                     {100, none, 0, true, 0, 0, ""},
		"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\n":                                         {200, length, 1, true, 0, 0, ""},
		"HTTP/1.1  404  Not\r\nContent-Length: 1\r\n\r\n":                                   {404, length, 1, true, 0, httpwire.NoteOddStatusLine, ""},
		"HTTP/2 200\r\nContent-Length: 1\r\n\r\n":                                           {200, length, 1, true, 0, 0, ""},
		"http/1.1 200 ok\r\nContent-Length: 1\r\n\r\n":                                      {200, length, 1, true, 0, httpwire.NoteOddStatusLine, ""},
		"ICY 200 OK\r\n\r\n":                                                                {200, toClose, 0, false, 0, httpwire.NoteOddStatusLine, ""},
		"xHTTP/1.1 200 ok\r\nContent-Length: 1\r\n\r\n":                                     {200, length, 1, true, 0, 0, ""},
		"HTTP/1.1 OK\r\nContent-Length: 1\r\n\r\n":                                          {err: "bad-status"},
		"HTTP/1.1 4294967496 OK\r\n\r\n":                                                    {err: "bad-status"},
		"HTTP/1.1 099 OK\r\n\r\n":                                                           {err: "bad-status"},
		"HTTP/1.1 20 OK\r\n\r\n":                                                            {err: "bad-status"},
		"HTTP/1.1 999 Denied\r\nContent-Length: 1\r\n\r\n":                                  {999, length, 1, true, 0, 0, ""},
	} {
		h, err := parse(t, in)
		var pe *wire.ProtocolError
		if w.err != "" {
			if !errors.As(err, &pe) || pe.Code != w.err {
				t.Errorf("%q: error %v, want %s", in, err, w.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		if got := (want{h.Status, h.Framing.Kind, h.Framing.Length, h.KeepAlive, h.Notes, h.Odd, ""}); got != w {
			t.Errorf("%q:\n got %+v %v %v\nwant %+v %v %v", in, got, got.notes.Codes(), got.odd, w, w.notes.Codes(), w.odd)
		}
	}
}

func TestParseHints(t *testing.T) {
	h, err := parse(t, "HTTP/1.1 503 Busy\r\nRetry-After: 120\r\nKeep-Alive: max=3, timeout=7\r\n\r\n")
	if err != nil || h.RetryAfter != "120" || h.KeepAliveTimeout != 7*time.Second {
		t.Errorf("%+v, %v", h, err)
	}
}

// A header block of nothing but continuation lines must not cost more than
// linear time: this one would be 10 GB of copying.
func TestParseManyFolds(t *testing.T) {
	in := "HTTP/1.1 200 OK\r\nA: b\r\n" + strings.Repeat(" \n", 128<<10) + "\r\n"
	start := time.Now()
	if _, err := wire.Parse([]byte(in), new(httpwire.Head)); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("took %v", d)
	}
}

func TestFindStart(t *testing.T) {
	for in, want := range map[string]wire.Start{
		"": wire.StartUnknown, "H": wire.StartUnknown, "\r\n\r\nHT": wire.StartUnknown, "xyHT": wire.StartUnknown,
		"HTTP/1.1": wire.StartHTTP, "\r\nHTTP": wire.StartHTTP, "abcdhttp": wire.StartHTTP, "ICY 2": wire.StartHTTP,
		"<html><head>": wire.StartOther, "abcdeHTTP": wire.StartOther, "SSH-2.0-x": wire.StartOther,
	} {
		if _, got := wire.FindStart([]byte(in), false); got != want {
			t.Errorf("%q: %v, want %v", in, got, want)
		}
	}
	if _, got := wire.FindStart([]byte("HT"), true); got != wire.StartOther {
		t.Errorf("two bytes and the end: %v", got)
	}
}

// The end of a header block is found wherever the reads cut it.
func TestFindEndSplit(t *testing.T) {
	for _, in := range []string{"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody", "HTTP/1.1 200 OK\nA: b\n\nbody", "HTTP/1.1 200 OK\r\n\nbody", "HTTP/1.1 200 OK\n\r\nbody"} {
		end := len(in) - len("body")
		known := 0
		for i := 1; i <= len(in); i++ {
			n := wire.FindEnd([]byte(in[:i]), known)
			if i < end && n != 0 || i >= end && n != end {
				t.Fatalf("%q cut at %d: %d, want %d", in, i, n, end)
			}
			if n != 0 {
				break
			}
			known = i
		}
	}
}

func TestBody(t *testing.T) {
	chunked := wire.Head{Framing: httpwire.Framing{Kind: httpwire.FramingChunked}}
	type want struct {
		taken int
		done  bool
		lost  bool
		end   wire.End
		odd   httpwire.Note
	}
	for in, w := range map[string]want{
		"3\r\nabc\r\n0\r\n\r\nREST":            {13, true, false, wire.EndWhole, 0},
		"3  \r\nabc\r\n0\r\n\r\n":              {15, true, false, wire.EndWhole, 0},
		"3;x=y\r\nabc\r\n000;z\r\n\r\n":        {21, true, false, wire.EndWhole, 0},
		"3\nabc\n0\n\n":                        {9, true, false, wire.EndWhole, 0},
		"A\r\n0123456789\r\n0\r\nT: v\r\n\r\n": {26, true, false, wire.EndWhole, 0},
		"3\r\nabc\r\n0\r\n":                    {11, false, false, wire.EndWhole, httpwire.NoteNoFinalLine},
		"3\r\nabc\r\n":                         {8, false, false, wire.EndCut, httpwire.NoteChunkTruncated},
		"3\r\nab":                              {5, false, false, wire.EndCut, httpwire.NoteChunkTruncated},
		"":                                     {0, false, false, wire.EndCut, httpwire.NoteChunkTruncated},
		"3\r\nabcX\r\n":                        {9, false, true, wire.EndGarbled, httpwire.NoteChunkMalformed},
		"3\r\nabc\r\nzz\r\n":                   {12, false, true, wire.EndGarbled, httpwire.NoteChunkMalformed},
		"3\r\nabc\r\nfffffffffffffffffff\r\n":  {29, false, true, wire.EndGarbled, httpwire.NoteChunkMalformed},
		"-3\r\nabc":                            {7, false, false, wire.EndWhole, httpwire.NoteNotChunked},
		"<html>plain</html>":                   {18, false, false, wire.EndWhole, httpwire.NoteNotChunked},
	} {
		// Whole and byte by byte: the cuts must make no difference.
		for _, step := range []int{len(in) + 1, 1, 2, 3} {
			b := wire.NewBody(&chunked)
			taken := 0
			for p := range slices.Chunk([]byte(in), step) {
				n := b.Scan(p)
				taken += n
				if n < len(p) {
					break
				}
			}
			end, _, odd := b.Close()
			if got := (want{taken, b.Done(), b.Lost(), end, odd}); got != w {
				t.Errorf("%q by %d: %+v, want %+v", in, step, got, w)
			}
		}
	}
	four := wire.Head{Framing: httpwire.Framing{Kind: httpwire.FramingLength, Length: 4}}
	b := wire.NewBody(&four)
	if n := b.Scan([]byte("abcdef")); n != 4 || !b.Done() {
		t.Errorf("length: %d %v", n, b.Done())
	}
	b = wire.NewBody(&four)
	b.Scan([]byte("ab"))
	if end, n, _ := b.Close(); end != wire.EndCut || n != wire.NoteLengthMismatch {
		t.Errorf("short: %v %v", end, n)
	}
	b = wire.NewBody(&wire.Head{})
	if !b.Done() || b.Scan([]byte("x")) != 0 {
		t.Error("a response without body takes bytes")
	}
}

func TestNoteCodes(t *testing.T) {
	all := ^wire.Note(0)
	seen := map[string]bool{}
	for _, c := range all.Codes() {
		if c == "" || seen[c] {
			t.Errorf("code %q is empty or twice", c)
		}
		seen[c] = true
	}
	if fmt.Sprint((wire.NoteHTTP09 | wire.NoteCertificateInvalid).Codes()) != "[http09 certificate-invalid]" {
		t.Error("the codes do not match the notes:", (wire.NoteHTTP09 | wire.NoteCertificateInvalid).Codes())
	}
}

// However the bytes are cut, the same number of them belongs to head and body.
func FuzzResponse(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd", "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n3\nabc\n0\n\n",
		"ICY 200\r\n\r\n", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "<html>", "\r\nxHTTP/0.9 1\r\n\r\n",
	} {
		f.Add([]byte(s), uint8(1))
	}
	run := func(in []byte, step int) (head int, h wire.Head, err error, body int, end wire.End) { //nolint:staticcheck // in the order in which they come about
		known := 0
		for n := min(step, len(in)); ; n = min(n+step, len(in)) {
			at, s := wire.FindStart(in[:n], n == len(in))
			if s == wire.StartOther {
				return -1, h, nil, 0, 0
			}
			if s == wire.StartHTTP {
				if head = wire.FindEnd(in[at:n], known); head > 0 {
					head += at
					h, err = wire.Parse(in[at:head], new(httpwire.Head))
					break
				}
				known = n - at
			}
			if n == len(in) {
				return -2, h, nil, 0, 0
			}
		}
		if err != nil {
			return head, h, err, 0, 0
		}
		b := wire.NewBody(&h)
		for p := range slices.Chunk(in[head:], step) {
			n := b.Scan(p)
			if n < 0 || n > len(p) {
				panic("Scan took what it was not given")
			}
			body += n
			if n < len(p) {
				break
			}
		}
		end, _, _ = b.Close()
		return head, h, err, body, end
	}
	f.Fuzz(func(t *testing.T, in []byte, step uint8) {
		h1, a, e1, b1, x1 := run(in, len(in)+1)
		h2, b, e2, b2, x2 := run(in, int(step)+1)
		if h1 != h2 || a != b || (e1 == nil) != (e2 == nil) || b1 != b2 || x1 != x2 {
			t.Fatalf("cut by %d: %d %+v %v %d %v, whole: %d %+v %v %d %v", int(step)+1, h2, b, e2, b2, x2, h1, a, e1, b1, x1)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	in := []byte("HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Mon, 30 Nov 2026 10:00:00 GMT\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 20480\r\nLast-Modified: Mon, 30 Nov 2026 10:00:00 GMT\r\nConnection: keep-alive\r\nETag: \"64b6\"\r\nAccept-Ranges: bytes\r\n\r\n")
	b.ReportAllocs()
	var scratch httpwire.Head
	for b.Loop() {
		if n := wire.FindEnd(in, 0); n != len(in) {
			b.Fatal(n)
		}
		if _, err := wire.Parse(in, &scratch); err != nil {
			b.Fatal(err)
		}
	}
}
