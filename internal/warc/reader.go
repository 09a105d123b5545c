package warc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// Bounds of the reader.
const (
	readBuffer     = 64 << 10
	maxHeaderBytes = 1 << 20 // a record's header
	maxFields      = 1000
)

// Severity says how bad a Problem is.
type Severity uint8

const (
	// Warning: readers cope with it and nothing is lost.
	Warning Severity = iota + 1
	// Error: the file breaks the standard or lost data.
	Error
)

// String returns "warning" or "error".
func (s Severity) String() string {
	if s == Error {
		return "error"
	}
	return "warning"
}

// Problem is one thing that is wrong with a file.
type Problem struct {
	Severity Severity
	// Kind is a fixed word: gzip, member, junk, version, line-end, header, field,
	// length, block-end, block-digest, payload-digest, duplicate-id, http, warcinfo.
	Kind string
	// Offset is where the record, or the damage, begins in the file.
	Offset int64
	// RecordID and Target name the record where they are known.
	RecordID, Target string
	// Text says what is wrong and what would be right.
	Text string
}

// String is one line, without the file's name.
func (p Problem) String() string {
	s := fmt.Sprintf("offset %d: %s: %s: %s", p.Offset, p.Severity, p.Kind, p.Text)
	if p.RecordID != "" {
		s += " (record " + p.RecordID + ")"
	}
	return s
}

// Reader reads the records of a WARC file, plain or gzipped, from its start. It
// takes what it can make sense of and goes on after damage.
type Reader struct {
	// OnProblem, if set before the first Next, gets everything that is wrong.
	OnProblem func(Problem)

	src  *source
	at   io.ReaderAt
	size int64

	z         *gzip.Reader
	zbuf      *bufio.Reader
	inMember  bool  // the last record was in a member that may have another
	member    int64 // where that member starts
	compress  bool  // at least one record was in a member
	cur       *Entry
	entry     Entry
	headerBuf []byte
	done      bool
}

// NewReader reads from a stream. After damage it goes on with what follows;
// the record behind a broken gzip member may be lost (NewReaderAt finds it).
func NewReader(r io.Reader) *Reader {
	rd := &Reader{src: &source{r: r}}
	rd.src.br = bufio.NewReaderSize(countedReader{rd.src}, readBuffer)
	return rd
}

// NewReaderAt reads a file of that size, and after damage looks for the next
// record from the byte behind the start of the broken one.
func NewReaderAt(r io.ReaderAt, size int64) *Reader {
	rd := NewReader(io.NewSectionReader(r, 0, size))
	rd.at, rd.size = r, size
	return rd
}

// source counts what was consumed.
type source struct {
	r    io.Reader
	br   *bufio.Reader
	base int64 // where r began in the file
	n    int64 // bytes read from r
	err  error // r's own error
}

type countedReader struct{ s *source }

func (c countedReader) Read(p []byte) (int, error) {
	n, err := c.s.r.Read(p)
	c.s.n += int64(n)
	if err != nil && err != io.EOF {
		c.s.err = err
	}
	return n, err
}

func (s *source) pos() int64 { return s.base + s.n - int64(s.br.Buffered()) }

// sourceErr is the error of the underlying reader that ended the reading, if any.
func (r *Reader) sourceErr() error { return r.src.err }

func (r *Reader) seek(off int64) {
	r.src.r = io.NewSectionReader(r.at, off, r.size-off)
	r.src.base, r.src.n = off, 0
	r.src.br.Reset(countedReader{r.src})
}

func (r *Reader) problem(sev Severity, kind string, off int64, format string, args ...any) {
	if r.OnProblem == nil {
		return
	}
	p := Problem{Severity: sev, Kind: kind, Offset: off, Text: fmt.Sprintf(format, args...)}
	if r.cur != nil && r.cur.Offset == off {
		p.RecordID, p.Target = r.cur.Get("WARC-Record-ID"), r.cur.Get("WARC-Target-URI")
	}
	r.OnProblem(p)
}

// Entry is one record as it was read. It is valid until the next call of Next.
type Entry struct {
	// Version is the text after "WARC/".
	Version string
	// Type is 0 for a type that is not of the standard.
	Type   RecordType
	Fields []Field
	// Offset is where the record (its gzip member, if it is in one) begins.
	Offset int64
	// Length is how many bytes it takes in the file; set by Close.
	Length int64
	// ContentLength is the block's length as the header says.
	ContentLength int64
	// InMember is its place in its gzip member, from 1; 0 in a plain file.
	InMember int
	// Block reads the block, at most ContentLength bytes.
	Block io.Reader

	r      *Reader
	body   io.LimitedReader
	closed bool
	err    error
}

// Get returns the first value of a header field, "" if there is none.
func (e *Entry) Get(name string) string {
	for i := range e.Fields {
		if equalFold(e.Fields[i].Name, name) {
			return e.Fields[i].Value
		}
	}
	return ""
}

// Has reports whether the header has the field.
func (e *Entry) Has(name string) bool {
	for i := range e.Fields {
		if equalFold(e.Fields[i].Name, name) {
			return true
		}
	}
	return false
}

// Next returns the next record, io.EOF after the last one, or the source's own
// error. Damage is not an error: it is skipped and told to OnProblem.
func (r *Reader) Next() (*Entry, error) {
	if r.cur != nil {
		_ = r.cur.Close()
		r.cur = nil
	}
	for {
		if r.src.err != nil {
			return nil, r.src.err
		}
		if r.done {
			return nil, io.EOF
		}
		if e := r.try(); e != nil {
			return e, nil
		}
	}
}

// try reads one record's header, or moves past something that is none.
func (r *Reader) try() *Entry {
	if r.inMember {
		// The member of the last record has more.
		r.entry.InMember++
		r.problem(Error, "member", r.member, "a gzip member holds more than one record; each record must be a member of its own")
		return r.header(r.zbuf, r.member)
	}
	off := r.src.pos()
	peek, err := r.src.br.Peek(6)
	switch {
	case len(peek) == 0:
		r.done = true
		return nil
	case isGzipMagic(peek):
		if err := r.openMember(); err != nil {
			r.damaged(off, "no gzip member begins here: %v", err)
			return nil
		}
		r.member, r.compress = off, true
		r.entry.InMember = 1
		return r.header(r.zbuf, off)
	case bytes.HasPrefix(peek, []byte("WARC/")):
		r.entry.InMember = 0
		return r.header(r.src.br, off)
	case peek[0] == '\r' || peek[0] == '\n':
		_, _ = r.src.br.Discard(1)
		if r.compress {
			r.problem(Warning, "junk", off, "a line end between two gzip members")
		}
		return nil
	}
	if err != nil && err != io.EOF {
		return nil
	}
	r.damaged(off, "neither a gzip member nor a WARC record begins here")
	return nil
}

func isGzipMagic(b []byte) bool {
	return len(b) >= 3 && b[0] == 0x1f && b[1] == 0x8b && b[2] == 8
}

func (r *Reader) openMember() error {
	if r.z == nil {
		r.z = new(gzip.Reader)
		r.zbuf = bufio.NewReaderSize(nil, readBuffer)
	}
	if err := r.z.Reset(r.src.br); err != nil {
		return err
	}
	r.z.Multistream(false)
	r.zbuf.Reset(r.z)
	return nil
}

// damaged reports damage at off and goes to the next place that looks like a
// record; what lies between is lost to the caller.
func (r *Reader) damaged(off int64, format string, args ...any) {
	r.inMember = false
	text := fmt.Sprintf(format, args...)
	if r.at != nil {
		r.seek(off + 1)
	} else if r.src.pos() == off {
		_, _ = r.src.br.Discard(1)
	}
	next := r.resync()
	if next < 0 {
		r.done = true
		r.problem(Error, "gzip", off, "%s; no record follows", text)
		return
	}
	r.problem(Error, "gzip", off, "%s; the next record begins at %d", text, next)
}

// resync moves to the next gzip member that begins with a WARC record, or the
// next plain record, and returns where it is; -1 if there is none.
func (r *Reader) resync() int64 {
	for {
		b, err := r.src.br.Peek(readBuffer)
		if len(b) < 6 {
			_, _ = r.src.br.Discard(len(b))
			return -1
		}
		i := indexRecord(b)
		if i < 0 {
			// The last bytes may begin a record that goes on behind the buffer.
			_, _ = r.src.br.Discard(len(b) - 6)
			if err != nil {
				return -1
			}
			continue
		}
		_, _ = r.src.br.Discard(i)
		if b[i] == 'W' || beginsRecord(b[i:], r.at, r.src.pos(), r.size) {
			return r.src.pos()
		}
		_, _ = r.src.br.Discard(1)
	}
}

// indexRecord finds the first place in b that looks like a record's start.
func indexRecord(b []byte) int {
	g := bytes.Index(b, []byte{0x1f, 0x8b, 8})
	w := bytes.Index(b, []byte("WARC/1."))
	if g < 0 || w >= 0 && w < g {
		return w
	}
	return g
}

// beginsRecord reports whether a gzip member at the front of b begins with a
// record. Where b is short the file is asked.
func beginsRecord(b []byte, at io.ReaderAt, off, size int64) bool {
	var src io.Reader = bytes.NewReader(b)
	if at != nil {
		src = io.NewSectionReader(at, off, size-off)
	}
	z, err := gzip.NewReader(src)
	if err != nil {
		return false
	}
	var start [5]byte
	_, err = io.ReadFull(z, start[:])
	return err == nil && string(start[:]) == "WARC/"
}

var errNoHeader = errors.New("warc: no record header")

// header reads a record's header from br.
func (r *Reader) header(br *bufio.Reader, off int64) *Entry {
	e := &r.entry
	*e = Entry{Fields: e.Fields[:0], Offset: off, InMember: e.InMember, r: r}
	r.cur = e
	if err := r.parseHeader(e, br); err != nil {
		if r.src.err == nil {
			if e.InMember > 1 {
				r.problem(Error, "header", off, "%v", err)
				r.skipMember()
			} else {
				r.cur = nil
				r.damaged(off, "%v", err)
			}
		}
		r.cur = nil
		return nil
	}
	e.body = io.LimitedReader{R: br, N: e.ContentLength}
	e.Block = &e.body
	return e
}

// skipMember reads to the end of a member whose rest makes no sense.
func (r *Reader) skipMember() {
	r.inMember = false
	if _, err := io.Copy(io.Discard, r.zbuf); err != nil && r.src.err == nil {
		r.damaged(r.member, "the gzip member is broken: %v", err)
	}
}

func (r *Reader) parseHeader(e *Entry, br *bufio.Reader) error {
	left := maxHeaderBytes
	line, err := r.line(br, &left)
	if err != nil {
		return err
	}
	version, ok := strings.CutPrefix(string(line), "WARC/")
	if !ok {
		return fmt.Errorf("%w: it begins with %.40q, not with WARC/", errNoHeader, line)
	}
	if e.Version = version; version != "1.1" && version != "1.0" {
		r.problem(Error, "version", e.Offset, "version %q; 1.0 and 1.1 are known", version)
	}
	length := int64(-1)
	for {
		line, err := r.line(br, &left)
		if err != nil {
			return err
		}
		if len(line) == 0 {
			break
		}
		if line[0] == ' ' || line[0] == '\t' { // a folded value
			if n := len(e.Fields); n > 0 {
				e.Fields[n-1].Value += " " + strings.TrimSpace(string(line))
				continue
			}
		}
		name, value, ok := strings.Cut(string(line), ":")
		if name = strings.TrimRight(name, " \t"); !ok || !isToken(name) || name == "" {
			r.problem(Error, "header", e.Offset, "a header line is no field: %.60q", line)
			continue
		}
		if len(e.Fields) == maxFields {
			return fmt.Errorf("%w: more than %d fields", errNoHeader, maxFields)
		}
		value = strings.TrimSpace(value)
		e.Fields = append(e.Fields, Field{name, value})
		if equalFold(name, "Content-Length") && length < 0 {
			n, err := strconv.ParseUint(value, 10, 63)
			if err != nil {
				return fmt.Errorf("%w: Content-Length is %.40q, not a number of bytes", errNoHeader, value)
			}
			length = int64(n)
		}
	}
	if length < 0 {
		return fmt.Errorf("%w: Content-Length is missing", errNoHeader)
	}
	e.ContentLength = length
	e.Type = parseType(e.Get("WARC-Type"))
	return nil
}

// line reads one header line without its end; it is valid until the next one.
func (r *Reader) line(br *bufio.Reader, left *int) ([]byte, error) {
	r.headerBuf = r.headerBuf[:0]
	for {
		part, err := br.ReadSlice('\n')
		if *left -= len(part); *left < 0 {
			return nil, fmt.Errorf("%w: longer than %d bytes", errNoHeader, maxHeaderBytes)
		}
		r.headerBuf = append(r.headerBuf, part...)
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF:
			return nil, fmt.Errorf("%w: it ends within the header: %w", errNoHeader, io.ErrUnexpectedEOF)
		case err != nil:
			return nil, err
		}
		line := r.headerBuf[:len(r.headerBuf)-1]
		if n := len(line); n > 0 && line[n-1] == '\r' {
			return line[:n-1], nil
		}
		if r.cur != nil {
			r.problem(Warning, "line-end", r.cur.Offset, "a header line ends in LF alone; CRLF is right: %.60q", line)
		}
		return line, nil
	}
}

// OpenFile opens a WARC file, with or without the suffix of a file that is
// still being written, at an offset (0, or one that a Location gives).
func OpenFile(path string, offset int64) (*Reader, io.Closer, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) && !strings.HasSuffix(path, OpenSuffix) {
		f, err = os.Open(path + OpenSuffix)
	}
	if err != nil {
		return nil, nil, storageError("open", path, err)
	}
	st, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, nil, storageError("stat", path, err)
	}
	r := NewReaderAt(f, st.Size())
	if offset > 0 {
		r.seek(offset)
	}
	return r, f, nil
}
