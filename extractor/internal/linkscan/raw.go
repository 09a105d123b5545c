package linkscan

import "bytes"

// raw passes over the text of a raw element; the end tag is left to data.
func (s *Scanner) raw(b []byte, pos int, final bool) (int, bool) {
	end, keep := findEndTag(b, pos, s.rawName)
	if end >= 0 {
		if s.rawCSS {
			s.styleText(b[pos:end])
		}
		s.rawCSS, s.mode = false, modeData
		return end, true
	}
	if !s.rawCSS {
		return keep, false
	}
	switch {
	case final:
		s.styleText(b[pos:])
	case s.force:
		s.doc.TooLarge++
		s.styleText(b[pos:])
	default:
		return pos, false
	}
	s.rawCSS, s.force = false, false
	return keep, true
}

// findEndTag finds the end tag of name, which counts only if a space, / or >
// follows (HTML 13.2.5.14). Where there is none, keep is the first byte that
// could begin one.
func findEndTag(b []byte, pos int, name string) (end, keep int) {
	for {
		i := bytes.IndexByte(b[pos:], '<')
		if i < 0 {
			return -1, len(b)
		}
		pos += i
		if isEndTag(b, pos, name) {
			return pos, 0
		}
		if len(b)-pos < len("</")+len(name)+1 {
			return -1, pos
		}
		pos++
	}
}

// isEndTag says whether an end tag of name begins at pos, as far as its name
// and the byte after it.
func isEndTag(b []byte, pos int, name string) bool {
	n := pos + 2 + len(name)
	return n < len(b) && b[pos+1] == '/' && class[b[n]]&clsTagEnd != 0 && equalFold(b[pos+2:n], name)
}

// scriptState is the state of script data (HTML 13.2.5.4, 15 to 31).
type scriptState uint8

const (
	scriptPlain   scriptState = iota
	scriptEscaped             // after <!--
	scriptDouble              // after <script in that
)

// scriptData passes over the text of a script to its end tag.
func (s *Scanner) scriptData(b []byte, pos int, final bool) (int, bool) {
	const endLen = len("</script>")
	start := pos
	for pos < len(b) {
		if s.script == scriptPlain {
			i := bytes.IndexByte(b[pos:], '<')
			if i < 0 {
				return len(b), false
			}
			pos += i
		} else {
			// Only < and > matter here; > ends the escape after two dashes.
			i := bytes.IndexAny(b[pos:], "<>")
			if i < 0 {
				pos = len(b)
				break
			}
			pos += i
			if b[pos] == '>' {
				if bytes.HasSuffix(b[start:pos], dashes) {
					s.script = scriptPlain
				}
				pos++
				continue
			}
		}
		if !final && len(b)-pos < endLen {
			// Not enough to judge; the dashes before are judged already.
			return pos, false
		}
		switch s.script {
		case scriptPlain:
			if isEndTag(b, pos, "script") {
				s.mode = modeData
				return pos, true
			}
			if bytes.HasPrefix(b[pos:], commentStart) {
				s.script = scriptEscaped
				// The dashes of <!-- count towards -->.
				pos += len(commentStart)
				continue
			}
		case scriptEscaped:
			if isEndTag(b, pos, "script") {
				s.mode = modeData
				return pos, true
			}
			if isScriptName(b[pos+1:]) {
				s.script = scriptDouble
			}
		case scriptDouble:
			if isEndTag(b, pos, "script") {
				s.script = scriptEscaped
				pos += endLen
				continue
			}
		}
		pos++
	}
	if s.script != scriptPlain {
		return max(start, pos-2), false
	}
	return pos, false
}

var commentStart = []byte("<!--")

// isScriptName says whether "script" and what ends a tag's name begin b.
func isScriptName(b []byte) bool {
	return len(b) > len("script") && class[b[len("script")]]&clsTagEnd != 0 && equalFold(b[:len("script")], "script")
}

// skipState passes over a tag that is too large to hold, at any cut.
type skipState struct{ at skipAt }

type skipAt uint8

const (
	skipTagName skipAt = iota
	skipBefore
	skipAttrName
	skipAfter
	skipBeforeValue
	skipDouble
	skipSingle
	skipUnquoted
)

// run goes on at pos; done says that the tag's > has been passed.
func (st *skipState) run(b []byte, pos int) (int, bool) {
	for pos < len(b) {
		c := b[pos]
		switch st.at {
		case skipDouble, skipSingle:
			q := byte('"')
			if st.at == skipSingle {
				q = '\''
			}
			i := bytes.IndexByte(b[pos:], q)
			if i < 0 {
				return len(b), false
			}
			pos += i + 1
			st.at = skipBefore
			continue
		case skipBeforeValue:
			switch {
			case class[c]&clsSpace != 0:
			case c == '"':
				st.at = skipDouble
			case c == '\'':
				st.at = skipSingle
			case c == '>':
				return pos + 1, true
			default:
				st.at = skipUnquoted
			}
			pos++
			continue
		}
		switch {
		case c == '>':
			return pos + 1, true
		case class[c]&clsSpace != 0:
			switch st.at {
			case skipAttrName:
				st.at = skipAfter
			case skipTagName, skipUnquoted:
				st.at = skipBefore
			}
		case st.at == skipUnquoted:
		case c == '/':
			st.at = skipBefore
		case c == '=' && (st.at == skipAttrName || st.at == skipAfter):
			st.at = skipBeforeValue
		case st.at != skipTagName:
			st.at = skipAttrName
		}
		pos++
	}
	return pos, false
}
