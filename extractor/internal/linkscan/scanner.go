package linkscan

import "golang.org/x/text/encoding"

// Scanner scans documents one after another. The zero value is ready. It is not
// safe for concurrent use.
type Scanner struct {
	opt  Options
	want [elementCount]uint32 // the attributes read, by element, in HTML content
	last Options              // what want was made for

	fn      func(Link)
	collect bool
	links   []Link
	arena   []byte // decoded values; kept for the document when collecting, for a tag otherwise
	doc     Doc
	docText []byte
	robots  []MetaRobots

	mode     mode
	rawName  string // the element whose end tag ends modeRaw
	rawCSS   bool   // modeRaw is a style element that is scanned
	script   scriptState
	skip     skipState
	next     mode // after modeSkipTag
	template int  // open template elements
	stack    []openElement

	seen    uint32 // the attributes of the tag at hand
	span    [attrSlots]span
	unqEnd  int // where the tag's last unquoted value ends
	dataset []dataAttr

	carry   []byte // an unfinished token, between calls of Feed
	nextTry int    // length of carry worth another try
	force   bool   // the token is too large to wait for its end

	decoder *encoding.Decoder
	css     cssScanner
}

type span struct{ start, end int }

// Scan reports the links of a whole document in document order. The URL of a
// link is valid until fn returns.
func (s *Scanner) Scan(html []byte, opt Options, fn func(Link)) *Doc {
	s.Begin(opt, fn)
	s.run(html, true)
	s.fn = nil
	return s.finish()
}

// Collect returns the links of a whole document in document order. The slice
// belongs to the scanner and the URLs lie in html or in the scanner's memory:
// both are valid until the next use of the scanner.
func (s *Scanner) Collect(html []byte, opt Options) ([]Link, *Doc) {
	s.Begin(opt, nil)
	s.collect = true
	s.run(html, true)
	return s.links, s.finish()
}

// Begin starts a document that comes in chunks, forgetting any other. The URL of
// a link is valid until fn returns.
func (s *Scanner) Begin(opt Options, fn func(Link)) {
	s.opt = opt.withDefaults()
	s.fn, s.collect = fn, false
	s.prepare()
	clear(s.links)
	s.links = s.links[:0]
	s.arena = s.arena[:0]
	s.docText = s.docText[:0]
	s.robots = s.robots[:0]
	s.doc = Doc{}
	s.mode, s.rawCSS, s.template, s.stack = modeData, false, 0, s.stack[:0]
	s.carry, s.nextTry, s.force = s.carry[:0], 0, false
	if opt.Charset != s.last.Charset {
		s.decoder = nil
	}
	s.last = opt
}

// Feed scans the next chunk. The chunk is not kept.
func (s *Scanner) Feed(chunk []byte) {
	b := chunk
	if len(s.carry) > 0 {
		s.carry = append(s.carry, chunk...)
		if len(s.carry) < s.nextTry && len(s.carry) <= s.opt.MaxTokenBytes {
			return
		}
		b = s.carry
	}
	b = b[s.run(b, false):]
	for len(b) > s.opt.MaxTokenBytes {
		s.force = true
		b = b[s.run(b, false):]
		s.force = false
	}
	// Twice as much before the token is looked at again keeps many small chunks
	// linear.
	s.carry = append(s.carry[:0], b...)
	s.nextTry = 2 * len(s.carry)
}

// End ends the document that Begin started.
func (s *Scanner) End() *Doc {
	s.run(s.carry, true)
	s.fn = nil
	return s.finish()
}

func (s *Scanner) finish() *Doc {
	s.doc.Robots = s.robots
	return &s.doc
}

func (s *Scanner) report(l Link) {
	if len(l.URL) > s.opt.MaxURLBytes {
		s.doc.TooLong++
		return
	}
	l.Inert = s.template > 0
	if s.collect {
		s.links = append(s.links, l)
	} else if s.fn != nil {
		s.fn(l)
	}
}

// keep copies what Doc holds out of the document.
func (s *Scanner) keep(v []byte) []byte {
	n := len(s.docText)
	s.docText = append(s.docText, v...)
	return s.docText[n:len(s.docText):len(s.docText)]
}

// prepare fills want for the options.
func (s *Scanner) prepare() {
	const done = 1 << 31
	if s.want[ElementBase]&done != 0 && s.last.Kinds == s.opt.Kinds {
		return
	}
	s.want = [elementCount]uint32{}
	k := s.opt.Kinds
	set := func(on Kinds, e Element, attrs ...Attr) {
		if k&on == 0 {
			return
		}
		for _, a := range attrs {
			s.want[e] |= 1 << a
		}
	}
	const always = ^Kinds(0)
	set(always, ElementBase, AttrHref)
	set(always, ElementMeta, attrName, attrHTTPEquiv, AttrContent)
	set(always, ElementLink, AttrHref, attrRel, attrType) // canonical
	set(always, elementFont, attrFontOnly)
	set(always, elementAnnotationXML, attrEncoding)
	set(LinkResources, ElementLink, AttrImageSrcset)
	set(Anchors, ElementA, AttrHref, attrRel, attrType)
	set(Anchors, ElementArea, AttrHref, attrRel)
	set(Frames, ElementFrame, AttrSrc)
	set(Frames, ElementIFrame, AttrSrc)
	set(Images, ElementImage, AttrSrc, AttrSrcset)
	set(Images, ElementInput, AttrSrc, attrType)
	set(Images, ElementSource, AttrSrcset)
	set(Images, ElementBody, AttrBackground)
	set(Images, ElementTable, AttrBackground)
	set(Scripts, ElementScript, AttrSrc)
	set(Media, ElementVideo, AttrSrc, AttrPoster)
	set(Media, ElementAudio, AttrSrc)
	set(Media, ElementSource, AttrSrc)
	set(Media, ElementTrack, AttrSrc)
	set(Objects, ElementEmbed, AttrSrc)
	set(Objects, ElementObject, AttrObjectData)
	set(Forms, ElementForm, AttrAction, attrMethod)
	set(Forms, ElementButton, AttrFormAction)
	set(Forms, ElementInput, AttrFormAction)
	set(Cites, ElementQuote, AttrCite)
	set(Cites, ElementImage, AttrLongdesc)
	set(Cites, ElementFrame, AttrLongdesc)
	set(Cites, ElementIFrame, AttrLongdesc)
	for e := range s.want {
		set(CSS, Element(e), AttrStyle)
	}
	s.want[ElementBase] |= done
}

// wantForeign is the attributes read of an element of SVG.
func (s *Scanner) wantForeign(e Element) uint32 {
	const href = 1<<AttrHref | 1<<AttrXlinkHref
	w := s.want[ElementOther]
	on := Kinds(0)
	switch e {
	case ElementA:
		on = Anchors
	case ElementImage, ElementUse:
		on = Images
	case ElementScript:
		on = Scripts
	case elementFont:
		w |= 1 << attrFontOnly
	case elementAnnotationXML:
		w |= 1 << attrEncoding
	}
	if s.opt.Kinds&on != 0 {
		w |= href
	}
	return w
}
