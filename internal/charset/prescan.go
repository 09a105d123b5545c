package charset

import "bytes"

var commentStart, commentEnd = []byte("<!--"), []byte("-->")

// prescan looks for a declared encoding in the first bytes of a document (HTML
// 13.2.3.2, prescan a byte stream to determine its encoding). It knows no raw
// text: a meta element in a script counts, as the standard has it.
func prescan(b []byte) *Encoding { return metaEncoding(b, false) }

// lateMeta looks for a meta element where the prescan has not: as the parser
// would find it (HTML 13.2.6.4.4), not in scripts and other raw text.
func lateMeta(b []byte) *Encoding {
	// Most pages have none, and to see that takes no parsing.
	for i := prescanBytes - len("<meta"); ; i++ {
		n := bytes.IndexByte(b[i:], '<')
		if n < 0 {
			return nil
		}
		i += n
		if hasPrefixFold(b[i:], "<meta") && mayDeclare(b[i:]) {
			return metaEncoding(b, true)
		}
	}
}

// mayDeclare tells whether the next bytes hold the word without which a meta
// element declares nothing.
func mayDeclare(b []byte) bool {
	const word = "charset"
	for b = b[:min(len(b), prescanBytes)]; len(b) >= len(word); b = b[1:] {
		if b[0]|0x20 == word[0] && hasPrefixFold(b, word) {
			return true
		}
	}
	return false
}

func metaEncoding(b []byte, knowsRaw bool) *Encoding {
	for i := 0; i < len(b); {
		n := bytes.IndexByte(b[i:], '<')
		if n < 0 {
			return nil
		}
		i += n
		switch rest := b[i:]; {
		case bytes.HasPrefix(rest, commentStart):
			// The dashes of <!-- may be those of -->.
			end := bytes.Index(rest[2:], commentEnd)
			if end < 0 {
				return nil
			}
			i += 2 + end + len(commentEnd)
		case len(rest) > 5 && hasPrefixFold(rest, "<meta") && (isSpace(rest[5]) || rest[5] == '/'):
			var e *Encoding
			if e, i = metaTag(b, i+5); e != nil {
				return e
			}
		case len(rest) > 1 && isLetter(rest[1]), len(rest) > 2 && rest[1] == '/' && isLetter(rest[2]):
			name := i + 1
			for i < len(b) && !isSpace(b[i]) && b[i] != '>' {
				i++
			}
			tag, _, _ := bytes.Cut(b[name:i], []byte("/"))
			for more := true; more; {
				_, _, i, more = attribute(b, i)
			}
			if knowsRaw && isRaw(tag) {
				if i = rawEnd(b, i, tag); i < 0 {
					return nil
				}
			}
		case len(rest) > 1 && (rest[1] == '!' || rest[1] == '/' || rest[1] == '?'):
			end := bytes.IndexByte(rest, '>')
			if end < 0 {
				return nil
			}
			i += end + 1
		default:
			i++
		}
	}
	return nil
}

// rawNames are the elements whose content is text until their end tag.
var rawNames = [...]string{"script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes"}

func isRaw(tag []byte) bool {
	for _, name := range rawNames {
		if equalFold(tag, name) {
			return true
		}
	}
	return false
}

// rawEnd returns where the end tag of a raw element begins, -1 if nowhere.
func rawEnd(b []byte, i int, tag []byte) int {
	for {
		n := bytes.Index(b[i:], []byte("</"))
		if n < 0 {
			return -1
		}
		i += n
		if rest := b[i+2:]; len(rest) >= len(tag) && bytes.EqualFold(rest[:len(tag)], tag) {
			return i
		}
		i += 2
	}
}

// metaTag reads the attributes of a meta element.
func metaTag(b []byte, i int) (*Encoding, int) {
	var seenEquiv, seenContent, seenCharset, pragma, fromContent bool
	var found *Encoding
	for {
		name, value, next, more := attribute(b, i)
		i = next
		if !more {
			break
		}
		switch {
		case equalFold(name, "http-equiv") && !seenEquiv:
			seenEquiv = true
			pragma = equalFold(value, "content-type")
		case equalFold(name, "content") && !seenContent:
			seenContent = true
			if found == nil && !seenCharset {
				if e := lookupInMarkup(charsetOf(value, false)); e != nil {
					found, fromContent = e, true
				}
			}
		case equalFold(name, "charset") && !seenCharset:
			seenCharset = true
			found, fromContent = lookupInMarkup(value), false
		}
	}
	if found == nil || fromContent && !pragma {
		return nil, i
	}
	return found.asASCII(), i
}

// attribute gets an attribute (HTML 13.2.3.2, get an attribute). more is false
// at the end of the tag or of b.
func attribute(b []byte, i int) (name, value []byte, next int, more bool) {
	for i < len(b) && (isSpace(b[i]) || b[i] == '/') {
		i++
	}
	if i >= len(b) || b[i] == '>' {
		return nil, nil, i, false
	}
	start := i
	i++
	for i < len(b) && !isSpace(b[i]) && b[i] != '=' && b[i] != '>' && b[i] != '/' {
		i++
	}
	name = b[start:i]
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	if i >= len(b) || b[i] != '=' {
		return name, nil, i, i < len(b)
	}
	i++
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	if i >= len(b) {
		return name, nil, i, false
	}
	if q := b[i]; q == '"' || q == '\'' {
		end := bytes.IndexByte(b[i+1:], q)
		if end < 0 {
			return name, nil, len(b), false
		}
		return name, b[i+1 : i+1+end], i + end + 2, true
	}
	start = i
	for i < len(b) && !isSpace(b[i]) && b[i] != '>' {
		i++
	}
	return name, b[start:i], i, i < len(b)
}
