package fetch_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"lycosa.dev/downloader/internal/bufpool"
	"lycosa.dev/downloader/internal/fetch"
)

// cpu is what this process has used.
func cpu() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

const benchServer = "LYCOSA_BENCH_SERVER"

// TestBenchServer is no test: it is the other process of the benchmarks, so
// that a server's work does not count as the client's. It serves a 20 KB page
// in the clear and over TLS, and a port that never answers.
func TestBenchServer(t *testing.T) {
	if os.Getenv(benchServer) == "" {
		t.Skip("runs only as the server of benchmarks")
	}
	body := strings.Repeat("0123456789abcdef", 1280)
	page := "HTTP/1.1 200 OK\r\nServer: bench\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 20480\r\n\r\n" + body
	plain := serve(t, func(c *peer, _ int) {
		for c.request() != "" {
			c.say(page)
		}
	})
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "20480")
		_, _ = io.WriteString(w, body)
	}))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer secure.Close()
	silent := serve(t, func(c *peer, _ int) { c.wait() })
	fmt.Println("listening", plain.addr, secure.Listener.Addr(), silent.addr)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// otherProcess starts the server and returns its addresses.
func otherProcess(tb testing.TB) (plain, secure, silent netip.AddrPort) {
	tb.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestBenchServer$")
	cmd.Env = append(os.Environ(), benchServer+"=1")
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	r := bufio.NewReader(out)
	line, err := r.ReadString('\n')
	if err != nil {
		tb.Fatal(err)
	}
	drained := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, r); close(drained) }()
	tb.Cleanup(func() { in.Close(); <-drained; _ = cmd.Wait() })
	f := strings.Fields(line)
	return netip.MustParseAddrPort(f[1]), netip.MustParseAddrPort(f[2]), netip.MustParseAddrPort(f[3])
}

// release is a Sink that forgets, as the ring does once a page is answered.
type release struct {
	buffers []*bufpool.Buffer
	n       int
}

func (r *release) Own(b *bufpool.Buffer)     { r.buffers = append(r.buffers, b) }
func (r *release) Head(_, head []byte) error { return nil }
func (r *release) Body(b []byte) error       { r.n += len(b); return nil }
func (r *release) done() {
	for _, b := range r.buffers {
		b.Release()
	}
	r.buffers, r.n = r.buffers[:0], 0
}

// BenchmarkFetch compares the CPU of a fetch of a 20 KB page with that of bare
// net/http and fasthttp loops, in one run against the same server: kept-alive
// over HTTP/1.1, HTTP/1.1 over TLS and HTTP/2, and with a new connection for
// every page, whose TLS session is resumed or not.
func BenchmarkFetch(b *testing.B) {
	plain, secure, _ := otherProcess(b)
	const path = "/some/path/to/a/page.html"
	// The certificate of every httptest server is the same.
	own := httptest.NewUnstartedServer(nil)
	own.StartTLS()
	roots := x509.NewCertPool()
	roots.AddCert(own.Certificate())
	own.Close()
	measure := func(b *testing.B, one func()) {
		one() // connects
		b.ReportAllocs()
		start := cpu()
		for b.Loop() {
			one()
		}
		b.ReportMetric(float64((cpu()-start).Nanoseconds())/float64(b.N)/1000, "cpu-µs/op")
	}
	for _, c := range []struct {
		name          string
		addr          netip.AddrPort
		tls, h2, keep bool
		sessions      int
	}{
		{"http1", plain, false, false, true, 0},
		{"http1-tls", secure, true, false, true, 0},
		{"http2", secure, true, true, true, 0},
		{"http1-tls-new-resumed", secure, true, false, false, 64},
		{"http1-tls-new-full", secure, true, false, false, 0},
	} {
		url := "http://" + c.addr.String() + path
		if c.tls {
			url = "https" + strings.TrimPrefix(url, "http")
		}
		tlsConfig := func() *tls.Config {
			cfg := &tls.Config{RootCAs: roots}
			if c.sessions > 0 {
				cfg.ClientSessionCache = tls.NewLRUClientSessionCache(c.sessions)
			}
			return cfg
		}
		b.Run(c.name+"/engine", func(b *testing.B) {
			cfg := config()
			cfg.RootCAs, cfg.HTTP2, cfg.TLSSessions = roots, c.h2, c.sessions
			if !c.keep {
				cfg.KeepAlive = 0
			}
			e := engine(b, cfg)
			target, err := fetch.ParseTarget(url)
			if err != nil {
				b.Fatal(err)
			}
			end := time.Now().Add(time.Hour)
			req := &fetch.Request{Target: target, Addresses: []netip.Addr{c.addr.Addr()}, Until: func() time.Time { return end }}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var sink release
			measure(b, func() {
				if res := e.Fetch(ctx, req, &sink); res.Class != fetch.ClassResponse || sink.n != 20480 || (res.Protocol == "h2") != c.h2 {
					b.Fatalf("%+v", res)
				}
				sink.done()
			})
			if st := e.Stats(); c.sessions > 0 && st.Resumed < st.Handshakes-1 {
				b.Errorf("%+v", st)
			}
		})
		b.Run(c.name+"/net-http", func(b *testing.B) {
			tr := &http.Transport{DisableCompression: true, TLSClientConfig: tlsConfig(), ForceAttemptHTTP2: c.h2, DisableKeepAlives: !c.keep}
			defer tr.CloseIdleConnections()
			client := &http.Client{Transport: tr}
			buf := make([]byte, 32<<10)
			measure(b, func() {
				resp, err := client.Get(url)
				if err != nil {
					b.Fatal(err)
				}
				for err == nil {
					_, err = resp.Body.Read(buf)
				}
				resp.Body.Close()
			})
		})
		if c.h2 {
			continue // fasthttp has none
		}
		b.Run(c.name+"/fasthttp", func(b *testing.B) {
			client := &fasthttp.HostClient{
				Addr: c.addr.String(), IsTLS: c.tls, TLSConfig: tlsConfig(), MaxIdleConnDuration: time.Second,
				Dial: func(addr string) (net.Conn, error) { return net.Dial("tcp", addr) },
			}
			defer client.CloseIdleConnections()
			req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
			req.SetRequestURI(url)
			if !c.keep {
				req.SetConnectionClose()
			}
			measure(b, func() {
				if err := client.Do(req, resp); err != nil || len(resp.Body()) != 20480 {
					b.Fatal(err)
				}
			})
		})
	}
}

// memory is the resident memory and the number of threads of this process.
func memory(tb testing.TB) (rss int64, threads int) {
	tb.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		tb.Skip("no /proc here")
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		_, _ = fmt.Sscanf(line, "VmRSS: %d kB", &rss)
		_, _ = fmt.Sscanf(line, "Threads: %d", &threads)
	}
	return rss << 10, threads
}

// slowServers has n fetches wait for a server that does not answer, and returns
// what one of them costs in resident memory, and the threads there are.
func slowServers(tb testing.TB, n int) (bytesEach int64, threads int) {
	tb.Helper()
	var limit syscall.Rlimit
	if _ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); limit.Cur < uint64(n+200) {
		tb.Skipf("needs %d open files, %d are allowed", n+200, limit.Cur)
	}
	_, _, silent := otherProcess(tb)
	cfg := config()
	cfg.FirstByteTimeout, cfg.ConnectTimeout = 5*time.Minute, time.Minute
	e := engine(tb, cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan fetch.Result, n)
	before, _ := memory(tb)
	for i := range n {
		req := &fetch.Request{Target: fetch.Target{Authority: fmt.Sprintf("h%d.test", i), Host: "h.test", Port: silent.Port(), Path: "/"}, Addresses: []netip.Addr{silent.Addr()}}
		go func() { done <- e.Fetch(ctx, req, &release{}) }()
		if i%200 == 199 { // as the server's queue takes them
			for e.Stats().Dials < int64(i-100) {
				time.Sleep(time.Millisecond)
			}
		}
	}
	for deadline := time.Now().Add(time.Minute); e.Stats().Dials < int64(n); {
		if time.Now().After(deadline) {
			tb.Fatalf("%d of %d connections", e.Stats().Dials, n)
		}
		time.Sleep(10 * time.Millisecond)
	}
	after, threads := memory(tb)
	cancel()
	for range n {
		if res := <-done; res.Class != fetch.ClassCancelled && res.Class != fetch.ClassNotStarted {
			tb.Errorf("%+v", res)
		}
	}
	return (after - before) / int64(n), threads
}

// A server that does not answer holds a goroutine and a small buffer, and no
// thread.
func TestSlowServersHoldNoThread(t *testing.T) {
	if testing.Short() {
		t.Skip("opens 1,000 connections")
	}
	each, threads := slowServers(t, 1000)
	// About 15 KB; the race detector multiplies it.
	if each > 128<<10 || threads > 64 {
		t.Errorf("%d bytes each, %d threads", each, threads)
	}
}

// BenchmarkSlowServers reports the memory of 10,000 fetches that wait at once.
func BenchmarkSlowServers(b *testing.B) {
	for b.Loop() {
		each, threads := slowServers(b, 10000)
		b.ReportMetric(float64(each), "B/server")
		b.ReportMetric(float64(threads), "threads")
	}
}
