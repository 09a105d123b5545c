package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nlnwa/gowarc/v3"
)

// conditionalWeb serves pages with validators and answers 304 to whoever has
// them; it counts the answers by status, and those by HTTP/2.
type conditionalWeb struct {
	mu     sync.Mutex
	status map[int]int
	h2     int
	bad    []string
}

func (s *conditionalWeb) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/robots.txt" || r.URL.Path == "/sitemap.xml" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	etag, modified := `W/"`+r.URL.Path+`"`, "Mon, 02 Jan 2006 15:04:05 GMT"
	status := http.StatusOK
	match, since := r.Header.Get("If-None-Match"), r.Header.Get("If-Modified-Since")
	w.Header().Set("ETag", etag)
	w.Header().Set("Last-Modified", modified)
	s.mu.Lock()
	if match != "" || since != "" {
		status = http.StatusNotModified
		if match != etag || since != modified {
			s.bad = append(s.bad, fmt.Sprintf("%s: If-None-Match %q, If-Modified-Since %q", r.URL.Path, match, since))
		}
	}
	s.status[status]++
	if r.ProtoMajor == 2 {
		s.h2++
	}
	s.mu.Unlock()
	if status == http.StatusNotModified {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	body := `<html><body><a href="/a">a</a> <a href="/b?c=d">b</a>` + strings.Repeat(" text", 500) + `</body></html>`
	// gowarc takes the payload digest of a chunked response over the framing.
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = io.WriteString(w, body)
}

// TestUnchangedPagesAreRevisits: a second round asks with the validators of the
// first; what has not changed becomes a revisit record that names the first
// response, over HTTP/1.1 and HTTP/2, and independent readers accept the files.
func TestUnchangedPagesAreRevisits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, protocol string
		secure         bool
	}{{"HTTP/1.1", "http/1.1", false}, {"HTTP/2", "h2, tls/1.", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			web := &conditionalWeb{status: map[int]int{}}
			s := httptest.NewUnstartedServer(web)
			if c.secure {
				s.EnableHTTP2 = true
				s.StartTLS()
			} else {
				s.Start()
			}
			defer s.Close()
			dir := t.TempDir()
			spec := filepath.Join(t.TempDir(), "job.yaml")
			if err := os.WriteFile(spec, []byte("name: twice\nseeds: ["+s.URL+"/]\nfetch:\n  insecure_tls: true\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			mustLycosa(t, time.Minute, polite(dir, "--job", spec)...)
			mustLycosa(t, time.Minute, polite(dir, "--job", spec, "--recrawl")...)
			web.mu.Lock()
			defer web.mu.Unlock()
			if web.status[200] != 3 || web.status[304] != 3 || len(web.bad) > 0 || (web.h2 == 6) != c.secure {
				t.Fatalf("answers by status: %v, %d by HTTP/2; wrong validators: %q", web.status, web.h2, web.bad)
			}
			first := map[string]record{}
			revisits := 0
			recs := readWARC(t, dir)
			for _, r := range recs {
				switch {
				case r.kind() == "response" && r.status() == 200:
					first[r.uri()] = r
				case r.kind() == "revisit":
					revisits++
				}
				if (r.kind() == "response" || r.kind() == "revisit") && !strings.HasPrefix(r.fields["warc-protocol"], c.protocol) {
					t.Errorf("%s: WARC-Protocol %q", r.uri(), r.fields["warc-protocol"])
				}
			}
			if len(first) != 3 || revisits != 3 {
				t.Fatalf("%d responses and %d revisits", len(first), revisits)
			}
			for _, r := range recs {
				if r.kind() != "revisit" {
					continue
				}
				of, ok := first[r.uri()]
				if !ok || r.status() != 304 {
					t.Errorf("revisit of %s with status %d", r.uri(), r.status())
				}
				for name, want := range map[string]string{
					"warc-profile":              "http://netpreserve.org/warc/1.1/revisit/server-not-modified",
					"warc-refers-to-target-uri": r.uri(), "warc-payload-digest": of.fields["warc-payload-digest"], "warc-refers-to-date": of.fields["warc-date"],
				} {
					if r.fields[name] != want || want == "" {
						t.Errorf("revisit of %s: %s is %q, want %q", r.uri(), name, r.fields[name], want)
					}
				}
				if head := string(r.block); !strings.HasPrefix(head, "HTTP/1.1 304 ") || !strings.Contains(strings.ToLower(head), "etag: ") {
					t.Errorf("revisit of %s holds %q", r.uri(), head)
				}
			}
			checkWARC(t, dir)
			gowarcReads(t, dir, len(recs))
			mustLycosa(t, time.Minute, "audit", dir)
		})
	}
}

// gowarcReads has an independent reader, at its strictest, find all records and
// nothing to object to.
func gowarcReads(t testing.TB, dir string, records int) {
	t.Helper()
	n := 0
	for _, path := range warcFiles(t, dir) {
		r, err := gowarc.NewWarcFileReader(path, 0, gowarc.WithSyntaxErrorPolicy(gowarc.ErrWarn), gowarc.WithSpecViolationPolicy(gowarc.ErrWarn),
			gowarc.WithBlockErrorPolicy(gowarc.ErrWarn))
		if err != nil {
			t.Fatal(err)
		}
		for {
			rec, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Errorf("gowarc: %s: %v", path, err)
				break
			}
			for _, v := range rec.Validation {
				t.Errorf("gowarc: %s %s: %v", rec.WarcRecord.Type(), rec.WarcRecord.WarcHeader().Get(gowarc.WarcTargetURI), v)
			}
			_ = rec.Close()
			n++
		}
		_ = r.Close()
	}
	if n != records {
		t.Errorf("gowarc finds %d records, this package's own reader %d", n, records)
	}
}
