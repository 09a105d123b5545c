package testweb

import (
	"fmt"
	"net/http"
	"sort"
	"testing"
	"time"
)

// Request is one line of the request log.
type Request struct {
	// Host is the host as sent, with its port; Name is it without.
	Host, Name string
	// Method and Path are of the request line; Path has the query.
	Method, Path string
	// Header is what the client sent.
	Header http.Header
	// Remote is the client's address, Conn counts the server's connections.
	Remote string
	Conn   int64
	// Start is when the request's head had been read, End when the last bytes
	// of the response were about to leave, or when the client had gone. Both
	// have the monotonic clock. End is zero while the request is worked on.
	Start, End time.Time
	// Status and Bytes are what was sent, the body as coded.
	Status int
	Bytes  int64
	// Whole is whether all of the response was handed to the connection.
	Whole bool
}

func (s *Server) begin(r *http.Request) int {
	conn, _ := r.Context().Value(connKey{}).(int64)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, Request{
		Host: r.Host, Name: hostname(r.Host), Method: r.Method, Path: requestPath(r), Header: r.Header.Clone(),
		Remote: r.RemoteAddr, Conn: conn, Start: time.Now(),
	})
	return len(s.log) - 1
}

func (s *Server) end(index, status int, sent int64, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &s.log[index]
	if q.End.IsZero() {
		q.End = time.Now()
	}
	q.Status, q.Bytes, q.Whole = status, sent, whole
}

// Requests returns a copy of the log in the order in which requests began.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.log...)
}

// Fetched returns the requests to a host, by its name without port.
func (s *Server) Fetched(host string) []Request {
	var out []Request
	for _, q := range s.Requests() {
		if q.Name == host {
			out = append(out, q)
		}
	}
	return out
}

// Counts says how often each path of a host was asked for.
func (s *Server) Counts(host string) map[string]int {
	out := map[string]int{}
	for _, q := range s.Fetched(host) {
		out[q.Path]++
	}
	return out
}

// ByHost is the clock of politeness between fetches of one host and port.
func ByHost(q Request) string { return q.Host }

// ByAny puts all requests under one clock, that of the server's address.
func ByAny(Request) string { return "" }

// Gap is the time between two requests under one clock that follow each other.
type Gap struct {
	// Key is the clock.
	Key string
	// Wait runs from the end of First to the start of Next; it is negative
	// where they overlapped.
	Wait        time.Duration
	First, Next Request
}

// String tells the gap for people.
func (g Gap) String() string {
	return fmt.Sprintf("%s: %s between the end of %s and the start of %s", g.Key, g.Wait, g.First.Path, g.Next.Path)
}

// Gaps returns the gaps between requests that follow each other under each
// clock, the shortest first. A request still worked on counts as ending now.
// The end that counts is the latest of all requests before, so a long request
// with short ones inside hides nothing.
func Gaps(log []Request, clock func(Request) string) []Gap {
	sort.SliceStable(log, func(i, j int) bool { return log[i].Start.Before(log[j].Start) })
	now := time.Now()
	last := map[string]Request{}
	var gaps []Gap
	for _, q := range log {
		if q.End.IsZero() {
			q.End = now
		}
		key := clock(q)
		before, ok := last[key]
		if ok {
			gaps = append(gaps, Gap{Key: key, Wait: q.Start.Sub(before.End), First: before, Next: q})
		}
		if !ok || q.End.After(before.End) {
			last[key] = q
		}
	}
	sort.SliceStable(gaps, func(i, j int) bool { return gaps[i].Wait < gaps[j].Wait })
	return gaps
}

// MinGap is the shortest gap under any clock; false if there is none.
func (s *Server) MinGap(clock func(Request) string) (Gap, bool) {
	gaps := Gaps(s.Requests(), clock)
	if len(gaps) == 0 {
		return Gap{}, false
	}
	return gaps[0], true
}

// CheckSpacing fails the test where two requests under one clock are closer
// than least, and when there are no two requests to compare.
func (s *Server) CheckSpacing(tb testing.TB, clock func(Request) string, least time.Duration) {
	tb.Helper()
	gaps := Gaps(s.Requests(), clock)
	if len(gaps) == 0 {
		tb.Error("the server saw no two requests under one clock: their spacing cannot be checked")
	}
	for i, g := range gaps {
		if g.Wait >= least {
			break
		}
		if i == 10 {
			tb.Errorf("and more of %d gaps", len(gaps))
			break
		}
		tb.Errorf("too close: %s, must be at least %s", g, least)
	}
}
