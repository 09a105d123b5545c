package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
)

// Stats is what the server has seen since it was last asked to reset.
type Stats struct {
	// Pages is how many pages were served, Distinct how many different ones.
	Pages    int64 `json:"pages"`
	Distinct int64 `json:"distinct"`
	// Robots is how often a robots.txt was served, Other how many requests
	// were for what there is not.
	Robots int64 `json:"robots"`
	Other  int64 `json:"other"`
	// Connections is how many were accepted.
	Connections int64 `json:"connections"`
	// Bytes is what was written.
	Bytes int64 `json:"bytes"`
}

// Paths that the measuring side asks for, on any host.
const (
	StatsPath = "/-/stats"
	ResetPath = "/-/reset"
)

// Server serves the web. Make one with Listen.
type Server struct {
	site *site
	lis  net.Listener
	seen []atomic.Bool

	pages, distinct, robots, other, connections, bytes atomic.Int64

	mu    sync.Mutex
	conns map[net.Conn]bool
}

// Listen builds the web and opens its listener.
func Listen(addr string, cfg Config) (*Server, error) {
	lis, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("bench web: %w", err)
	}
	_, port, _ := net.SplitHostPort(lis.Addr().String())
	cfg = cfg.withDefaults()
	return &Server{site: build(cfg, port), lis: lis, seen: make([]atomic.Bool, cfg.Hosts*cfg.Pages), conns: map[net.Conn]bool{}}, nil
}

// Addr is the address that the server listens on.
func (s *Server) Addr() string { return s.lis.Addr().String() }

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		_ = s.lis.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			_ = c.Close()
		}
	})
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		conn, err := s.lis.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return fmt.Errorf("bench web: %w", err)
		}
		s.connections.Add(1)
		s.mu.Lock()
		s.conns[conn] = true
		s.mu.Unlock()
		if ctx.Err() != nil {
			_ = conn.Close()
		}
		wg.Go(func() {
			s.serve(conn)
			s.mu.Lock()
			delete(s.conns, conn)
			s.mu.Unlock()
			_ = conn.Close()
		})
	}
}

// maxHead bounds a request.
const maxHead = 16 << 10

// serve answers the requests of one connection, pipelined ones too.
func (s *Server) serve(conn net.Conn) {
	buf := make([]byte, 0, maxHead)
	var out net.Buffers
	for {
		end := bytes.Index(buf, []byte("\r\n\r\n"))
		if end < 0 {
			if len(buf) == cap(buf) {
				return
			}
			n, err := conn.Read(buf[len(buf):cap(buf)])
			if err != nil {
				return
			}
			buf = buf[:len(buf)+n]
			continue
		}
		head := buf[:end+2]
		out = s.answer(out[:0], head)
		closing := bytes.Contains(head, []byte("onnection: close"))
		parts := out
		n, err := parts.WriteTo(conn)
		s.bytes.Add(n)
		if err != nil || closing {
			return
		}
		buf = buf[:copy(buf, buf[end+4:])]
	}
}

var robotsTxt = respond("200 OK", "text/plain", "User-agent: *\nDisallow: /private/\n")
var notFound = respond("404 Not Found", "text/html", "<title>not here</title>\n")

func respond(status, contentType, body string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", status, contentType, len(body), body)
}

// answer appends the response to one request.
func (s *Server) answer(out net.Buffers, head []byte) net.Buffers {
	line, fields, _ := bytes.Cut(head, []byte("\r\n"))
	method, rest, _ := bytes.Cut(line, []byte(" "))
	path, _, _ := bytes.Cut(rest, []byte(" "))
	if string(method) != "GET" {
		s.other.Add(1)
		return append(out, notFound)
	}
	if p := s.site.hosts[hostOf(fields)][string(path)]; p != nil {
		s.pages.Add(1)
		if !s.seen[p.id].Load() && s.seen[p.id].CompareAndSwap(false, true) {
			s.distinct.Add(1)
		}
		return append(out, p.head, p.own, p.menu, p.text)
	}
	switch string(path) {
	case "/robots.txt":
		s.robots.Add(1)
		return append(out, robotsTxt)
	case StatsPath:
		body, _ := json.Marshal(s.Stats())
		return append(out, respond("200 OK", "application/json", string(body)))
	case ResetPath:
		s.reset()
		return append(out, respond("200 OK", "text/plain", "reset\n"))
	}
	s.other.Add(1)
	return append(out, notFound)
}

// hostOf is the name in the Host field, without the port.
func hostOf(fields []byte) string {
	for len(fields) > 0 {
		var line []byte
		line, fields, _ = bytes.Cut(fields, []byte("\r\n"))
		if len(line) > 5 && line[4] == ':' && strings.EqualFold(string(line[:4]), "host") {
			name, _, _ := bytes.Cut(bytes.TrimSpace(line[5:]), []byte(":"))
			return string(name)
		}
	}
	return ""
}

// Stats returns the counts.
func (s *Server) Stats() Stats {
	return Stats{
		Pages: s.pages.Load(), Distinct: s.distinct.Load(), Robots: s.robots.Load(), Other: s.other.Load(),
		Connections: s.connections.Load(), Bytes: s.bytes.Load(),
	}
}

func (s *Server) reset() {
	for i := range s.seen {
		s.seen[i].Store(false)
	}
	for _, c := range []*atomic.Int64{&s.pages, &s.distinct, &s.robots, &s.other, &s.connections, &s.bytes} {
		c.Store(0)
	}
}
