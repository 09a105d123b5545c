package fetch

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// What we tell HTTP/2 servers (RFC 9113 section 6.5.2). One exchange at a time
// uses a connection, so that the windows of connection and stream are one.
const (
	h2Window    = 1 << 20
	h2FrameSize = 16 << 10
	// h2Control bounds the frames that are no part of a response, in one exchange.
	h2Control = 4096
)

// h2conn is the state of HTTP/2 on a connection. The exchange that owns the
// connection reads and writes its frames itself: there is no goroutine, and
// between exchanges nobody reads. What has come meanwhile (settings, pings, a
// goodbye) is read when the connection is taken up again.
type h2conn struct {
	c     *conn
	x     *exchange // that reads; nil between exchanges
	fr    *http2.Framer
	out   bytes.Buffer // frames to be written
	block bytes.Buffer // a header block
	enc   *hpack.Encoder

	next     uint32 // stream id of the next request
	begun    bool   // the preface was written
	goaway   bool   // the server takes no more streams
	maxFrame uint32 // of the server
	read     int64  // bytes read off the session
	owed     int64  // bytes of data that no WINDOW_UPDATE has given back yet
	given    int64  // of these, on the stream of the exchange
}

func newH2(c *conn) *h2conn {
	h := &h2conn{c: c, next: 1, maxFrame: h2FrameSize}
	h.enc = hpack.NewEncoder(&h.block)
	h.fr = http2.NewFramer(&h.out, h)
	h.fr.SetMaxReadFrameSize(h2FrameSize)
	h.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	return h
}

// Read gives the framer what comes. It sets the limits of the exchange, and
// goes on where only its lease had to be renewed, so that a frame is never cut
// by a deadline that moved.
func (h *h2conn) Read(p []byte) (int, error) {
	for {
		if h.x != nil {
			h.x.arm2()
		}
		n, err := h.c.Conn.Read(p)
		h.read += int64(n)
		if n > 0 {
			return n, nil
		}
		if err != nil && (h.x == nil || !h.x.renewed(err)) {
			return 0, err
		}
	}
}

// preface adds the client's connection preface (RFC 9113 section 3.4).
func (h *h2conn) preface(headBytes int) {
	h.out.WriteString(http2.ClientPreface)
	_ = h.fr.WriteSettings(
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: h2Window},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: uint32(headBytes)},
	)
	_ = h.fr.WriteWindowUpdate(0, h2Window-65535)
}

// request adds a request's frames. text is the request as HTTP/1.1 spells it:
// what is archived is what is sent.
func (h *h2conn) request(id uint32, t *Target, text []byte) {
	h.block.Reset()
	field := func(name, value string) {
		_ = h.enc.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: name == "authorization" || name == "cookie"})
	}
	field(":method", "GET")
	field(":scheme", "https")
	field(":authority", t.Authority)
	field(":path", t.Path)
	_, text, _ = bytes.Cut(text, []byte("\r\n"))
	for line := range strings.SplitSeq(strings.TrimSuffix(string(text), "\r\n\r\n"), "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		if name = strings.ToLower(name); name != "host" {
			field(name, strings.TrimSpace(value))
		}
	}
	rest := h.block.Bytes()
	first := rest[:min(len(rest), int(h.maxFrame))]
	rest = rest[len(first):]
	_ = h.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndStream: true, EndHeaders: len(rest) == 0})
	for len(rest) > 0 {
		part := rest[:min(len(rest), int(h.maxFrame))]
		rest = rest[len(part):]
		_ = h.fr.WriteContinuation(id, len(rest) == 0, part)
	}
}

// flush writes the frames that wait.
func (h *h2conn) flush() (int, error) {
	if h.out.Len() == 0 {
		return 0, nil
	}
	n, err := h.c.Conn.Write(h.out.Bytes())
	h.out.Reset()
	if h.out.Cap() > 64<<10 {
		h.out = bytes.Buffer{}
	}
	return n, err
}

var errH2Push = errors.New("a push that was forbidden")

// control takes a frame that belongs to the connection. Its answer waits in out.
func (h *h2conn) control(f http2.Frame) error {
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if f.IsAck() {
			return nil
		}
		err := f.ForeachSetting(func(s http2.Setting) error {
			switch s.ID {
			case http2.SettingHeaderTableSize:
				h.enc.SetMaxDynamicTableSize(min(s.Val, 4096))
			case http2.SettingMaxFrameSize:
				h.maxFrame = min(s.Val, 1<<20)
			}
			return s.Valid()
		})
		if err != nil {
			return err
		}
		return h.fr.WriteSettingsAck()
	case *http2.PingFrame:
		if !f.IsAck() {
			return h.fr.WritePing(true, f.Data)
		}
	case *http2.GoAwayFrame:
		h.goaway = true
	case *http2.PushPromiseFrame:
		return errH2Push
	}
	return nil
}

// settle reads what has come on a connection that nobody used, without
// blocking. It tells whether the connection can still be used.
func (h *h2conn) settle() bool {
	if h.c.SetReadDeadline(time.Now().Add(time.Millisecond)) != nil {
		return false
	}
	for range h2Control {
		before := h.read
		f, err := h.fr.ReadFrame()
		if err != nil {
			return isTimeout(err) && h.read == before && !h.goaway
		}
		// Data and headers now belong to no request.
		switch f.(type) {
		case *http2.DataFrame, *http2.MetaHeadersFrame:
			return false
		}
		if h.control(f) != nil || h.goaway {
			return false
		}
	}
	return false
}

// skip reads n bytes and drops them.
func (h *h2conn) skip(n int64) error {
	_, err := io.CopyN(io.Discard, h, n)
	return err
}
