package sitemap

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"lycosa.dev/internal/charset"
)

// head is how much of a document is looked at to see what it is.
const head = 1024

// maxLayers is how often a document may be gzipped: servers that gzip a .gz
// file once more exist.
const maxLayers = 2

// damageError is a reader's error that means damage of the document, not
// failure of the transport.
type damageError struct{ err error }

func (e damageError) Error() string { return e.err.Error() }
func (e damageError) Unwrap() error { return e.err }

func isDamage(err error) bool {
	var d damageError
	return errors.As(err, &d)
}

// open unpacks and decodes a document, to UTF-8 without a byte order mark.
func open(r io.Reader, maxBytes int64, label string) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(r, 4*head)
	for range maxLayers {
		magic, err := in.Peek(2)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
			break
		}
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, damageError{fmt.Errorf("gzip: %w", err)}
		}
		in = bufio.NewReaderSize(gunzip{z}, 32<<10)
	}
	in = bufio.NewReaderSize(&limited{r: in, left: maxBytes, max: maxBytes}, 32<<10)
	start, err := in.Peek(head)
	if err != nil && !errors.Is(err, io.EOF) && len(start) == 0 {
		return nil, err
	}
	return decode(in, start, label), nil
}

// gunzip marks what a damaged gzip stream says.
type gunzip struct{ z *gzip.Reader }

func (g gunzip) Read(p []byte) (int, error) {
	n, err := g.z.Read(p)
	if errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) ||
		err != nil && strings.HasPrefix(err.Error(), "flate:") {
		err = damageError{fmt.Errorf("gzip: %w", err)}
	}
	return n, err
}

// limited ends a document that is too long.
type limited struct {
	r    io.Reader
	left int64
	max  int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		// Only a document that goes on is too long.
		var one [1]byte
		n, err := l.r.Read(one[:])
		if n > 0 {
			return 0, fmt.Errorf("%w: more than %d bytes", ErrLimit, l.max)
		}
		return 0, err
	}
	if int64(len(p)) > l.left {
		p = p[:l.left]
	}
	n, err := l.r.Read(p)
	l.left -= int64(n)
	return n, err
}

// decode returns a reader of UTF-8. A charset that is not known, or cannot be
// true, counts as UTF-8.
func decode(in *bufio.Reader, start []byte, label string) *bufio.Reader {
	in16 := func(label string) *bufio.Reader {
		return bufio.NewReaderSize(charset.Lookup(label).NewReader(in), 32<<10)
	}
	switch {
	case bytes.HasPrefix(start, []byte("\xef\xbb\xbf")):
		_, _ = in.Discard(3) // cannot fail: it was peeked
		return in
	case bytes.HasPrefix(start, []byte("\xff\xfe")), bytes.HasPrefix(start, []byte("<\x00")):
		return in16("utf-16le")
	case bytes.HasPrefix(start, []byte("\xfe\xff")), bytes.HasPrefix(start, []byte("\x00<")):
		return in16("utf-16be")
	}
	if label == "" {
		label = declared(start)
	}
	e := charset.Lookup(label)
	// A declaration that can be read as ASCII is in no wide encoding.
	if e.IsUTF8() || !e.ASCIICompatible() && strings.HasPrefix(e.Name(), "utf-16") {
		return in
	}
	return bufio.NewReaderSize(e.NewReader(in), 32<<10)
}

// declared returns the encoding of the XML declaration, if there is one.
func declared(start []byte) string {
	s := bytes.TrimLeft(start, " \t\r\n")
	if !bytes.HasPrefix(s, []byte("<?xml")) {
		return ""
	}
	decl, _, ok := bytes.Cut(s, []byte("?>"))
	if !ok {
		return ""
	}
	_, rest, ok := bytes.Cut(decl, []byte("encoding"))
	if !ok {
		return ""
	}
	rest, ok = bytes.CutPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte("="))
	rest = bytes.TrimLeft(rest, " \t\r\n")
	if !ok || len(rest) == 0 || rest[0] != '"' && rest[0] != '\'' {
		return ""
	}
	value, _, _ := bytes.Cut(rest[1:], rest[:1])
	return string(value)
}

// looksLikeXML looks at the start of a document. What stands before the XML,
// such as a warning of the program that made it, does not count.
func looksLikeXML(in *bufio.Reader) bool {
	start, _ := in.Peek(head)
	s := bytes.TrimLeft(start, " \t\r\n\ufeff")
	if bytes.HasPrefix(s, []byte("<")) {
		return true
	}
	for _, mark := range []string{"<?xml", "<urlset", "<sitemapindex", "<rss", "<feed"} {
		if bytes.Contains(s, []byte(mark)) {
			return true
		}
	}
	return false
}
