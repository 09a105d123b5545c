package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/net/http2"

	"lycosa.dev/downloader/internal/bufpool"
	"lycosa.dev/downloader/internal/wire"
	"lycosa.dev/internal/httpwire"
)

// exchange2 is exchange over HTTP/2. The response is handed on in the form of
// HTTP/1.1 that WARC readers know: "HTTP/1.1 <status> <reason>", the fields as
// they came, in their order and spelling, an empty line, and the data without
// its frames. Result.Protocol says "h2".
func (x *exchange) exchange2(ctx context.Context) (keep bool, f *failure) {
	h := x.conn.h2
	if f := x.permitted(ctx); f != nil {
		return true, f
	}
	small := bufpool.GetSmall()
	request := x.request(small.B[:0], "")
	id := h.next
	h.next += 2
	h.given = 0
	if !h.begun {
		h.preface(x.cfg.MaxHeadBytes)
	}
	h.fr.MaxHeaderListSize = uint32(2 * x.cfg.MaxHeadBytes)
	h.request(id, &x.req.Target, request)
	h.x = x
	defer func() { h.x = nil }()
	x.waitPhase, x.waitFrom, x.waitFor = "first-byte", time.Now(), x.set.FirstByteTimeout
	x.arm2()
	begun, readBefore := h.begun, h.read
	n, err := h.flush()
	x.res.SentBytes, x.res.Written, h.begun = int64(n), n > 0, true
	if err != nil {
		small.Release()
		return false, x.writeFailure(err)
	}
	x.wrote = time.Now()
	x.waitFrom = x.wrote
	defer func() { x.res.ReceivedBytes = h.read - readBefore }()

	var in input
	ended, f := x.readHead2(h, id, &in, !begun)
	if f == nil {
		f = x.learn(in.mem[:in.body])
	}
	if f != nil {
		in.buf.Release()
		small.Release()
		return false, f
	}
	x.res.Class, x.res.Status, x.res.RetryAfter = ClassResponse, x.head.Status, x.head.RetryAfter
	x.res.Notes |= x.head.Notes
	x.res.Odd, x.res.Protocol = x.head.Odd, "h2"
	x.sink.Own(small)
	if in.buf != nil {
		x.sink.Own(in.buf)
		x.buffers = 1
	}
	if err := x.sink.Head(x.stored(request), in.mem[in.start:in.body]); err != nil {
		return false, &failure{ClassCancelled, "not-taken", err.Error()}
	}
	keep, f = x.readBody2(h, id, &in, ended)
	x.res.Timings.Body = time.Since(x.first)
	return keep && !h.goaway && h.next < 1<<30, f
}

// arm2 sets the deadline of what is waited for, from when the wait began:
// frames that are no part of the response do not lengthen it.
func (x *exchange) arm2() { x.arm(x.waitPhase, x.waitFrom, x.waitFor) }

// frame reads the next frame that is part of the response to id: a
// *http2.MetaHeadersFrame, or nil with the header of a DATA frame whose payload
// is still to be read. Others are answered on the way.
func (x *exchange) frame(h *h2conn, id uint32) (*http2.MetaHeadersFrame, http2.FrameHeader, error) {
	for {
		fh, err := h.fr.ReadFrameHeader()
		if err != nil {
			return nil, fh, err
		}
		if fh.Type == http2.FrameData && fh.StreamID == id {
			return nil, fh, nil
		}
		f, err := h.fr.ReadFrameForHeader(fh)
		if err != nil {
			return nil, fh, err
		}
		if x.frames++; x.frames > h2Control {
			return nil, fh, errH2Flood
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			if f.StreamID == id {
				return f, fh, nil
			}
			continue
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				return nil, fh, http2.StreamError{StreamID: id, Code: f.ErrCode}
			}
			continue
		case *http2.GoAwayFrame:
			h.goaway = true
			if f.LastStreamID < id {
				return nil, fh, errH2NotSeen
			}
			continue
		}
		if err := h.control(f); err != nil {
			return nil, fh, err
		}
		if _, err := h.flush(); err != nil {
			return nil, fh, err
		}
	}
}

var (
	errH2Flood   = errors.New("too many frames that are no part of the response")
	errH2NotSeen = errors.New("the server said goodbye before it took the request")
)

// readHead2 reads until the final response's header block is complete and puts
// it into in, as HTTP/1.1 spells it. ended tells that no body follows.
func (x *exchange) readHead2(h *h2conn, id uint32, in *input, fresh bool) (ended bool, f *failure) {
	for interim := 0; ; {
		meta, fh, err := x.frame(h, id)
		switch {
		case err != nil:
			return false, x.noResponse2(err, fresh)
		case meta == nil:
			return false, &failure{ClassProtocol, "h2-protocol", fmt.Sprintf("a DATA frame of %d bytes before the header block", fh.Length)}
		case meta.Truncated:
			return false, x.headTooLarge()
		}
		if x.first.IsZero() {
			x.first = time.Now()
			x.res.Timings.FirstByte = x.first.Sub(x.wrote)
		}
		status, err := strconv.Atoi(meta.PseudoValue("status"))
		if err != nil || status < 100 || status > 999 || len(meta.PseudoFields()) != 1 {
			return false, &failure{ClassProtocol, "bad-status", fmt.Sprintf("the pseudo-header :status is %q", clip(meta.PseudoValue("status")))}
		}
		if status < 200 {
			if status == 101 || meta.StreamEnded() {
				return false, &failure{ClassProtocol, "h2-protocol", fmt.Sprintf("status %d as the response", status)}
			}
			if interim++; interim > maxInterim {
				return false, &failure{ClassProtocol, "too-many-interim", fmt.Sprintf("more than %d responses of status 1xx", maxInterim)}
			}
			x.res.Notes |= wire.NoteInterim
			x.waitPhase, x.waitFrom, x.waitFor = "head", x.first, x.set.HeadTimeout
			continue
		}
		if f := x.head1(meta, status, in); f != nil {
			return false, f
		}
		return meta.StreamEnded(), nil
	}
}

// head1 writes the header block in the form of HTTP/1.1.
func (x *exchange) head1(meta *http2.MetaHeadersFrame, status int, in *input) *failure {
	size := 64
	for _, hf := range meta.RegularFields() {
		size += len(hf.Name) + len(hf.Value) + 4
		switch hf.Name {
		case "transfer-encoding", "connection", "keep-alive", "upgrade", "proxy-connection":
			// RFC 9113 section 8.2.2; and a reader of the archive would take the
			// body for chunked.
			return &failure{ClassProtocol, "h2-protocol", "the response has the field " + hf.Name + ", which HTTP/2 forbids"}
		}
	}
	if size > x.cfg.MaxHeadBytes+64 {
		return x.headTooLarge()
	}
	if size <= bufpool.Size {
		in.buf = bufpool.Get()
		in.mem = in.buf.B
	} else {
		in.mem = make([]byte, size)
	}
	b := append(in.mem[:0], "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	b = append(append(b, http.StatusText(status)...), "\r\n"...)
	for _, hf := range meta.RegularFields() {
		b = append(append(append(b, hf.Name...), ": "...), hf.Value...)
		b = append(b, "\r\n"...)
	}
	b = append(b, "\r\n"...)
	in.body, in.end = len(b), len(b)
	head, err := wire.Parse(b, &x.conn.scratch)
	if err != nil {
		return protocolFailure(err)
	}
	x.head = head
	return nil
}

// noResponse2 says why no header block came.
func (x *exchange) noResponse2(err error, fresh bool) *failure {
	var (
		stream http2.StreamError
		conn   http2.ConnectionError
	)
	switch {
	case errors.Is(err, errH2NotSeen):
		return x.stale("the server closes the connection and has not taken the request")
	case errors.As(err, &stream) && stream.Cause == nil:
		switch stream.Code {
		case http2.ErrCodeRefusedStream:
			return x.stale("the server refused the stream before it acted on it")
		case http2.ErrCodeHTTP11Required:
			x.engine.hosts.change(x.req.Target.Authority, time.Now(), func(f *hostFacts) { f.http1 = true })
			return x.stale("the server wants HTTP/1.1 for this request")
		}
		return &failure{ClassConnect, "h2-reset", "the server ended the stream: " + stream.Code.String()}
	case errors.As(err, &stream), errors.As(err, &conn), errors.Is(err, http2.ErrFrameTooLarge), errors.Is(err, errH2Flood), errors.Is(err, errH2Push):
		words := err.Error()
		if d := x.conn.h2.fr.ErrorDetail(); d != nil {
			words += ": " + d.Error()
		}
		return &failure{ClassProtocol, "h2-protocol", words}
	case x.first.IsZero():
		return x.noResponse(err)
	case isTimeout(err):
		return x.timeout("no complete header block")
	case isEnd(err):
		return &failure{ClassProtocol, "head-cut", "the connection ended inside the header block"}
	}
	return x.readFailure(err)
}

// readBody2 passes the data on, piece by piece as buffers fill.
func (x *exchange) readBody2(h *h2conn, id uint32, in *input, ended bool) (reusable bool, f *failure) {
	x.rateAt = x.first
	x.limit = x.set.MaxBodyBytes
	byAllowance := false
	if a := x.req.ByteAllowance; a > 0 {
		if a -= int64(in.body); a < x.limit {
			x.limit, byAllowance = max(a, 0), true
		}
	}
	said := int64(-1)
	if x.head.Framing.Kind == httpwire.FramingLength {
		said = x.head.Framing.Length
	}
	mem, from, end := in.mem, in.body, in.body
	x.waitPhase, x.waitFor = "idle", x.set.IdleTimeout
	var err error
read:
	for !ended {
		x.waitFrom = time.Now()
		var meta *http2.MetaHeadersFrame
		var fh http2.FrameHeader
		if meta, fh, err = x.frame(h, id); err != nil {
			break
		}
		if meta != nil {
			x.res.Notes |= wire.NoteTrailers
			ended = meta.StreamEnded()
			if !ended {
				err = http2.ConnectionError(http2.ErrCodeProtocol)
				break
			}
			continue
		}
		left, pad := int64(fh.Length), int64(0)
		if fh.Flags.Has(http2.FlagDataPadded) {
			var b [1]byte
			if _, err = io.ReadFull(h, b[:]); err != nil {
				break
			}
			if left, pad = left-1, int64(b[0]); pad > left {
				err = http2.ConnectionError(http2.ErrCodeProtocol)
				break
			}
			left -= pad
		}
		for left > 0 {
			if end == len(mem) {
				if f = x.emit(mem[from:end]); f != nil {
					return false, f
				}
				mem = x.memory()
				from, end = 0, 0
			}
			if x.res.BodyBytes == x.limit {
				x.res.Truncated = TruncatedLength
				if byAllowance {
					x.res.Notes |= wire.NoteAllowanceUsedUp
				}
				break read
			}
			room := mem[end:]
			room = room[:min(int64(len(room)), left, x.limit-x.res.BodyBytes)]
			var n int
			n, err = h.Read(room)
			end, left = end+n, left-int64(n)
			x.res.BodyBytes += int64(n)
			if n > 0 {
				x.waitFrom = time.Now()
			}
			if err != nil {
				break read
			}
		}
		if err = h.skip(pad); err != nil {
			break
		}
		ended = fh.Flags.Has(http2.FlagDataEndStream)
		if err = x.giveBack(h, id, int64(fh.Length), ended); err != nil {
			break
		}
	}
	if err != nil {
		x.ended2(err)
	}
	if x.res.Truncated == TruncatedTime && x.phase == "lease" && !x.broken.Load() {
		return false, x.timeout("")
	}
	if x.broken.Load() && !ended {
		return false, &failure{ClassCancelled, "cancelled", "broken off on our side"}
	}
	if ended && said >= 0 && said != x.res.BodyBytes && err == nil {
		x.res.Notes |= wire.NoteLengthMismatch
		if said > x.res.BodyBytes {
			x.res.Truncated = TruncatedDisconnect
		}
	}
	if f = x.emit(mem[from:end]); f != nil {
		return false, f
	}
	return ended && err == nil, nil
}

// giveBack opens the windows for what was received, in lumps.
func (x *exchange) giveBack(h *h2conn, id uint32, n int64, ended bool) error {
	h.owed += n
	h.given += n
	if h.given >= h2Window/2 && !ended {
		_ = h.fr.WriteWindowUpdate(id, uint32(h.given))
		h.given = 0
	}
	if h.owed < h2Window/2 {
		return nil
	}
	_ = h.fr.WriteWindowUpdate(0, uint32(h.owed))
	h.owed = 0
	if ended {
		return nil // goes with the next request
	}
	_, err := h.flush()
	return err
}

// ended2 notes how the body stands when reading it ended with err.
func (x *exchange) ended2(err error) {
	var stream http2.StreamError
	x.res.Truncated = TruncatedDisconnect
	switch {
	case isTimeout(err):
		x.res.Truncated = TruncatedTime
		x.res.Code, x.res.Detail = "timeout-"+x.phase, "body cut: not complete within "+x.limitWords()
	case errors.As(err, &stream):
		x.res.Code, x.res.Detail = "h2-reset", "the server ended the stream: "+stream.Code.String()
	case isEnd(err):
	case isReset(err):
		x.res.Code, x.res.Detail = "reset-in-body", words(err)
	default:
		x.res.Truncated = TruncatedUnspecified
		x.res.Code, x.res.Detail = "h2-protocol", err.Error()
	}
}
