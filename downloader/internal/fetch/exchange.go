package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"lycosa.dev/downloader/internal/bufpool"
	"lycosa.dev/downloader/internal/proxy"
	"lycosa.dev/downloader/internal/wire"
	"lycosa.dev/internal/httpwire"
)

// Bounds of what is read that no setting changes.
const (
	maxInterim   = 16 // 1xx responses before the final one
	pooledBodies = 32 // buffers of one body that come from the pool (1 MiB)
)

// exchange is the state of one Fetch.
type exchange struct {
	engine *Engine
	cfg    *Config
	set    *Settings
	req    *Request
	sink   Sink
	res    *Result
	conn   *conn
	head   wire.Head
	body   wire.Body

	begun   time.Time
	total   time.Time // end of TotalTimeout
	wrote   time.Time // the request's last byte
	first   time.Time // the response's first byte
	rateAt  time.Time // from when the body's rate counts
	phase   string    // which limit the connection's deadline stands for
	broken  atomic.Bool
	buffers int
	limit   int64 // bytes of body still allowed

	single     [1]netip.AddrPort // memory for the address of most hosts
	via        *proxy.Upstream   // nil: none
	remote     bool              // the proxy resolves names
	absolute   bool              // the request goes to the proxy itself, which passes it on
	authorized bool              // it carries an Authorization of Auth

	// What an exchange over HTTP/2 waits for.
	waitPhase string
	waitFrom  time.Time
	waitFor   time.Duration
	frames    int // that were no part of the response
}

// sooner returns t or the end of the whole exchange, whichever comes first.
func (x *exchange) sooner(t time.Time) time.Time {
	if x.total.Before(t) {
		t = x.total
	}
	if x.req.Until != nil {
		if d := x.req.Until(); d.Before(t) {
			t = d
		}
	}
	return t
}

// arm sets the connection's deadline to d from now, and remembers which limit
// it stands for.
func (x *exchange) arm(phase string, now time.Time, d time.Duration) {
	until := now.Add(d)
	x.phase = phase
	if phase == "idle" && x.set.MinRateBytes > 0 {
		need := time.Duration(float64(x.res.BodyBytes) / float64(x.set.MinRateBytes) * float64(time.Second))
		if at := x.rateAt.Add(max(x.set.MinRateGrace, need)); at.Before(until) {
			until, x.phase = at, "rate"
		}
	}
	if x.total.Before(until) {
		until, x.phase = x.total, "total"
	}
	if x.req.Until != nil {
		if at := x.req.Until(); at.Before(until) {
			until, x.phase = at, "lease"
		}
	}
	_ = x.conn.SetDeadline(until)
	if x.broken.Load() { // else the watcher's deadline would be lost
		_ = x.conn.tcp.SetDeadline(time.Unix(1, 0))
	}
}

// renewed tells whether err only means that the lease would have run out, while
// it has been renewed since.
func (x *exchange) renewed(err error) bool {
	return x.phase == "lease" && isTimeout(err) && !x.broken.Load() && time.Now().Before(x.req.Until())
}

// exchange writes the request and reads the response. keep tells whether the
// connection can take another request.
func (x *exchange) exchange(ctx context.Context) (keep bool, f *failure) {
	if x.conn.h2 != nil {
		return x.exchange2(ctx)
	}
	small := bufpool.GetSmall()
	connection := "close"
	if x.cfg.KeepAlive > 0 {
		connection = "keep-alive"
	}
	request := x.request(small.B[:0], connection)
	if f := x.permitted(ctx); f != nil {
		small.Release()
		return true, f // nothing was written: the connection is as good as before
	}
	now := time.Now()
	x.arm("first-byte", now, x.set.FirstByteTimeout)
	n, err := x.conn.Write(request)
	x.res.SentBytes, x.res.Written = int64(n), n > 0
	if err != nil {
		small.Release()
		return false, x.writeFailure(err)
	}
	x.wrote = time.Now()
	buf, n, err := x.conn.readFirst()
	for n == 0 && x.renewed(err) {
		x.arm("first-byte", x.wrote, x.set.FirstByteTimeout)
		buf, n, err = x.conn.readFirst()
	}
	if n == 0 {
		small.Release()
		return false, x.noResponse(err)
	}
	x.first = time.Now()
	x.res.Timings.FirstByte = x.first.Sub(x.wrote)
	x.res.ReceivedBytes = int64(n)

	in := input{buf: buf, mem: buf.B, end: n}
	f = x.readHead(&in)
	if f == nil && x.res.Reused && x.head.Status == 408 && !x.head.KeepAlive {
		// The server had given the connection up before our request came.
		f = x.stale("the server answered 408 on a kept connection")
	}
	if f == nil {
		f = x.learn(in.mem[in.start:in.body])
	}
	if f != nil {
		in.buf.Release()
		small.Release()
		return false, f
	}
	x.res.Class, x.res.Status, x.res.RetryAfter = ClassResponse, x.head.Status, x.head.RetryAfter
	x.res.Notes |= x.head.Notes
	x.res.Odd = x.head.Odd
	x.res.Protocol = x.head.Protocol
	x.sink.Own(small)
	if in.buf != nil {
		x.sink.Own(in.buf)
		x.buffers = 1
	}
	if err := x.sink.Head(x.stored(request), in.mem[in.start:in.body]); err != nil {
		return false, &failure{ClassCancelled, "not-taken", err.Error()}
	}
	keep, f = x.readBody(&in)
	x.res.Timings.Body = time.Since(x.first)
	return keep && x.head.KeepAlive, f
}

func (x *exchange) stale(detail string) *failure {
	x.engine.counts.stale.Add(1)
	return &failure{ClassNotStarted, "stale-connection", detail}
}

// writeFailure says why a request could not be written.
func (x *exchange) writeFailure(err error) *failure {
	switch {
	case x.res.Reused && !isTimeout(err):
		return x.stale("a kept connection was closed by the server: " + words(err))
	case isTimeout(err):
		return &failure{ClassTimeout, "timeout-write", "the server does not take the request"}
	}
	return &failure{ClassConnect, "write-failed", words(err)}
}

// noResponse says why not one byte came.
func (x *exchange) noResponse(err error) *failure {
	switch {
	case isTimeout(err):
		return x.timeout("no response")
	case x.res.Reused && (isEnd(err) || isReset(err)):
		return x.stale("a kept connection was closed by the server before a response")
	case isEnd(err):
		return &failure{ClassConnect, "closed-before-response", "the server closed the connection without a response"}
	case isReset(err):
		return &failure{ClassConnect, "reset-before-response", "the server reset the connection before a response"}
	}
	return x.readFailure(err)
}

func (x *exchange) timeout(what string) *failure {
	if x.phase == "lease" {
		return &failure{ClassCancelled, "lease-expired", "the lease ran out during the fetch"}
	}
	return &failure{ClassTimeout, "timeout-" + x.phase, what + " within " + x.limitWords()}
}

func (x *exchange) limitWords() string {
	switch x.phase {
	case "first-byte":
		return x.set.FirstByteTimeout.String()
	case "head":
		return fmt.Sprintf("%s, or %s of silence", x.set.HeadTimeout, x.set.IdleTimeout)
	case "idle":
		return x.set.IdleTimeout.String() + " of silence"
	case "rate":
		return fmt.Sprintf("the least rate of %d bytes a second", x.set.MinRateBytes)
	}
	return x.set.TotalTimeout.String() + " in all"
}

// readFailure is for errors of a connection that have no class of their own.
func (x *exchange) readFailure(err error) *failure {
	if x.conn.tls != nil {
		return &failure{ClassTLS, "tls-broken", words(err)}
	}
	return &failure{ClassConnect, "read-failed", words(err)}
}

// input is the memory that the response is read into.
type input struct {
	buf   *bufpool.Buffer // owner of mem; nil where mem is left to the garbage collector
	mem   []byte
	start int // begin of the header block
	body  int // end of the header block
	end   int // end of what was read
}

// readHead reads until the final response's header block is complete, and
// parses it.
func (x *exchange) readHead(in *input) *failure {
	interim, known, eof := 0, 0, false
	for {
		at, s := wire.FindStart(in.mem[in.start:in.end], eof)
		switch {
		case s == wire.StartOther:
			return x.noStatusLine(in)
		case s == wire.StartHTTP && at > 0:
			x.res.Notes |= wire.NoteLeadingJunk
			in.start += at
			known = 0
		}
		if s == wire.StartHTTP {
			if n := wire.FindEnd(in.mem[in.start:in.end], known); n > 0 {
				if n > x.cfg.MaxHeadBytes {
					return x.headTooLarge()
				}
				in.body = in.start + n
				head, err := wire.Parse(in.mem[in.start:in.body], &x.conn.scratch)
				if err != nil {
					return protocolFailure(err)
				}
				x.head = head
				if head.Status >= 200 {
					return nil
				}
				if head.Status == 101 {
					return &failure{ClassProtocol, "unexpected-upgrade", "status 101 without being asked to switch protocols"}
				}
				if interim++; interim > maxInterim {
					return &failure{ClassProtocol, "too-many-interim", fmt.Sprintf("more than %d responses of status 1xx", maxInterim)}
				}
				x.res.Notes |= wire.NoteInterim
				in.start, known = in.body, 0
				continue
			}
			known = in.end - in.start
		}
		if eof {
			return &failure{ClassProtocol, "head-cut", "the connection ended inside the header block"}
		}
		if in.end-in.start > x.cfg.MaxHeadBytes {
			return x.headTooLarge()
		}
		in.room()
		now := time.Now()
		x.arm("head", now, min(x.set.IdleTimeout, x.first.Add(x.set.HeadTimeout).Sub(now)))
		n, err := x.conn.Read(in.mem[in.end:])
		in.end += n
		x.res.ReceivedBytes += int64(n)
		if n > 0 || err == nil || x.renewed(err) {
			continue
		}
		switch {
		case isEnd(err):
			eof = true
		case isTimeout(err):
			return x.timeout("no complete header block")
		case isReset(err):
			return &failure{ClassConnect, "reset-in-head", "the server reset the connection inside the header block"}
		default:
			return x.readFailure(err)
		}
	}
}

// noStatusLine takes the response for HTTP/0.9 where that is allowed.
func (x *exchange) noStatusLine(in *input) *failure {
	if !x.cfg.AcceptHTTP09 || !x.req.Target.defaultPort() {
		return &failure{ClassProtocol, "http09", fmt.Sprintf("no status line: the response begins with %q", in.mem[in.start:min(in.end, in.start+40)])}
	}
	x.head = wire.Head{Status: 200, Framing: httpwire.Framing{Kind: httpwire.FramingClose}, Notes: wire.NoteHTTP09, Protocol: "http/0.9"}
	in.body = in.start
	return nil
}

func (x *exchange) headTooLarge() *failure {
	return &failure{ClassContent, "head-too-large", fmt.Sprintf("the header block is longer than %d bytes", x.cfg.MaxHeadBytes)}
}

func protocolFailure(err error) *failure {
	var pe *wire.ProtocolError
	if errors.As(err, &pe) {
		return &failure{ClassProtocol, pe.Code, pe.Detail}
	}
	return &failure{ClassProtocol, "bad-response", err.Error()}
}

// room makes sure that more can be read behind what there is.
func (in *input) room() {
	if in.end < len(in.mem) {
		return
	}
	size := len(in.mem)
	if in.end-in.start > size/2 {
		size *= 2
	}
	mem := make([]byte, size)
	in.end = copy(mem, in.mem[in.start:in.end])
	in.start = 0
	in.mem = mem
	in.buf.Release()
	in.buf = nil
}
