package linkscan

import "bytes"

// mode is what the scanner is inside of.
type mode uint8

const (
	modeData    mode = iota
	modeRaw          // text of a raw element, up to its end tag
	modeScript       // script data in its three states
	modePlain        // plaintext
	modeComment      // after <!-- and its first two bytes have been judged
	modeBogus        // to the next >
	modeCDATA        // to the next ]]>
	modeStyle        // text of a style element of SVG, up to the next tag
	modeSkipTag      // a tag too large to hold
)

// run scans b and returns how much of it is done with; the rest is to come
// again, with more behind it. If final, nothing follows b, and all of it is done.
func (s *Scanner) run(b []byte, final bool) int {
	pos := 0
	for {
		var ok bool
		switch s.mode {
		case modeData:
			pos, ok = s.data(b, pos, final)
		case modeRaw:
			pos, ok = s.raw(b, pos, final)
		case modeScript:
			pos, ok = s.scriptData(b, pos, final)
		case modeComment:
			pos, ok = s.comment(b, pos)
		case modeStyle:
			pos, ok = s.foreignStyle(b, pos, final)
		case modeBogus:
			if i := bytes.IndexByte(b[pos:], '>'); i >= 0 {
				pos, ok, s.mode = pos+i+1, true, modeData
			} else {
				pos = len(b)
			}
		case modeCDATA:
			if i := bytes.Index(b[pos:], cdataEnd); i >= 0 {
				pos, ok, s.mode = pos+i+len(cdataEnd), true, modeData
			} else {
				pos = max(pos, len(b)-2)
			}
		case modeSkipTag:
			var done bool
			pos, done = s.skip.run(b, pos)
			if ok = done; ok {
				s.mode = s.next
			}
		case modePlain:
			pos = len(b)
		}
		if !ok {
			if final {
				return len(b)
			}
			return pos
		}
	}
}

var (
	cdataStart = []byte("[CDATA[")
	cdataEnd   = []byte("]]>")
)

// data scans text and tags. ok is false where b ends: in text (pos is the end)
// or in a token that begins at pos.
func (s *Scanner) data(b []byte, pos int, final bool) (int, bool) {
	for {
		i := bytes.IndexByte(b[pos:], '<')
		if i < 0 {
			return len(b), false
		}
		pos += i
		if pos+1 >= len(b) {
			return pos, false
		}
		c := b[pos+1]
		switch {
		case class[c]&clsLetter != 0:
			next := s.startTag(b, pos)
			if next < 0 {
				return pos, false
			}
			pos = next
			if s.mode != modeData {
				return pos, true
			}
		case c == '/':
			next := s.endTag(b, pos)
			if next < 0 {
				return pos, false
			}
			pos = next
			if s.mode != modeData {
				return pos, true
			}
		case c == '!':
			return s.markupDeclaration(b, pos, final)
		case c == '?':
			s.mode = modeBogus
			return pos + 2, true
		default:
			pos++
		}
	}
}

// endTag passes over an end tag at pos; it returns -1 if b ends in it.
func (s *Scanner) endTag(b []byte, pos int) int {
	start := pos + 2
	if start >= len(b) {
		return -1
	}
	if class[b[start]]&clsLetter == 0 {
		if b[start] == '>' {
			return start + 1
		}
		s.mode = modeBogus
		return start
	}
	i := start
	for i < len(b) && class[b[i]]&clsTagEnd == 0 {
		i++
	}
	gt := -1
	if i < len(b) {
		gt = i
		if b[i] != '>' {
			gt = skipAttrs(b, i)
		}
	}
	if gt < 0 {
		if !s.force {
			return -1
		}
		s.force = false
		s.skip = skipState{skipTagName}
		if i < len(b) {
			s.skip.at = skipBefore
		} else {
			i = start
		}
		s.mode, s.next = modeSkipTag, modeData
		s.doc.TooLarge++
		s.closed(b[start:i])
		return i
	}
	s.closed(b[start:i])
	return gt + 1
}

// closed takes note of an end tag.
func (s *Scanner) closed(name []byte) {
	if s.template > 0 && equalFold(name, "template") && !s.inForeign() {
		s.template--
	}
	if len(s.stack) > 0 {
		s.closeForeign(name)
	}
}

// markupDeclaration judges what follows <! at pos (HTML 13.2.5.42).
func (s *Scanner) markupDeclaration(b []byte, pos int, final bool) (int, bool) {
	rest := b[pos+2:]
	switch {
	case len(rest) >= 2 && rest[0] == '-' && rest[1] == '-':
		body := rest[2:]
		switch {
		case len(body) >= 1 && body[0] == '>':
			return pos + len("<!-->"), true
		case len(body) >= 2 && body[0] == '-' && body[1] == '>':
			return pos + len("<!--->"), true
		case len(body) < 2 && !final:
			return pos, false
		}
		if s.opt.Kinds&Conditional != 0 {
			switch next, found := s.conditional(b, pos, final); found {
			case conditionalScanned:
				return next, true
			case conditionalCut:
				return pos, false
			}
		}
		s.mode = modeComment
		return pos + len("<!--"), true
	case len(rest) < len(cdataStart) && !final && bytes.HasPrefix(cdataStart, rest):
		return pos, false
	case len(rest) < 2 && !final && (len(rest) == 0 || rest[0] == '-'):
		return pos, false
	case bytes.HasPrefix(rest, cdataStart) && s.inForeign():
		s.mode = modeCDATA
		return pos + 2 + len(cdataStart), true
	}
	s.mode = modeBogus // DOCTYPE ends at the next > too, whatever its quotes
	return pos + 2, true
}

// comment passes to a comment's end: a > after -- or --!, in the comment's own
// text (HTML 13.2.5.45 to 52).
func (s *Scanner) comment(b []byte, pos int) (int, bool) {
	if end := commentEnd(b, pos); end >= 0 {
		s.mode = modeData
		return end, true
	}
	return max(pos, len(b)-3), false
}

func commentEnd(b []byte, pos int) int {
	for at := pos; ; {
		i := bytes.IndexByte(b[at:], '>')
		if i < 0 {
			return -1
		}
		at += i
		if t := b[pos:at]; bytes.HasSuffix(t, dashes) || bytes.HasSuffix(t, dashesBang) {
			return at + 1
		}
		at++
	}
}

var (
	dashes     = []byte("--")
	dashesBang = []byte("--!")
)

// What conditional found.
type conditionalResult uint8

const (
	conditionalNone conditionalResult = iota
	conditionalCut
	conditionalScanned
)

// conditional scans the inside of <!--[if ...]> ... <![endif]--> at pos as
// markup of its own, and returns where the comment ends.
func (s *Scanner) conditional(b []byte, pos int, final bool) (int, conditionalResult) {
	start := pos + len("<!--")
	const open = "[if"
	if n := min(len(b)-start, len(open)); !equalFold(b[start:start+n], open[:n]) {
		return 0, conditionalNone
	}
	end := commentEnd(b, start)
	if end < 0 {
		if !final && !s.force {
			return 0, conditionalCut
		}
		if s.force {
			s.force = false
			s.doc.TooLarge++
		}
		return 0, conditionalNone
	}
	inner := b[start : end-len("-->")]
	gt := bytes.IndexByte(inner, '>')
	if gt < 0 || s.inForeign() {
		return end, conditionalScanned
	}
	inner = inner[gt+1:]
	if i := bytes.LastIndex(inner, []byte("<![")); i >= 0 {
		inner = inner[:i]
	}
	stack, template := len(s.stack), s.template
	s.run(inner, true)
	s.mode, s.rawCSS, s.template = modeData, false, template
	s.stack = s.stack[:min(stack, len(s.stack))]
	return end, conditionalScanned
}
