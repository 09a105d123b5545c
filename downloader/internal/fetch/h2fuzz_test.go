package fetch

import (
	"bytes"
	"context"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2Seed is what a server says: settings, a header block, data.
func h2Seed(frames func(fr *http2.Framer, block func(fields ...string) []byte)) []byte {
	var out, buf bytes.Buffer
	enc := hpack.NewEncoder(&buf)
	fr := http2.NewFramer(&out, nil)
	fr.AllowIllegalWrites = true
	_ = fr.WriteSettings()
	frames(fr, func(fields ...string) []byte {
		buf.Reset()
		for i := 0; i < len(fields); i += 2 {
			_ = enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		return bytes.Clone(buf.Bytes())
	})
	return out.Bytes()
}

// Whatever an HTTP/2 server sends and however the network cuts it, an exchange
// ends, counts what it hands on, keeps its limits, and comes to the same
// outcome.
func FuzzExchangeH2(f *testing.F) {
	for _, frames := range []func(*http2.Framer, func(...string) []byte){
		func(fr *http2.Framer, block func(...string) []byte) {
			_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block(":status", "200", "content-length", "3", "x-a", "b"), EndHeaders: true})
			_ = fr.WriteDataPadded(1, false, []byte("ab"), []byte{0, 0})
			_ = fr.WriteData(1, true, []byte("c"))
		},
		func(fr *http2.Framer, block func(...string) []byte) {
			_ = fr.WritePing(false, [8]byte{})
			_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block(":status", "103"), EndHeaders: true})
			b := block(":status", "404", "set-cookie", "a=b", "retry-after", "5")
			_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b[:3]})
			_ = fr.WriteContinuation(1, true, b[3:])
			_ = fr.WriteData(1, false, bytes.Repeat([]byte("x"), 300))
			_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block("x-sum", "1"), EndHeaders: true, EndStream: true})
		},
		func(fr *http2.Framer, block func(...string) []byte) { _ = fr.WriteGoAway(0, http2.ErrCodeNo, nil) },
		func(fr *http2.Framer, block func(...string) []byte) {
			_ = fr.WriteRSTStream(1, http2.ErrCodeRefusedStream)
		},
		func(fr *http2.Framer, block func(...string) []byte) { _ = fr.WriteData(1, true, []byte("early")) },
	} {
		seed := h2Seed(frames)
		f.Add(seed, uint16(1), int64(0))
		f.Add(seed, uint16(50), int64(60))
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
		c := newConn(&scripted{in: in, step: step}, connKey{})
		c.h2 = newH2(c)
		x := exchange{
			engine: e, cfg: &e.cfg, set: &e.cfg.Settings, sink: &sink, res: &res, begun: now, total: now.Add(time.Hour),
			req: &Request{Target: Target{TLS: true, Authority: "h", Path: "/"}, ByteAllowance: allowance}, conn: c,
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
		if s2.body > cfg.MaxBodyBytes || allowance > 0 && s2.body > allowance || s2.head > int64(cfg.MaxHeadBytes)+128 {
			t.Fatalf("%d bytes of head and %d of body, allowed %d", s2.head, s2.body, allowance)
		}
		if (f1 == nil) != (f2 == nil) || f1 != nil && f1.code != f2.code {
			t.Fatalf("whole: %+v, cut by %d: %+v", f1, int(step)+1, f2)
		}
		if f1 == nil && (r1.BodyBytes != r2.BodyBytes || r1.Status != r2.Status || r1.Truncated != r2.Truncated) {
			t.Fatalf("whole: %+v\ncut by %d: %+v", r1, int(step)+1, r2)
		}
	})
}
