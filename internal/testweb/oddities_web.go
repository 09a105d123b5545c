package testweb

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// WebOddities are behaviours of real servers beside those of the case file:
// framing, header blocks, codings, early ends and slowness. Each says what the
// downloader reports of it, with first-byte, head, idle and total limits below
// two seconds and a body limit of 1 MiB.
func WebOddities() []Oddity {
	ok := func(id, head, body string, notes ...string) Oddity {
		return Oddity{ID: id, Actions: []Action{Say(head + "\r\n" + body), Close()}, Status: 200, Body: body, Notes: notes}
	}
	fail := func(id, class, code string, actions ...Action) Oddity {
		return Oddity{ID: id, Actions: actions, Class: class, Code: code}
	}
	cut := func(o Oddity, why string) Oddity {
		o.Truncated = why
		return o
	}
	const h = "HTTP/1.1 200 OK\r\n"
	chunked := "33\r\n" + OddPage[:51] + "\r\n30\r\n" + OddPage[51:] + "\r\n0\r\n\r\n"
	long := strings.Repeat("v", 60<<10)
	list := []Oddity{
		// Status lines.
		ok("status-lower-case", "http/1.1 200 ok\r\nContent-Length: 1\r\n", "a", "odd-status-line"),
		ok("status-no-version", "HTTP 200 Document follows\r\nContent-Length: 1\r\n", "a", "odd-status-line"),
		ok("status-spaces", "HTTP/1.1  200   OK\r\nContent-Length: 1\r\n", "a", "odd-status-line"),
		ok("status-icy", "ICY 200 OK\r\n", "a", "odd-status-line"),
		ok("status-reason-utf8", "HTTP/1.1 200 D\xc3\xa9j\xc3\xa0\r\nContent-Length: 1\r\n", "a"),
		ok("status-http2-text", "HTTP/2 200\r\ncontent-length: 1\r\n", "a"),
		ok("leading-crlf", "\r\n\r\n"+h+"Content-Length: 1\r\n", "a"),
		ok("leading-junk", "\r\nxx"+h+"Content-Length: 1\r\n", "a", "leading-junk"),
		fail("status-99", "PROTOCOL", "bad-status", Say("HTTP/1.1 99 Odd\r\n\r\n"), Close()),
		fail("status-negative", "PROTOCOL", "bad-status", Say("HTTP/1.1 -200 OK\r\n\r\n"), Close()),
		fail("status-text", "PROTOCOL", "bad-status", Say("HTTP/1.1 OK\r\n\r\n"), Close()),
		fail("ssh-banner", "PROTOCOL", "http09", Say("SSH-2.0-OpenSSH_9.2\r\n"), Close()),
		fail("smtp-banner", "PROTOCOL", "http09", Say("220 mail.example ESMTP\r\n"), Close()),
		// 1xx.
		ok("early-hints", h[:0]+"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"+h+"Content-Length: 1\r\n", "a", "interim-response"),
		fail("upgrade-unasked", "PROTOCOL", "unexpected-upgrade", Say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n"), Close()),
		fail("interim-endless", "PROTOCOL", "too-many-interim", Repeat("HTTP/1.1 102 Processing\r\n\r\n", 1000, 0)),
		// Header blocks.
		ok("head-folded", h+"X-A: one\r\n two\r\n\tthree\r\nContent-Length: 1\r\n", "a", "folded"),
		ok("head-latin1", h+"X-A: caf\xe9\r\nContent-Length: 1\r\n", "a"),
		ok("head-utf8-name", h+"X-\xc3\xa9: b\r\nContent-Length: 1\r\n", "a"),
		ok("head-no-colon", h+"what is this\r\nContent-Length: 1\r\n", "a", "junk-line"),
		ok("head-empty-name", h+": x\r\nContent-Length: 1\r\n", "a"),
		ok("head-space-colon", h+"Content-Length : 1\r\n", "a"),
		ok("head-nul", h+"X-A: a\x00b\r\nContent-Length: 1\r\n", "a"),
		ok("head-bare-cr", h+"X-A: a\rb\r\nContent-Length: 1\r\n", "a"),
		ok("head-60k", h+"X-A: "+long+"\r\nContent-Length: 1\r\n", "a"),
		ok("head-many", h+strings.Repeat("X-A: b\r\n", 1500)+"Content-Length: 1\r\n", "a", "too-many-fields"),
		// The fields that frame the body stand behind thousands of others, and the
		// server keeps the connection open: nobody waits for more.
		{ID: "head-many-length", Actions: []Action{Say(h + strings.Repeat("X-A: b\r\n", 6000) + "Content-Length: 1\r\n\r\na"), Sleep(time.Minute)}, Status: 200, Body: "a", Notes: []string{"too-many-fields"}},
		{ID: "head-many-chunked", Actions: []Action{Say(h + strings.Repeat("X-A: b\r\n", 6000) + "Transfer-Encoding: chunked\r\n\r\n" + chunked), Sleep(time.Minute)}, Status: 200, Body: chunked, Notes: []string{"too-many-fields"}},
		fail("head-endless", "CONTENT", "head-too-large", Say(h), Repeat("X-A: "+long+"\r\n", 1000, 0)),
		fail("head-cut", "PROTOCOL", "head-cut", Say(h+"Content-Ty"), Close()),
		fail("head-reset", "CONNECT", "reset-in-head", Say(h+"Content-Ty"), Sleep(50*time.Millisecond), Reset()),
		// Framing.
		ok("close-delimited", h, "until the end"),
		ok("length-plus", h+"Content-Length: +1\r\n", "abc", "bad-content-length"),
		ok("length-negative", h+"Content-Length: -1\r\n", "abc", "bad-content-length"),
		ok("length-words", h+"Content-Length: long\r\n", "abc", "bad-content-length"),
		ok("length-huge", h+"Content-Length: 99999999999999999999\r\n", "abc", "bad-content-length"),
		ok("length-list", h+"Content-Length: 3, 3\r\n", "abc", "length-repeated"),
		cut(ok("length-too-large", h+"Content-Length: 30\r\n", "abc", "content-length-mismatch"), "disconnect"),
		ok("chunked", h+"Transfer-Encoding: chunked\r\n", chunked),
		ok("chunked-extension", h+"Transfer-Encoding: chunked\r\n", "3;a=\"b\"\r\nabc\r\n0;x\r\n\r\n"),
		ok("chunked-trailer", h+"Transfer-Encoding: chunked\r\nTrailer: X-A\r\n", "3\r\nabc\r\n0\r\nX-A: b\r\n\r\n"),
		ok("chunked-leading-zeros", h+"Transfer-Encoding: chunked\r\n", "00000000000000000003\r\nabc\r\n000\r\n\r\n"),
		ok("chunked-bare-lf", h+"Transfer-Encoding: chunked\r\n", "3\nabc\n0\n\n"),
		ok("chunked-no-final-line", h+"Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n", "no-final-line"),
		ok("chunked-not", h+"Transfer-Encoding: chunked\r\n", "<p>plain</p>", "not-chunked"),
		ok("chunked-identity", h+"Transfer-Encoding: identity\r\nContent-Length: 3\r\n", "abc"),
		ok("chunked-twice", h+"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
		cut(ok("chunked-garbled", h+"Transfer-Encoding: chunked\r\n", "3\r\nabcXYZ\r\n", "chunk-malformed"), "unspecified"),
		cut(ok("chunked-overflow", h+"Transfer-Encoding: chunked\r\n", "3\r\nabc\r\nfffffffffffffffff\r\nabc", "chunk-malformed"), "unspecified"),
		cut(ok("chunked-cut-in-size", h+"Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n1", "chunk-truncated"), "disconnect"),
		// No body.
		{ID: "204-with-body", Actions: []Action{Say("HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nabc"), Close()}, Status: 204, Notes: []string{"excess-bytes"}},
		{ID: "304-with-body", Actions: []Action{Say("HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\nabc"), Close()}, Status: 304, Notes: []string{"excess-bytes"}},
		{ID: "205", Actions: []Action{Say("HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n"), Close()}, Status: 205},
		{ID: "status-999", Actions: []Action{Say("HTTP/1.1 999 Request denied\r\nContent-Length: 1\r\n\r\na"), Close()}, Status: 999, Body: "a"},
		{ID: "excess", Actions: []Action{Say(h + "Content-Length: 1\r\n\r\nabc"), Close()}, Status: 200, Body: "a", Notes: []string{"excess-bytes"}},
		// Ends.
		fail("end-at-once", "CONNECT", "closed-before-response", Close()),
		fail("reset-at-once", "CONNECT", "reset-before-response", Reset()),
		{ID: "half-close", Actions: []Action{Say(h + "\r\nabc"), {"half_close"}}, Status: 200, Body: "abc"},
		// Slowness.
		fail("slow-first-byte", "TIMEOUT", "timeout-first-byte", Sleep(time.Minute)),
		fail("slow-head", "TIMEOUT", "timeout-head", Say(h), Repeat("X", 10000, 20*time.Millisecond)),
		{ID: "slow-body", Actions: []Action{Say(h + "\r\n"), Repeat("x", 10000, 20*time.Millisecond)}, Status: 200, Body: "-", Truncated: "time", Notes: []string{"timeout-rate"}},
		{ID: "stuck-body", Actions: []Action{Say(h + "Content-Length: 9\r\n\r\nabc"), Sleep(time.Minute)}, Status: 200, Body: "abc", Truncated: "time"},
		{ID: "slow-chunks", Actions: []Action{Say(h + "Transfer-Encoding: chunked\r\n\r\n"), Repeat("1\r\nx\r\n", 10000, 20*time.Millisecond)}, Status: 200, Body: "-", Truncated: "time"},
		{ID: "slow-interim", Actions: []Action{Repeat("HTTP/1.1 102 Processing\r\n\r\n", 1000, 300*time.Millisecond)}, Class: "TIMEOUT", Code: "timeout-head"},
		// Size.
		{ID: "endless", Actions: []Action{Say(h + "\r\n"), Repeat(strings.Repeat("e", 64<<10), 1<<20, 0)}, Status: 200, Body: "-", Truncated: "length"},
		{ID: "endless-chunks", Actions: []Action{Say(h + "Transfer-Encoding: chunked\r\n\r\n"), Repeat("10\r\n0123456789abcdef\r\n", 1<<20, 0)}, Status: 200, Body: "-", Truncated: "length"},
	}
	for _, c := range Codings {
		for _, claim := range []string{c.Name, "gzip", "identity"} {
			body := c.Encode(OddPage)
			o := ok("coding-"+c.Name+"-as-"+claim, fmt.Sprintf(h+"Content-Encoding: %s\r\nContent-Length: %d\r\n", strings.TrimSuffix(claim, "-raw"), len(body)), body)
			o.BodyLen = len(OddPage)
			list = append(list, o)
		}
	}
	return list
}

// Coding is a content coding and its encoder.
type Coding struct {
	Name   string
	Encode func(string) string
}

// Codings are all that a server may use; deflate in both forms.
var Codings = []Coding{
	{"gzip", func(s string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(s))
		_ = w.Close()
		return b.String()
	}},
	{"deflate", func(s string) string {
		var b bytes.Buffer
		w := zlib.NewWriter(&b)
		_, _ = w.Write([]byte(s))
		_ = w.Close()
		return b.String()
	}},
	{"deflate-raw", func(s string) string {
		var b bytes.Buffer
		w, _ := flate.NewWriter(&b, 6)
		_, _ = w.Write([]byte(s))
		_ = w.Close()
		return b.String()
	}},
	{"br", func(s string) string {
		var b bytes.Buffer
		w := brotli.NewWriter(&b)
		_, _ = w.Write([]byte(s))
		_ = w.Close()
		return b.String()
	}},
	{"zstd", func(s string) string {
		w, err := zstd.NewWriter(nil)
		if err != nil {
			panic(err) // the options are constants
		}
		return string(w.EncodeAll([]byte(s), nil))
	}},
}
