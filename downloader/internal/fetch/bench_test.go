package fetch_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

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
// that a server's work does not count as the client's.
func TestBenchServer(t *testing.T) {
	if os.Getenv(benchServer) == "" {
		t.Skip("runs only as the server of BenchmarkFetch")
	}
	page := "HTTP/1.1 200 OK\r\nServer: bench\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 20480\r\n\r\n" + strings.Repeat("0123456789abcdef", 1280)
	s := serve(t, func(c *peer, _ int) {
		for c.request() != "" {
			c.say(page)
		}
	})
	_, _ = os.Stdout.WriteString("listening " + s.addr.String() + "\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
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

// BenchmarkFetch compares the CPU of a kept-alive fetch of a 20 KB page with
// that of a bare net/http loop, in one run against the same server.
func BenchmarkFetch(b *testing.B) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestBenchServer$")
	cmd.Env = append(os.Environ(), benchServer+"=1")
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	var line [64]byte
	n, err := out.Read(line[:])
	if err != nil {
		b.Fatal(err)
	}
	go io.Copy(io.Discard, out)
	addr := strings.TrimSpace(strings.TrimPrefix(string(line[:n]), "listening "))
	target, err := fetch.ParseTarget("http://" + addr + "/some/path/to/a/page.html")
	if err != nil {
		b.Fatal(err)
	}
	s := &server{}
	if err := s.addr.UnmarshalText([]byte(addr)); err != nil {
		b.Fatal(err)
	}
	measure := func(b *testing.B, one func()) {
		b.ReportAllocs()
		start := cpu()
		for b.Loop() {
			one()
		}
		b.ReportMetric(float64((cpu()-start).Nanoseconds())/float64(b.N)/1000, "cpu-µs/op")
	}
	b.Run("engine", func(b *testing.B) {
		e := engine(b, config())
		req := request(b, s, "")
		req.Target = target
		end := time.Now().Add(time.Hour)
		req.Until = func() time.Time { return end }
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var sink release
		measure(b, func() {
			if res := e.Fetch(ctx, req, &sink); res.Class != fetch.ClassResponse || sink.n != 20480 {
				b.Fatalf("%+v", res)
			}
			sink.done()
		})
	})
	b.Run("net-http", func(b *testing.B) {
		tr := &http.Transport{DisableCompression: true}
		defer tr.CloseIdleConnections()
		client := &http.Client{Transport: tr}
		buf := make([]byte, 32<<10)
		measure(b, func() {
			resp, err := client.Get("http://" + addr + "/some/path/to/a/page.html")
			if err != nil {
				b.Fatal(err)
			}
			for {
				if _, err := resp.Body.Read(buf); err != nil {
					break
				}
			}
			resp.Body.Close()
		})
	})
}
