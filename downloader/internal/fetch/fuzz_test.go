package fetch

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"lycosa.dev/downloader/internal/bufpool"
)

// scripted is a connection that gives its bytes in pieces and then ends.
type scripted struct {
	in   []byte
	step int
}

func (s *scripted) Read(p []byte) (int, error) {
	if len(s.in) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.in[:min(s.step, len(s.in))])
	s.in = s.in[n:]
	return n, nil
}
func (s *scripted) Write(p []byte) (int, error)      { return len(p), nil }
func (s *scripted) Close() error                     { return nil }
func (s *scripted) LocalAddr() net.Addr              { return nil }
func (s *scripted) RemoteAddr() net.Addr             { return nil }
func (s *scripted) SetDeadline(time.Time) error      { return nil }
func (s *scripted) SetReadDeadline(time.Time) error  { return nil }
func (s *scripted) SetWriteDeadline(time.Time) error { return nil }

type counting struct {
	head, body int64
	buffers    []*bufpool.Buffer
}

func (c *counting) Own(b *bufpool.Buffer)     { c.buffers = append(c.buffers, b) }
func (c *counting) Head(_, head []byte) error { c.head += int64(len(head)); return nil }
func (c *counting) Body(b []byte) error       { c.body += int64(len(b)); return nil }

// Whatever a server sends and however the network cuts it, an exchange ends,
// counts what it hands on, keeps its limits, and comes to the same outcome.
func FuzzExchange(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd",
		"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"HTTP/1.1 204\n\n", "\r\nxHTTP/1.0 200\r\n\r\nbody", "<html>", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
	} {
		f.Add([]byte(s), uint16(1), int64(2))
		f.Add([]byte(s), uint16(100), int64(0))
	}
	cfg := Default()
	cfg.MaxBodyBytes = 1 << 16
	cfg.MaxHeadBytes = 1 << 12
	e, err := New(cfg)
	if err != nil {
		f.Fatal(err)
	}
	run := func(in []byte, step int, allowance int64) (Result, *failure, *counting) {
		var res Result
		var sink counting
		now := time.Now()
		x := exchange{
			engine: e, cfg: &e.cfg, set: &e.cfg.Settings, sink: &sink, res: &res, begun: now, total: now.Add(time.Hour),
			req:  &Request{Target: Target{Authority: "h", Path: "/"}, ByteAllowance: allowance},
			conn: newConn(&scripted{in: in, step: step}, connKey{}),
		}
		_, fail := x.exchange(context.Background())
		for _, b := range sink.buffers {
			b.Release()
		}
		return res, fail, &sink
	}
	f.Fuzz(func(t *testing.T, in []byte, step uint16, allowance int64) {
		if allowance < 0 {
			allowance = 0
		}
		r1, f1, s1 := run(in, len(in)+1, allowance)
		r2, f2, s2 := run(in, int(step)+1, allowance)
		if s1.body != r1.BodyBytes || s2.body != r2.BodyBytes {
			t.Fatalf("%d and %d bytes handed on, %d and %d said", s1.body, s2.body, r1.BodyBytes, r2.BodyBytes)
		}
		if allowance > 0 && s2.body > 0 && s2.head+s2.body > allowance || s2.body > cfg.MaxBodyBytes {
			t.Fatalf("%d bytes of head and %d of body, allowed %d", s2.head, s2.body, allowance)
		}
		if (f1 == nil) != (f2 == nil) || f1 != nil && f1.code != f2.code {
			t.Fatalf("whole: %+v, cut by %d: %+v", f1, int(step)+1, f2)
		}
		// Where chunked framing breaks, more or less of what follows has come.
		if f1 == nil && r1.Truncated != TruncatedUnspecified && (r1.BodyBytes != r2.BodyBytes || r1.Status != r2.Status || r1.Truncated != r2.Truncated) {
			t.Fatalf("whole: %+v\ncut by %d: %+v", r1, int(step)+1, r2)
		}
	})
}
