// Package crawllog writes one line a fetch, in the columns of Heritrix's
// crawl.log: time, status, size, URL, hop path, referrer, type, worker, time
// and length of the fetch, digest, source, annotations.
//
// The log is for people and their scripts; the frontier, not the log, says
// what is done. Lines are buffered and written by Flush or when the buffer is
// full. A line that a full disk has torn is completed by the next write that
// succeeds, or ended at the next start: none is ever glued to it. While nothing
// can be written a bounded number of lines waits, and those beyond are lost and
// counted.
package crawllog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
)

const (
	bufferBytes = 64 << 10
	// waitingBytes bounds the lines that wait while the file takes none.
	waitingBytes = 1 << 20
)

// Log is safe for concurrent use.
type Log struct {
	mu      sync.Mutex
	f       file
	buf     []byte // begins with what the file lacks of a torn line
	failing bool   // the last write failed
	lost    int    // lines, since the last error told of them
}

// file is what is used of an os.File opened for appending.
type file interface {
	Write(b []byte) (int, error)
	Close() error
}

// Open opens the log for appending. A last line that a killed process left
// torn is ended.
func Open(path string) (*Log, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("crawl.log: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("crawl.log: %w", err)
	}
	l := &Log{f: f}
	if st, err := f.Stat(); err == nil && st.Size() > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, st.Size()-1); err == nil && last[0] != '\n' {
			l.buf = append(l.buf, '\n')
		}
	}
	return l, nil
}

// Write adds the line of an outcome. An error is that of writing the lines
// before it; they and this one wait. While the file takes nothing only Flush
// tries again, and tells how many lines were lost.
func (l *Log) Write(lease *crawlv1.Lease, o *crawlv1.Outcome, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.buf)
	l.buf = appendLine(l.buf, lease, o, now)
	switch {
	case l.failing && len(l.buf) > waitingBytes:
		l.buf = l.buf[:before]
		l.lost++
	case !l.failing && len(l.buf) >= bufferBytes:
		return l.flush()
	}
	return nil
}

// Flush writes what is buffered.
func (l *Log) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flush()
}

func (l *Log) flush() error {
	if len(l.buf) == 0 {
		return nil
	}
	n, err := l.f.Write(l.buf)
	l.buf = append(l.buf[:0], l.buf[n:]...)
	l.failing = err != nil
	if l.lost > 0 {
		err = errors.Join(err, fmt.Errorf("crawl.log: %d lines are lost", l.lost))
		l.lost = 0
	}
	return err
}

// Close flushes and closes.
func (l *Log) Close() error {
	err := l.Flush()
	if cerr := l.f.Close(); err == nil {
		err = cerr
	}
	return err
}

// status is the fetch status: HTTP's, or Heritrix's negative code for the
// class of failure.
func status(r *crawlv1.FetchResult) int {
	switch r.GetClass() {
	case crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP:
		return int(r.GetStatus())
	case crawlv1.OutcomeClass_OUTCOME_CLASS_DNS:
		return -6 // prerequisite domain lookup failed
	case crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT, crawlv1.OutcomeClass_OUTCOME_CLASS_TLS:
		return -2 // connect failed
	case crawlv1.OutcomeClass_OUTCOME_CLASS_TIMEOUT:
		return -4 // timeout
	case crawlv1.OutcomeClass_OUTCOME_CLASS_PROTOCOL, crawlv1.OutcomeClass_OUTCOME_CLASS_CONTENT:
		return -3 // connection broken
	case crawlv1.OutcomeClass_OUTCOME_CLASS_POLICY:
		return -5003 // out of policy
	}
	return 0
}

func appendLine(b []byte, lease *crawlv1.Lease, o *crawlv1.Outcome, now time.Time) []byte {
	r := o.GetFetch()
	b = now.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
	b = append(b, ' ')
	b = padInt(b, int64(status(r)), 5)
	b = append(b, ' ')
	if r.GetClass() == crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP {
		b = padInt(b, r.GetReceivedBytes(), 10)
	} else {
		b = append(b, "         -"...)
	}
	b = word(b, lease.GetUrl())
	b = word(b, lease.GetHopPath())
	b = word(b, lease.GetReferrer())
	b = word(b, o.GetContentType())
	b = append(b, " #"...)
	b = padded(b, int64(lease.GetShard()), 3)
	b = append(b, ' ')
	if t := r.GetStartedAt(); t != nil {
		b = t.AsTime().AppendFormat(b, "20060102150405.000")
		// The column has no dot: 17 digits.
		b = append(b[:len(b)-4], b[len(b)-3:]...)
		b = append(b, '+')
		b = strconv.AppendInt(b, r.GetTimings().GetTotal().AsDuration().Milliseconds(), 10)
	} else {
		b = append(b, '-')
	}
	b = word(b, o.GetPayloadDigest())
	b = append(b, " -"...)
	notes := append(append([]string{}, r.GetAnnotations()...), o.GetAnnotations()...)
	if lease.GetAttempt() > 1 {
		notes = append(notes, fmt.Sprintf("%dt", lease.GetAttempt()))
	}
	if r.GetTruncated() != "" {
		notes = append(notes, r.GetTruncated()+"Trunc")
	}
	if e := r.GetError(); e != "" {
		code, _, _ := strings.Cut(e, ":")
		notes = append(notes, code)
	}
	b = word(b, strings.Join(notes, ","))
	return append(b, '\n')
}

// word appends a column: a value never holds white space or control bytes, so
// that a hostile one cannot make columns or lines.
func word(b []byte, s string) []byte {
	b = append(b, ' ')
	if s == "" {
		return append(b, '-')
	}
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c == 0x7f {
			c = '_'
		}
		b = append(b, c)
	}
	return b
}

func padInt(b []byte, n int64, width int) []byte {
	digits := strconv.FormatInt(n, 10)
	for range width - len(digits) {
		b = append(b, ' ')
	}
	return append(b, digits...)
}

func padded(b []byte, n int64, width int) []byte {
	digits := strconv.FormatInt(n, 10)
	for range width - len(digits) {
		b = append(b, '0')
	}
	return append(b, digits...)
}
