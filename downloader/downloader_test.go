package downloader_test

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"lycosa.dev/downloader"
	"lycosa.dev/internal/service"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	downloaderv1 "lycosa.dev/proto/gen/lycosa/downloader/v1"
)

const (
	done  = crawlv1.Verdict_VERDICT_DONE
	never = crawlv1.Verdict_VERDICT_NEVER
	retry = crawlv1.Verdict_VERDICT_RETRY_LATER
)

func TestLeaseGoesRoundTheRing(t *testing.T) {
	s := newSite(t, func(c net.Conn, _ string) { _, _ = c.Write([]byte(page("hello"))) })
	w := newWorld(t, nil, service.Deps{}, &extractor{name: "e1"})
	if h := w.hello(); h.GetId() != "downloader" || h.GetAddress() != "inproc:downloader" || h.GetCapacity() != 512 || len(h.GetHeld()) != 0 {
		t.Errorf("hello %v", h)
	}
	f := w.feed()
	for id := uint64(1); id <= 3; id++ {
		f.send(s.lease(id, "/x?y"))
		gotID, a, progress := f.answer()
		if gotID != id || a.GetAnswer().GetVerdict() != done || !a.GetFetched() || a.GetFetchDuration().AsDuration() <= 0 {
			t.Fatalf("answer %d: %v", gotID, a)
		}
		if len(progress) != 1 || progress[0].GetStage() != downloaderv1.Stage_STAGE_FETCHED || progress[0].GetFetchDuration().AsDuration() != a.GetFetchDuration().AsDuration() {
			t.Errorf("progress %v: want one, as the fetch ends", progress)
		}
		g := <-w.pages
		r := g.result
		if string(g.body) != "hello" || g.head != "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\n" || g.request != s.requests[id-1] {
			t.Errorf("page %+v", g)
		}
		if !strings.HasPrefix(g.request, "GET /x?y HTTP/1.1\r\nHost: "+s.addr.String()+"\r\nUser-Agent: Job/1\r\n") {
			t.Errorf("request %q", g.request)
		}
		if r.GetClass() != crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP || r.GetStatus() != 200 || r.GetBodyBytes() != 5 || r.GetError() != "" ||
			!bytes.Equal(r.GetAddress(), s.addr.IP.To4()) || int(r.GetPort()) != s.addr.Port || r.GetReusedConnection() != (id > 1) ||
			r.GetTimings().GetTotal() == nil || r.GetStartedAt() == nil {
			t.Errorf("result %v", r)
		}
	}
}

func TestFailuresTravelTheRing(t *testing.T) {
	w := newWorld(t, nil, service.Deps{}, &extractor{name: "e1"})
	f := w.feed()
	closed := newSite(t, func(c net.Conn, _ string) { c.Close() })
	id := uint64(0)
	for name, c := range map[string]struct {
		change func(*crawlv1.Lease)
		class  crawlv1.OutcomeClass
		code   string
	}{
		"closed":  {func(l *crawlv1.Lease) {}, crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT, "closed-before-response: "},
		"refused": {func(l *crawlv1.Lease) { l.Addresses = [][]byte{{127, 0, 0, 99}} }, crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT, "connect-refused: "},
		"policy":  {func(l *crawlv1.Lease) { l.Addresses = [][]byte{{10, 0, 0, 1}} }, crawlv1.OutcomeClass_OUTCOME_CLASS_POLICY, "address-refused: "},
		"url":     {func(l *crawlv1.Lease) { l.Url = "ftp://x/" }, crawlv1.OutcomeClass_OUTCOME_CLASS_POLICY, "bad-url: "},
	} {
		id++
		l := closed.lease(id, "/")
		c.change(l)
		f.send(l)
		_, a, _ := f.answer()
		if a.GetAnswer().GetVerdict() != done {
			t.Errorf("%s: answer %v", name, a)
			continue
		}
		if g := <-w.pages; g.result.GetClass() != c.class || !strings.HasPrefix(g.result.GetError(), c.code) || g.head != "" || len(g.body) != 0 {
			t.Errorf("%s: %v %q", name, g.result, g.head)
		}
	}
}

// A page that the ring does not take is sent again; the server is not asked
// again.
func TestPageIsSentAgain(t *testing.T) {
	s := newSite(t, func(c net.Conn, _ string) { _, _ = c.Write([]byte(page(strings.Repeat("p", 100<<10)))) })
	w := newWorld(t, nil, service.Deps{}, &extractor{name: "e1", answer: func(n int, g *got) *crawlv1.Answer {
		switch n {
		case 1:
			return &crawlv1.Answer{Verdict: retry, Reason: "busy"}
		case 2:
			return nil // dies after the end, before the answer
		}
		return &crawlv1.Answer{Verdict: done}
	}})
	f := w.feed()
	f.send(s.lease(1, "/"))
	_, a, _ := f.answer()
	if a.GetAnswer().GetVerdict() != done || s.seen() != 1 {
		t.Errorf("%v after %d requests", a, s.seen())
	}
	if g := <-w.pages; string(g.body) != strings.Repeat("p", 100<<10) {
		t.Errorf("%d bytes", len(g.body))
	}
}

func TestAnswersOfTheRing(t *testing.T) {
	s := newSite(t, func(c net.Conn, _ string) { _, _ = c.Write([]byte(page("x"))) })
	full := &crawlv1.Answer{Verdict: retry, Reason: "no space", StorageUnavailable: true}
	w := newWorld(t, nil, service.Deps{}, &extractor{name: "e1", answer: func(n int, g *got) *crawlv1.Answer {
		if g.lease.GetId() == 1 {
			return full
		}
		return &crawlv1.Answer{Verdict: never, Reason: "job deleted"}
	}})
	f := w.feed()
	f.send(s.lease(1, "/"))
	if _, a, _ := f.answer(); a.GetAnswer().GetVerdict() != retry || !a.GetAnswer().GetStorageUnavailable() || !a.GetFetched() {
		t.Errorf("%v", a)
	}
	f.send(s.lease(2, "/"))
	if _, a, _ := f.answer(); a.GetAnswer().GetVerdict() != never {
		t.Errorf("%v", a)
	}
}

// A body far beyond the credit of the stream goes through, and never more than
// the credit is on its way.
func TestLongBodyStreamsWithinCredit(t *testing.T) {
	const size = 40 << 20
	s := newSite(t, func(c net.Conn, _ string) { _, _ = c.Write([]byte(page(strings.Repeat("0123456789abcdef", size/16)))) })
	w := newWorld(t, nil, service.Deps{}, &extractor{name: "e1"})
	f := w.feed()
	f.send(s.lease(1, "/"))
	if _, a, _ := f.answer(); a.GetAnswer().GetVerdict() != done {
		t.Fatalf("%v", a)
	}
	g := <-w.pages
	if len(g.body) != size || g.largest > 8<<20 || g.result.GetTruncated() != "" {
		t.Errorf("%d bytes, %d at most on their way, %v", len(g.body), g.largest, g.result)
	}
	for i := 0; i < size; i += 4099 {
		if g.body[i] != "0123456789abcdef"[i%16] {
			t.Fatalf("byte %d is wrong", i)
		}
	}
}

func TestLeasesThatCannotBeWorked(t *testing.T) {
	hold := make(chan struct{})
	s := newSite(t, func(c net.Conn, r string) {
		<-hold
		_, _ = c.Write([]byte(page("x")))
	})
	w := newWorld(t, func(c *downloader.Config) { c.Capacity = 2 }, service.Deps{}, &extractor{name: "e1"})
	f := w.feed()
	for name, change := range map[string]func(*crawlv1.Lease){
		"no address":  func(l *crawlv1.Lease) { l.Addresses = nil },
		"bad address": func(l *crawlv1.Lease) { l.Addresses = [][]byte{{1}} },
		"no deadline": func(l *crawlv1.Lease) { l.Deadline = nil },
		"no job":      func(l *crawlv1.Lease) { l.JobId = "" },
		"unknown job": func(l *crawlv1.Lease) { l.JobId = "other"; l.Deadline = durationpb.New(100 * time.Millisecond) },
		"later spec":  func(l *crawlv1.Lease) { l.SpecVersion = 4; l.Deadline = durationpb.New(100 * time.Millisecond) },
	} {
		l := s.lease(5, "/")
		change(l)
		f.send(l)
		if _, a, _ := f.answer(); a.GetAnswer().GetVerdict() != retry || a.GetFetched() || a.GetAnswer().GetReason() == "" {
			t.Errorf("%s: %v", name, a)
		}
	}
	f.send(s.lease(1, "/"))
	f.send(s.lease(2, "/"))
	f.send(s.lease(3, "/"))
	if id, a, _ := f.answer(); id != 3 || a.GetAnswer().GetVerdict() != retry || a.GetFetched() {
		t.Errorf("beyond capacity: %d %v", id, a)
	}
	close(hold)
	for range 2 {
		if _, a, _ := f.answer(); a.GetAnswer().GetVerdict() != done {
			t.Errorf("%v", a)
		}
	}
}

func TestNoExtractor(t *testing.T) {
	s := newSite(t, func(c net.Conn, r string) {})
	w := newWorld(t, nil, service.Deps{})
	f := w.feed()
	l := s.lease(1, "/")
	l.Deadline = durationpb.New(200 * time.Millisecond)
	f.send(l)
	if _, a, _ := f.answer(); a.GetAnswer().GetVerdict() != retry || a.GetFetched() || s.seen() != 0 {
		t.Errorf("%v after %d requests", a, s.seen())
	}
}

// A lease outlives its stream: it is finished, reported when the downloader
// joins again, and answered on the new stream.
func TestBrokenStream(t *testing.T) {
	hold := make(chan struct{})
	asked := make(chan struct{}, 1)
	s := newSite(t, func(c net.Conn, r string) {
		asked <- struct{}{}
		<-hold
		_, _ = c.Write([]byte(page("x")))
	})
	w := newWorld(t, nil, service.Deps{}, &extractor{name: "e1"})
	w.hello()
	f := w.feed()
	l := s.lease(7, "/")
	f.send(l)
	<-asked
	f.cancel()
	f = w.feed()
	f.send(l) // the scheduler may do so: it is the same lease
	time.Sleep(20 * time.Millisecond)
	close(hold)
	if id, a, _ := f.answer(); id != 7 || a.GetAnswer().GetVerdict() != done {
		t.Errorf("%d %v", id, a)
	}
	if g := <-w.pages; g.lease.GetId() != 7 || s.seen() != 1 {
		t.Errorf("%v after %d requests", g.lease, s.seen())
	}
}

func TestHeldLeasesAreReported(t *testing.T) {
	hold := make(chan struct{})
	asked := make(chan struct{}, 1)
	s := newSite(t, func(c net.Conn, r string) {
		asked <- struct{}{}
		<-hold
		_, _ = c.Write([]byte(page("x")))
	})
	w := newWorld(t, nil, service.Deps{}, &extractor{name: "e1"})
	w.hello()
	f := w.feed()
	f.send(s.lease(7, "/"))
	<-asked
	h := w.d.Hello()
	if len(h.GetHeld()) != 1 || h.GetHeld()[0].GetLeaseId() != 7 || !h.GetHeld()[0].GetFetched() {
		t.Errorf("%v", h)
	}
	close(hold)
	f.answer()
}

func TestLeaseTakenBack(t *testing.T) {
	s := newSite(t, func(c net.Conn, r string) { _, _ = c.Write([]byte(page("x"))) })
	w := newWorld(t, nil, service.Deps{}) // no extractor: the lease waits
	f := w.feed()
	f.send(s.lease(1, "/"))
	if err := f.stream.Send(&downloaderv1.FetchRequest{Item: &downloaderv1.FetchRequest_CancelLeaseId{CancelLeaseId: 1}}); err != nil {
		t.Fatal(err)
	}
	e := &extractor{name: "late", pages: w.pages}
	w.local.Register("late", e.register)
	w.sched.set("inproc:late")
	if _, a, _ := f.answer(); a.GetAnswer().GetVerdict() != retry || a.GetFetched() || s.seen() != 0 {
		t.Errorf("%v after %d requests", a, s.seen())
	}
	f.send(s.lease(2, "/"))
	if _, a, _ := f.answer(); a.GetAnswer().GetVerdict() != done {
		t.Errorf("an extractor that came later is not used: %v", a)
	}
}

// Signs of life keep coming while the ring works, and renew the lease while a
// server is slow.
func TestProgress(t *testing.T) {
	s := newSite(t, func(c net.Conn, r string) {
		_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na"))
		time.Sleep(1500 * time.Millisecond)
		_, _ = c.Write([]byte("b"))
	})
	w := newWorld(t, nil, service.Deps{}, &extractor{name: "e1", answer: func(int, *got) *crawlv1.Answer {
		time.Sleep(1500 * time.Millisecond)
		return &crawlv1.Answer{Verdict: done}
	}})
	f := w.feed()
	l := s.lease(1, "/")
	l.Deadline = durationpb.New(900 * time.Millisecond) // shorter than either wait
	f.send(l)
	_, a, progress := f.answer()
	stages := map[downloaderv1.Stage]int{}
	for _, p := range progress {
		stages[p.GetStage()]++
	}
	if a.GetAnswer().GetVerdict() != done || stages[downloaderv1.Stage_STAGE_FETCHING] < 2 || stages[downloaderv1.Stage_STAGE_FETCHED] < 3 {
		t.Errorf("%v, %v", a, stages)
	}
}

// When asked to stop, the downloader says so, takes no more, and finishes what
// it holds.
func TestDrain(t *testing.T) {
	hold := make(chan struct{})
	asked := make(chan struct{}, 1)
	s := newSite(t, func(c net.Conn, r string) {
		asked <- struct{}{}
		<-hold
		_, _ = c.Write([]byte(page("x")))
	})
	w := newWorld(t, nil, service.Deps{}, &extractor{name: "e1"})
	w.hello()
	f := w.feed()
	f.send(s.lease(1, "/"))
	<-asked
	stopped := make(chan error, 1)
	go func() { stopped <- w.stop() }()
	<-w.sched.draining
	f.send(s.lease(2, "/"))
	if id, a, _ := f.answer(); id != 2 || a.GetAnswer().GetVerdict() != retry {
		t.Errorf("a lease after the end: %d %v", id, a)
	}
	if w.d.Health(context.Background()) == nil {
		t.Error("healthy while draining")
	}
	close(hold)
	if id, a, _ := f.answer(); id != 1 || a.GetAnswer().GetVerdict() != done {
		t.Errorf("%d %v", id, a)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// What does not end within drain_timeout is given up and given back.
func TestDrainTimeout(t *testing.T) {
	asked := make(chan struct{}, 1)
	s := newSite(t, func(c net.Conn, r string) { asked <- struct{}{} })
	w := newWorld(t, func(c *downloader.Config) { c.DrainTimeout = 50 * time.Millisecond }, service.Deps{}, &extractor{name: "e1"})
	w.hello()
	f := w.feed()
	f.send(s.lease(1, "/"))
	<-asked
	go w.stop()
	if id, a, _ := f.answer(); id != 1 || a.GetAnswer().GetVerdict() != retry || !a.GetFetched() {
		t.Errorf("%d %v", id, a)
	}
	if err := w.stop(); err != nil {
		t.Error(err)
	}
}

func TestMaxLease(t *testing.T) {
	var calls atomic.Int32
	s := newSite(t, func(c net.Conn, r string) { calls.Add(1) })
	w := newWorld(t, func(c *downloader.Config) { c.MaxLease = 200 * time.Millisecond }, service.Deps{}, &extractor{name: "e1"})
	f := w.feed()
	f.send(s.lease(1, "/"))
	if _, a, _ := f.answer(); a.GetAnswer().GetVerdict() != retry || !a.GetFetched() || calls.Load() != 1 {
		t.Errorf("%v", a)
	}
}

func TestRefusedByTheScheduler(t *testing.T) {
	w := newWorldRefusing(t, status.Error(codes.InvalidArgument, "no such thing"))
	if err := <-w; err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("Run returned %v", err)
	}
}

// The span of a lease has the scheduler's as its parent, and the extractor's
// will have it as theirs.
func TestTrace(t *testing.T) {
	rec := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))
	s := newSite(t, func(c net.Conn, r string) { _, _ = c.Write([]byte(page("x"))) })
	w := newWorld(t, nil, service.Deps{TracerProvider: tp}, &extractor{name: "e1"})
	f := w.feed()
	l := s.lease(1, "/")
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	l.Traceparent = parent
	f.send(l)
	f.answer()
	g := <-w.pages
	spans := rec.Ended()
	if len(spans) != 1 || spans[0].Name() != "fetch" || spans[0].Parent().SpanID().String() != "b7ad6b7169203331" {
		t.Fatalf("spans %v", spans)
	}
	if want := "00-0af7651916cd43dd8448eb211c80319c-" + spans[0].SpanContext().SpanID().String() + "-01"; g.lease.GetTraceparent() != want {
		t.Errorf("the extractor was given %s, want %s", g.lease.GetTraceparent(), want)
	}
	if l.Traceparent != parent {
		t.Error("the scheduler's own message was changed")
	}
}

// Pages of one host go to one extractor; when it leaves they go to another.
func TestExtractorsOfTheTopology(t *testing.T) {
	s := newSite(t, func(c net.Conn, r string) { _, _ = c.Write([]byte(page("x"))) })
	w := newWorld(t, nil, service.Deps{}, &extractor{name: "e1"}, &extractor{name: "e2"}, &extractor{name: "e3"})
	f := w.feed()
	first := ""
	for id := uint64(1); id <= 6; id++ {
		f.send(s.lease(id, "/"))
		if _, a, _ := f.answer(); a.GetAnswer().GetVerdict() != done {
			t.Fatalf("%v", a)
		}
		g := <-w.pages
		if id == 1 {
			time.Sleep(100 * time.Millisecond) // until all three are connected
			continue
		}
		if first == "" {
			first = g.by
		}
		if g.by != first {
			t.Errorf("page %d of one host went to %s, before to %s", id, g.by, first)
		}
	}
	var rest []string
	for _, e := range []string{"e1", "e2", "e3"} {
		if e != first {
			rest = append(rest, "inproc:"+e)
		}
	}
	w.sched.set(rest...)
	time.Sleep(50 * time.Millisecond)
	f.send(s.lease(20, "/"))
	f.answer()
	if g := <-w.pages; g.by == first {
		t.Error("a page went to an extractor that has left")
	}
}

func TestConfigValidateNamesEveryProblem(t *testing.T) {
	c := downloader.Default()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	c.ID, c.Capacity, c.Scheduler, c.IdleTimeout, c.VerifyTLS = "", 0, "", 0, "maybe"
	err := c.Validate()
	for _, want := range []string{"id:", "capacity:", "scheduler:", "idle_timeout:", "verify_tls:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named in %v", want, err)
		}
	}
	c = downloader.Default()
	c.AllowNet = []string{"nonsense"}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "allow_net") {
		t.Errorf("%v", err)
	}
}
