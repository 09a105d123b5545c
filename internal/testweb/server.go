package testweb

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is a running web of virtual hosts on one loopback port.
type Server struct {
	addr string

	mu    sync.Mutex
	hosts map[string]*Host
	log   []Request
	conns int64

	handlers sync.WaitGroup
}

// Host is one virtual host. Its pages may change while the server runs.
type Host struct {
	server *Server
	name   string
	pages  map[string]Page
	served map[string]int
	every  func(path string) (Page, bool)
}

type connKey struct{}

// Start serves on a loopback port of its own until the test ends.
func Start(tb testing.TB) *Server {
	tb.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("testweb: %v", err)
	}
	s := &Server{addr: lis.Addr().String(), hosts: map[string]*Host{}}
	srv := &http.Server{
		Handler:  http.HandlerFunc(s.handle),
		ErrorLog: log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.conns++
			return context.WithValue(ctx, connKey{}, s.conns)
		},
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(lis)
	}()
	tb.Cleanup(func() {
		_ = srv.Close()
		<-done
		s.handlers.Wait()
	})
	return s
}

// Addr is the address that the server listens on.
func (s *Server) Addr() string { return s.addr }

// Port is the port of Addr.
func (s *Server) Port() string {
	_, port, _ := net.SplitHostPort(s.addr)
	return port
}

// URL is the URL of a path on a virtual host of this server.
func (s *Server) URL(host, path string) string {
	return "http://" + net.JoinHostPort(host, s.Port()) + path
}

// Host returns a virtual host by its name (no port) and makes it if it is new.
// The name "*" stands for every host that is not named. A host that nobody made
// answers 421.
func (s *Server) Host(name string) *Host {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hosts[name]
	if h == nil {
		h = &Host{server: s, name: name, pages: map[string]Page{}, served: map[string]int{}}
		s.hosts[name] = h
	}
	return h
}

// URL is the URL of a path on this host.
func (h *Host) URL(path string) string { return h.server.URL(h.name, path) }

// Page says what a path (with its query, as in the request line) answers, and
// returns the host, so that calls chain.
func (h *Host) Page(path string, p Page) *Host {
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	h.pages[path] = p
	h.served[path] = 0
	return h
}

// Every is asked for paths that have no page of their own; false answers 404.
// It must not call the server.
func (h *Host) Every(f func(path string) (Page, bool)) *Host {
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	h.every = f
	return h
}

// Robots serves text as /robots.txt.
func (h *Host) Robots(text string) *Host { return h.Page("/robots.txt", Text(text)) }

// Sitemap serves a sitemap of absolute URLs at a path.
func (h *Host) Sitemap(path string, urls ...string) *Host {
	entries := make([]Listed, len(urls))
	for i, u := range urls {
		entries[i].URL = u
	}
	return h.SitemapOf(path, entries...)
}

// Listed is an entry of a sitemap.
type Listed struct {
	// URL is absolute.
	URL string
	// LastMod is when it was changed last; zero: not said.
	LastMod time.Time
}

// SitemapOf serves a sitemap of entries at a path.
func (h *Host) SitemapOf(path string, entries ...Listed) *Host {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">` + "\n")
	for _, e := range entries {
		b.WriteString("<url><loc>" + strings.ReplaceAll(e.URL, "&", "&amp;") + "</loc>")
		if !e.LastMod.IsZero() {
			b.WriteString("<lastmod>" + e.LastMod.UTC().Format(time.RFC3339) + "</lastmod>")
		}
		b.WriteString("</url>\n")
	}
	b.WriteString("</urlset>\n")
	return h.Page(path, Page{Type: "application/xml", Body: []byte(b.String())})
}

// find returns the answer to the next request for a path.
func (s *Server) find(host, path string) (Page, bool) {
	s.mu.Lock()
	h := s.hosts[host]
	if h == nil {
		h = s.hosts["*"]
	}
	if h == nil {
		s.mu.Unlock()
		return Status(http.StatusMisdirectedRequest), true
	}
	p, ok := h.pages[path]
	if ok {
		if n := h.served[path]; n > 0 && len(p.Then) > 0 {
			p = p.Then[min(n, len(p.Then))-1]
		}
		h.served[path]++
		s.mu.Unlock()
		return p, true
	}
	every := h.every
	s.mu.Unlock()
	if every != nil {
		return every(path)
	}
	return Page{}, false
}

func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	s.handlers.Add(1)
	defer s.handlers.Done()
	index := s.begin(r)
	status, sent, whole := 0, int64(0), false
	// The end is noted before the last bytes leave: a client that waits from
	// the end of its fetch never seems to have waited less than it did.
	defer func() { s.end(index, status, sent, whole) }()

	p, ok := s.find(hostname(r.Host), requestPath(r))
	if !ok {
		p = Status(http.StatusNotFound)
	}
	if p.Delay > 0 && !wait(r.Context(), p.Delay) {
		return
	}
	if p.Raw != nil {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		s.end(index, 0, int64(len(p.Raw)), true)
		n, err := conn.Write(p.Raw)
		sent, whole = int64(n), err == nil
		return
	}
	status, sent, whole = s.send(w, r, p)
}

// send writes a page's response.
func (s *Server) send(w http.ResponseWriter, r *http.Request, p Page) (status int, sent int64, whole bool) {
	status = p.Status
	if status == 0 {
		status = http.StatusOK
	}
	body, err := p.encoded()
	if err != nil {
		panic(err) // a mistake of the test
	}
	h := w.Header()
	for k, v := range p.Header {
		h[k] = v
	}
	switch p.Type {
	case "":
		h.Set("Content-Type", "text/html; charset=utf-8")
	case "-":
		h["Content-Type"] = nil
	default:
		h.Set("Content-Type", p.Type)
	}
	if p.Coding != "" {
		h.Set("Content-Encoding", p.Coding)
	}
	if p.Close {
		h.Set("Connection", "close")
	}
	if !p.Chunked {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return status, 0, true
	}
	flush := func() { _ = http.NewResponseController(w).Flush() }
	if p.Chunked {
		flush()
	}
	if p.Cut > 0 && p.Cut < len(body) {
		_, _ = w.Write(body[:p.Cut])
		flush()
		// Closes the connection. The log then has no counts of this request and
		// calls it not whole, which it is.
		panic(http.ErrAbortHandler)
	}
	half := len(body)
	if p.BodyDelay > 0 {
		half /= 2
	}
	for i := 0; i < len(body); {
		if i == half && p.BodyDelay > 0 {
			flush()
			if !wait(r.Context(), p.BodyDelay) {
				return status, sent, false
			}
		}
		next := len(body)
		if i < half {
			next = half
		}
		if p.Chunked {
			next = min(next, i+700)
		}
		n, err := w.Write(body[i:next])
		sent += int64(n)
		if err != nil {
			return status, sent, false
		}
		if p.Chunked && next < len(body) {
			flush()
		}
		i = next
	}
	return status, sent, true
}

// wait returns false if the client went away meanwhile.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func hostname(hostport string) string {
	u := url.URL{Host: hostport}
	return strings.ToLower(u.Hostname())
}

func requestPath(r *http.Request) string {
	if u, err := url.Parse(r.RequestURI); err == nil && u.IsAbs() {
		return u.RequestURI()
	}
	return r.RequestURI
}
