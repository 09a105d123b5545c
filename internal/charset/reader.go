package charset

import (
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
	lang := languageHint(buf[:n])
	for err == nil && d.ASCII && !h.NoDetection {
		n, err = readFull(r, buf)
		high := firstHigh(buf[:n])
		if high == n {
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
		if e, confidence := detect(buf[:n], high, err == nil, lang); e != nil && (h.Default == nil || confidence >= enoughForDefault) {
			d = Decision{Encoding: e, Ground: GroundDetected, Confidence: confidence}
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return d, err
}

// readFull fills buf; at the end of r it returns what there was and io.EOF.
func readFull(r io.Reader, buf []byte) (int, error) {
	n, err := io.ReadFull(r, buf)
	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	return n, err
}
