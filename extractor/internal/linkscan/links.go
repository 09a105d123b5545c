package linkscan

import "bytes"

func (s *Scanner) has(a Attr) bool    { return s.seen&(1<<a) != 0 }
func (s *Scanner) on(k Kinds) bool    { return s.opt.Kinds&k != 0 }
func (s *Scanner) relOf(b []byte) Rel { return parseRel(s.value(b, attrRel)) }

// loads says whether an embedded URL loads anything: an empty one and one that
// is only a fragment (of the same document) do not.
func loads(u []byte) bool {
	u = trimSpace(u)
	return len(u) > 0 && u[0] != '#'
}

// link reports the URL in an attribute.
func (s *Scanner) link(b []byte, e Element, a Attr, k Kind, r Rel) {
	if !s.has(a) {
		return
	}
	u := s.value(b, a)
	if k == Embed && !loads(u) {
		return
	}
	s.report(Link{URL: u, Kind: k, Element: e, Attr: a, Rel: r})
}

// srcset reports the candidates in an attribute.
func (s *Scanner) srcset(b []byte, e Element, a Attr, k Kind, r Rel) {
	if s.has(a) {
		s.candidates(s.value(b, a), Link{Kind: k, Element: e, Attr: a, Rel: r})
	}
}

func (s *Scanner) candidates(v []byte, l Link) {
	for {
		u, rest, ok := nextCandidate(v)
		if !ok {
			return
		}
		v = rest
		if loads(u) {
			l.URL = u
			s.report(l)
		}
	}
}

// htmlLinks reports the links of an HTML element's attributes. An attribute was
// read only if the options want it (Scanner.prepare).
func (s *Scanner) htmlLinks(b []byte, e Element) {
	switch e {
	case ElementA, ElementArea:
		if !s.has(AttrHref) {
			return
		}
		var r Rel
		if s.has(attrRel) {
			if r = s.relOf(b); r&RelAlternate != 0 && s.has(attrType) {
				r = r.withType(s.value(b, attrType))
			}
		}
		s.link(b, e, AttrHref, Navigate, r)
	case ElementBase:
		if s.has(AttrHref) && !s.doc.HasBase && s.template == 0 {
			s.doc.HasBase = true
			s.doc.Base = s.keep(s.value(b, AttrHref))
		}
	case ElementLink:
		s.linkElement(b)
	case ElementMeta:
		s.meta(b)
	case ElementFrame, ElementIFrame:
		if s.has(AttrSrc) && loads(s.value(b, AttrSrc)) {
			s.link(b, e, AttrSrc, Navigate, 0)
		}
		s.link(b, e, AttrLongdesc, Navigate, 0)
	case ElementImage:
		s.link(b, e, AttrSrc, Embed, 0)
		s.srcset(b, e, AttrSrcset, Embed, 0)
		s.link(b, e, AttrLongdesc, Navigate, 0)
	case ElementInput:
		if s.has(AttrSrc) && s.has(attrType) && equalFold(s.value(b, attrType), "image") {
			s.link(b, e, AttrSrc, Embed, 0)
		}
		s.link(b, e, AttrFormAction, Form, 0)
	case ElementForm:
		if s.has(attrMethod) {
			if m := s.value(b, attrMethod); equalFold(m, "post") || equalFold(m, "dialog") {
				return
			}
		}
		s.link(b, e, AttrAction, Form, 0)
	case ElementButton:
		s.link(b, e, AttrFormAction, Form, 0)
	case ElementQuote:
		s.link(b, e, AttrCite, Navigate, 0)
	default:
		s.link(b, e, AttrSrc, Embed, 0)
		s.srcset(b, e, AttrSrcset, Embed, 0)
		s.link(b, e, AttrPoster, Embed, 0)
		s.link(b, e, AttrObjectData, Embed, 0)
		s.link(b, e, AttrBackground, Embed, 0)
	}
}

func (s *Scanner) linkElement(b []byte) {
	if !s.has(attrRel) {
		return
	}
	r := s.relOf(b)
	if s.has(attrType) {
		r = r.withType(s.value(b, attrType))
	}
	k, ok := r.linkKind()
	if !ok {
		return
	}
	if r&RelCanonical != 0 && s.has(AttrHref) && len(s.doc.Canonical) == 0 && s.template == 0 {
		s.doc.Canonical = s.keep(s.value(b, AttrHref))
	}
	if k == Navigate && !s.on(LinkPages) || k == Embed && !s.on(LinkResources) {
		return
	}
	// An empty href makes no link here (HTML 4.2.4).
	if s.has(AttrHref) && len(s.value(b, AttrHref)) > 0 {
		s.link(b, ElementLink, AttrHref, k, r)
	}
	s.srcset(b, ElementLink, AttrImageSrcset, k, r)
}

// maxRobots bounds Doc.Robots.
const maxRobots = 16

func (s *Scanner) meta(b []byte) {
	if s.template > 0 {
		return
	}
	if !s.has(AttrContent) {
		return
	}
	if s.has(attrName) && len(s.robots) < maxRobots {
		if name := trimSpace(s.value(b, attrName)); s.isRobotsName(name) {
			n := s.keep(name)
			for i, c := range n {
				n[i] = lower[c]
			}
			s.robots = append(s.robots, MetaRobots{n, s.keep(s.value(b, AttrContent))})
		}
	}
	if !s.has(attrHTTPEquiv) {
		return
	}
	switch equiv := s.value(b, attrHTTPEquiv); {
	case equalFold(equiv, "refresh"):
		if s.doc.HasRefresh {
			return // the first well formed one counts (HTML 4.2.5.3)
		}
		d, ok := parseRefresh(s.value(b, AttrContent))
		if !ok {
			return
		}
		d.URL = s.keep(d.URL)
		s.doc.Refresh, s.doc.HasRefresh = d, true
		if s.on(Refresh) && len(d.URL) > 0 {
			s.report(Link{URL: d.URL, Kind: Navigate, Element: ElementMeta, Attr: AttrContent})
		}
	case equalFold(equiv, "pragma"):
		if bytes.Contains(bytes.ToLower(s.value(b, AttrContent)), []byte("no-cache")) {
			s.doc.NoCache = true
		}
	}
}

func (s *Scanner) isRobotsName(name []byte) bool {
	if equalFold(name, "robots") {
		return true
	}
	for _, n := range s.opt.RobotsNames {
		if equalFold(name, n) {
			return true
		}
	}
	return false
}

// foreignLinks reports the links of an element of SVG; href wins over
// xlink:href (SVG 2, linking).
func (s *Scanner) foreignLinks(b []byte, e Element) {
	k := Embed
	if e == ElementA {
		k = Navigate
	}
	switch {
	case s.stack[len(s.stack)-1].ns != nsSVG: // MathML has no links
	case e != ElementA && e != ElementImage && e != ElementUse && e != ElementScript:
	case s.has(AttrHref):
		s.link(b, e, AttrHref, k, 0)
	default:
		s.link(b, e, AttrXlinkHref, k, 0)
	}
}

// dataLinks reports the data-* attributes that are named like links.
func (s *Scanner) dataLinks(b []byte, e Element) {
	for _, d := range s.dataset {
		name := b[d.name.start:d.name.end]
		l := Link{Kind: Speculative, Element: e, Attr: AttrDataset}
		switch {
		case hasSuffixFold(name, "srcset"):
			l.Kind = Embed
			s.candidates(s.decode(b, d.value), l)
			continue
		case hasSuffixFold(name, "src"), hasSuffixFold(name, "original"), hasSuffixFold(name, "lazy"),
			hasSuffixFold(name, "poster"), hasSuffixFold(name, "background"):
			l.Kind = Embed
		case hasSuffixFold(name, "url"), hasSuffixFold(name, "href"), hasSuffixFold(name, "link"):
		default:
			continue
		}
		if l.URL = s.decode(b, d.value); loads(l.URL) {
			s.report(l)
		}
	}
}

func hasSuffixFold(b []byte, s string) bool {
	return len(b) >= len(s) && equalFold(b[len(b)-len(s):], s)
}

// styleAttr reports what a style attribute loads.
func (s *Scanner) styleAttr(b []byte) {
	if sp := s.span[AttrStyle]; sp.end-sp.start < len("url(a)") {
		return
	}
	v := s.value(b, AttrStyle)
	if !mayLoad(v) {
		return
	}
	s.css = cssScanner{s: s, el: ElementStyle, attr: AttrStyle}
	s.css.scan(v)
}

// styleText reports what the text of a style element loads.
func (s *Scanner) styleText(text []byte) {
	if !s.collect {
		s.arena = s.arena[:0]
	}
	if !mayLoad(text) {
		return
	}
	s.css = cssScanner{s: s, el: ElementStyle, attr: AttrText}
	s.css.scan(s.cssText(text))
}

// cssText converts a style text to UTF-8.
func (s *Scanner) cssText(text []byte) []byte {
	if s.opt.Charset.IsUTF8() || isASCII(text) {
		return text
	}
	return s.toUTF8(text)
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}
