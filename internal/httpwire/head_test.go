package httpwire_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"lycosa.dev/internal/casefiles"
	"lycosa.dev/internal/httpwire"
)

func TestHeadParse(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		status   int
		reason   string
		fields   string // name=value joined by |
		notes    httpwire.Note
		rest     string
		err      error
	}{
		{name: "plain", in: "HTTP/1.1 200 OK\r\nA: 1\r\nB:2 \r\n\r\nbody", status: 200, reason: "OK", fields: "A=1|B=2", rest: "body"},
		{name: "no reason", in: "HTTP/1.1 200\r\n\r\n", status: 200},
		{name: "no reason, blank", in: "HTTP/1.0 404 \r\n\r\n", status: 404},
		{name: "bare LF", in: "HTTP/1.1 200 OK\nA: 1\n\nx", status: 200, reason: "OK", fields: "A=1", notes: httpwire.NoteBareLF, rest: "x"},
		{name: "mixed ends", in: "HTTP/1.1 200 OK\r\nA: 1\n\r\nx", status: 200, reason: "OK", fields: "A=1", notes: httpwire.NoteBareLF, rest: "x"},
		{name: "leading blank lines", in: "\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", status: 200, reason: "OK", notes: httpwire.NoteLeadingBlank},
		{name: "lower case", in: "http/1.1 200 ok\r\n\r\n", status: 200, reason: "ok", notes: httpwire.NoteOddStatusLine},
		{name: "no version", in: "HTTP 200 OK\r\n\r\n", status: 200, reason: "OK", notes: httpwire.NoteOddStatusLine},
		{name: "version of one digit", in: "HTTP/2 204\r\n\r\n", status: 204},
		{name: "two blanks", in: "HTTP/1.1  200 OK\r\n\r\n", status: 200, reason: "OK", notes: httpwire.NoteOddStatusLine},
		{name: "reason at once", in: "HTTP/1.1 200OK\r\n\r\n", status: 200, reason: "OK", notes: httpwire.NoteOddStatusLine},
		{name: "icy", in: "ICY 200 OK\r\n\r\n", status: 200, reason: "OK", notes: httpwire.NoteOddStatusLine},
		{name: "status line twice", in: "HTTP/1.0 200 OK\r\nHTTP/1.0 200 OK\r\nA: 1\r\n\r\n", status: 200, reason: "OK", fields: "A=1", notes: httpwire.NoteJunkLine},
		{name: "folded", in: "HTTP/1.1 200 OK\r\nA: 1\r\n  2\r\n\t3\r\nB: x\r\n\r\n", status: 200, reason: "OK", fields: "A=1 2 3|B=x", notes: httpwire.NoteFolded},
		{name: "blank before the first field", in: "HTTP/1.1 200 OK\r\n A: 1\r\n\r\n", status: 200, reason: "OK", fields: "A=1"},
		{name: "fold after junk", in: "HTTP/1.1 200 OK\r\njunk\r\n A: 1\r\n\r\n", status: 200, reason: "OK", fields: "A=1", notes: httpwire.NoteJunkLine},
		{name: "blank before colon", in: "HTTP/1.1 200 OK\r\nA : 1\r\n\r\n", status: 200, reason: "OK", fields: "A=1", notes: httpwire.NoteSpaceBeforeColon},
		{name: "no name", in: "HTTP/1.1 200 OK\r\n: 1\r\nB: 2\r\n\r\n", status: 200, reason: "OK", fields: "B=2", notes: httpwire.NoteBadName},
		{name: "odd name", in: "HTTP/1.1 200 OK\r\nA B: 1\r\n\r\n", status: 200, reason: "OK", fields: "A B=1", notes: httpwire.NoteBadName},
		{name: "empty value", in: "HTTP/1.1 200 OK\r\nA:\r\n\r\n", status: 200, reason: "OK", fields: "A="},
		{name: "latin 1", in: "HTTP/1.1 302 Found\r\nLocation: /caf\xe9\r\n\r\n", status: 302, reason: "Found", fields: "Location=/caf\xe9", notes: httpwire.NoteNonASCII},
		{name: "NUL", in: "HTTP/1.1 200 OK\r\nA: 1\x00\r\n\r\n", status: 200, reason: "OK", fields: "A=1\x00", notes: httpwire.NoteControl},
		{name: "bare CR is no line end", in: "HTTP/1.1 200 OK\r\nA: 1\rB: 2\r\n\r\n", status: 200, reason: "OK", fields: "A=1\rB: 2", notes: httpwire.NoteControl},
		{name: "incomplete", in: "HTTP/1.1 200 OK\r\nA: 1\r\n", err: httpwire.ErrIncomplete},
		{name: "nothing", in: "", err: httpwire.ErrIncomplete},
		{name: "start of the protocol's name", in: "HT", err: httpwire.ErrIncomplete},
		{name: "HTML", in: "<html><head>", err: httpwire.ErrNoStatusLine},
		{name: "HTML with lines", in: "<html>\r\n\r\n", err: httpwire.ErrNoStatusLine},
		{name: "overflowing status", in: "HTTP/1.1 4294967496 OK\r\n\r\n", err: httpwire.ErrBadStatus},
		{name: "overflowing status, early", in: "HTTP/1.1 4294967496 OK\r\n", err: httpwire.ErrBadStatus},
		{name: "two digits", in: "HTTP/1.1 20 OK\r\n\r\n", err: httpwire.ErrBadStatus},
		{name: "status below 100", in: "HTTP/1.1 099 OK\r\n\r\n", err: httpwire.ErrBadStatus},
		{name: "no status", in: "HTTP/1.1\r\n\r\n", err: httpwire.ErrNoStatusLine},
		{name: "word", in: "HTTPS is fine\r\n\r\n", err: httpwire.ErrNoStatusLine},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var h httpwire.Head
			n, err := h.Parse([]byte(tc.in))
			if !errors.Is(err, tc.err) {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			if err != nil {
				return
			}
			if got := tc.in[n:]; got != tc.rest {
				t.Errorf("rest %q, want %q", got, tc.rest)
			}
			if h.Status != tc.status || string(h.Reason) != tc.reason {
				t.Errorf("status %d %q, want %d %q", h.Status, h.Reason, tc.status, tc.reason)
			}
			var fs []string
			for _, f := range h.Fields {
				fs = append(fs, string(f.Name)+"="+string(f.Value))
			}
			if got := strings.Join(fs, "|"); got != tc.fields {
				t.Errorf("fields %q, want %q", got, tc.fields)
			}
			if h.Notes != tc.notes {
				t.Errorf("notes %v, want %v", h.Notes, tc.notes)
			}
		})
	}
}

func TestHeadDoesNotTouchItsInput(t *testing.T) {
	in := "HTTP/1.1 200 OK\r\nA: 1\r\n  2\r\nB: 3\r\n\r\n"
	b := []byte(in)
	var h httpwire.Head
	if _, err := h.Parse(b); err != nil {
		t.Fatal(err)
	}
	if string(b) != in {
		t.Fatalf("the input became %q", b)
	}
	if got := string(h.Get("a")); got != "1 2" {
		t.Errorf("A = %q", got)
	}
	if h.Get("c") != nil {
		t.Error("an absent field is not nil")
	}
}

func TestHeadParsesWithoutAllocating(t *testing.T) {
	b := []byte("HTTP/1.1 200 OK\r\nServer: x\r\nContent-Type: text/html\r\nContent-Length: 20480\r\nConnection: keep-alive\r\n\r\n")
	var h httpwire.Head
	_, _ = h.Parse(b)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := h.Parse(b); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Framing("GET"); err != nil {
			t.Fatal(err)
		}
		if h.Coded() {
			t.Fatal("coded")
		}
	}); n > 0 {
		t.Errorf("%v allocations a head", n)
	}
}

func TestFraming(t *testing.T) {
	for _, tc := range []struct {
		name, fields, method string
		status               string
		want                 httpwire.Framing
		notes                httpwire.Note
		err                  error
	}{
		{name: "length", fields: "Content-Length: 5\r\n", want: httpwire.Framing{Kind: httpwire.FramingLength, Length: 5}},
		{name: "length twice", fields: "Content-Length: 5\r\ncontent-length: 5\r\n", want: httpwire.Framing{Kind: httpwire.FramingLength, Length: 5}, notes: httpwire.NoteLengthRepeated},
		{name: "length list", fields: "Content-Length: 5, 5\r\n", want: httpwire.Framing{Kind: httpwire.FramingLength, Length: 5}, notes: httpwire.NoteLengthRepeated},
		{name: "two lengths", fields: "Content-Length: 5\r\nContent-Length: 7\r\n", err: httpwire.ErrLengthConflict},
		{name: "negative", fields: "Content-Length: -5\r\n", err: httpwire.ErrBadLength},
		{name: "overflow", fields: "Content-Length: 9223372036854775808\r\n", err: httpwire.ErrBadLength},
		{name: "largest", fields: "Content-Length: 9223372036854775807\r\n", want: httpwire.Framing{Kind: httpwire.FramingLength, Length: 1<<63 - 1}},
		{name: "NUL", fields: "Content-Length: 99\x00\r\n", want: httpwire.Framing{Kind: httpwire.FramingLength, Length: 99}, notes: httpwire.NoteControl},
		{name: "empty length is none", fields: "Content-Length:\r\n", want: httpwire.Framing{Kind: httpwire.FramingClose}},
		{name: "chunked wins", fields: "Content-Length: 3\r\nTransfer-Encoding: Chunked\r\n", want: httpwire.Framing{Kind: httpwire.FramingChunked}, notes: httpwire.NoteLengthIgnored},
		{name: "gzip, chunked", fields: "Transfer-Encoding: gzip, chunked\r\n", want: httpwire.Framing{Kind: httpwire.FramingChunked}},
		{name: "chunked not last", fields: "Transfer-Encoding: chunked, gzip\r\n", want: httpwire.Framing{Kind: httpwire.FramingClose}},
		{name: "identity", fields: "Transfer-Encoding: identity\r\nContent-Length: 5\r\n", want: httpwire.Framing{Kind: httpwire.FramingLength, Length: 5}},
		{name: "nothing said", want: httpwire.Framing{Kind: httpwire.FramingClose}},
		{name: "HEAD", method: "HEAD", fields: "Content-Length: 5\r\n", want: httpwire.Framing{Kind: httpwire.FramingNone}},
		{name: "204", status: "204", fields: "Content-Length: 5\r\n", want: httpwire.Framing{Kind: httpwire.FramingNone}},
		{name: "304", status: "304", fields: "Transfer-Encoding: chunked\r\n", want: httpwire.Framing{Kind: httpwire.FramingNone}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status := tc.status
			if status == "" {
				status = "200"
			}
			var h httpwire.Head
			if _, err := h.Parse([]byte("HTTP/1.1 " + status + " x\r\n" + tc.fields + "\r\n")); err != nil {
				t.Fatal(err)
			}
			got, err := h.Framing(tc.method)
			if !errors.Is(err, tc.err) {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			if got != tc.want {
				t.Errorf("framing %+v, want %+v", got, tc.want)
			}
			if err == nil && h.Notes != tc.notes {
				t.Errorf("notes %v, want %v", h.Notes, tc.notes)
			}
		})
	}
}

func FuzzHead(f *testing.F) {
	for _, s := range []string{"HTTP/1.1 200 OK\r\nA: 1\r\n 2\r\n\r\nx", "HTTP/1.1 200\n\n", "\r\nICY 200\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\nTransfer-Encoding: gzip;q=1, chunked\r\n\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in := string(b)
		var h, again httpwire.Head
		n, err := h.Parse(b)
		if string(b) != in {
			t.Fatal("the input was changed")
		}
		if err != nil {
			return
		}
		if n <= 0 || n > len(b) || h.Status < 100 || h.Status > 999 {
			t.Fatalf("n %d of %d, status %d", n, len(b), h.Status)
		}
		_, _ = h.Framing("GET")
		// A head parses the same however much stands behind it, and not before it is complete.
		m, err := again.Parse(b[:n])
		if err != nil || m != n || len(again.Fields) != len(h.Fields) {
			t.Fatalf("cut at its end: %d, %v", m, err)
		}
		if _, err := again.Parse(b[:n-1]); err == nil {
			t.Fatal("complete without its last byte")
		}
	})
}

// oddity is one server behaviour of the shared cases.
type oddity struct {
	ID      string              `json:"id"`
	Actions [][]json.RawMessage `json:"actions"`
	Outcome string              `json:"outcome"`
	BodyLen *int                `json:"body_len"`
}

// TestOddities runs the server behaviours that are bytes only through parse,
// framing and decoding.
func TestOddities(t *testing.T) {
	ran := 0
	for _, c := range casefiles.Lines[oddity](t, "http-oddities.jsonl") {
		var raw []byte
		plain := true
		for _, a := range c.Actions {
			var verb, data string
			_ = json.Unmarshal(a[0], &verb)
			switch verb {
			case "send":
				_ = json.Unmarshal(a[1], &data)
				b, err := base64.StdEncoding.DecodeString(data)
				if err != nil {
					t.Fatal(err)
				}
				raw = append(raw, b...)
			case "close", "sleep", "reset":
			default:
				plain = false
			}
		}
		if !plain || len(raw) == 0 || c.Outcome == "timeout" || strings.HasPrefix(c.ID, "redir-self") {
			continue // a matter of sockets, time or the crawl
		}
		ran++
		t.Run(c.ID, func(t *testing.T) {
			body, notes, err := whole(raw)
			switch c.Outcome {
			case "ok":
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
			case "error":
				if err == nil {
					t.Fatalf("accepted, notes %v", notes)
				}
				return
			case "partial_or_retry":
				if err == nil && !notes.Incomplete() {
					t.Fatalf("taken for complete, notes %v", notes)
				}
				return
			}
			if err == nil && c.BodyLen != nil && len(body) != *c.BodyLen {
				t.Errorf("body of %d bytes, want %d (notes %v)", len(body), *c.BodyLen, notes)
			}
		})
	}
	if ran < 25 {
		t.Errorf("only %d cases ran", ran)
	}
}

// whole decodes a whole connection's bytes.
func whole(raw []byte) ([]byte, httpwire.Note, error) {
	var h httpwire.Head
	n, err := h.Parse(raw)
	if err != nil {
		return nil, 0, err
	}
	fr, err := h.Framing("GET")
	if err != nil {
		return nil, h.Notes, err
	}
	body := raw[n:]
	var short httpwire.Note
	if fr.Kind == httpwire.FramingLength {
		if int64(len(body)) < fr.Length {
			short = httpwire.NoteChunkTruncated
		} else {
			body = body[:fr.Length]
		}
	}
	out, notes := httpwire.DecodeBytes(nil, &h, body, httpwire.Limits{})
	return out, h.Notes | notes | short, nil
}

// However many fields a head has, those that frame and describe the body count.
func TestFieldsThatCountBehindTooMany(t *testing.T) {
	head := func(last string) string {
		return "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-A: b\r\n", 3*httpwire.MaxFields) + last + "\r\nX-B: c\r\n d\r\n\r\n"
	}
	for _, line := range []string{"Content-Length: 7", "transfer-encoding: chunked", "Connection: close", "CONTENT-TYPE: a/b", "Content-Encoding: br", "Location: /x"} {
		var h httpwire.Head
		if _, err := h.Parse([]byte(head(line))); err != nil {
			t.Fatal(err)
		}
		name, value, _ := strings.Cut(line, ": ")
		if got := string(h.Get(name)); got != value || !h.Notes.Has(httpwire.NoteTooManyFields) {
			t.Errorf("%s is %q, notes %v", name, got, h.Notes)
		}
		if n := len(h.Fields); n != httpwire.MaxFields+1 || h.Get("X-B") != nil {
			t.Errorf("%d fields are kept", n)
		}
	}
}
