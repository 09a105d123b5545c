package charset

import "bytes"

// Bounds of the detection, in bytes.
const (
	// seekBytes is where the first byte above 0x7F is looked for to check a
	// declaration.
	seekBytes = 4 << 10
	// sampleBytes is what is judged by its characters; ASCII far from others
	// is left out of it.
	sampleBytes = 2 << 10
	// firstBytes of the sample tell which candidates are worth all of it.
	firstBytes = 256
)

// detect finds the encoding of a text that declares none; high is where its
// first byte above 0x7F stands, and start is how the document begins. nil means
// that the text does not tell.
func detect(b []byte, high int, partial bool, start []byte) (e *Encoding, confidence uint8) {
	if e := wideWithoutBOM(b); e != nil {
		return e, 90
	}
	good, bad := utf8Count(b[high:], partial)
	switch {
	case bad == 0:
		return UTF8, uint8(min(99, 70+good))
	case good >= 10 && good >= 20*bad:
		return UTF8, 60
	}
	lang := languageHint(start)
	var buf [sampleBytes]byte
	sample := takeSample(buf[:0], b, high)
	if e, confidence = eastAsian(sample, lang); e != nil {
		return e, confidence
	}
	return singleByte(sample, lang)
}

// Around a byte above 0x7F so much ASCII is kept: what may be the rest of its
// character and of its word.
const (
	keepAfter  = 4
	keepBefore = 2
)

// takeSample collects the bytes above 0x7F with their neighbours; a blank stands
// for what is left out.
func takeSample(dst, b []byte, high int) []byte {
	for i := max(0, high-keepBefore); i < len(b) && len(dst) < cap(dst); {
		run := firstHigh(b[i:])
		switch {
		case run == 0:
			dst = append(dst, b[i])
			i++
			continue
		case run > keepAfter+keepBefore+1:
			if len(dst)+keepAfter+1+keepBefore > cap(dst) {
				return dst
			}
			dst = append(dst, b[i:i+keepAfter]...)
			dst = append(dst, ' ')
			i += run - keepBefore
			run = keepBefore
		}
		run = min(run, cap(dst)-len(dst), len(b)-i)
		dst = append(dst, b[i:i+run]...)
		i += run
	}
	return dst
}

// singleByte finds the encoding and language that make the text cheapest.
func singleByte(sample []byte, lang hint) (*Encoding, uint8) {
	var best, second *candidate
	var low, next, pairs int
	all := singles()
	var early []int
	limit := 0
	if len(sample) > 2*firstBytes {
		early = make([]int, len(all))
		for i, c := range all {
			early[i], _ = c.text(sample[:firstBytes])
			if i == 0 || early[i] < limit {
				limit = early[i]
			}
		}
		limit += earlyMargin
	}
	for i, c := range all {
		if early != nil && early[i] > limit {
			continue
		}
		cost, n := c.text(sample)
		if lang.is(c.m.lang) {
			cost -= min(hintBonus, cost/8)
		}
		pairs = n
		switch {
		case best == nil || cost < low:
			if best != nil && best.e != c.e {
				second, next = best, low
			}
			best, low = c, cost
		case c.e != best.e && (second == nil || cost < next):
			second, next = c, cost
		}
	}
	if pairs == 0 || low > pairs*costForeign {
		return nil, 0
	}
	if second == nil {
		return best.e, 50
	}
	// A difference of four half bits a pair is as sure as it gets, and a few
	// pairs are sure of nothing.
	return best.e, uint8(min(95, 30+65*(next-low)/(4*pairs+100)))
}

// earlyMargin is how much dearer than the best a candidate may be after
// firstBytes, half bits; nothing more catches up.
const earlyMargin = 300

// hintBonus is what the language that the document names is worth, half bits.
const hintBonus = 40

// hint is the value of a lang attribute.
type hint string

// is tells whether the hint names the language.
func (h hint) is(lang string) bool {
	return len(h) >= 2 && h[:2] == hint(lang) && (len(h) == 2 || h[2] == '-' || h[2] == '_')
}

// languageHint finds the lang attribute of the html element; "" if none.
func languageHint(doc []byte) hint {
	doc = doc[:min(len(doc), prescanBytes)]
	for {
		i := bytes.IndexByte(doc, '<')
		if i < 0 {
			return ""
		}
		doc = doc[i+1:]
		if hasPrefixFold(doc, "html") {
			break
		}
	}
	for i := len("html"); ; {
		name, value, next, more := attribute(doc, i)
		if !more {
			return ""
		}
		if (equalFold(name, "lang") || equalFold(name, "xml:lang")) && len(value) <= 16 {
			return hint(bytes.ToLower(value))
		}
		i = next
	}
}
