package downloader_test

import (
	"context"
	"crypto/tls"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"lycosa.dev/downloader"
	"lycosa.dev/internal/casefiles"
	"lycosa.dev/internal/httpwire"
	"lycosa.dev/internal/service"
	"lycosa.dev/internal/testweb"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

const oddMaxBody = 1 << 20

// oddWorld is a downloader with short limits.
func oddWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, &jobv1.Spec{
		Identity: &jobv1.Identity{UserAgent: "Odd/1"},
		Fetch: &jobv1.Fetch{
			AllowNet:         []string{"127.0.0.0/8"},
			FirstByteTimeout: durationpb.New(600 * time.Millisecond), IdleTimeout: durationpb.New(800 * time.Millisecond),
			TotalTimeout: durationpb.New(3 * time.Second),
		},
		Limits: &jobv1.Limits{MaxPageBytes: oddMaxBody},
	}, func(c *downloader.Config) {
		c.HeadTimeout = time.Second
		c.MinRate, c.MinRateGrace = 10<<10, 1200*time.Millisecond
	}, service.Deps{}, &extractor{name: "odd"})
}

// oddBound is how long a fetch with the limits of oddWorld may take: total
// limit and what a loaded machine adds.
const oddBound = 3*time.Second + 5*time.Second

func oddLease(s *testweb.OddServer, id uint64, target string) *crawlv1.Lease {
	return &crawlv1.Lease{
		Id: id, JobId: "job", SpecVersion: 3, Url: "http://" + s.Addr().String() + target, HostKey: s.Addr().String(),
		Purpose: crawlv1.Purpose_PURPOSE_PAGE, Attempt: 1, Addresses: [][]byte{s.Addr().IP.To4()}, Deadline: durationpb.New(30 * time.Second),
	}
}

// fetchOdd sends one lease through the service and returns what the extractor
// got, and what the server sent. The connection is not shared with others.
func fetchOdd(t *testing.T, c testweb.Oddity) (got, []testweb.Exchange) {
	t.Helper()
	s := testweb.StartOddities(t, nil, c)
	w := oddWorld(t)
	f := w.feed()
	begun := time.Now()
	f.send(oddLease(s, 1, "/case/"+c.ID))
	_, a, _ := f.answer()
	took := time.Since(begun)
	if a.GetAnswer().GetVerdict() != done {
		t.Fatalf("answer %v", a)
	}
	g := <-w.pages
	if took > oddBound {
		t.Errorf("took %v, the limits allow %v", took, oddBound)
	}
	if len(g.body) > oddMaxBody {
		t.Errorf("%d bytes of body, %d are allowed", len(g.body), oddMaxBody)
	}
	if log := s.Log(); len(log) != 1 {
		t.Fatalf("%d requests for one lease", len(log))
	} else if g.request != "" && g.request != log[0].Request {
		t.Errorf("request %q, the server saw %q", g.request, log[0].Request)
	}
	return g, s.Log()
}

// exact checks that what goes to the archive is what came from the server, byte
// for byte: head and body are one piece of it, and its end unless more came.
func exact(t *testing.T, g *got, sent []byte) {
	t.Helper()
	if record := g.head + string(g.body); !strings.Contains(string(sent), record) {
		t.Errorf("the record %.300q is no part of what was sent, %.300q", record, sent)
	}
	if int(g.result.GetBodyBytes()) != len(g.body) {
		t.Errorf("%d bytes of body said, %d handed on", g.result.GetBodyBytes(), len(g.body))
	}
}

// Every recorded behaviour of the case file, through engine and service.
func TestCaseFile(t *testing.T) {
	for _, c := range casefiles.Lines[testweb.Oddity](t, "http-oddities.jsonl") {
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			g, log := fetchOdd(t, c)
			r := g.result
			isHTTP := r.GetClass() == crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP
			whole := isHTTP && r.GetTruncated() == ""
			if isHTTP {
				exact(t, &g, log[0].Sent)
			} else if g.head != "" || r.GetError() == "" {
				t.Errorf("a failure without words, or with a head: %v", r)
			}
			decoded, notes := decode(&g)
			switch c.Outcome {
			case "ok":
				if !whole || r.GetStatus() != 200 {
					t.Errorf("%v", r)
				}
				if c.BodyLen > 0 && len(decoded) != c.BodyLen {
					t.Errorf("%d bytes decoded, want %d", len(decoded), c.BodyLen)
				}
			case "ok_if_cookies", "redirect", "blocked":
				if !whole || r.GetStatus()/100 != 3 {
					t.Errorf("%v", r)
				}
			case "ok_after_delay":
				if r.GetStatus() != 429 || r.GetRetryAfter().AsDuration() != 3*time.Second {
					t.Errorf("%v", r)
				}
			case "error":
				if redirect := r.GetStatus()/100 == 3; whole && !redirect {
					t.Errorf("%v", r)
				}
			case "timeout":
				if r.GetClass() != crawlv1.OutcomeClass_OUTCOME_CLASS_TIMEOUT && r.GetTruncated() != "time" {
					t.Errorf("%v", r)
				}
			case "partial_or_retry":
				if whole && !notes.Incomplete() {
					t.Errorf("%v, %v", r, notes)
				}
			case "retry":
				if r.GetClass() != crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT {
					t.Errorf("%v", r)
				}
			case "ok_or_error":
				if isHTTP && len(decoded) != c.BodyLen {
					t.Errorf("%d bytes decoded, want %d", len(decoded), c.BodyLen)
				}
			case "any_no_crash":
			default:
				t.Errorf("outcome %q is not known to this test", c.Outcome)
			}
			if c.Next != "" && c.Outcome != "ok_if_cookies" {
				redirectsTo(t, c)
			}
		})
	}
}

// redirectsTo checks where a redirect leads.
func redirectsTo(t *testing.T, c testweb.Oddity) {
	t.Helper()
	s := testweb.StartOddities(t, nil, c)
	r, err := downloader.FetchOne(t.Context(), "http://"+s.Addr().String()+"/case/"+c.ID, oneSpec(&jobv1.Fetch{}))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.Final().Redirect, "http://"+s.Addr().String()+c.Next; got != want {
		t.Errorf("it leads to %s, want %s", got, want)
	}
}

// decode undoes the codings as the extractor does.
func decode(g *got) ([]byte, httpwire.Note) {
	var h httpwire.Head
	if _, err := h.ParseStored([]byte(g.head)); err != nil {
		return nil, 0
	}
	return httpwire.DecodeBytes(nil, &h, g.body, httpwire.Limits{})
}

// The behaviours of issue and experience, with exact expectations.
func TestWebOddities(t *testing.T) {
	for _, c := range testweb.WebOddities() {
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			g, log := fetchOdd(t, c)
			r := g.result
			class := "OUTCOME_CLASS_HTTP"
			if c.Class != "" {
				class = "OUTCOME_CLASS_" + c.Class
			}
			if r.GetClass().String() != class || int(r.GetStatus()) != c.Status || r.GetTruncated() != c.Truncated {
				t.Fatalf("%v\nwant %s %d, truncated %q", r, class, c.Status, c.Truncated)
			}
			if code, _, _ := strings.Cut(r.GetError(), ": "); code != c.Code {
				t.Errorf("error %q, want %s", r.GetError(), c.Code)
			}
			for _, n := range c.Notes {
				if !slices.Contains(r.GetAnnotations(), n) {
					t.Errorf("annotations %v lack %s", r.GetAnnotations(), n)
				}
			}
			if c.Class != "" {
				return
			}
			if c.Body != "-" {
				exact(t, &g, log[0].Sent)
				if string(g.body) != c.Body {
					t.Errorf("body %.200q, want %.200q", g.body, c.Body)
				}
			}
			if c.BodyLen == 0 {
				return
			}
			// What is labelled wrongly and cannot be told by its first bytes is
			// kept as it is, with a note.
			d, notes := decode(&g)
			if s := string(d); s != testweb.OddPage && (s != c.Body || !strings.HasSuffix(c.ID, "-identity") && !notes.Has(httpwire.NoteMislabelled)) {
				t.Errorf("decoded %.200q, %v", d, notes)
			}
		})
	}
}

// The same over TLS, where reads come in records and an end may lack its
// goodbye.
func TestWebOdditiesOverTLS(t *testing.T) {
	secure := httptest.NewUnstartedServer(nil)
	secure.StartTLS()
	certs := secure.TLS.Certificates
	secure.Close()
	for _, c := range testweb.WebOddities() {
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			s := testweb.StartOddities(t, &tls.Config{Certificates: certs}, c)
			opts := oneSpec(&jobv1.Fetch{
				InsecureTls: true, FirstByteTimeout: durationpb.New(600 * time.Millisecond), HeadTimeout: durationpb.New(time.Second),
				IdleTimeout: durationpb.New(800 * time.Millisecond), TotalTimeout: durationpb.New(3 * time.Second),
				MinRateBytes: proto.Int64(10 << 10), MinRateGrace: durationpb.New(1200 * time.Millisecond),
			})
			opts.Spec.Limits = &jobv1.Limits{MaxPageBytes: oddMaxBody}
			var f *downloader.Step
			var begun time.Time
			// The total limit counts for the handshake too, which a loaded machine may
			// take seconds for: that is no answer to the question asked here.
			for try := 0; f == nil || f.Code == "tls-timeout" && try < 5; try++ {
				begun = time.Now()
				r, err := downloader.FetchOne(context.Background(), "https://"+s.Addr().String()+"/case/"+c.ID, opts)
				if err != nil {
					t.Fatal(err)
				}
				f = r.Final()
			}
			if took := time.Since(begun); took > oddBound {
				t.Errorf("took %v", took)
			}
			if f.Status != c.Status || f.Truncated != c.Truncated || (c.Class == "") != (f.Class == "response") {
				t.Fatalf("%s %s %d, truncated %q: %s\nwant %s %s %d %q", f.Class, f.Code, f.Status, f.Truncated, f.Detail, c.Class, c.Code, c.Status, c.Truncated)
			}
			// A reset in a TLS session is one of the connection below.
			if c.Class != "" && f.Code != c.Code {
				t.Errorf("%s: %s, want %s", f.Code, f.Detail, c.Code)
			}
			if c.Class == "" && c.Body != "-" && string(f.Body) != c.Body {
				t.Errorf("body %.100q, want %.100q", f.Body, c.Body)
			}
		})
	}
}

// A kept connection that the server has closed meanwhile costs no failure, and
// the request is written once.
func TestKeepAliveLie(t *testing.T) {
	s := testweb.StartOddities(t, nil)
	s.Script("/lie", testweb.Say("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na"), testweb.Close())
	w := oddWorld(t)
	f := w.feed()
	for id := uint64(1); id <= 5; id++ {
		f.send(oddLease(s, id, "/lie"))
		if _, a, _ := f.answer(); a.GetAnswer().GetVerdict() != done {
			t.Fatalf("%v", a)
		}
		switch r := (<-w.pages).result; r.GetClass() {
		case crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP, crawlv1.OutcomeClass_OUTCOME_CLASS_NOT_STARTED:
		default:
			t.Errorf("%v", r)
		}
	}
	if n := len(s.Log()); n > 5 {
		t.Errorf("%d requests for 5 leases", n)
	}
}

// A URL that redirects to itself with a cookie, and one that asks who we are,
// are given back after the first fetch and are pages with the second lease.
func TestSecondLeaseSaysWhoWeAre(t *testing.T) {
	t.Setenv("LYCOSA_SECRET_PW", "hidden")
	b64 := func(s string) any { return testweb.Say(s)[1] }
	s := testweb.StartOddities(t, nil)
	page := b64("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
	s.Script("/gate", testweb.Action{"cookie_gate", b64("HTTP/1.1 302 Found\r\nLocation: /gate\r\nSet-Cookie: seen=1; Path=/gate\r\nContent-Length: 0\r\n\r\n"), page})
	s.Script("/digest", testweb.Action{"count_gate", 1.0, b64("HTTP/1.1 401 Who\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n\"\r\nContent-Length: 0\r\n\r\n"), page})
	dir := t.TempDir()
	w := newWorldOf(t, &jobv1.Spec{Identity: &jobv1.Identity{UserAgent: "Odd/1"}, Fetch: &jobv1.Fetch{
		AllowNet: []string{"127.0.0.0/8"}, Cookies: true,
		Credentials: []*jobv1.Credential{{Host: "127.0.0.1", Kind: "digest", User: "u", Secret: "pw"}},
	}}, func(c *downloader.Config) { c.CookiesDir = dir }, service.Deps{}, &extractor{name: "odd"})
	f := w.feed()
	for i, path := range []string{"/gate", "/digest"} {
		id := uint64(2*i + 1)
		f.send(oddLease(s, id, path))
		if _, a, _ := f.answer(); a.GetAnswer().GetVerdict() != retry || !a.GetFetched() || a.GetFetchDuration().AsDuration() <= 0 {
			t.Fatalf("%s: %v", path, a)
		}
		f.send(oddLease(s, id+1, path))
		if _, a, _ := f.answer(); a.GetAnswer().GetVerdict() != done {
			t.Fatalf("%s: %v", path, a)
		}
		g := <-w.pages
		if g.result.GetStatus() != 200 || g.lease.GetId() != id+1 || !strings.Contains(g.request, ": redacted\r\n") || strings.Contains(g.request, "seen=1") {
			t.Errorf("%s: %v %q", path, g.result, g.request)
		}
	}
	if len(w.pages) != 0 {
		t.Error("a page that was no page reached the extractor")
	}
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "job.txt")); err != nil || !strings.Contains(string(b), "\t/gate\tFALSE\t0\tseen\t1\n") {
		t.Errorf("cookies at the end: %q, %v", b, err)
	}
}

// Endless bodies, header blocks and chunks, many at once, cost bounded memory.
func TestEndlessServersCostBoundedMemory(t *testing.T) {
	var cases []testweb.Oddity
	for _, c := range testweb.WebOddities() {
		if strings.Contains(c.ID, "endless") {
			cases = append(cases, c)
		}
	}
	s := testweb.StartOddities(t, nil, cases...)
	w := oddWorld(t)
	f := w.feed()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const rounds = 8
	id := uint64(0)
	for range rounds {
		for _, c := range cases {
			id++
			f.send(oddLease(s, id, "/case/"+c.ID))
		}
	}
	for range id {
		if _, a, _ := f.answer(); a.GetAnswer().GetVerdict() != done {
			t.Errorf("%v", a)
		}
		<-w.pages
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	// The server's own log holds up to 4 MiB of each answer.
	allowed := int64(id)*(4<<20) + 32<<20
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > allowed {
		t.Errorf("%d MiB more are held after %d endless answers", grown>>20, id)
	}
}
