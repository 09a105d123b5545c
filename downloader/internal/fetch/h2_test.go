package fetch_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"lycosa.dev/downloader/internal/fetch"
	"lycosa.dev/downloader/internal/wire"
	"lycosa.dev/internal/httpwire"
)

// h2peer is the server's side of an HTTP/2 connection.
type h2peer struct {
	*http2.Framer
	*peer
	enc *hpack.Encoder
	buf bytes.Buffer
}

// request returns the next request's stream and fields; frames of the
// connection are answered.
func (p *h2peer) request() (uint32, string) {
	for {
		f, err := p.ReadFrame()
		if err != nil {
			return 0, ""
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			p.s.requests.Add(1)
			var b strings.Builder
			for _, hf := range f.Fields {
				fmt.Fprintf(&b, "%s=%s\n", hf.Name, hf.Value)
			}
			return f.StreamID, b.String()
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = p.WriteSettingsAck()
			}
		}
	}
}

// head sends a header block; fields are name, value, name, value …
func (p *h2peer) head(id uint32, end bool, fields ...string) {
	p.buf.Reset()
	for i := 0; i < len(fields); i += 2 {
		_ = p.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.buf.Bytes(), EndHeaders: true, EndStream: end})
}

// serve2 runs script for each HTTP/2 connection.
func serve2(t testing.TB, script func(p *h2peer, n int)) (*server, *fetch.Request) {
	t.Helper()
	cert := httptest.NewUnstartedServer(nil)
	cert.StartTLS()
	secure := &tls.Config{Certificates: cert.TLS.Certificates, NextProtos: []string{"h2"}}
	cert.Close()
	s := serve(t, func(c *peer, n int) {
		tc := tls.Server(c.Conn, secure)
		if tc.Handshake() != nil {
			return
		}
		var preface [len(http2.ClientPreface)]byte
		if _, err := io.ReadFull(tc, preface[:]); err != nil || string(preface[:]) != http2.ClientPreface {
			return
		}
		p := &h2peer{Framer: http2.NewFramer(tc, tc), peer: c}
		p.enc = hpack.NewEncoder(&p.buf)
		p.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		_ = p.WriteSettings()
		script(p, n)
	})
	target, err := fetch.ParseTarget("https://example.com/x?y")
	if err != nil {
		t.Fatal(err)
	}
	target.Port = s.addr.Port()
	return s, &fetch.Request{Target: target, Addresses: []netip.Addr{s.addr.Addr()}}
}

func config2() fetch.Config {
	cfg := config()
	cfg.Verify = fetch.VerifyRecord
	return cfg
}

// What an HTTP/2 server sends, and what must come of it.
func TestH2Responses(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 200<<10/16)
	ok := func(p *h2peer, id uint32, body string, fields ...string) {
		p.head(id, body == "", append([]string{":status", "200"}, fields...)...)
		for body != "" {
			n := min(len(body), 16<<10)
			_ = p.WriteData(id, n == len(body), []byte(body[:n]))
			body = body[n:]
		}
	}
	for name, c := range map[string]struct {
		say    func(p *h2peer, id uint32)
		head   string // after the status line
		body   string
		class  fetch.Class
		code   string
		status int
		trunc  fetch.Truncation
		notes  wire.Note
		odd    httpwire.Note
		kept   bool
	}{
		"plain":      {say: func(p *h2peer, id uint32) { ok(p, id, "hello", "content-length", "5", "x-a", "b") }, head: "content-length: 5\r\nx-a: b\r\n\r\n", body: "hello", kept: true},
		"no length":  {say: func(p *h2peer, id uint32) { ok(p, id, "hello") }, body: "hello", kept: true},
		"no body":    {say: func(p *h2peer, id uint32) { ok(p, id, "") }, kept: true},
		"long":       {say: func(p *h2peer, id uint32) { ok(p, id, long) }, body: long, kept: true},
		"304":        {say: func(p *h2peer, id uint32) { p.head(id, true, ":status", "304", "content-length", "9") }, status: 304, kept: true},
		"odd status": {say: func(p *h2peer, id uint32) { p.head(id, true, ":status", "799") }, status: 799, kept: true},
		"padded": {say: func(p *h2peer, id uint32) {
			p.head(id, false, ":status", "200")
			_ = p.WriteDataPadded(id, false, []byte("ab"), make([]byte, 200))
			_ = p.WriteDataPadded(id, true, []byte("c"), make([]byte, 1))
		}, body: "abc", kept: true},
		"empty data": {say: func(p *h2peer, id uint32) {
			p.head(id, false, ":status", "200")
			_ = p.WriteData(id, false, nil)
			_ = p.WriteData(id, false, []byte("a"))
			_ = p.WriteData(id, true, nil)
		}, body: "a", kept: true},
		"trailers": {say: func(p *h2peer, id uint32) {
			p.head(id, false, ":status", "200")
			_ = p.WriteData(id, false, []byte("a"))
			p.head(id, true, "x-sum", "1")
		}, body: "a", notes: wire.NoteTrailers, kept: true},
		"interim": {say: func(p *h2peer, id uint32) {
			p.head(id, false, ":status", "103", "link", "</a>")
			ok(p, id, "a")
		}, body: "a", notes: wire.NoteInterim, kept: true},
		"pings between": {say: func(p *h2peer, id uint32) {
			_ = p.WritePing(false, [8]byte{1})
			p.head(id, false, ":status", "200")
			_ = p.WritePing(false, [8]byte{2})
			_ = p.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 15})
			_ = p.WriteWindowUpdate(0, 100)
			_ = p.WriteData(id, true, []byte("a"))
		}, body: "a", kept: true},
		"unknown frame": {say: func(p *h2peer, id uint32) {
			_ = p.WriteRawFrame(0xbe, 0, 0, []byte("x"))
			ok(p, id, "a")
		}, body: "a", kept: true},
		"goodbye after": {say: func(p *h2peer, id uint32) {
			p.head(id, false, ":status", "200")
			_ = p.WriteGoAway(id, http2.ErrCodeNo, nil)
			_ = p.WriteData(id, true, []byte("a"))
		}, body: "a"},
		"short": {say: func(p *h2peer, id uint32) { ok(p, id, "ab", "content-length", "5") }, body: "ab", notes: wire.NoteLengthMismatch, trunc: "disconnect", kept: true},
		"reset in body": {say: func(p *h2peer, id uint32) {
			p.head(id, false, ":status", "200")
			_ = p.WriteData(id, false, []byte("ab"))
			_ = p.WriteRSTStream(id, http2.ErrCodeInternal)
		}, body: "ab", code: "h2-reset", trunc: "disconnect"},
		"end in body": {say: func(p *h2peer, id uint32) {
			p.head(id, false, ":status", "200")
			_ = p.WriteData(id, false, []byte("ab"))
			p.Close()
		}, body: "ab", trunc: "disconnect"},
		"reset":      {say: func(p *h2peer, id uint32) { _ = p.WriteRSTStream(id, http2.ErrCodeInternal) }, class: fetch.ClassConnect, code: "h2-reset"},
		"refused":    {say: func(p *h2peer, id uint32) { _ = p.WriteRSTStream(id, http2.ErrCodeRefusedStream) }, class: fetch.ClassNotStarted, code: "stale-connection"},
		"goodbye":    {say: func(p *h2peer, id uint32) { _ = p.WriteGoAway(0, http2.ErrCodeNo, nil) }, class: fetch.ClassNotStarted, code: "stale-connection"},
		"closed":     {say: func(p *h2peer, id uint32) { p.Close() }, class: fetch.ClassConnect, code: "closed-before-response"},
		"data first": {say: func(p *h2peer, id uint32) { _ = p.WriteData(id, true, []byte("x")) }, class: fetch.ClassProtocol, code: "h2-protocol"},
		"no status":  {say: func(p *h2peer, id uint32) { p.head(id, true, "x-a", "b") }, class: fetch.ClassProtocol, code: "bad-status"},
		"chunked":    {say: func(p *h2peer, id uint32) { ok(p, id, "a", "transfer-encoding", "chunked") }, class: fetch.ClassProtocol, code: "h2-protocol"},
		"push": {say: func(p *h2peer, id uint32) {
			_ = p.WritePushPromise(http2.PushPromiseParam{StreamID: id, PromiseID: 2, EndHeaders: true})
		}, class: fetch.ClassProtocol, code: "h2-protocol"},
		"upper case": {say: func(p *h2peer, id uint32) { ok(p, id, "a", "X-A", "b") }, class: fetch.ClassProtocol, code: "h2-protocol"},
		"flood": {say: func(p *h2peer, id uint32) {
			for range 10000 {
				if p.WriteSettings() != nil {
					return
				}
			}
		}, class: fetch.ClassProtocol, code: "h2-protocol"},
		"head too large": {say: func(p *h2peer, id uint32) {
			fields := []string{":status", "200"}
			for i := range 100 {
				fields = append(fields, fmt.Sprintf("x-%d", i), long[:4<<10])
			}
			p.buf.Reset()
			for i := 0; i < len(fields); i += 2 {
				_ = p.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: true})
			}
			b := p.buf.Bytes()
			_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: b[:16<<10]})
			for b = b[16<<10:]; len(b) > 0; {
				n := min(len(b), 16<<10)
				_ = p.WriteContinuation(id, n == len(b), b[:n])
				b = b[n:]
			}
		}, class: fetch.ClassContent, code: "head-too-large"},
		"endless continuation": {say: func(p *h2peer, id uint32) {
			_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x88}})
			for p.WriteContinuation(id, false, bytes.Repeat([]byte{0, 1, 'a', 1, 'b'}, 3000)) == nil {
			}
		}, class: fetch.ClassProtocol, code: "h2-protocol"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, req := serve2(t, func(p *h2peer, _ int) {
				for {
					id, _ := p.request()
					if id == 0 {
						return
					}
					c.say(p, id)
				}
			})
			e := engine(t, config2())
			var p page
			res := e.Fetch(context.Background(), req, &p)
			res.Notes &^= wire.NoteCertificateInvalid
			switch { // the system resets where the server had not read all that we sent
			case name == "end in body" && res.Code == "reset-in-body":
				res.Code = ""
			case name == "closed" && res.Code == "reset-before-response":
				res.Code = c.code
			}
			if c.class == 0 {
				c.class = fetch.ClassResponse
				if c.status == 0 {
					c.status = 200
				}
				if res.Protocol != "h2" {
					t.Errorf("protocol %q", res.Protocol)
				}
			}
			if res.Class != c.class || res.Code != c.code || res.Status != c.status || res.Truncated != c.trunc || res.Notes != c.notes || res.Odd != c.odd {
				t.Errorf("%v %q (%s) %d %q %v %v\nwant %v %q %d %q %v", res.Class, res.Code, res.Detail, res.Status, res.Truncated, res.Notes.Codes(), res.Odd, c.class, c.code, c.status, c.trunc, c.notes.Codes())
			}
			if p.body != c.body || res.BodyBytes != int64(len(c.body)) {
				t.Errorf("body of %d bytes %.60q (%d said), want %d", len(p.body), p.body, res.BodyBytes, len(c.body))
			}
			if c.head != "" && p.head != "HTTP/1.1 200 OK\r\n"+c.head {
				t.Errorf("head %q", p.head)
			}
			if kept := e.Stats().Idle != 0; kept != c.kept {
				t.Errorf("connection kept: %v", kept)
			}
			if c.kept { // it works a second time
				res := e.Fetch(context.Background(), req, &page{})
				if res.Class != fetch.ClassResponse || !res.Reused || s.conns.Load() != 1 {
					t.Errorf("again: %+v on connection %d", res, s.conns.Load())
				}
			}
		})
	}
}

// The request that is archived is the request that is sent.
func TestH2Request(t *testing.T) {
	var got string
	_, req := serve2(t, func(p *h2peer, _ int) {
		var id uint32
		id, got = p.request()
		p.head(id, true, ":status", "200")
		_, _ = p.request()
	})
	cfg := config2()
	cfg.Headers = []string{"X-Some: thing"}
	req.ETag = `"x"`
	var p page
	if res := engine(t, cfg).Fetch(context.Background(), req, &p); res.Class != fetch.ClassResponse {
		t.Fatalf("%+v", res)
	}
	want := ":method=GET\n:scheme=https\n:authority=example.com\n:path=/x?y\nuser-agent=Lycosa-test\n" +
		"accept=text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\naccept-encoding=gzip, deflate, br, zstd\nif-none-match=\"x\"\nx-some=thing\n"
	if got != want {
		t.Errorf("sent %q\nwant %q", got, want)
	}
	if !strings.HasPrefix(p.request, "GET /x?y HTTP/1.1\r\nHost: example.com\r\nUser-Agent: Lycosa-test\r\n") || !strings.HasSuffix(p.request, "X-Some: thing\r\n\r\n") {
		t.Errorf("archived %q", p.request)
	}
}

// A server that wants HTTP/1.1 gets it from the next fetch on.
func TestH2FallsBackToHTTP1(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, r.Proto)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	_, req := serve2(t, func(p *h2peer, n int) {
		id, _ := p.request()
		_ = p.WriteRSTStream(id, http2.ErrCodeHTTP11Required)
		_, _ = p.request()
	})
	e := engine(t, config2())
	if res := e.Fetch(context.Background(), req, &page{}); res.Class != fetch.ClassNotStarted {
		t.Fatalf("%+v", res)
	}
	addr := netip.MustParseAddrPort(s.Listener.Addr().String())
	req.Target.Port = addr.Port() // the same authority, at a server that does both
	var p page
	if res := e.Fetch(context.Background(), req, &p); res.Class != fetch.ClassResponse || res.Protocol != "http/1.1" || p.body != "HTTP/1.1" {
		t.Errorf("%+v %q", res, p.body)
	}
}

func TestH2TimeLimits(t *testing.T) {
	const short = 80 * time.Millisecond
	pings := func(p *h2peer) {
		for p.WritePing(false, [8]byte{}) == nil {
			time.Sleep(5 * time.Millisecond)
		}
	}
	for name, c := range map[string]struct {
		set    func(*fetch.Config)
		script func(*h2peer, uint32)
		class  fetch.Class
		code   string
	}{
		"first byte": {func(c *fetch.Config) { c.FirstByteTimeout = short }, func(p *h2peer, _ uint32) { pings(p) }, fetch.ClassTimeout, "timeout-first-byte"},
		"idle":       {func(c *fetch.Config) { c.IdleTimeout = short }, func(p *h2peer, id uint32) { p.head(id, false, ":status", "200"); pings(p) }, fetch.ClassResponse, "timeout-idle"},
		"total":      {func(c *fetch.Config) { c.TotalTimeout = short }, func(p *h2peer, id uint32) { p.head(id, false, ":status", "200"); pings(p) }, fetch.ClassResponse, "timeout-total"},
		"rate": {func(c *fetch.Config) { c.MinRateBytes, c.MinRateGrace = 1<<20, short }, func(p *h2peer, id uint32) {
			p.head(id, false, ":status", "200")
			for p.WriteData(id, false, []byte("x")) == nil {
				time.Sleep(5 * time.Millisecond)
			}
		}, fetch.ClassResponse, "timeout-rate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, req := serve2(t, func(p *h2peer, _ int) { id, _ := p.request(); c.script(p, id) })
			cfg := config2()
			c.set(&cfg)
			begun := time.Now()
			e := engine(t, cfg)
			if res := e.Fetch(context.Background(), req, &page{}); res.Class != c.class || res.Code != c.code {
				t.Errorf("%+v", res)
			}
			if d := time.Since(begun); d > 20*time.Second || e.Stats().Idle != 0 {
				t.Errorf("took %v, %d kept", d, e.Stats().Idle)
			}
		})
	}
}

// A body far beyond the windows comes through, and a lease that is renewed
// while the server is slow does not cut a frame.
func TestH2WindowsAndRenewal(t *testing.T) {
	const size = 5 << 20
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := bytes.Repeat([]byte("0123456789abcdef"), 4<<10)
		for i := range size / len(b) {
			if i%16 == 0 {
				_ = http.NewResponseController(w).Flush()
				time.Sleep(20 * time.Millisecond)
			}
			_, _ = w.Write(b)
		}
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	target, _ := fetch.ParseTarget("https://example.com/")
	addr := netip.MustParseAddrPort(s.Listener.Addr().String())
	target.Port = addr.Port()
	begun := time.Now()
	e := engine(t, config2())
	var n int
	req := &fetch.Request{Target: target, Addresses: []netip.Addr{addr.Addr()}, Until: func() time.Time {
		return begun.Add(time.Since(begun).Truncate(15*time.Millisecond) + 15*time.Millisecond)
	}}
	for range 3 {
		var sink release
		res := e.Fetch(context.Background(), req, &sink)
		if n = sink.n; res.Class != fetch.ClassResponse || n != size || res.Truncated != "" || res.Protocol != "h2" {
			t.Fatalf("%+v, %d bytes", res, n)
		}
		sink.done()
	}
	cfg := config2()
	cfg.MaxBodyBytes = 1 << 20
	var sink release
	req.Until = nil
	if res := engine(t, cfg).Fetch(context.Background(), req, &sink); res.Truncated != fetch.TruncatedLength || sink.n != 1<<20 {
		t.Errorf("%+v, %d bytes", res, sink.n)
	}
	sink.done()
}
