package charset

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// Ground is what a decision rests on.
type Ground uint8

// The grounds. The zero value is the weakest.
const (
	// GroundDefault: nothing is declared and the text does not tell.
	GroundDefault Ground = iota
	// GroundDetected: by the looks of the text.
	GroundDetected
	// GroundXML: by the XML declaration.
	GroundXML
	// GroundMeta: by a meta element, or by @charset in a style sheet.
	GroundMeta
	// GroundHTTP: by the Content-Type header.
	GroundHTTP
	// GroundBOM: by the byte order mark.
	GroundBOM

	numGrounds
)

var groundNames = [numGrounds]string{"default", "detected", "xml", "meta", "http", "bom"}

// String is the ground's name.
func (g Ground) String() string {
	if g >= numGrounds {
		return "ground(" + strconv.Itoa(int(g)) + ")"
	}
	return groundNames[g]
}

// Declared tells whether the document or its transport names the encoding.
func (g Ground) Declared() bool { return g >= GroundXML }

// Hints is what is known beside the document's bytes. The zero value is a whole
// HTML document without headers.
type Hints struct {
	// ContentType is the Content-Type header's value as received.
	ContentType string
	// Default is used where nothing is declared and the text does not tell. nil
	// is windows-1252 for HTML and text, UTF-8 for XML, CSS, JSON and scripts.
	Default *Encoding
	// NoDetection leaves the looks of the text out.
	NoDetection bool
	// Partial says that the document goes on after the bytes given.
	Partial bool
}

// Decision is the encoding of a document and how it was found.
type Decision struct {
	// Encoding is never nil in what Decide returns.
	Encoding *Encoding
	// Ground is what it rests on.
	Ground Ground
	// Confidence in percent: 100 where it is declared, what the detection is
	// worth, 0 for a default. An ASCII document has no need of any.
	Confidence uint8
	// Mislabelled says that the text is not of the declared encoding, or not of
	// it alone. The declaration counts all the same.
	Mislabelled bool
	// ASCII says that all bytes looked at are ASCII, and the decision only
	// matters for what comes later.
	ASCII bool
}

// MislabelledAnnotation marks a text that contradicts its declaration.
const MislabelledAnnotation = "charset-mislabelled"

// Annotation is the decision as a short code, "charset=gbk;meta". It is one of
// a fixed set.
func (d Decision) Annotation() string {
	e := d.Encoding
	if e == nil {
		e = UTF8
	}
	return e.annotations[min(d.Ground, numGrounds-1)]
}

// String says the decision in words.
func (d Decision) String() string {
	s := d.Encoding.Name() + " (" + d.Ground.String()
	if d.Ground == GroundDetected {
		s += ", " + strconv.Itoa(int(d.Confidence)) + " %"
	}
	if d.Mislabelled {
		s += ", mislabelled"
	}
	return s + ")"
}

// Bounds of what is looked at, in bytes.
const (
	// prescanBytes is where meta elements are looked for first (HTML 13.2.3.2).
	prescanBytes = 1024
	// lateBytes bounds where meta elements and ASCII are looked for at all.
	lateBytes = 1 << 20
	// checkBytes bounds the check of a declaration.
	checkBytes = 1 << 10
)

// enoughForDefault is the confidence from which the looks of a text win over a
// default that the caller has set.
const enoughForDefault = 50

// Decide finds the encoding of a document. doc is the whole of it or its first
// bytes (then Partial); 64 KiB are plenty. The answer depends on nothing else.
func Decide(doc []byte, h Hints) Decision {
	if e := fromBOM(doc); e != nil {
		return Decision{Encoding: e, Ground: GroundBOM, Confidence: 100, Mislabelled: e == UTF8 && mislabelled(e, doc, h.Partial)}
	}
	if e := lookup(charsetParam(h.ContentType)); e != nil {
		return declared(e, GroundHTTP, doc, h.Partial)
	}
	kind := kindOf(h.ContentType, doc)
	if e, g := declaration(doc, kind); e != nil {
		return declared(e, g, doc, h.Partial)
	}
	d := Decision{Encoding: h.Default}
	if d.Encoding == nil {
		d.Encoding = kind.defaultEncoding()
	}
	looked := doc[:min(len(doc), lateBytes)]
	partial := h.Partial || len(looked) < len(doc)
	high := firstHigh(looked)
	if high == len(looked) {
		if !h.NoDetection && hasEscapes(looked) {
			return Decision{Encoding: iso2022JP, Ground: GroundDetected, Confidence: 95}
		}
		if e := wideWithoutBOM(looked); e != nil && !h.NoDetection {
			return Decision{Encoding: e, Ground: GroundDetected, Confidence: 90}
		}
		d.ASCII = true
		return d
	}
	if h.NoDetection {
		return d
	}
	if partial && len(looked)-high < utf8.UTFMax && !utf8.FullRune(looked[high:]) {
		// One character, cut by the end.
		d.ASCII = true
		return d
	}
	if e, confidence := detect(looked, high, partial, looked); e != nil && (h.Default == nil || confidence >= enoughForDefault) {
		return Decision{Encoding: e, Ground: GroundDetected, Confidence: confidence}
	}
	return d
}

func declared(e *Encoding, g Ground, doc []byte, partial bool) Decision {
	return Decision{Encoding: e, Ground: g, Confidence: 100, Mislabelled: mislabelled(e, doc, partial)}
}

// fromBOM is BOM sniffing (WHATWG Encoding, 6).
func fromBOM(doc []byte) *Encoding {
	if len(doc) < 2 {
		return nil
	}
	switch doc[0] {
	case 0xEF:
		if bytes.HasPrefix(doc, bom) {
			return UTF8
		}
	case 0xFE:
		if doc[1] == 0xFF {
			return utf16BE
		}
	case 0xFF:
		if doc[1] == 0xFE {
			return utf16LE
		}
	}
	return nil
}

// Decode converts a document to UTF-8 from the encoding that Decide finds.
func Decode(doc []byte, h Hints) ([]byte, Decision) {
	d := Decide(doc, h)
	return d.Encoding.Decode(doc), d
}
