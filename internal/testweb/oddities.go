package testweb

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Action is one step of a scripted answer: a verb and its arguments, as the
// rows of http-oddities.jsonl spell them.
//
//	send B64                bytes, in one write ("HOST" is replaced by the request's Host)
//	repeat B64 N SECONDS    the bytes N times, with a pause after each
//	sleep SECONDS           silence; ends early when the client goes
//	close                   an orderly end of the connection
//	half_close              the same for what the server sends; it goes on listening
//	reset                   RST
//	cookie_gate B64 B64     the first answer until the request carries a cookie, then the second
//	count_gate N B64 B64    the first answer N times, then the second
//	chain N                 N redirects, each to the next, and then a page
//
// Numbers are float64, as encoding/json decodes them.
type Action []any

// Oddity is one server behaviour and what is to come of it. The rows of
// http-oddities.jsonl decode into it.
type Oddity struct {
	// ID names the behaviour; its path is "/case/" + ID.
	ID string `json:"id"`
	// Actions are what the server does upon a request.
	Actions []Action `json:"actions"`
	// Expect says in words what is right.
	Expect string `json:"expect"`
	// Outcome is a word of the case file: ok, error, partial_or_retry, timeout …
	Outcome string `json:"outcome"`
	// Next is the request target that a redirect leads to.
	Next string `json:"next"`
	// BodyLen is the length of the body with its codings undone; 0: not said.
	BodyLen int `json:"body_len"`
	// Links are the links that must be found.
	Links []string `json:"links"`
	// MinGapSeconds is the least time between two requests of this host.
	MinGapSeconds float64 `json:"min_gap_s"`

	// Class, Code, Status, Truncated and Notes are what the downloader reports
	// of the behaviours of WebOddities: class and code of a failure, status,
	// WARC-Truncated reason, and annotations that must be there.
	Class, Code string
	Status      int
	Truncated   string
	Notes       []string
	// Body is the body as it must be handed on; "-": not compared.
	Body string
}

// Exchange is one request that the server of oddities got, and its answer.
type Exchange struct {
	// At is when the request was complete.
	At time.Time
	// Conn counts the connections from 1.
	Conn int
	// Request is the request's bytes, Target its target.
	Request, Target string
	// Sent is what was written to the connection in answer, or was to be when
	// the client went; of long answers, the first 4 MiB.
	Sent []byte
}

// OddServer is a web server that answers by script, byte for byte.
type OddServer struct {
	tb   testing.TB
	addr net.Addr
	wg   sync.WaitGroup

	mu      sync.Mutex
	scripts map[string][]Action
	counts  map[string]int
	log     []*Exchange
	open    map[net.Conn]bool
	conns   int
	closed  bool
}

// OddPage is the page that good answers carry: 99 bytes with one link.
const OddPage = `<html><head><title>T</title></head><body><p>hello</p><a href="/ok/next.html">next</a></body></html>`

// StartOddities serves the given behaviours on a loopback port until the test
// ends. Targets below /ok/ answer OddPage, others 404. A TLS configuration
// makes it https.
func StartOddities(tb testing.TB, secure *tls.Config, cases ...Oddity) *OddServer {
	tb.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("testweb: %v", err)
	}
	s := &OddServer{tb: tb, addr: lis.Addr(), scripts: map[string][]Action{}, counts: map[string]int{}, open: map[net.Conn]bool{}}
	for _, c := range cases {
		s.Script("/case/"+c.ID, c.Actions...)
	}
	s.wg.Go(func() {
		for {
			tcp, err := lis.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			if s.closed {
				s.mu.Unlock()
				_ = tcp.Close()
				return
			}
			s.open[tcp] = true
			s.conns++
			n := s.conns
			s.mu.Unlock()
			s.wg.Go(func() {
				c := &oddConn{s: s, Conn: tcp, tcp: tcp.(*net.TCPConn), n: n}
				if secure != nil {
					c.Conn = tls.Server(tcp, secure)
				}
				c.serve()
				_ = tcp.Close()
				s.mu.Lock()
				delete(s.open, tcp)
				s.mu.Unlock()
			})
		}
	})
	tb.Cleanup(func() {
		_ = lis.Close()
		s.mu.Lock()
		s.closed = true
		for c := range s.open {
			_ = c.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

// Script sets what the server does upon requests for a target (any query).
func (s *OddServer) Script(target string, actions ...Action) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[target] = actions
}

// Addr is the address that the server listens on.
func (s *OddServer) Addr() *net.TCPAddr { return s.addr.(*net.TCPAddr) }

// Conns is how many connections were made.
func (s *OddServer) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

// Log returns the exchanges so far, in the order of their requests.
func (s *OddServer) Log() []Exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Exchange, len(s.log))
	for i, e := range s.log {
		out[i] = *e
		out[i].Sent = bytes.Clone(e.Sent)
	}
	return out
}

// oddConn is one connection of an OddServer.
type oddConn struct {
	net.Conn
	s    *OddServer
	tcp  *net.TCPConn
	r    *bufio.Reader
	n    int
	host string
	now  *Exchange
}

// serve answers requests until a script ends the connection.
func (c *oddConn) serve() {
	c.r = bufio.NewReader(c.Conn)
	for {
		var req strings.Builder
		for {
			line, err := c.r.ReadString('\n')
			req.WriteString(line)
			if err != nil {
				return
			}
			if line == "\r\n" {
				break
			}
		}
		c.now = &Exchange{At: time.Now(), Conn: c.n, Request: req.String()}
		if f := strings.Fields(req.String()); len(f) > 1 {
			c.now.Target = f[1]
		}
		c.host = headerOf(c.now.Request, "Host")
		path, query, _ := strings.Cut(c.now.Target, "?")
		c.s.mu.Lock()
		c.s.log = append(c.s.log, c.now)
		actions, ok := c.s.scripts[path]
		n := c.s.counts[path]
		c.s.counts[path]++
		c.s.mu.Unlock()
		if !ok {
			if strings.HasPrefix(path, "/ok/") {
				actions = []Action{Say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s", len(OddPage), OddPage))}
			} else {
				actions = []Action{Say("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")}
			}
		}
		for _, a := range actions {
			if !c.play(a, path, query, n) {
				return
			}
		}
	}
}

// play does one action; false ends the connection.
func (c *oddConn) play(a Action, path, query string, n int) bool {
	switch a[0] {
	case "send":
		return c.send(bytesOf(a[1]))
	case "repeat":
		for range int(a[2].(float64)) {
			if !c.send(bytesOf(a[1])) || !c.pause(a[3].(float64)) {
				return false
			}
		}
	case "sleep":
		return c.pause(a[1].(float64))
	case "close":
		return false
	case "half_close":
		if t, ok := c.Conn.(*tls.Conn); ok {
			_ = t.CloseWrite()
		}
		_ = c.tcp.CloseWrite()
		_, _ = io.Copy(io.Discard, c.r)
		return false
	case "reset":
		_ = c.tcp.SetLinger(0)
		return false
	case "cookie_gate":
		i := 1
		if headerOf(c.now.Request, "Cookie") != "" {
			i = 2
		}
		return c.send(bytesOf(a[i])) && false
	case "count_gate":
		i := 2
		if n >= int(a[1].(float64)) {
			i = 3
		}
		return c.send(bytesOf(a[i])) && false
	case "chain":
		hop, _ := strconv.Atoi(strings.TrimPrefix(query, "hop="))
		if hop < int(a[1].(float64)) {
			return c.send([]byte(fmt.Sprintf("HTTP/1.1 302 Found\r\nLocation: %s?hop=%d\r\nContent-Length: 0\r\n\r\n", path, hop+1)))
		}
		return c.send([]byte(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(OddPage), OddPage)))
	default:
		c.s.tb.Errorf("testweb: %s: the verb %v is not known", path, a[0])
		return false
	}
	return true
}

func (c *oddConn) send(b []byte) bool {
	b = bytes.ReplaceAll(b, []byte("//HOST/"), []byte("//"+c.host+"/"))
	c.s.mu.Lock()
	// Noted before it leaves, so that a client never has more than the log. An
	// endless body is not kept whole.
	if len(c.now.Sent) < 4<<20 {
		c.now.Sent = append(c.now.Sent, b...)
	}
	c.s.mu.Unlock()
	_, err := c.Write(b)
	return err == nil
}

// pause is silent for a time; false if the client went away meanwhile.
func (c *oddConn) pause(seconds float64) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Duration(seconds * float64(time.Second))))
	_, err := c.r.Peek(1)
	_ = c.SetReadDeadline(time.Time{})
	ne, timeout := err.(net.Error)
	return err == nil || (timeout && ne.Timeout())
}

// Say, Repeat, Sleep, Close and Reset make actions in Go.
func Say(s string) Action {
	return Action{"send", base64.StdEncoding.EncodeToString([]byte(s))}
}

// Repeat sends s n times with a pause after each.
func Repeat(s string, n int, pause time.Duration) Action {
	return Action{"repeat", base64.StdEncoding.EncodeToString([]byte(s)), float64(n), pause.Seconds()}
}

// Sleep is silent for d.
func Sleep(d time.Duration) Action { return Action{"sleep", d.Seconds()} }

// Close ends the connection.
func Close() Action { return Action{"close"} }

// Reset resets the connection.
func Reset() Action { return Action{"reset"} }

func bytesOf(v any) []byte {
	b, err := base64.StdEncoding.DecodeString(v.(string))
	if err != nil {
		panic(err) // a mistake of the test
	}
	return b
}

// headerOf returns a header line's value of a request.
func headerOf(request, name string) string {
	for line := range strings.SplitSeq(request, "\r\n") {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.EqualFold(k, name) {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
