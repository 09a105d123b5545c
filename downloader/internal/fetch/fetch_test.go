package fetch_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lycosa.dev/downloader/internal/bufpool"
	"lycosa.dev/downloader/internal/fetch"
	"lycosa.dev/downloader/internal/wire"
	"lycosa.dev/internal/casefiles"
	"lycosa.dev/internal/httpwire"
	"lycosa.dev/internal/netpolicy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server runs script for every connection it accepts; n counts them from 1.
type server struct {
	addr     netip.AddrPort
	conns    atomic.Int64
	requests atomic.Int64
}

func serve(t testing.TB, script func(c *peer, n int)) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: ln.Addr().(*net.TCPAddr).AddrPort()}
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			n := int(s.conns.Add(1))
			wg.Go(func() {
				defer c.Close()
				script(&peer{Conn: c, r: bufio.NewReader(c), s: s}, n)
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return s
}

// peer is the server's side of a connection.
type peer struct {
	net.Conn
	r *bufio.Reader
	s *server
}

// request reads one request and returns its bytes, "" at the end.
func (p *peer) request() string {
	var b strings.Builder
	for {
		line, err := p.r.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			return ""
		}
		if line == "\r\n" {
			p.s.requests.Add(1)
			return b.String()
		}
	}
}

func (p *peer) say(s string) { _, _ = p.Write([]byte(s)) }

// wait blocks until the client has gone.
func (p *peer) wait() { _, _ = p.r.WriteTo(discard{}) }

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// page is a Sink that keeps everything.
type page struct {
	request, head, body string
	buffers             []*bufpool.Buffer
	pieces              int
	err                 error
	onBody              func()
}

func (p *page) Own(b *bufpool.Buffer) { p.buffers = append(p.buffers, b) }
func (p *page) Head(req, head []byte) error {
	p.request, p.head = string(req), string(head)
	return p.err
}
func (p *page) Body(b []byte) error {
	p.body += string(b)
	p.pieces++
	if p.onBody != nil {
		p.onBody()
	}
	return nil
}

func config() fetch.Config {
	c := fetch.Default()
	c.UserAgent = "Lycosa-test"
	c.Policy = netpolicy.Policy{AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	return c
}

func engine(t testing.TB, c fetch.Config) *fetch.Engine {
	t.Helper()
	e, err := fetch.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { e.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return e
}

func request(t testing.TB, s *server, path string) *fetch.Request {
	t.Helper()
	target, err := fetch.ParseTarget("http://" + s.addr.String() + path)
	if err != nil {
		t.Fatal(err)
	}
	return &fetch.Request{Target: target, Addresses: []netip.Addr{s.addr.Addr()}}
}

func TestKeepAlive(t *testing.T) {
	var got []string
	s := serve(t, func(c *peer, n int) {
		for req := c.request(); req != ""; req = c.request() {
			got = append(got, req)
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
		}
	})
	e := engine(t, config())
	for i := range 3 {
		var p page
		req := request(t, s, fmt.Sprintf("/a?b=%d", i))
		if i == 2 {
			req.ETag, req.LastModified = `"x"`, "Mon, 30 Nov 2026 10:00:00 GMT"
		}
		res := e.Fetch(context.Background(), req, &p)
		if res.Class != fetch.ClassResponse || res.Status != 200 || p.body != "hello" || p.pieces != 1 || res.Reused != (i > 0) {
			t.Fatalf("%d: %+v %q", i, res, p.body)
		}
		if res.Truncated != "" || res.Notes != 0 || res.BodyBytes != 5 || res.SentBytes != int64(len(p.request)) ||
			res.ReceivedBytes != int64(len(p.head)+5) || res.Address != s.addr || res.Timings.Total <= 0 || res.Timings.FirstByte <= 0 {
			t.Errorf("%d: %+v", i, res)
		}
		if p.head != "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" || p.request != got[i] || len(p.buffers) != 2 {
			t.Errorf("%d: head %q, request %q but the server saw %q, %d buffers", i, p.head, p.request, got[i], len(p.buffers))
		}
	}
	want := "GET /a?b=2 HTTP/1.1\r\nHost: " + s.addr.String() + "\r\nUser-Agent: Lycosa-test\r\n" +
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n" +
		"If-None-Match: \"x\"\r\nIf-Modified-Since: Mon, 30 Nov 2026 10:00:00 GMT\r\nConnection: keep-alive\r\n\r\n"
	if got[2] != want {
		t.Errorf("request %q\nwant %q", got[2], want)
	}
	if s.conns.Load() != 1 {
		t.Errorf("%d connections for three requests", s.conns.Load())
	}
	if st := e.Stats(); st.Dials != 1 || st.Reuses != 2 || st.Idle != 1 || st.Active != 0 {
		t.Errorf("%+v", st)
	}
}

// What a server sends, and what must come of it.
func TestResponses(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	for name, c := range map[string]struct {
		say    string
		body   string
		class  fetch.Class
		code   string
		status int
		trunc  fetch.Truncation
		notes  wire.Note
		odd    httpwire.Note
		kept   bool
	}{
		"length":          {say: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", body: "ab", kept: true},
		"until close":     {say: "HTTP/1.1 200 OK\r\n\r\nabc", body: "abc"},
		"long":            {say: "HTTP/1.1 200 OK\r\nContent-Length: 204800\r\n\r\n" + long, body: long, kept: true},
		"chunked":         {say: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", body: "2\r\nab\r\n0\r\n\r\n", kept: true},
		"chunk garbled":   {say: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabXX", body: "2\r\nabXX", trunc: "unspecified", odd: httpwire.NoteChunkMalformed},
		"chunk cut":       {say: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", body: "5\r\nab", trunc: "disconnect", odd: httpwire.NoteChunkTruncated},
		"no chunks":       {say: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n<p>", body: "<p>", odd: httpwire.NoteNotChunked},
		"short":           {say: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", body: "ab", trunc: "disconnect", notes: wire.NoteLengthMismatch},
		"excess":          {say: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", body: "a", notes: wire.NoteExcessBytes},
		"204":             {say: "HTTP/1.1 204 No\r\n\r\n", status: 204, kept: true},
		"304 with length": {say: "HTTP/1.1 304 No\r\nContent-Length: 7\r\n\r\n", status: 304, kept: true},
		"close asked":     {say: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na", body: "a"},
		"1.0":             {say: "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", body: "a"},
		"interim":         {say: "HTTP/1.1 100 C\r\n\r\nHTTP/1.1 103 E\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", body: "a", notes: wire.NoteInterim, kept: true},
		"junk before":     {say: "\r\n\r\nxyHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", body: "a", notes: wire.NoteLeadingJunk, kept: true},
		"503":             {say: "HTTP/1.1 503 Busy\r\nRetry-After: 5\r\nContent-Length: 0\r\n\r\n", status: 503, kept: true},
		"many interim":    {say: strings.Repeat("HTTP/1.1 100 C\r\n\r\n", 20), class: fetch.ClassProtocol, code: "too-many-interim", notes: wire.NoteInterim},
		"upgrade":         {say: "HTTP/1.1 101 S\r\n\r\n", class: fetch.ClassProtocol, code: "unexpected-upgrade"},
		"http 0.9":        {say: "<html>hello</html>", class: fetch.ClassProtocol, code: "http09"},
		"tiny":            {say: "HT", class: fetch.ClassProtocol, code: "http09"},
		"bad status":      {say: "HTTP/1.1 2000 OK\r\n\r\n", class: fetch.ClassProtocol, code: "bad-status"},
		"conflict":        {say: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", class: fetch.ClassProtocol, code: "content-length-conflict"},
		"head cut":        {say: "HTTP/1.1 200 OK\r\nA: b\r\n", class: fetch.ClassProtocol, code: "head-cut"},
		"head long":       {say: "HTTP/1.1 200 OK\r\nA: " + long + "\r\nContent-Length: 1\r\n\r\na", body: "a", kept: true},
		"head too long":   {say: "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: "+long+"\r\n", 2) + "\r\n", class: fetch.ClassContent, code: "head-too-large"},
		"nothing":         {class: fetch.ClassConnect, code: "closed-before-response"},
	} {
		for _, cut := range []int{0, 1, 7} { // all at once, and in pieces
			if cut > 0 && len(c.say) > 1000 {
				continue
			}
			c := c
			t.Run(fmt.Sprintf("%s/%d", name, cut), func(t *testing.T) {
				t.Parallel()
				s := serve(t, func(p *peer, n int) {
					for p.request() != "" {
						if cut == 0 {
							p.say(c.say)
						}
						for piece := range slices.Chunk([]byte(c.say), max(cut, 1)) {
							if cut > 0 {
								p.say(string(piece))
							}
						}
						if !c.kept {
							return
						}
					}
				})
				e := engine(t, config())
				var p page
				res := e.Fetch(context.Background(), request(t, s, "/"), &p)
				if c.class == 0 {
					c.class = fetch.ClassResponse
					if c.status == 0 {
						c.status = 200
					}
				}
				if cut > 0 { // what comes after the end may not have come yet
					c.notes &^= wire.NoteExcessBytes
					res.Notes &^= wire.NoteExcessBytes
				}
				if res.Class != c.class || res.Code != c.code || res.Status != c.status || res.Truncated != c.trunc {
					t.Errorf("class %v, code %q (%s), status %d, truncated %q; want %v %q %d %q", res.Class, res.Code, res.Detail, res.Status, res.Truncated, c.class, c.code, c.status, c.trunc)
				}
				if res.Notes != c.notes || res.Odd != c.odd {
					t.Errorf("notes %v %v, want %v %v", res.Notes.Codes(), res.Odd, c.notes.Codes(), c.odd)
				}
				if cut == 0 || name != "chunk garbled" {
					if p.body != c.body || res.BodyBytes != int64(len(c.body)) {
						t.Errorf("body of %d bytes %.60q (%d said), want %d bytes %.60q", len(p.body), p.body, res.BodyBytes, len(c.body), c.body)
					}
				}
				if idle := e.Stats().Idle; idle != 0 != c.kept && !(cut > 0 && name == "excess") {
					t.Errorf("%d connections kept, want kept %v", idle, c.kept)
				}
			})
		}
	}
}

func TestStaleConnectionIsFoundBeforeWriting(t *testing.T) {
	closed := make(chan struct{}, 1)
	s := serve(t, func(c *peer, n int) {
		c.request()
		c.say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
		c.Close()
		closed <- struct{}{}
	})
	e := engine(t, config())
	for i := range 3 {
		var p page
		if res := e.Fetch(context.Background(), request(t, s, "/"), &p); res.Class != fetch.ClassResponse || res.Reused {
			t.Fatalf("%d: %+v", i, res)
		}
		<-closed
	}
	if s.requests.Load() != 3 || s.conns.Load() != 3 {
		t.Errorf("%d requests on %d connections, want 3 on 3", s.requests.Load(), s.conns.Load())
	}
}

// A server that closes a kept connection upon the next request: the request is
// not sent again, and it is no try.
func TestStaleConnectionFoundByUse(t *testing.T) {
	for name, last := range map[string]string{"closed": "", "408": "HTTP/1.1 408 Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(c *peer, n int) {
				c.request()
				c.say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
				c.request()
				c.say(last)
			})
			e := engine(t, config())
			var p page
			e.Fetch(context.Background(), request(t, s, "/"), &p)
			res := e.Fetch(context.Background(), request(t, s, "/"), &p)
			if res.Class != fetch.ClassNotStarted || res.Code != "stale-connection" || !res.Reused || !res.Written {
				t.Errorf("%+v", res)
			}
			if s.requests.Load() != 2 || s.conns.Load() != 1 {
				t.Errorf("%d requests on %d connections", s.requests.Load(), s.conns.Load())
			}
		})
	}
}

func TestTimeLimits(t *testing.T) {
	drip := func(c *peer) {
		for {
			if _, err := c.Write([]byte("x")); err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	const short = 60 * time.Millisecond
	for name, c := range map[string]struct {
		set    func(*fetch.Config, *fetch.Request)
		script func(*peer)
		class  fetch.Class
		code   string
	}{
		"first byte":    {func(c *fetch.Config, _ *fetch.Request) { c.FirstByteTimeout = short }, (*peer).wait, fetch.ClassTimeout, "timeout-first-byte"},
		"head":          {func(c *fetch.Config, _ *fetch.Request) { c.IdleTimeout = short }, func(p *peer) { p.say("HTTP/1.1 2"); p.wait() }, fetch.ClassTimeout, "timeout-head"},
		"idle":          {func(c *fetch.Config, _ *fetch.Request) { c.IdleTimeout = short }, func(p *peer) { p.say("HTTP/1.1 200 OK\r\n\r\nx"); p.wait() }, fetch.ClassResponse, "timeout-idle"},
		"total in head": {func(c *fetch.Config, _ *fetch.Request) { c.TotalTimeout = short }, func(p *peer) { p.say("HTTP/1.1 200 OK\r\nA: "); drip(p) }, fetch.ClassTimeout, "timeout-total"},
		"total in body": {func(c *fetch.Config, _ *fetch.Request) { c.TotalTimeout = short }, func(p *peer) { p.say("HTTP/1.1 200 OK\r\n\r\nx"); drip(p) }, fetch.ClassResponse, "timeout-total"},
		"rate":          {func(c *fetch.Config, _ *fetch.Request) { c.MinRateBytes, c.MinRateGrace = 1<<20, short }, func(p *peer) { p.say("HTTP/1.1 200 OK\r\n\r\nx"); drip(p) }, fetch.ClassResponse, "timeout-rate"},
		"lease": {func(_ *fetch.Config, r *fetch.Request) {
			at := time.Now().Add(short)
			r.Until = func() time.Time { return at }
		}, func(p *peer) { p.say("HTTP/1.1 200 OK\r\n\r\nx"); drip(p) }, fetch.ClassCancelled, "lease-expired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(p *peer, _ int) { p.request(); c.script(p) })
			cfg := config()
			req := request(t, s, "/")
			c.set(&cfg, req)
			e := engine(t, cfg)
			var p page
			begun := time.Now()
			res := e.Fetch(context.Background(), req, &p)
			if res.Class != c.class || res.Code != c.code {
				t.Errorf("%v %q (%s), want %v %q", res.Class, res.Code, res.Detail, c.class, c.code)
			}
			if c.class == fetch.ClassResponse && (res.Truncated != fetch.TruncatedTime || !strings.HasPrefix(p.body, "x")) {
				t.Errorf("truncated %q, body %q", res.Truncated, p.body)
			}
			if d := time.Since(begun); d < short/2 || d > 20*time.Second {
				t.Errorf("took %v", d)
			}
			if e.Stats().Idle != 0 {
				t.Error("the connection is kept")
			}
		})
	}
}

// A lease that is renewed while the server is slow does not end the fetch.
func TestRenewedLease(t *testing.T) {
	s := serve(t, func(p *peer, _ int) {
		p.request()
		time.Sleep(150 * time.Millisecond)
		p.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n")
		time.Sleep(150 * time.Millisecond)
		p.say("\r\na")
		time.Sleep(150 * time.Millisecond)
		p.say("b")
	})
	req := request(t, s, "/")
	begun := time.Now()
	req.Until = func() time.Time { // renewed in steps of 60 ms
		return begun.Add(time.Since(begun).Truncate(60*time.Millisecond) + 60*time.Millisecond)
	}
	var p page
	if res := engine(t, config()).Fetch(context.Background(), req, &p); res.Class != fetch.ClassResponse || p.body != "ab" {
		t.Errorf("%+v %q", res, p.body)
	}
}

// A sink that waits must not be taken for a server that is slow.
func TestSlowSinkIsNotASlowServer(t *testing.T) {
	body := strings.Repeat("y", 300<<10)
	s := serve(t, func(p *peer, _ int) {
		p.request()
		p.say("HTTP/1.1 200 OK\r\nContent-Length: 307200\r\n\r\n" + body)
		p.wait()
	})
	cfg := config()
	cfg.TotalTimeout = 300 * time.Millisecond
	cfg.MinRateBytes, cfg.MinRateGrace = 1<<30, 200*time.Millisecond
	e := engine(t, cfg)
	p := page{onBody: func() { time.Sleep(100 * time.Millisecond) }}
	if res := e.Fetch(context.Background(), request(t, s, "/"), &p); res.Truncated != "" || p.body != body {
		t.Errorf("%+v, %d bytes", res, len(p.body))
	}
}

func TestSizeLimits(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\n\r\n"
	for _, c := range []struct {
		max, allowance int64
		body           int
		want           int64
		trunc          fetch.Truncation
		notes          wire.Note
	}{
		{max: 100, body: 100, want: 100},
		{max: 100, body: 101, want: 100, trunc: "length"},
		{max: 100 << 10, body: 300 << 10, want: 100 << 10, trunc: "length"},
		{max: 1 << 20, allowance: int64(len(head)) + 50, body: 50, want: 50},
		{max: 1 << 20, allowance: int64(len(head)) + 50, body: 51, want: 50, trunc: "length", notes: wire.NoteAllowanceUsedUp},
		{max: 1 << 20, allowance: 3, body: 51, want: 0, trunc: "length", notes: wire.NoteAllowanceUsedUp},
	} {
		s := serve(t, func(p *peer, _ int) { p.request(); p.say(head + strings.Repeat("z", c.body)) })
		cfg := config()
		cfg.MaxBodyBytes = c.max
		req := request(t, s, "/")
		req.ByteAllowance = c.allowance
		var p page
		res := engine(t, cfg).Fetch(context.Background(), req, &p)
		if res.Truncated != c.trunc || res.Notes != c.notes || int64(len(p.body)) != c.want || res.BodyBytes != c.want {
			t.Errorf("%+v: %q %v %d (%d said)", c, res.Truncated, res.Notes.Codes(), len(p.body), res.BodyBytes)
		}
	}
}

func TestGivingUp(t *testing.T) {
	asked := make(chan struct{})
	s := serve(t, func(p *peer, _ int) {
		if p.request() != "" {
			asked <- struct{}{}
			p.wait()
		}
	})
	e := engine(t, config())
	run := func(ctx context.Context, set func(*fetch.Request)) fetch.Result {
		req := request(t, s, "/")
		if set != nil {
			set(req)
		}
		return e.Fetch(ctx, req, &page{})
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if res := run(ended, nil); res.Class != fetch.ClassNotStarted || res.Code != "cancelled" {
		t.Errorf("ended context: %+v", res)
	}
	if res := run(context.Background(), func(r *fetch.Request) { now := time.Now(); r.Until = func() time.Time { return now } }); res.Class != fetch.ClassNotStarted || res.Code != "lease-expired" {
		t.Errorf("expired: %+v", res)
	}
	n := 0
	if res := run(context.Background(), func(r *fetch.Request) { r.Wanted = func() bool { n++; return n < 2 } }); res.Class != fetch.ClassNotStarted || res.Written {
		t.Errorf("taken back while connecting: %+v", res)
	}
	if e.Stats().Idle != 1 {
		t.Error("a connection on which nothing was written is thrown away")
	}
	if s.requests.Load() != 0 {
		t.Error("the server was asked")
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-asked; cancel() }()
	if res := run(ctx, nil); res.Class != fetch.ClassCancelled || !res.Written {
		t.Errorf("cancelled while waiting: %+v", res)
	}
	sink := page{err: errors.New("no room")}
	s2 := serve(t, func(p *peer, _ int) { p.request(); p.say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na") })
	if res := e.Fetch(context.Background(), request(t, s2, "/"), &sink); res.Class != fetch.ClassCancelled || res.Detail != "no room" {
		t.Errorf("sink failed: %+v", res)
	}
}

func TestPolicy(t *testing.T) {
	s := serve(t, func(p *peer, _ int) {})
	cfg := config()
	cfg.Policy = netpolicy.Policy{}
	e := engine(t, cfg)
	if res := e.Fetch(context.Background(), request(t, s, "/"), &page{}); res.Class != fetch.ClassPolicy || res.Code != "address-refused" || !strings.Contains(res.Detail, "loopback") {
		t.Errorf("%+v", res)
	}
	req := request(t, s, "/")
	req.Target.Port = 25
	if res := engine(t, config()).Fetch(context.Background(), req, &page{}); res.Class != fetch.ClassPolicy || res.Code != "port-refused" {
		t.Errorf("%+v", res)
	}
	req = request(t, s, "/")
	req.Addresses = nil
	if res := engine(t, config()).Fetch(context.Background(), req, &page{}); res.Class != fetch.ClassPolicy || res.Code != "no-address" {
		t.Errorf("%+v", res)
	}
	if s.conns.Load() != 0 {
		t.Error("the server was connected to")
	}
}

func TestAddressesInOrder(t *testing.T) {
	s := serve(t, func(p *peer, _ int) {
		for p.request() != "" {
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
		}
	})
	e := engine(t, config())
	req := request(t, s, "/")
	dead := netip.MustParseAddr("127.0.0.99") // nothing listens there
	private := netip.MustParseAddr("10.0.0.1")
	req.Addresses = []netip.Addr{private, dead, s.addr.Addr()}
	for i := range 2 {
		res := e.Fetch(context.Background(), req, &page{})
		if res.Class != fetch.ClassResponse || res.Address != s.addr || res.Reused != (i > 0) {
			t.Errorf("%d: %+v", i, res)
		}
	}
	req.Addresses = []netip.Addr{private, dead}
	if res := e.Fetch(context.Background(), req, &page{}); res.Class != fetch.ClassConnect || res.Code != "connect-refused" {
		t.Errorf("%+v", res)
	}
}

func TestPoolBounds(t *testing.T) {
	s := serve(t, func(p *peer, _ int) {
		for p.request() != "" {
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
		}
	})
	cfg := config()
	cfg.MaxIdle = 3
	e := engine(t, cfg)
	for i := range 10 {
		req := request(t, s, "/")
		req.Target.Authority = fmt.Sprintf("h%d.test", i)
		e.Fetch(context.Background(), req, &page{})
		if n := e.Stats().Idle; n > 3 {
			t.Fatalf("%d connections kept", n)
		}
	}
	for i, reused := range map[int]bool{9: true, 8: true, 7: true, 0: false} {
		req := request(t, s, "/")
		req.Target.Authority = fmt.Sprintf("h%d.test", i)
		if res := e.Fetch(context.Background(), req, &page{}); i != 0 && res.Reused != reused && e.Stats().Dials == 10 {
			t.Errorf("h%d: reused %v", i, res.Reused)
		}
	}
}

func TestKeepAliveTimeoutIsObeyed(t *testing.T) {
	s := serve(t, func(p *peer, _ int) {
		for p.request() != "" {
			p.say("HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 1\r\n\r\na")
		}
	})
	e := engine(t, config())
	e.Fetch(context.Background(), request(t, s, "/"), &page{})
	time.Sleep(800 * time.Millisecond)
	if res := e.Fetch(context.Background(), request(t, s, "/"), &page{}); res.Reused {
		t.Error("a connection was used at the edge of the server's own limit")
	}
}

// The engine survives every recorded server behaviour: it ends within its
// limits and says what it saw.
func TestRecordedOddities(t *testing.T) {
	type oddity struct {
		ID      string
		Actions [][]any
		Outcome string
		BodyLen int `json:"body_len"`
	}
	for _, c := range casefiles.Lines[oddity](t, "http-oddities.jsonl") {
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(p *peer, _ int) {
				p.request()
				play(p, c.Actions)
			})
			cfg := config()
			cfg.FirstByteTimeout, cfg.IdleTimeout, cfg.TotalTimeout = 400*time.Millisecond, 2*time.Second, 3*time.Second
			cfg.MinRateBytes = 0
			e := engine(t, cfg)
			var p page
			res := e.Fetch(context.Background(), request(t, s, "/case/"+c.ID), &p)
			ok := res.Class == fetch.ClassResponse && res.Truncated == ""
			switch c.Outcome {
			case "ok", "ok_if_cookies", "redirect", "blocked", "ok_after_delay":
				if !ok {
					t.Errorf("%+v", res)
				}
			case "timeout":
				if res.Class != fetch.ClassTimeout && res.Truncated != fetch.TruncatedTime {
					t.Errorf("%+v", res)
				}
			case "partial_or_retry":
				if c.ID != "gzip-truncated" && ok { // codings are taken off later
					t.Errorf("%+v", res)
				}
			case "retry":
				if res.Class != fetch.ClassConnect {
					t.Errorf("%+v", res)
				}
			case "error":
				if ok && !strings.HasPrefix(c.ID, "redir") { // a redirect is a link
					t.Errorf("%+v", res)
				}
			}
		})
	}
}

// play does what a case says the server does.
func play(p *peer, actions [][]any) {
	raw := func(v any) string {
		b, _ := base64.StdEncoding.DecodeString(v.(string))
		return string(b)
	}
	for _, a := range actions {
		switch a[0] {
		case "send":
			p.say(raw(a[1]))
		case "sleep":
			d := time.Duration(a[1].(float64) * float64(time.Second))
			_ = p.SetReadDeadline(time.Now().Add(d))
			p.wait()
		case "repeat":
			for range int(a[2].(float64)) {
				if _, err := p.Write([]byte(raw(a[1]))); err != nil {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
		case "reset":
			_ = p.Conn.(*net.TCPConn).SetLinger(0)
			return
		case "cookie_gate":
			p.say(raw(a[1]))
		case "count_gate":
			p.say(raw(a[2]))
		case "chain":
			p.say("HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		}
	}
}

func TestParseTarget(t *testing.T) {
	for in, want := range map[string]fetch.Target{
		"http://a.test/":           {false, "a.test", "a.test", 80, "/"},
		"https://a.test":           {true, "a.test", "a.test", 443, "/"},
		"http://a.test:8080/x?y#z": {false, "a.test:8080", "a.test", 8080, "/x?y"},
		"http://a.test?q":          {false, "a.test", "a.test", 80, "/?q"},
		"https://[2001:db8::1]:9/": {true, "[2001:db8::1]:9", "2001:db8::1", 9, "/"},
		"https://[2001:db8::1]/":   {true, "[2001:db8::1]", "2001:db8::1", 443, "/"},
		"http://u:p@a.test/@":      {false, "a.test", "a.test", 80, "/@"},
		"http://a.test./":          {false, "a.test.", "a.test.", 80, "/"},
	} {
		got, err := fetch.ParseTarget(in)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"ftp://a.test/", "http:///x", "http://a.test:99999/", "http://a.test/a b", "http://a.test/\r\nX: y", "http://a.test/é", ""} {
		if _, err := fetch.ParseTarget(in); err == nil {
			t.Errorf("%q passes", in)
		}
	}
}

func TestConfigValidateNamesEveryProblem(t *testing.T) {
	c := config()
	c.ConnectTimeout, c.MaxBodyBytes, c.Verify, c.UserAgent = 0, 0, "never", "a\r\nb"
	err := c.Validate()
	for _, w := range []string{"connect_timeout", "max_page", "verify_tls", "user_agent"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%s is not named in %v", w, err)
		}
	}
	if c := fetch.Default(); c.Validate() != nil {
		t.Error(c.Validate())
	}
}
