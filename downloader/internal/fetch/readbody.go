package fetch

import (
	"time"

	"lycosa.dev/downloader/internal/bufpool"
	"lycosa.dev/downloader/internal/wire"
	"lycosa.dev/internal/httpwire"
)

// readBody passes the body on, piece by piece as buffers fill. reusable tells
// whether the connection stands right behind a whole response.
func (x *exchange) readBody(in *input) (reusable bool, f *failure) {
	x.body = wire.NewBody(&x.head)
	x.rateAt = x.first
	x.limit = x.set.MaxBodyBytes
	byAllowance := false
	if a := x.req.ByteAllowance; a > 0 {
		if a -= int64(in.body - in.start); a < x.limit {
			x.limit, byAllowance = max(a, 0), true
		}
	}
	mem, from, scanned, end := in.mem, in.body, in.body, in.end
	for {
		n := x.body.Scan(mem[scanned:end])
		x.res.BodyBytes += int64(n)
		excess := n < end-scanned
		scanned += n
		if over := x.res.BodyBytes - x.limit; over > 0 {
			scanned -= int(over)
			x.res.BodyBytes = x.limit
			x.res.Truncated = TruncatedLength
			if byAllowance {
				x.res.Notes |= wire.NoteAllowanceUsedUp
			}
			break
		}
		if x.body.Done() {
			if excess {
				x.res.Notes |= wire.NoteExcessBytes
			}
			reusable = !excess
			break
		}
		if x.body.Lost() {
			x.res.Odd |= httpwire.NoteChunkMalformed
			x.res.Truncated = TruncatedUnspecified
			break
		}
		if end == len(mem) {
			if f = x.emit(mem[from:scanned]); f != nil {
				return false, f
			}
			mem = x.memory()
			from, scanned, end = 0, 0, 0
		}
		x.arm("idle", time.Now(), x.set.IdleTimeout)
		// One byte beyond the limit tells a body that is longer from one that
		// ends there.
		room := mem[end:]
		if most := x.limit - x.res.BodyBytes + 1; int64(len(room)) > most {
			room = room[:most]
		}
		m, err := x.conn.Read(room)
		end += m
		x.res.ReceivedBytes += int64(m)
		if m == 0 && err != nil && !x.renewed(err) {
			x.ended(err)
			break
		}
	}
	if x.res.Truncated == TruncatedTime && x.phase == "lease" && !x.broken.Load() {
		return false, x.timeout("")
	}
	if x.broken.Load() && !x.body.Done() {
		return false, &failure{ClassCancelled, "cancelled", "broken off on our side"}
	}
	if f = x.emit(mem[from:scanned]); f != nil {
		return false, f
	}
	return reusable, nil
}

// ended notes how the body stands when the connection ends with err.
func (x *exchange) ended(err error) {
	end, notes, odd := x.body.Close()
	x.res.Notes |= notes
	x.res.Odd |= odd
	switch {
	case isTimeout(err):
		x.res.Truncated = TruncatedTime
		x.res.Code = "timeout-" + x.phase
		x.res.Detail = "body cut: not complete within " + x.limitWords()
	case !isEnd(err):
		x.res.Truncated = TruncatedDisconnect
		x.res.Code, x.res.Detail = "reset-in-body", words(err)
	case end == wire.EndCut:
		x.res.Truncated = TruncatedDisconnect
	case end == wire.EndGarbled:
		x.res.Truncated = TruncatedUnspecified
	}
}

// emit hands a piece of the body to the sink. While the sink waits, the
// server's clocks stand still.
func (x *exchange) emit(p []byte) *failure {
	if len(p) == 0 {
		return nil
	}
	start := time.Now()
	if err := x.sink.Body(p); err != nil {
		return &failure{ClassCancelled, "not-taken", err.Error()}
	}
	if d := time.Since(start); d > time.Millisecond {
		x.total = x.total.Add(d)
		x.rateAt = x.rateAt.Add(d)
	}
	return nil
}

// memory returns room for more of the body: from the pool first, and what
// exceeds an ordinary page's need left to the garbage collector, because the
// buffers of one page come back only when all of it is answered.
func (x *exchange) memory() []byte {
	if x.buffers++; x.buffers > pooledBodies {
		return make([]byte, bufpool.Size)
	}
	b := bufpool.Get()
	x.sink.Own(b)
	return b.B
}
