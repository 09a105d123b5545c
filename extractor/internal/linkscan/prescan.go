package linkscan

import "bytes"

// prescan looks for a declared encoding in the first bytes of a document (HTML
// 13.2.3.2, prescan a byte stream to determine its encoding). It knows no raw
// text: a meta element in a script counts, as the standard has it.
func prescan(b []byte) *Charset {
	for i := 0; i < len(b); {
		n := bytes.IndexByte(b[i:], '<')
		if n < 0 {
			return nil
		}
		i += n
		switch rest := b[i:]; {
		case bytes.HasPrefix(rest, commentStart):
			// The dashes of <!-- may be those of -->.
			end := bytes.Index(rest[2:], []byte("-->"))
			if end < 0 {
				return nil
			}
			i += 2 + end + len("-->")
		case len(rest) > 5 && hasPrefixFold(rest, "<meta") && (class[rest[5]]&clsSpace != 0 || rest[5] == '/'):
			var c *Charset
			if c, i = prescanMeta(b, i+5); c != nil {
				return c
			}
		case len(rest) > 1 && class[rest[1]]&clsLetter != 0, len(rest) > 2 && rest[1] == '/' && class[rest[2]]&clsLetter != 0:
			for i < len(b) && class[b[i]]&clsValEnd == 0 {
				i++
			}
			for more := true; more; {
				_, _, i, more = prescanAttr(b, i)
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

// prescanMeta reads the attributes of a meta element.
func prescanMeta(b []byte, i int) (*Charset, int) {
	var seenEquiv, seenContent, seenCharset, pragma, fromContent bool
	var found *Charset
	for {
		name, value, next, more := prescanAttr(b, i)
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
				if label := charsetOf(value); len(label) > 0 {
					if c := LookupCharset(string(label)); c != nil {
						found, fromContent = c, true
					}
				}
			}
		case equalFold(name, "charset") && !seenCharset:
			seenCharset = true
			found, fromContent = LookupCharset(string(value)), false
		}
	}
	if found == nil || fromContent && !pragma {
		return nil, i
	}
	return found.asMeta(), i
}

// prescanAttr gets an attribute (HTML 13.2.3.2, get an attribute). more is false
// at the end of the tag or of b.
func prescanAttr(b []byte, i int) (name, value []byte, next int, more bool) {
	for i < len(b) && (class[b[i]]&clsSpace != 0 || b[i] == '/') {
		i++
	}
	if i >= len(b) || b[i] == '>' {
		return nil, nil, i, false
	}
	start := i
	i++
	for i < len(b) && class[b[i]]&clsNameEnd == 0 {
		i++
	}
	name = b[start:i]
	for i < len(b) && class[b[i]]&clsSpace != 0 {
		i++
	}
	if i >= len(b) || b[i] != '=' {
		return name, nil, i, i < len(b)
	}
	i++
	for i < len(b) && class[b[i]]&clsSpace != 0 {
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
	for i < len(b) && class[b[i]]&clsValEnd == 0 {
		i++
	}
	return name, b[start:i], i, i < len(b)
}
