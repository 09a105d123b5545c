package warc_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"lycosa.dev/internal/warc"
)

// benchBody is a page of 20 KB: prose of some 3000 words in a Zipf
// distribution, in markup, with 40 links.
func benchBody(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 99))
	zipf := rand.NewZipf(r, 1.15, 3, 2999)
	word := func() string {
		n, s := zipf.Uint64()+7, ""
		for n > 0 {
			s += [...]string{"an", "e", "ri", "to", "sed", "lo", "ur", "ti", "ma", "in", "co", "ve"}[n%12]
			n /= 12
		}
		return s
	}
	var b bytes.Buffer
	b.WriteString("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>" + word() + " " + word() + "</title>\n<link rel=\"stylesheet\" href=\"/static/main.css\">\n</head>\n<body>\n")
	for link := 0; b.Len() < 20<<10-30; link++ {
		b.WriteString("<p class=\"text\">")
		for i := range 55 {
			if i == 20 && link < 40 {
				fmt.Fprintf(&b, "<a href=\"/section%d/%s-%d.html\">%s %s</a> ", r.IntN(20), word(), r.IntN(10000), word(), word())
			}
			b.WriteString(word())
			if i%11 == 10 {
				b.WriteByte(',')
			}
			b.WriteByte(' ')
		}
		b.WriteString("</p>\n")
	}
	b.WriteString("</body>\n</html>\n")
	return b.Bytes()
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchPages are real pages where LYCOSA_PAGES names a folder of HTML files
// (those of 20 KB and more, cut to 20 KB), else made ones.
var benchPages = func() [][]byte {
	var p [][]byte
	if dir := os.Getenv("LYCOSA_PAGES"); dir != "" {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".html") && len(p) < 64 {
				if b, err := os.ReadFile(path); err == nil && len(b) >= 20<<10 {
					p = append(p, b[:20<<10])
				}
			}
			return nil
		})
		if len(p) > 0 {
			return p
		}
	}
	for i := range 64 {
		p = append(p, benchBody(uint64(i)))
	}
	return p
}()

// BenchmarkWrite is the whole way of a 20 KB page, response, request and
// metadata: 64 callers at once, fsync included. cpu-us/page is the process's
// processor time.
func BenchmarkWrite(b *testing.B) {
	for _, v := range []struct {
		name string
		set  func(*warc.Config, []warc.Record) []warc.Record
	}{
		{"three records", nil},
		{"response and request", func(_ *warc.Config, r []warc.Record) []warc.Record { return r[:2] }},
		{"response", func(_ *warc.Config, r []warc.Record) []warc.Record { return r[:1] }},
		{"response, digest known", func(_ *warc.Config, r []warc.Record) []warc.Record {
			r[0].PayloadDigest = warc.Digest{1}
			return r[:1]
		}},
		{"three records, block digests", func(c *warc.Config, r []warc.Record) []warc.Record { c.BlockDigests = true; return r }},
		{"three records, level 6", func(c *warc.Config, r []warc.Record) []warc.Record { c.Level = 6; return r }},
	} {
		b.Run(v.name, func(b *testing.B) {
			cfg := config(b.TempDir())
			cfg.Now = time.Now
			if v.set != nil {
				v.set(&cfg, make([]warc.Record, 3))
			}
			w := open(b, cfg)
			const callers = 64
			var wg sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			start := cpu()
			for c := range callers {
				wg.Go(func() {
					n := b.N/callers + (callers-1-c+b.N%callers)/callers
					for i := range n {
						body := benchPages[(c+i)%len(benchPages)]
						recs := capture("http://example.org/section/page.html", benchHead, body)
						if v.set != nil {
							recs = v.set(new(warc.Config), recs)
						}
						if _, err := w.Write(context.Background(), recs); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			used := cpu() - start
			b.StopTimer()
			s := w.Stats()
			b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-us/page")
			b.ReportMetric(float64(b.N)/float64(s.Commits), "pages/fsync")
			b.ReportMetric(float64(s.StoredBytes)/float64(b.N), "bytes/page")
		})
	}
}

var benchHead = []byte("HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Mon, 30 Nov 2026 20:15:07 GMT\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 20480\r\nLast-Modified: Mon, 30 Nov 2026 20:00:00 GMT\r\nConnection: keep-alive\r\nETag: \"65f1-5000\"\r\nAccept-Ranges: bytes\r\n\r\n")

// BenchmarkFloor is what the budget is made of, in the same run: deflate of the
// page alone, and its SHA-1.
func BenchmarkFloor(b *testing.B) {
	for _, level := range []int{1, 6} {
		b.Run(fmt.Sprintf("gzip level %d", level), func(b *testing.B) {
			var out bytes.Buffer
			z, _ := gzip.NewWriterLevel(&out, level)
			start := cpu()
			for i := 0; b.Loop(); i++ {
				out.Reset()
				z.Reset(&out)
				_, _ = z.Write(benchPages[i%len(benchPages)])
				_ = z.Close()
			}
			b.ReportMetric(float64((cpu()-start).Microseconds())/float64(b.N), "cpu-us/page")
			b.ReportMetric(float64(out.Len()), "bytes/page")
		})
	}
	b.Run("sha1", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			_ = warc.SumDigest(benchPages[i%len(benchPages)])
		}
	})
}

// BenchmarkVerify is the reading side.
func BenchmarkVerify(b *testing.B) {
	m := newMemFS()
	cfg := config("/w")
	cfg.FS = m
	w := open(b, cfg)
	for i := range 20 {
		if _, err := w.Write(context.Background(), capture("http://example.org/", benchHead, benchPages[i%len(benchPages)])); err != nil {
			b.Fatal(err)
		}
	}
	_ = w.Close()
	for name, data := range m.files(".gz") {
		b.SetBytes(20 * 20 << 10)
		for b.Loop() {
			if rep := verify(b, name, data); !rep.OK() {
				b.Fatal(rep.Problems)
			}
		}
	}
}
