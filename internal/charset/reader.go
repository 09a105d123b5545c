package charset

import (
	"bytes"
	"errors"
	"io"
)

// windowBytes is how much of a document that is not in memory is decided by.
const windowBytes = 64 << 10

// DecideReader is Decide for a document that is not in memory. It reads the
// first 64 KiB; where these declare nothing and are all ASCII, on to the first
// byte that is not, and judges by what follows it. The error is the reader's.
func DecideReader(r io.Reader, h Hints) (Decision, error) {
	buf := make([]byte, windowBytes)
	n, err := readFull(r, buf)
	h.Partial = h.Partial || err == nil
	d := Decide(buf[:n], h)
	high := firstHigh(buf[:n])
	if d.Ground.Declared() || err != nil || n-high >= sampleBytes || h.NoDetection {
		return d, noEOF(err)
	}
	start := bytes.Clone(buf[:min(n, prescanBytes)])
	// What the end of the window cuts is judged with what follows.
	n = copy(buf, buf[max(0, high-keepBefore):n])
	d.ASCII = true
	for err == nil && d.ASCII {
		var more int
		more, err = readFull(r, buf[n:])
		n += more
		high = firstHigh(buf[:n])
		if high == n {
			n = 0
			continue
		}
		if err == nil && high > 0 {
			// Make room for what follows.
			keep := copy(buf, buf[max(0, high-keepBefore):n])
			high = min(high, keepBefore)
			n, err = readFull(r, buf[keep:])
			n += keep
		}
		d.ASCII = false
		if e, confidence := detect(buf[:n], high, err == nil, start); e != nil && (h.Default == nil || confidence >= enoughForDefault) {
			d = Decision{Encoding: e, Ground: GroundDetected, Confidence: confidence}
		}
	}
	return d, noEOF(err)
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// readFull fills buf; at the end of r it returns what there was and io.EOF.
func readFull(r io.Reader, buf []byte) (int, error) {
	n, err := io.ReadFull(r, buf)
	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	return n, err
}
