package linkscan

import "bytes"

type namespace uint8

const (
	nsHTML namespace = iota
	nsSVG
	nsMath
)

// openElement is an open element at or inside the outermost svg or math.
type openElement struct {
	hash     uint64
	ns       namespace
	htmlIn   bool // HTML integration point: start tags inside are HTML's
	mathText bool // MathML text integration point
	annot    bool // annotation-xml
}

// maxOpen bounds the stack; a document nested deeper is read as HTML from there.
const maxOpen = 512

// inForeign says whether the current node is of SVG or MathML, so that CDATA
// sections are text (HTML 13.2.5.42).
func (s *Scanner) inForeign() bool {
	return len(s.stack) > 0 && s.stack[len(s.stack)-1].ns != nsHTML
}

// entersForeign says whether a start tag is handled by the rules for foreign
// content (HTML 13.2.6, tree construction dispatcher), after leaving foreign
// content where the tag does that (13.2.6.5). There is at least one open element.
func (s *Scanner) entersForeign(t *tagInfo, name []byte) bool {
	top := &s.stack[len(s.stack)-1]
	switch {
	case top.ns == nsHTML, top.htmlIn:
		return false
	case top.mathText:
		if !equalFold(name, "mglyph") && !equalFold(name, "malignmark") {
			return false
		}
	case top.annot && t.el == elementSVG:
		return false
	}
	if t.breakout {
		s.popForeign()
		return false
	}
	return true
}

// popForeign leaves foreign content up to an integration point or HTML.
func (s *Scanner) popForeign() {
	for n := len(s.stack); n > 0; n-- {
		if top := &s.stack[n-1]; top.ns == nsHTML || top.htmlIn || top.mathText {
			break
		}
		s.stack = s.stack[:n-1]
	}
}

// push opens the element of a start tag; foreign is what entersForeign said.
func (s *Scanner) push(b []byte, t *tagInfo, name []byte, foreign bool) {
	e := openElement{hash: hashName(name)}
	switch {
	case foreign:
		e.ns = s.stack[len(s.stack)-1].ns
	case t.el == elementSVG:
		e.ns = nsSVG
	case t.el == elementMath:
		e.ns = nsMath
	}
	switch e.ns {
	case nsSVG:
		e.htmlIn = t.svgHTML
	case nsMath:
		e.mathText = t.mathText
		if t.el == elementAnnotationXML {
			e.annot = true
			if s.seen&(1<<attrEncoding) != 0 {
				v := s.value(b, attrEncoding)
				e.htmlIn = equalFold(v, "text/html") || equalFold(v, "application/xhtml+xml")
			}
		}
	case nsHTML:
		if t.closes && len(s.stack) > 0 {
			if top := &s.stack[len(s.stack)-1]; top.ns == nsHTML && top.hash == e.hash {
				return // the old one ends, the new one takes its place
			}
		}
	}
	if len(s.stack) >= maxOpen {
		s.stack = s.stack[:0]
		return
	}
	s.stack = append(s.stack, e)
}

// closeForeign pops what an end tag closes.
func (s *Scanner) closeForeign(name []byte) {
	h := hashName(name)
	n := len(s.stack) - 1
	if s.stack[n].ns != nsHTML {
		// HTML 13.2.6.5, any other end tag.
		if equalFold(name, "p") || equalFold(name, "br") {
			s.popForeign()
			if n = len(s.stack) - 1; n < 0 || s.stack[n].ns != nsHTML {
				return
			}
		}
		for ; n >= 0 && s.stack[n].ns != nsHTML; n-- {
			if s.stack[n].hash == h {
				s.stack = s.stack[:n]
				return
			}
		}
		if n < 0 {
			s.stack = s.stack[:0] // an element around the outermost svg ends
			return
		}
	}
	for ; n >= 0 && s.stack[n].ns == nsHTML; n-- {
		if s.stack[n].hash == h {
			s.stack = s.stack[:n]
			return
		}
	}
}

// hashName tells names apart well enough for a stack of a page's own elements.
func hashName(name []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range name {
		h = (h ^ uint64(lower[c])) * 1099511628211
	}
	return h
}

// foreignStyle scans the text of a style element of SVG, which is no raw text.
func (s *Scanner) foreignStyle(b []byte, pos int, final bool) (int, bool) {
	end := bytes.IndexByte(b[pos:], '<')
	if end < 0 {
		if !final && !s.force {
			return pos, false
		}
		s.force, s.mode = false, modeData
		s.styleText(b[pos:])
		return len(b), true
	}
	s.styleText(b[pos : pos+end])
	pos += end
	rest := b[pos+1:]
	switch {
	case len(rest) < 1+len(cdataStart) && !final:
		return pos, false
	case len(rest) <= len(cdataStart) || rest[0] != '!' || !bytes.HasPrefix(rest[1:], cdataStart):
		s.mode = modeData
		return pos, true
	}
	text := rest[1+len(cdataStart):]
	end = bytes.Index(text, cdataEnd)
	if end < 0 {
		if !final && !s.force {
			return pos, false
		}
		s.force, s.mode = false, modeCDATA
		s.styleText(text)
		return len(b) - len(text), true
	}
	s.styleText(text[:end])
	return len(b) - len(text) + end + len(cdataEnd), true
}
