package linkscan

import "bytes"

// dataAttr is a data-* attribute of the tag at hand.
type dataAttr struct{ name, value span }

var otherTag = tagInfo{plain: true}

// startTag reads the start tag at pos, reports its links and sets the mode for
// what follows. It returns where the tag ends, or -1 if b ends in it.
func (s *Scanner) startTag(b []byte, pos int) int {
	i := pos + 1
	var key uint64
	for i < len(b) {
		c := b[i]
		if class[c]&clsTagEnd != 0 {
			break
		}
		key = key<<8 | uint64(lower[c])
		i++
	}
	name := b[pos+1 : i]
	if i >= len(b) {
		if s.force {
			s.force = false
			s.doc.TooLarge++
			s.skip, s.mode, s.next = skipState{skipTagName}, modeSkipTag, modeData
			return i
		}
		return -1
	}
	t := tags.find(key, name)
	if t == nil {
		t = &otherTag
	}
	foreign := false
	want := s.want[t.el]
	if len(s.stack) > 0 {
		foreign = s.entersForeign(t, name)
		if foreign {
			want = s.wantForeign(t.el)
		}
	}

	var gt, cut int
	if want&^(1<<31) == 0 && s.opt.Kinds&Data == 0 && len(s.stack) == 0 && t.el != elementSVG && t.el != elementMath {
		s.seen = 0
		switch {
		case b[i] == '>':
			gt = i
		default:
			if gt = skipAttrs(b, i); gt < 0 {
				cut = i
			}
		}
	} else {
		gt, cut = s.attrs(b, i, want)
	}
	if gt < 0 {
		if !s.force {
			return -1
		}
		// What has been read of the tag is used, the rest passed over.
		s.force = false
		s.doc.TooLarge++
		s.tag(b, t, name, foreign, false)
		s.next = s.mode
		s.skip, s.mode = skipState{skipBefore}, modeSkipTag
		return cut
	}
	if t.plain && len(s.stack) == 0 && s.seen == 0 && len(s.dataset) == 0 {
		return gt + 1
	}
	selfClosing := b[gt-1] == '/' && s.unqEnd != gt
	s.tag(b, t, name, foreign, selfClosing)
	return gt + 1
}

// attrs reads the attributes from i, after the tag's name, and keeps where the
// wanted ones lie. It returns the index of the tag's >, or -1 if b ends before,
// and then the start of the attribute that is cut.
func (s *Scanner) attrs(b []byte, i int, want uint32) (gt, cut int) {
	s.seen, s.unqEnd = 0, -1
	data := s.opt.Kinds&Data != 0
	if data {
		s.dataset = s.dataset[:0]
	}
	for {
		// Before an attribute's name (HTML 13.2.5.32); a solidus is a space here.
		for {
			if i >= len(b) {
				return -1, i
			}
			if c := b[i]; class[c]&clsSpace == 0 && c != '/' {
				break
			}
			i++
		}
		if b[i] == '>' {
			return i, 0
		}
		start := i
		key := uint64(lower[b[i]]) // an = here is part of the name
		i++
		for i < len(b) && class[b[i]]&clsNameEnd == 0 {
			key = key<<8 | uint64(lower[b[i]])
			i++
		}
		end := i
		for i < len(b) && class[b[i]]&clsSpace != 0 {
			i++
		}
		if i >= len(b) {
			return -1, start
		}
		v := span{i, i}
		if b[i] == '=' {
			i++
			for i < len(b) && class[b[i]]&clsSpace != 0 {
				i++
			}
			if i >= len(b) {
				return -1, start
			}
			switch c := b[i]; c {
			case '"', '\'':
				n := bytes.IndexByte(b[i+1:], c)
				if n < 0 {
					return -1, start
				}
				v = span{i + 1, i + 1 + n}
				i = v.end + 1
			case '>':
				v = span{i, i}
			default:
				v.start = i
				for i < len(b) && class[b[i]]&clsValEnd == 0 {
					i++
				}
				if i >= len(b) {
					return -1, start
				}
				v.end, s.unqEnd = i, i
			}
		}
		if a := attrTable.find(key, b[start:end]); a != nil {
			if bit := uint32(1) << *a; bit&want&^s.seen != 0 {
				s.seen |= bit
				s.span[*a] = v
			}
		} else if data && end-start > 5 && hasPrefixFold(b[start:end], "data-") {
			s.addData(b, span{start, end}, v)
		}
	}
}

// skipAttrs passes over attributes from i to the tag's >, or returns -1.
func skipAttrs(b []byte, i int) int {
	for {
		for {
			if i >= len(b) {
				return -1
			}
			if c := b[i]; class[c]&clsSpace == 0 && c != '/' {
				break
			}
			i++
		}
		if b[i] == '>' {
			return i
		}
		i++
		for i < len(b) && class[b[i]]&clsNameEnd == 0 {
			i++
		}
		for i < len(b) && class[b[i]]&clsSpace != 0 {
			i++
		}
		if i >= len(b) {
			return -1
		}
		if b[i] != '=' {
			continue
		}
		i++
		for i < len(b) && class[b[i]]&clsSpace != 0 {
			i++
		}
		if i >= len(b) {
			return -1
		}
		switch c := b[i]; c {
		case '"', '\'':
			n := bytes.IndexByte(b[i+1:], c)
			if n < 0 {
				return -1
			}
			i += n + 2
		case '>':
		default:
			for i < len(b) && class[b[i]]&clsValEnd == 0 {
				i++
			}
		}
	}
}

// maxDataset bounds the data-* attributes of one tag.
const maxDataset = 64

func (s *Scanner) addData(b []byte, name, value span) {
	if len(s.dataset) >= maxDataset {
		return
	}
	n := b[name.start:name.end]
	for _, d := range s.dataset {
		if bytes.EqualFold(b[d.name.start:d.name.end], n) {
			return // the first of a name counts
		}
	}
	s.dataset = append(s.dataset, dataAttr{name, value})
}

// tag acts on a start tag whose wanted attributes are in seen and span.
func (s *Scanner) tag(b []byte, t *tagInfo, name []byte, foreign, selfClosing bool) {
	if !s.collect {
		s.arena = s.arena[:0]
	}
	if foreign && t.el == elementFont && s.seen&(1<<attrFontOnly) != 0 {
		s.popForeign()
		foreign = false
	}
	if s.seen != 0 || t.el == ElementMeta {
		if foreign {
			s.foreignLinks(b, t.el)
		} else {
			s.htmlLinks(b, t.el)
		}
		if s.seen&(1<<AttrStyle) != 0 {
			s.styleAttr(b)
		}
	}
	if s.opt.Kinds&Data != 0 {
		s.dataLinks(b, t.el)
	}

	if foreign {
		if !selfClosing {
			s.push(b, t, name, true)
			if t.el == ElementStyle && s.opt.Kinds&CSS != 0 && s.stack[len(s.stack)-1].ns == nsSVG {
				s.mode = modeStyle
			}
		}
		return
	}
	switch t.el {
	case elementTemplate:
		s.template++
	case elementSVG, elementMath:
		if !selfClosing {
			s.push(b, t, name, false)
		}
		return
	}
	switch {
	case t.raw == rawText:
		s.mode, s.rawName = modeRaw, t.name
		s.rawCSS = t.el == ElementStyle && s.opt.Kinds&CSS != 0
	case t.raw == rawScript:
		s.mode, s.script = modeScript, scriptPlain
	case t.raw == rawPlain:
		s.mode = modePlain
	case t.raw == rawNoscript && s.opt.Scripting:
		s.mode, s.rawName, s.rawCSS = modeRaw, t.name, false
	}
	if len(s.stack) > 0 && !t.void {
		s.push(b, t, name, false)
	}
}
