package sitemap

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
)

const (
	maxDepth      = 128 // open elements remembered; deeper ones are only counted
	maxUnknown    = 200 // elements looked at in search of a root that is known
	maxAlternates = 1000
)

// xmlReader follows the elements of one document.
type xmlReader struct {
	w    *walker
	scan scanner
	open []string // names of the open elements
	// entryName is the element that holds an entry, set with the root.
	entryName string
	// entryDepth is len(open) inside the entry; 0 outside.
	entryDepth  int
	entryPrefix string
	entry       Entry
	fallback    string // location of an entry without a better one
	loose       []byte // text directly in the entry
	value       []byte // text of the child that is being read
	ignore      bool   // that text means nothing
	deep        int    // open elements beyond maxDepth
	unknown     int    // elements before a known root
}

// xml reads a document of one of the XML kinds.
func (w *walker) xml(in *bufio.Reader) error {
	x := &xmlReader{w: w, scan: scanner{in: in, skipText: true}}
	err := x.run()
	if w.fnErr != nil || errors.Is(err, ErrLimit) {
		return err
	}
	// An entry that the end cut off counts if its location was whole.
	if flushErr := x.flush(); flushErr != nil {
		return flushErr
	}
	if len(x.open) > 0 {
		x.scan.broken("the document ends inside " + x.open[len(x.open)-1])
	}
	w.damage = x.scan.damage
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (x *xmlReader) run() error {
	for {
		t, err := x.scan.next()
		if err != nil {
			return err
		}
		switch t.kind {
		case tokenText:
			x.text(t.text)
		case tokenStart:
			if err := x.start(t); err != nil {
				return err
			}
			if t.self {
				err = x.end(t.name)
			}
		case tokenEnd:
			err = x.end(t.name)
		}
		if err != nil {
			return err
		}
		// Only text inside an entry is of interest.
		x.scan.skipText = x.entryDepth == 0 || len(x.open) > x.entryDepth+1
	}
}

// root notes the kind of document.
func (x *xmlReader) root(name string) error {
	switch name {
	case "urlset":
		x.w.kind, x.entryName = URLSet, "url"
	case "sitemapindex":
		x.w.kind, x.entryName = Index, "sitemap"
	case "rss", "rdf":
		x.w.kind, x.entryName = RSS, "item"
	case "feed":
		x.w.kind, x.entryName = Atom, "entry"
	case "html":
		return damageError{errors.New("an HTML page")}
	default:
		x.scan.broken("unexpected element " + name)
		if x.unknown++; x.unknown > maxUnknown {
			return damageError{errors.New("no known root element")}
		}
	}
	return nil
}

func (x *xmlReader) start(t token) error {
	if len(x.open) >= maxDepth {
		x.deep++
		return nil
	}
	if x.w.kind == Unknown {
		if err := x.root(t.name); err != nil {
			return err
		}
		x.open = append(x.open, t.name)
		return nil
	}
	if t.name == x.entryName && x.entryDepth > 0 && t.prefix == x.entryPrefix && x.w.kind != Atom {
		// An entry within an entry: the first was never closed.
		x.scan.broken(t.name + " inside " + t.name)
		if err := x.leave(x.entryDepth - 1); err != nil {
			return err
		}
	}
	x.open = append(x.open, t.name)
	switch {
	case x.entryDepth == 0 && t.name == x.entryName:
		x.entryDepth, x.entryPrefix = len(x.open), t.prefix
		x.entry = Entry{Priority: DefaultPriority}
		x.fallback, x.loose = "", x.loose[:0]
	case x.entryDepth > 0 && len(x.open) == x.entryDepth+1:
		x.value, x.ignore = x.value[:0], false
		return x.child(t)
	}
	return nil
}

// child looks at the start of an element directly in an entry.
func (x *xmlReader) child(t token) error {
	switch {
	case x.isMap() && t.name != "link" && !x.own(t.prefix):
		x.ignore = true
	case x.isMap() && t.name == "loc":
		if x.entry.Loc != "" { // a second location is a second entry
			if err := x.w.emit(x.entry); err != nil {
				return err
			}
			x.entry = Entry{Priority: DefaultPriority}
		}
	case t.name == "link":
		href := x.scan.attr(t.attrs, "href")
		if href == "" {
			return nil
		}
		rel := strings.ToLower(x.scan.attr(t.attrs, "rel"))
		switch x.w.kind {
		case URLSet:
			if rel == "" || rel == "alternate" {
				x.alternate(href)
			}
		case RSS:
			if x.fallback == "" && (rel == "" || rel == "alternate") {
				x.fallback = href
			}
		case Atom:
			switch {
			case rel != "" && rel != "alternate":
			case x.entry.Loc == "":
				x.entry.Loc = href
			default:
				x.alternate(href)
			}
		}
	case t.name == "guid" && x.w.kind == RSS:
		if strings.EqualFold(x.scan.attr(t.attrs, "isPermaLink"), "false") {
			x.ignore = true
		}
	}
	return nil
}

func (x *xmlReader) isMap() bool { return x.w.kind == URLSet || x.w.kind == Index }

// own tells whether a prefix is that of the entry, and not that of an
// extension such as image:loc.
func (x *xmlReader) own(prefix string) bool { return prefix == x.entryPrefix || prefix == "" }

func (x *xmlReader) alternate(href string) {
	if len(x.entry.Alternates) < maxAlternates {
		x.entry.Alternates = append(x.entry.Alternates, href)
	}
}

func (x *xmlReader) text(b []byte) {
	switch {
	case x.entryDepth == 0:
	case len(x.open) == x.entryDepth+1:
		if len(x.value) <= maxText {
			x.value = append(x.value, b...)
		}
	case len(x.open) == x.entryDepth:
		if len(x.loose) <= maxText {
			x.loose = append(x.loose, bytes.TrimSpace(b)...)
		}
	}
}

// end closes the innermost element of a name and what was left open in it.
func (x *xmlReader) end(name string) error {
	if x.deep > 0 {
		x.deep--
		return nil
	}
	n := len(x.open)
	at := n - 1
	for at >= 0 && x.open[at] != name {
		at--
	}
	if at < 0 {
		x.scan.broken("</" + name + "> closes nothing")
		return nil
	}
	if at < n-1 {
		x.scan.broken(x.open[n-1] + " is not closed")
	}
	if x.entryDepth > 0 && at == n-1 && n == x.entryDepth+1 {
		x.take(name)
	}
	return x.leave(at)
}

// leave closes elements until depth are open.
func (x *xmlReader) leave(depth int) error {
	x.open = x.open[:depth]
	if x.entryDepth > depth {
		return x.flush()
	}
	return nil
}

// take uses the text of an element directly in an entry that has ended.
func (x *xmlReader) take(name string) {
	if x.ignore || len(x.value) > maxText {
		return
	}
	e := &x.entry
	s := strings.TrimSpace(string(x.value))
	if s == "" {
		return
	}
	switch x.w.kind {
	case URLSet, Index:
		switch name {
		case "loc":
			if e.Loc == "" {
				e.Loc = s
			}
		case "lastmod":
			e.LastMod = parseW3C(s)
		case "changefreq":
			e.ChangeFreq = parseChangeFreq(s)
		case "priority":
			e.Priority = parsePriority(s)
		}
	case RSS:
		switch name {
		case "link":
			if e.Loc == "" {
				e.Loc = s
			}
		case "guid":
			if x.fallback == "" && hasHTTP(s) {
				x.fallback = s
			}
		case "pubdate", "date":
			if e.LastMod.IsZero() {
				e.LastMod = parseFeedDate(s)
			}
		}
	case Atom:
		switch name {
		case "updated", "modified": // Atom 1.0 and 0.3
			e.LastMod = parseFeedDate(s)
		case "published", "issued", "created":
			if e.LastMod.IsZero() {
				e.LastMod = parseFeedDate(s)
			}
		}
	}
}

// flush delivers the entry that is open, if there is one.
func (x *xmlReader) flush() error {
	if x.entryDepth == 0 {
		return nil
	}
	x.entryDepth = 0
	e := x.entry
	x.entry = Entry{}
	switch {
	case e.Loc != "":
	case x.fallback != "":
		e.Loc = x.fallback
	case x.isMap() && len(x.loose) <= maxText:
		// The location stands in the entry itself, without loc.
		if s := clean(string(x.loose)); hasHTTP(s) {
			e.Loc = s
		}
	}
	if e.Loc == "" {
		return nil
	}
	return x.w.emit(e)
}

func parseChangeFreq(s string) string {
	switch s = strings.ToLower(s); s {
	case "always", "hourly", "daily", "weekly", "monthly", "yearly", "never":
		return s
	}
	return ""
}

func parsePriority(s string) float64 {
	v, err := strconv.ParseFloat(strings.Replace(s, ",", ".", 1), 64)
	if err != nil || !(v >= 0 && v <= 1) {
		return DefaultPriority
	}
	return v
}
