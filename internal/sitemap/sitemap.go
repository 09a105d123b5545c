// Package sitemap reads what sites publish as lists of their URLs: XML
// sitemaps and sitemap indexes, plain text, and the feeds that are used as
// sitemaps (RSS 0.9x to 2.0, RSS 1.0, Atom 0.3 and 1.0), each also gzipped.
//
// [Walk] streams: it holds one entry at a time, and its memory is bounded
// whatever it is fed. What is broken is read as far as it makes sense, and the
// error says so beside the entries found. Nothing outside the document is ever
// read: external entities, XInclude and DTDs are passed over, and entities
// that a document declares expand to nothing.
package sitemap

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"time"
)

// Limits of the sitemaps protocol, the defaults of [Options].
const (
	DefaultMaxEntries = 50_000
	DefaultMaxBytes   = 50 << 20
)

var (
	// ErrFormat: the document is no sitemap of a known kind, or empty.
	ErrFormat = errors.New("not a sitemap")
	// ErrBroken: the document is a sitemap that is damaged or ends early.
	// Entries found before and after the damage have been delivered.
	ErrBroken = errors.New("broken sitemap")
	// ErrLimit: the document is larger than Options allow. Entries up to the
	// limit have been delivered.
	ErrLimit = errors.New("sitemap larger than its limit")
)

// Kind is the form of a document.
type Kind uint8

// The kinds.
const (
	Unknown Kind = iota
	URLSet
	Index
	Text
	RSS
	Atom
)

// String returns the kind's name.
func (k Kind) String() string {
	names := [...]string{"unknown", "urlset", "sitemapindex", "text", "rss", "atom"}
	if int(k) >= len(names) {
		k = Unknown
	}
	return names[k]
}

// IsFeed tells whether the kind is a feed.
func (k Kind) IsFeed() bool { return k == RSS || k == Atom }

// DefaultPriority is the priority of an entry that names none.
const DefaultPriority = 0.5

// Entry is one URL of a sitemap.
type Entry struct {
	// Loc is the URL without fragment, absolute where Options.URL is given.
	Loc string
	// LastMod is in UTC, zero if absent or not understood.
	LastMod time.Time
	// ChangeFreq is always, hourly, daily, weekly, monthly, yearly, never or "".
	ChangeFreq string
	// Priority is within 0 and 1.
	Priority float64
	// Alternates are the URLs of the same page in other languages or forms
	// (xhtml:link; further alternate links of an Atom entry). Loc may be among
	// them.
	Alternates []string
	// Sitemap says that Loc is another sitemap, found in an index.
	Sitemap bool
	// Valid says that a sitemap at Options.URL may speak for Loc: it has the
	// same scheme and host and lies in the sitemap's folder or below. It is
	// true for sitemaps of an index and where Options.URL is empty.
	Valid bool
}

// Options of a reading. The zero value is ready to use.
type Options struct {
	// URL is the sitemap's own address: the base of relative locations and of
	// Entry.Valid.
	URL string
	// Charset is the one that the transport declared, if any. A byte order
	// mark goes before it, the XML declaration after it.
	Charset string
	// Strict leaves out entries that are not Valid.
	Strict bool
	// AllowPartial makes a damaged document no error if something was found.
	AllowPartial bool
	// MaxEntries and MaxBytes (after decompression) bound the reading; 0
	// means the protocol's limits.
	MaxEntries int
	MaxBytes   int64
}

// Result is a sitemap read whole.
type Result struct {
	Kind    Kind
	Entries []Entry
}

// Parse reads a sitemap whole. The result is never nil: with an error, it
// holds what was found.
func Parse(r io.Reader, opt Options) (*Result, error) {
	res := &Result{}
	kind, err := Walk(r, opt, func(e Entry) error {
		res.Entries = append(res.Entries, e)
		return nil
	})
	res.Kind = kind
	return res, err
}

// Walk reads a sitemap and calls fn for each entry in order. An error of fn
// ends it and is returned as it is. Others wrap ErrFormat, ErrBroken, ErrLimit
// or are the reader's; entries delivered before stay good.
func Walk(r io.Reader, opt Options, fn func(Entry) error) (Kind, error) {
	if opt.MaxEntries <= 0 {
		opt.MaxEntries = DefaultMaxEntries
	}
	if opt.MaxBytes <= 0 {
		opt.MaxBytes = DefaultMaxBytes
	}
	w := &walker{opt: opt, fn: fn, base: newBase(opt.URL)}
	in, err := open(r, opt.MaxBytes, opt.Charset)
	if err == nil {
		if looksLikeXML(in) {
			err = w.xml(in)
		} else {
			err = w.text(in)
		}
	}
	return w.kind, w.verdict(err)
}

// verdict turns what ended the reading into the error for the caller.
func (w *walker) verdict(err error) error {
	switch {
	case w.fnErr != nil:
		return w.fnErr
	case errors.Is(err, ErrLimit):
		return err
	case w.kind == Unknown && (err == nil || isDamage(err)):
		return fmt.Errorf("%w: neither a urlset, sitemapindex, rss, RDF or feed element nor lines that are URLs", ErrFormat)
	case err != nil && !isDamage(err):
		return fmt.Errorf("reading a sitemap after %d entries: %w", w.found, err)
	case err == nil && w.damage == "":
		return nil
	case w.opt.AllowPartial && w.found > 0:
		return nil
	case err != nil:
		return fmt.Errorf("%w after %d entries: %w", ErrBroken, w.found, err)
	default:
		return fmt.Errorf("%w: %s; %d entries found", ErrBroken, w.damage, w.found)
	}
}

// walker reads one document.
type walker struct {
	opt    Options
	fn     func(Entry) error
	fnErr  error
	base   base
	kind   Kind
	found  int    // entries delivered
	damage string // the first damage seen
}

// emit resolves an entry and delivers it. What has no usable location is
// passed over.
func (w *walker) emit(e Entry) error {
	loc, ok := w.base.resolve(e.Loc)
	if !ok {
		return nil
	}
	e.Loc = loc
	e.Sitemap = w.kind == Index
	e.Valid = e.Sitemap || w.base.covers(loc)
	if w.opt.Strict && !e.Valid {
		return nil
	}
	alternates := e.Alternates[:0]
	for _, a := range e.Alternates {
		if a, ok := w.base.resolve(a); ok {
			alternates = append(alternates, a)
		}
	}
	if e.Alternates = alternates; len(alternates) == 0 {
		e.Alternates = nil
	}
	if w.found >= w.opt.MaxEntries {
		return fmt.Errorf("%w: more than %d entries", ErrLimit, w.opt.MaxEntries)
	}
	w.found++
	if err := w.fn(e); err != nil {
		w.fnErr = err
		return err
	}
	return nil
}

// maxLine bounds a line of a text sitemap; a longer one is no URL.
const maxLine = 8 << 10

// text reads one URL a line.
func (w *walker) text(in *bufio.Reader) error {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line) <= maxLine {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if len(line) <= maxLine {
			// Old text files end lines with CR alone.
			for _, s := range splitCR(string(line)) {
				if !absolute(s) {
					continue
				}
				w.kind = Text
				if err := w.emit(Entry{Loc: s, Priority: DefaultPriority}); err != nil {
					return err
				}
			}
		}
		line = line[:0]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
