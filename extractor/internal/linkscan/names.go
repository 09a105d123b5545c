package linkscan

// Byte classes.
const (
	clsSpace   uint8 = 1 << iota // tab, LF, FF, CR, space
	clsNameEnd                   // ends an attribute's name: space / > =
	clsTagEnd                    // ends a tag's name: space / >
	clsValEnd                    // ends an unquoted value: space >
	clsSlow                      // needs decoding in a value: & CR NUL, and bytes above 0x7F
	clsLetter
)

var class, lower = byteTables()

func byteTables() (class, lower [256]uint8) {
	for i := range lower {
		lower[i] = uint8(i)
	}
	for c := 'A'; c <= 'Z'; c++ {
		lower[c] = uint8(c) + 'a' - 'A'
		class[c] |= clsLetter
		class[c+'a'-'A'] |= clsLetter
	}
	for _, c := range " \t\n\f\r" {
		class[c] |= clsSpace | clsNameEnd | clsTagEnd | clsValEnd
	}
	class['/'] |= clsNameEnd | clsTagEnd
	class['>'] |= clsNameEnd | clsTagEnd | clsValEnd
	class['='] |= clsNameEnd
	for c := 0x80; c < 256; c++ {
		class[c] |= clsSlow
	}
	class['&'] |= clsSlow
	class['\r'] |= clsSlow
	class[0] |= clsSlow
	return class, lower
}

// A key is a name's bytes in lower case, each shifted in from the right; names
// of up to 8 bytes have a key of their own, longer ones are compared.
func keyOf(name []byte) uint64 {
	var k uint64
	for _, c := range name {
		k = k<<8 | uint64(lower[c])
	}
	return k
}

func equalFold(b []byte, s string) bool {
	if len(b) != len(s) {
		return false
	}
	for i := range b {
		if lower[b[i]] != s[i] {
			return false
		}
	}
	return true
}

func hasPrefixFold(b []byte, s string) bool { return len(b) >= len(s) && equalFold(b[:len(s)], s) }

// nameTable is a small open hash table from lower-case names to T.
type nameTable[T any] struct {
	shift uint
	slots []nameSlot[T]
}

type nameSlot[T any] struct {
	key  uint64
	name string
	val  T
}

const keyMix = 0x9E3779B97F4A7C15

func newNameTable[T any](bits uint, m map[string]T) *nameTable[T] {
	t := &nameTable[T]{shift: 64 - bits, slots: make([]nameSlot[T], 1<<bits)}
	if len(m) > len(t.slots)/2 {
		panic("linkscan: name table too full")
	}
	for name, v := range m {
		k := keyOf([]byte(name))
		i := k * keyMix >> t.shift
		for t.slots[i].name != "" {
			i = (i + 1) & uint64(len(t.slots)-1)
		}
		t.slots[i] = nameSlot[T]{k, name, v}
	}
	return t
}

// find looks a name up whose key is known.
func (t *nameTable[T]) find(key uint64, name []byte) *T {
	i := key * keyMix >> t.shift
	for {
		sl := &t.slots[i&uint64(len(t.slots)-1)]
		if sl.key == key && len(sl.name) == len(name) && (len(name) <= 8 || equalFold(name, sl.name)) {
			if len(name) == 0 {
				return nil
			}
			return &sl.val
		}
		if sl.name == "" {
			return nil
		}
		i++
	}
}

// How the text after a start tag is read.
type rawMode uint8

const (
	rawNone rawMode = iota
	rawText         // up to the end tag: title, textarea, style, xmp, iframe, noembed, noframes
	rawScript
	rawPlain    // to the end of the document
	rawNoscript // raw only where scripts run
)

// tagInfo is what the scanner knows of an element's name.
type tagInfo struct {
	el       Element
	raw      rawMode
	void     bool
	breakout bool // leaves foreign content
	mathText bool // MathML text integration point
	svgHTML  bool // SVG HTML integration point
	closes   bool // an open one of the same name ends here
	plain    bool // nothing of the above matters outside foreign content
	name     string
}

var tags = func() *nameTable[tagInfo] {
	m := map[string]tagInfo{}
	set := func(f func(*tagInfo), names ...string) {
		for _, n := range names {
			t := m[n]
			t.name = n
			f(&t)
			m[n] = t
		}
	}
	el := func(e Element, names ...string) { set(func(t *tagInfo) { t.el = e }, names...) }
	el(ElementA, "a")
	el(ElementArea, "area")
	el(ElementAudio, "audio")
	el(ElementBase, "base")
	el(ElementBody, "body")
	el(ElementButton, "button")
	el(ElementEmbed, "embed")
	el(ElementForm, "form")
	el(ElementFrame, "frame")
	el(ElementIFrame, "iframe")
	el(ElementImage, "img", "image")
	el(ElementInput, "input")
	el(ElementLink, "link")
	el(ElementMeta, "meta")
	el(ElementObject, "object")
	el(ElementQuote, "blockquote", "q", "ins", "del")
	el(ElementScript, "script")
	el(ElementSource, "source")
	el(ElementStyle, "style")
	el(ElementTable, "table", "thead", "tbody", "tfoot", "tr", "td", "th")
	el(ElementTrack, "track")
	el(ElementUse, "use", "feimage")
	el(ElementVideo, "video")
	el(elementTemplate, "template")
	el(elementSVG, "svg")
	el(elementMath, "math")
	el(elementFont, "font")
	el(elementAnnotationXML, "annotation-xml")
	raw := func(r rawMode, names ...string) { set(func(t *tagInfo) { t.raw = r }, names...) }
	raw(rawText, "title", "textarea", "style", "xmp", "iframe", "noembed", "noframes")
	raw(rawScript, "script")
	raw(rawPlain, "plaintext")
	raw(rawNoscript, "noscript")
	set(func(t *tagInfo) { t.void = true }, "area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr",
		"img", "image", "input", "keygen", "link", "meta", "param", "source", "track", "wbr")
	// HTML 13.2.6.5, the start tags that end foreign content; font is judged by
	// its attributes.
	set(func(t *tagInfo) { t.breakout = true }, "b", "big", "blockquote", "body", "br", "center", "code", "dd", "div",
		"dl", "dt", "em", "embed", "h1", "h2", "h3", "h4", "h5", "h6", "head", "hr", "i", "img", "li", "listing", "menu",
		"meta", "nobr", "ol", "p", "pre", "ruby", "s", "small", "span", "strong", "strike", "sub", "sup", "table", "tt",
		"u", "ul", "var")
	set(func(t *tagInfo) { t.mathText = true }, "mi", "mo", "mn", "ms", "mtext")
	set(func(t *tagInfo) { t.svgHTML = true }, "foreignobject", "desc", "title")
	set(func(t *tagInfo) { t.closes = true }, "p", "li", "dd", "dt", "option", "tr", "td", "th", "a", "button")
	for n, t := range m {
		t.plain = t.el == ElementOther && t.raw == rawNone
		m[n] = t
	}
	return newNameTable(8, m)
}()

var attrTable = newNameTable(7, map[string]Attr{
	"href": AttrHref, "src": AttrSrc, "srcset": AttrSrcset, "action": AttrAction, "formaction": AttrFormAction,
	"data": AttrObjectData, "poster": AttrPoster, "background": AttrBackground, "cite": AttrCite, "longdesc": AttrLongdesc,
	"content": AttrContent, "xlink:href": AttrXlinkHref, "imagesrcset": AttrImageSrcset, "style": AttrStyle, "rel": attrRel,
	"name": attrName, "http-equiv": attrHTTPEquiv, "type": attrType, "method": attrMethod,
	"encoding": attrEncoding, "color": attrFontOnly, "face": attrFontOnly, "size": attrFontOnly,
})
