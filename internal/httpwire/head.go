package httpwire

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
)

// Bounds of a head. A head beyond them is refused or cut, never stored in part.
const (
	// MaxFields is how many fields of a head are kept, beside those that say how
	// the message is framed and what it is; these count wherever they stand.
	MaxFields = 1000
	// maxLeadingBlanks is how many empty bytes before the status line are skipped.
	maxLeadingBlanks = 64
)

// Errors of [Head.Parse].
var (
	// ErrIncomplete: the empty line that ends the head has not come yet.
	ErrIncomplete = errors.New("httpwire: the head is not complete: its empty line is missing")
	// ErrNoStatusLine: the bytes do not start as an HTTP response does.
	ErrNoStatusLine = errors.New("httpwire: no status line")
	// ErrBadStatus: there is a status line and its code is not three digits.
	ErrBadStatus = errors.New("httpwire: the status code is not three digits")
)

// Field is one header field. Both slices point into the parsed input, but for
// a folded value, which is a joined copy.
type Field struct {
	Name, Value []byte
}

// Head is the head of a response. It may be used again: Parse keeps the
// capacity of Fields. The zero value is ready.
type Head struct {
	// Major and Minor are the version as said; 1, 0 where none was said.
	Major, Minor int
	// Status is the code, 100 to 999.
	Status int
	// Reason is the text after the code, often empty.
	Reason []byte
	// Fields are the header fields in the order they came.
	Fields []Field
	// Notes are the oddities of the head.
	Notes Note
}

// HeadEnd returns the length of the head at the start of b, its empty line
// included, or -1 if that line is not in b. Lines may end in LF or CRLF.
func HeadEnd(b []byte) int {
	// Empty lines in front of the status line do not end the head.
	pos := 0
	for pos < len(b) && (b[pos] == '\r' || b[pos] == '\n') {
		pos++
	}
	for {
		i := bytes.IndexByte(b[pos:], '\n')
		if i < 0 {
			return -1
		}
		pos += i + 1
		switch {
		case pos < len(b) && b[pos] == '\n':
			return pos + 1
		case pos+1 < len(b) && b[pos] == '\r' && b[pos+1] == '\n':
			return pos + 2
		}
	}
}

// Parse reads a response head from the start of b and returns how many bytes
// it took, the empty line included. [ErrIncomplete] asks for more bytes; a
// status line that is already there and wrong is said at once. The caller
// bounds the size of b. Fields point into b.
func (h *Head) Parse(b []byte) (int, error) {
	end := HeadEnd(b)
	if end < 0 {
		if err := h.checkStart(b); err != nil {
			return 0, err
		}
		return 0, ErrIncomplete
	}
	return end, h.parse(b[:end])
}

// ParseStored is Parse for a head that is all there is: where the empty line
// is missing the head ends with the input, and NoteNoBlankLine is set.
func (h *Head) ParseStored(b []byte) (int, error) {
	end, note := HeadEnd(b), Note(0)
	if end < 0 {
		end, note = len(b), NoteNoBlankLine
	}
	err := h.parse(b[:end])
	h.Notes |= note
	return end, err
}

// checkStart says early that b cannot become a response head.
func (h *Head) checkStart(b []byte) error {
	t := bytes.TrimLeft(b, "\r\n \t")
	if len(b)-len(t) > maxLeadingBlanks {
		return ErrNoStatusLine
	}
	if i := bytes.IndexByte(t, '\n'); i >= 0 {
		h.reset()
		return h.parseStatusLine(trimCR(t[:i]))
	}
	n := min(len(t), 4)
	if n > 0 && !equalFold(t[:n], "http"[:n]) && !equalFold(t[:min(n, 3)], "icy"[:min(n, 3)]) {
		return ErrNoStatusLine
	}
	return nil
}

func (h *Head) reset() {
	h.Major, h.Minor, h.Status, h.Reason, h.Notes = 1, 0, 0, nil, 0
	h.Fields = h.Fields[:0]
}

func (h *Head) parse(b []byte) error {
	h.reset()
	t := bytes.TrimLeft(b, "\r\n \t")
	if d := len(b) - len(t); d > 0 {
		if d > maxLeadingBlanks {
			return ErrNoStatusLine
		}
		h.Notes |= NoteLeadingBlank
	}
	line, rest := h.line(t)
	if err := h.parseStatusLine(line); err != nil {
		return err
	}
	folds := false  // whether the last line was a field that may be continued
	joined := false // whether its value is a copy of ours, which may grow in place
	for len(rest) > 0 {
		line, rest = h.line(rest)
		if len(line) == 0 {
			break
		}
		if line[0] == ' ' || line[0] == '\t' {
			if folds {
				f := &h.Fields[len(h.Fields)-1]
				if !joined {
					f.Value = f.Value[:len(f.Value):len(f.Value)]
					joined = true
				}
				f.Value = append(append(f.Value, ' '), trimOWS(line)...)
				h.noteValue(line)
				h.Notes |= NoteFolded
				continue
			}
			// A blank before the first field: read as a field, as browsers do.
			line = trimOWS(line)
		}
		folds, joined = h.field(line), false
	}
	return nil
}

// line cuts the first line off b, without its end.
func (h *Head) line(b []byte) (line, rest []byte) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		return trimCR(b), nil
	}
	if i == 0 || b[i-1] != '\r' {
		h.Notes |= NoteBareLF
	}
	return trimCR(b[:i]), b[i+1:]
}

func (h *Head) field(line []byte) (kept bool) {
	i := bytes.IndexByte(line, ':')
	if i < 0 {
		h.Notes |= NoteJunkLine
		return false
	}
	name := bytes.TrimRight(line[:i], " \t")
	if len(name) < i {
		h.Notes |= NoteSpaceBeforeColon
	}
	if len(name) == 0 {
		h.Notes |= NoteBadName
		return false
	}
	for _, c := range name {
		if !tokenByte[c] {
			h.Notes |= NoteBadName
			break
		}
	}
	if len(h.Fields) >= MaxFields {
		h.Notes |= NoteTooManyFields
		if !needed(name) {
			return false
		}
	}
	value := trimOWS(line[i+1:])
	h.noteValue(value)
	h.Fields = append(h.Fields, Field{Name: name, Value: value})
	return true
}

// needed tells whether a field must not be left out however many came before
// it: without it the body's end would be waited for, or taken for another one,
// or the body could not be read.
func needed(name []byte) bool {
	switch len(name) {
	case len("Location"):
		return equalFold(name, "Location")
	case len("Connection"):
		return equalFold(name, "Connection")
	case len("Content-Type"):
		return equalFold(name, "Content-Type")
	case len("Content-Length"):
		return equalFold(name, "Content-Length")
	case len("Content-Encoding"):
		return equalFold(name, "Content-Encoding")
	case len("Transfer-Encoding"):
		return equalFold(name, "Transfer-Encoding")
	}
	return false
}

func (h *Head) noteValue(v []byte) {
	for _, c := range v {
		switch {
		case c >= 0x80:
			h.Notes |= NoteNonASCII
		case c == 0 || c == '\r':
			h.Notes |= NoteControl
		}
	}
}

// parseStatusLine takes what browsers take: "HTTP/1.1 200 OK" and, with a
// note, a missing version, several blanks, other letter case, Shoutcast's
// "ICY", and a reason that follows the code directly.
func (h *Head) parseStatusLine(line []byte) error {
	t := line
	switch {
	case len(t) >= 4 && equalFold(t[:4], "http"):
		if string(t[:4]) != "HTTP" {
			h.Notes |= NoteOddStatusLine
		}
		t = t[4:]
	case len(t) >= 4 && equalFold(t[:3], "icy") && isBlank(t[3]):
		h.Notes |= NoteOddStatusLine
		t = t[3:]
	default:
		return fmt.Errorf("%w: the response starts with %q", ErrNoStatusLine, clip(line))
	}
	if len(t) > 0 && t[0] == '/' {
		t = t[1:]
		var ok bool
		if h.Major, h.Minor, t, ok = version(t); !ok {
			return fmt.Errorf("%w: no version in %q", ErrNoStatusLine, clip(line))
		}
	} else {
		h.Notes |= NoteOddStatusLine
	}
	code := bytes.TrimLeft(t, " \t")
	if len(code) == len(t) {
		return fmt.Errorf("%w: no blank before the code in %q", ErrNoStatusLine, clip(line))
	}
	if len(t)-len(code) > 1 {
		h.Notes |= NoteOddStatusLine
	}
	n := 0
	for n < len(code) && isDigit(code[n]) {
		n++
	}
	if n != 3 || code[0] == '0' {
		return fmt.Errorf("%w: %q", ErrBadStatus, clip(line))
	}
	h.Status = int(code[0]-'0')*100 + int(code[1]-'0')*10 + int(code[2]-'0')
	rest := code[3:]
	// "HTTP/1.1 200" and nothing more is so common that it is no oddity.
	if len(rest) > 0 && !isBlank(rest[0]) {
		h.Notes |= NoteOddStatusLine
	}
	h.Reason = trimOWS(rest)
	h.noteValue(h.Reason)
	return nil
}

// version reads "1.1" or "2".
func version(t []byte) (major, minor int, rest []byte, ok bool) {
	if len(t) == 0 || !isDigit(t[0]) {
		return 0, 0, t, false
	}
	major, t = int(t[0]-'0'), t[1:]
	if len(t) > 1 && t[0] == '.' && isDigit(t[1]) {
		minor, t = int(t[1]-'0'), t[2:]
	}
	if len(t) > 0 && !isBlank(t[0]) {
		return 0, 0, t, false
	}
	return major, minor, t, true
}

// Get returns the value of the first field of that name, nil if there is none
// (an empty value is not nil). Names compare without letter case.
func (h *Head) Get(name string) []byte {
	for i := range h.Fields {
		if f := &h.Fields[i]; len(f.Name) == len(name) && equalFold(f.Name, name) {
			if f.Value == nil {
				return []byte{}
			}
			return f.Value
		}
	}
	return nil
}

// Values yields the values of every field of that name, in order.
func (h *Head) Values(name string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := range h.Fields {
			if f := &h.Fields[i]; len(f.Name) == len(name) && equalFold(f.Name, name) && !yield(f.Value) {
				return
			}
		}
	}
}

// Elements yields the members of a comma-separated list field over all its
// lines, blanks and empty members removed. It does not look into quotes: it is
// for fields whose members are tokens (Connection, Transfer-Encoding,
// Content-Encoding).
func (h *Head) Elements(name string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for v := range h.Values(name) {
			for len(v) > 0 {
				e := v
				if i := bytes.IndexByte(v, ','); i >= 0 {
					e, v = v[:i], v[i+1:]
				} else {
					v = nil
				}
				if e = trimOWS(e); len(e) > 0 && !yield(e) {
					return
				}
			}
		}
	}
}

// HasToken reports whether a list field has the member, without letter case.
func (h *Head) HasToken(name, token string) bool {
	for e := range h.Elements(name) {
		if equalFold(e, token) {
			return true
		}
	}
	return false
}
