package extractor_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"lycosa.dev/extractor"
	"lycosa.dev/internal/job"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/service"
	"lycosa.dev/internal/warc"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	dnserv1 "lycosa.dev/proto/gen/lycosa/dnser/v1"
	extractorv1 "lycosa.dev/proto/gen/lycosa/extractor/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ring stands in for the services around one extractor: a scheduler that
// pushes one topology after the other, and a dnser that keeps what it gets.
type ring struct {
	schedulerv1.UnimplementedSchedulerServiceServer
	dnserv1.UnimplementedDnserServiceServer

	mu       sync.Mutex
	topology *schedulerv1.Topology
	changed  chan struct{}
	got      []*dnserv1.ResolveRequest
	answer   func(*dnserv1.ResolveRequest) *crawlv1.Answer
	hold     func(*dnserv1.ResolveRequest) // called before an answer; nil: none
	draining chan struct{}                 // closed when the extractor says that it drains
	stop     context.CancelFunc            // ends the extractor
	dir      string
	client   extractorv1.ExtractorServiceClient
}

func (r *ring) Join(stream grpc.BidiStreamingServer[schedulerv1.JoinRequest, schedulerv1.JoinResponse]) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	go func() { // ends with the stream
		if msg, err := stream.Recv(); err == nil && msg.GetUpdate().GetDraining() {
			close(r.draining)
		}
	}()
	for {
		r.mu.Lock()
		t, changed := r.topology, r.changed
		r.mu.Unlock()
		if err := stream.Send(&schedulerv1.JoinResponse{Topology: t}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (r *ring) Resolve(stream grpc.BidiStreamingServer[dnserv1.ResolveRequest, dnserv1.ResolveResponse]) error {
	return rpc.ServeItems(stream, rpc.ItemsOptions{Window: 16}, func(_ context.Context, req *dnserv1.ResolveRequest) *dnserv1.ResolveResponse {
		if r.hold != nil {
			r.hold(req)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, req)
		ans := &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_DONE}
		if r.answer != nil {
			ans = r.answer(req)
		}
		return &dnserv1.ResolveResponse{Id: req.GetId(), Answer: ans}
	}, nil)
}

func (r *ring) setJob(t *testing.T, version uint64, spec *jobv1.Spec, roots ...string) {
	t.Helper()
	spec = job.WithDefaults(spec, "test")
	if err := job.Validate(spec); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.topology = &schedulerv1.Topology{
		Instances: []*schedulerv1.Instance{{Kind: schedulerv1.ServiceKind_SERVICE_KIND_DNSER, Id: "d", Address: "inproc:ring"}},
		Jobs:      []*schedulerv1.JobSpec{{JobId: "j", SpecVersion: version, FrontierEpoch: 7, Spec: spec, ScopeRoots: roots}},
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// start runs an extractor in a ring until the test ends.
func start(t *testing.T, spec *jobv1.Spec) *ring {
	t.Helper()
	r := &ring{changed: make(chan struct{}), draining: make(chan struct{}), dir: t.TempDir()}
	r.setJob(t, 1, spec, "http://a.test/")
	local := rpc.NewLocal(rpc.ServerOptions{})
	local.Register("ring", func(reg grpc.ServiceRegistrar) {
		schedulerv1.RegisterSchedulerServiceServer(reg, r)
		dnserv1.RegisterDnserServiceServer(reg, r)
	})
	cfg := extractor.Default()
	cfg.Scheduler, cfg.Dir, cfg.SpoolBytes = "inproc:ring", r.dir, 64<<10
	cfg.SpecWait, cfg.ForwardWait = 2*time.Second, 5*time.Second
	e, err := extractor.New(cfg, service.Deps{Dialer: local})
	if err != nil {
		t.Fatal(err)
	}
	local.Register("extractor", e.Register)
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := local.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	conn, _, err := local.Dial(ctx, "inproc:extractor")
	if err != nil {
		t.Fatal(err)
	}
	r.client = extractorv1.NewExtractorServiceClient(conn)
	return r
}

var nextLease uint64 = 100

func lease(url string) *crawlv1.Lease {
	nextLease++
	host := strings.TrimPrefix(url, "http://")
	host, _, _ = strings.Cut(host, "/")
	return &crawlv1.Lease{
		Id: nextLease, JobId: "j", SpecVersion: 1, FrontierEpoch: 7, Url: url, HostKey: host,
		Purpose: crawlv1.Purpose_PURPOSE_PAGE, Attempt: 1,
	}
}

// send passes one page and returns its answer.
func (r *ring) send(t *testing.T, l *crawlv1.Lease, status uint32, head string, chunks ...[]byte) *crawlv1.Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := r.client.Extract(ctx)
	if err != nil {
		t.Fatal(err)
	}
	put := func(req *extractorv1.ExtractRequest) {
		req.Id = 9
		if err := stream.Send(req); err != nil {
			t.Fatal(err)
		}
	}
	result := &crawlv1.FetchResult{
		Class: crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP, Status: status, StartedAt: timestamppb.Now(), Address: []byte{127, 0, 0, 1},
	}
	h := &extractorv1.PageHead{Lease: l, Request: []byte("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"), ResponseHead: []byte(head)}
	if status == 0 {
		result.Class, result.Error = crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT, "connect-refused: nobody listens"
		h.Request, h.ResponseHead = nil, nil
	}
	put(&extractorv1.ExtractRequest{Part: &extractorv1.ExtractRequest_Head{Head: h}})
	for _, c := range chunks {
		put(&extractorv1.ExtractRequest{Part: &extractorv1.ExtractRequest_Chunk{Chunk: c}})
	}
	put(&extractorv1.ExtractRequest{Part: &extractorv1.ExtractRequest_End{End: &extractorv1.PageEnd{Result: result}}})
	for {
		res, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if a := res.GetAnswer(); a != nil {
			_ = stream.CloseSend()
			return a
		}
	}
}

func (r *ring) last(t *testing.T) (*crawlv1.Outcome, map[string]*crawlv1.Candidate) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.got) == 0 {
		t.Fatal("nothing was forwarded")
	}
	req := r.got[len(r.got)-1]
	cands := map[string]*crawlv1.Candidate{}
	for _, c := range req.GetCandidates() {
		cands[c.GetUrl()] = c
	}
	return req.GetOutcome(), cands
}

func want(t *testing.T, got map[string]*crawlv1.Candidate, urls ...string) {
	t.Helper()
	for _, u := range urls {
		if got[u] == nil {
			t.Errorf("%s is missing", u)
		}
	}
	if len(got) != len(urls) {
		t.Errorf("got %d candidates, want %d: %v", len(got), len(urls), got)
	}
}

func done(t *testing.T, a *crawlv1.Answer) {
	t.Helper()
	if a.GetVerdict() != crawlv1.Verdict_VERDICT_DONE {
		t.Fatalf("answer %v", a)
	}
}

const htmlHead = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"

func TestPageIsStoredAndItsLinksGoOn(t *testing.T) {
	r := start(t, &jobv1.Spec{})
	l := lease("http://a.test/dir/page")
	l.Depth, l.HopPath = 2, "LL"
	body := `<base href="/other/"><a href="x">1</a><a href="x#frag">2</a><img src=i.png>
		<a href="http://b.test/">out</a><a href="mailto:a@b">no</a><a rel=nofollow href="nf">nofollow</a>`
	done(t, r.send(t, l, 200, htmlHead, []byte(body[:40]), []byte(body[40:])))
	o, cands := r.last(t)
	want(t, cands, "http://a.test/other/x", "http://a.test/other/i.png")
	c := cands["http://a.test/other/x"]
	if c.GetDepth() != 3 || c.GetHopPath() != "LLL" || c.GetReferrer() != l.GetUrl() || c.GetHostKey() != "a.test" || c.GetRule() != "scope host" {
		t.Errorf("link: %v", c)
	}
	if c := cands["http://a.test/other/i.png"]; c.GetDepth() != 2 || c.GetHopPath() != "LLE" {
		t.Errorf("embed: %v", c)
	}
	if o.GetLinksFound() != 6 || o.GetLinksOutOfScope() != 1 {
		t.Errorf("found %d, out of scope %d", o.GetLinksFound(), o.GetLinksOutOfScope())
	}
	if len(o.GetStored()) != 1 || o.GetPayloadDigest() != warc.SumDigest([]byte(body)).String() {
		t.Fatalf("stored %v, digest %s", o.GetStored(), o.GetPayloadDigest())
	}
	// The record is where the outcome says, while the file is still open.
	f, err := os.Open(filepath.Join(r.dir, "warc", o.GetStored()[0].GetFile()+warc.OpenSuffix))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	raw := make([]byte, o.GetStored()[0].GetLength())
	if _, err := f.ReadAt(raw, o.GetStored()[0].GetOffset()); err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	var rec bytes.Buffer
	if _, err := rec.ReadFrom(z); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(rec.String(), htmlHead+body) || !strings.Contains(rec.String(), "WARC-Target-URI: http://a.test/dir/page\r\n") {
		t.Errorf("record:\n%s", rec.String())
	}
}

func TestAcknowledgedLinksAreNotSentAgain(t *testing.T) {
	r := start(t, &jobv1.Spec{})
	body := []byte(`<a href="/x">`)
	r.answer = func(*dnserv1.ResolveRequest) *crawlv1.Answer {
		if len(r.got) == 1 {
			return &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_NEVER}
		}
		return &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_DONE}
	}
	l := lease("http://a.test/1")
	l.Depth = 5
	if a := r.send(t, l, 200, htmlHead, body); a.GetVerdict() != crawlv1.Verdict_VERDICT_NEVER {
		t.Fatalf("answer %v", a)
	}
	// What the frontier has not acknowledged is sent again.
	again := lease("http://a.test/2")
	again.Depth = 5
	done(t, r.send(t, again, 200, htmlHead, body))
	_, cands := r.last(t)
	want(t, cands, "http://a.test/x")
	// What it has, is not;
	third := lease("http://a.test/3")
	third.Depth = 5
	done(t, r.send(t, third, 200, htmlHead, body))
	o, cands := r.last(t)
	want(t, cands)
	if o.GetLinksKnown() != 1 {
		t.Errorf("known %d", o.GetLinksKnown())
	}
	// but a shorter way to it is news.
	done(t, r.send(t, lease("http://a.test/4"), 200, htmlHead, body))
	_, cands = r.last(t)
	want(t, cands, "http://a.test/x")
}

func TestRedirects(t *testing.T) {
	r := start(t, &jobv1.Spec{})
	head := "HTTP/1.1 301 Moved\r\nLocation: http://www.b.test/new\r\nContent-Type: text/html\r\n\r\n"
	l := lease("http://a.test/")
	done(t, r.send(t, l, 301, head))
	o, cands := r.last(t)
	want(t, cands) // out of scope for a page
	if o.GetRedirectUrl() != "http://www.b.test/new" {
		t.Errorf("redirect %q", o.GetRedirectUrl())
	}
	l = lease("http://a.test/seed")
	l.Seed = true
	done(t, r.send(t, l, 301, head))
	_, cands = r.last(t)
	want(t, cands, "http://www.b.test/new")
	if c := cands["http://www.b.test/new"]; !c.GetSeed() || c.GetHopPath() != "S" || c.GetRedirects() != 1 {
		t.Errorf("seed redirect: %v", c)
	}
	l = lease("http://a.test/sixth")
	l.Seed, l.Redirects = true, 5
	done(t, r.send(t, l, 301, head))
	_, cands = r.last(t)
	want(t, cands)
}

func TestRobotsPageGivesSitemaps(t *testing.T) {
	r := start(t, &jobv1.Spec{})
	l := lease("http://a.test/robots.txt")
	l.Purpose = crawlv1.Purpose_PURPOSE_ROBOTS
	text := "User-agent: *\nDisallow: /x\nSitemap: /maps/s.xml\n"
	done(t, r.send(t, l, 200, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n", []byte(text)))
	o, cands := r.last(t)
	want(t, cands, "http://a.test/maps/s.xml")
	if string(o.GetRobotsBody()) != text || o.GetPurpose() != crawlv1.Purpose_PURPOSE_ROBOTS {
		t.Errorf("outcome %v", o)
	}
	l = lease("http://a.test/robots.txt")
	l.Purpose = crawlv1.Purpose_PURPOSE_ROBOTS
	done(t, r.send(t, l, 404, "HTTP/1.1 404 Not Found\r\n\r\n", []byte("no")))
	o, cands = r.last(t)
	want(t, cands, "http://a.test/sitemap.xml")
	if len(o.GetRobotsBody()) != 0 {
		t.Errorf("robots body of a 404: %q", o.GetRobotsBody())
	}
	// A sitemap leads to pages one link further, an index to sitemaps.
	l = lease("http://a.test/maps/s.xml")
	l.HopPath = "M"
	done(t, r.send(t, l, 200, "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\n\r\n", []byte(
		`<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>http://a.test/p</loc></url><url><loc>http://b.test/q</loc></url></urlset>`)))
	_, cands = r.last(t)
	want(t, cands, "http://a.test/p")
	if c := cands["http://a.test/p"]; c.GetDepth() != 1 || c.GetHopPath() != "MM" {
		t.Errorf("page of a sitemap: %v", c)
	}
}

func TestDirectives(t *testing.T) {
	r := start(t, &jobv1.Spec{Storage: &jobv1.Storage{ObeyNoarchive: true, Stores: []string{"warc"}}})
	done(t, r.send(t, lease("http://a.test/m"), 200, htmlHead, []byte(`<meta name=robots content="nofollow, noarchive"><a href=/x>`)))
	o, cands := r.last(t)
	want(t, cands)
	if o.GetNofollowBy() == "" || o.GetLinksFound() != 1 || o.GetSkippedBy() != "noarchive" || len(o.GetStored()) != 0 {
		t.Errorf("outcome %v", o)
	}
	done(t, r.send(t, lease("http://a.test/h"), 200, "HTTP/1.1 200 OK\r\nX-Robots-Tag: nofollow\r\nContent-Type: text/html\r\n\r\n", []byte(`<a href=/y>`)))
	o, cands = r.last(t)
	want(t, cands)
	if o.GetNofollowBy() != "x-robots-tag nofollow" {
		t.Errorf("nofollow by %q", o.GetNofollowBy())
	}
}

// A store that keeps nothing of a page says so, as does one that is asked for a
// page whose path no file system takes.
func TestFilesKeepPagesAlone(t *testing.T) {
	r := start(t, &jobv1.Spec{Storage: &jobv1.Storage{Stores: []string{"warc", "files"}}})
	done(t, r.send(t, lease("http://a.test/gone"), 404, "HTTP/1.1 404 Gone\r\nContent-Type: text/html\r\n\r\n", []byte("gone")))
	o, _ := r.last(t)
	if len(o.GetStored()) != 1 || o.GetSkippedBy() != "nothing to store in files" || !slices.Equal(o.GetSkippedStores(), []string{"files"}) {
		t.Errorf("stored %v, skipped by %q in %q", o.GetStored(), o.GetSkippedBy(), o.GetSkippedStores())
	}
	done(t, r.send(t, lease("http://a.test/"+strings.Repeat("d/", 4000)), 200, htmlHead, []byte("deep")))
	o, _ = r.last(t)
	if len(o.GetStored()) != 2 || o.GetSkippedBy() != "" {
		t.Errorf("stored %v, skipped by %q", o.GetStored(), o.GetSkippedBy())
	}
}

func TestLargePageSpools(t *testing.T) {
	r := start(t, &jobv1.Spec{Storage: &jobv1.Storage{Stores: []string{"warc", "files"}}})
	var want strings.Builder
	var chunks [][]byte
	for i := range 400 {
		c := fmt.Sprintf("<p>%s</p><a href=\"/l%d\">", strings.Repeat("x", 32<<10), i)
		want.WriteString(c)
		chunks = append(chunks, []byte(c))
	}
	// 13 MB: more than a stream's credit, so credit must come back.
	done(t, r.send(t, lease("http://a.test/big"), 200, htmlHead, chunks...))
	o, cands := r.last(t)
	if len(cands) != 400 || o.GetPayloadBytes() != int64(want.Len()) {
		t.Errorf("%d links, %d bytes, want 400, %d", len(cands), o.GetPayloadBytes(), want.Len())
	}
	if len(o.GetStored()) != 2 {
		t.Fatalf("stored %v", o.GetStored())
	}
	got, err := os.ReadFile(filepath.Join(r.dir, "pages", "j", "a.test", "big%"))
	if err != nil || string(got) != want.String() {
		t.Errorf("file: %d bytes, %v", len(got), err)
	}
}

func TestCodedPage(t *testing.T) {
	r := start(t, &jobv1.Spec{})
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write([]byte(`<a href="/zipped">`))
	_ = w.Close()
	framed := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", z.Len(), z.String())
	done(t, r.send(t, lease("http://a.test/z"), 200,
		"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n", []byte(framed)))
	_, cands := r.last(t)
	want(t, cands, "http://a.test/zipped")
}

// A page with more links than a message holds goes on in parts, the outcome
// last.
func TestVeryManyLinksGoInParts(t *testing.T) {
	r := start(t, &jobv1.Spec{Storage: &jobv1.Storage{None: true}})
	long := strings.Repeat("x", 4000)
	var b strings.Builder
	const n = 3000
	for i := range n {
		fmt.Fprintf(&b, "<a href=\"/%d/%s\">", i, long)
	}
	done(t, r.send(t, lease("http://a.test/"), 200, htmlHead, []byte(b.String())))
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string]bool{}
	for i, req := range r.got {
		size := 0
		for _, c := range req.GetCandidates() {
			seen[c.GetUrl()] = true
			size += len(c.GetUrl())
		}
		if last := i == len(r.got)-1; last != (req.GetPart() == 0) || size > 5<<20 {
			t.Errorf("message %d of %d: part %d, %d bytes", i, len(r.got), req.GetPart(), size)
		}
	}
	if len(seen) != n || len(r.got) < 3 {
		t.Errorf("%d of %d links in %d messages", len(seen), n, len(r.got))
	}
}

func TestFailureTravelsToo(t *testing.T) {
	r := start(t, &jobv1.Spec{})
	done(t, r.send(t, lease("http://a.test/"), 0, ""))
	o, cands := r.last(t)
	want(t, cands)
	if o.GetFetch().GetClass() != crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT || len(o.GetStored()) != 0 || o.GetSkippedBy() == "" {
		t.Errorf("outcome %v", o)
	}
}

func TestPipelineBranches(t *testing.T) {
	r := start(t, &jobv1.Spec{Pipeline: []*jobv1.Handler{
		{Handler: "links"},
		{Handler: "select", When: `type == "text/html" && status == 200`, Otherwise: "finish"},
		{Handler: "store"},
	}})
	done(t, r.send(t, lease("http://a.test/404"), 404, "HTTP/1.1 404 No\r\nContent-Type: text/html\r\n\r\n", []byte("<a href=/from404>")))
	o, cands := r.last(t)
	want(t, cands, "http://a.test/from404")
	if o.GetSkippedBy() != "pipeline" || len(o.GetStored()) != 0 {
		t.Errorf("outcome %v", o)
	}
	done(t, r.send(t, lease("http://a.test/ok"), 200, htmlHead, []byte("x")))
	if o, _ := r.last(t); len(o.GetStored()) != 1 {
		t.Errorf("outcome %v", o)
	}
}

// A lease made under a newer spec waits for that spec: judging its links by
// the old scope would lose those that a new root lets in.
func TestNewerSpecIsWaitedFor(t *testing.T) {
	r := start(t, &jobv1.Spec{})
	l := lease("http://a.test/")
	l.SpecVersion = 2
	answers := make(chan *crawlv1.Answer, 1)
	go func() { answers <- r.send(t, l, 200, htmlHead, []byte(`<a href="http://b.test/in">`)) }()
	r.setJob(t, 2, &jobv1.Spec{}, "http://a.test/", "http://b.test/")
	done(t, <-answers)
	_, cands := r.last(t)
	want(t, cands, "http://b.test/in")
}

func TestUnknownJobIsNever(t *testing.T) {
	r := start(t, &jobv1.Spec{})
	done(t, r.send(t, lease("http://a.test/"), 200, htmlHead, []byte("x"))) // joined
	l := lease("http://a.test/")
	l.JobId = "gone"
	if a := r.send(t, l, 200, htmlHead, []byte("x")); a.GetVerdict() != crawlv1.Verdict_VERDICT_NEVER {
		t.Errorf("answer %v", a)
	}
}

func TestFullDisk(t *testing.T) {
	r := start(t, &jobv1.Spec{})
	done(t, r.send(t, lease("http://a.test/"), 200, htmlHead, []byte("x")))
	// The folder of the files becomes a file: nothing can be written there.
	r.setJob(t, 2, &jobv1.Spec{Storage: &jobv1.Storage{Stores: []string{"files"}}}, "http://a.test/")
	if err := os.WriteFile(filepath.Join(r.dir, "pages"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := lease("http://a.test/2")
	l.SpecVersion = 2
	a := r.send(t, l, 200, htmlHead, []byte("x"))
	if a.GetVerdict() != crawlv1.Verdict_VERDICT_RETRY_LATER || !a.GetStorageUnavailable() {
		t.Fatalf("answer %v", a)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.got) != 1 {
		t.Error("a page that is not stored was handed on")
	}
}

func TestCrawlLog(t *testing.T) {
	r := start(t, &jobv1.Spec{})
	l := lease("http://a.test/a%20b")
	l.HopPath = "L"
	done(t, r.send(t, l, 200, htmlHead, []byte("x")))
	t.Cleanup(func() {}) // the log is complete when Run has returned
	deadline := time.Now().Add(10 * time.Second)
	for {
		b, _ := os.ReadFile(filepath.Join(r.dir, "logs", "crawl.log"))
		if len(b) > 0 {
			f := strings.Fields(string(b))
			if f[1] != "200" || f[3] != "http://a.test/a%20b" || f[4] != "L" || f[5] != "-" || f[6] != "text/html" || !strings.HasPrefix(f[9], "sha1:") {
				t.Errorf("line %q", b)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no line was flushed")
		}
		<-time.After(50 * time.Millisecond)
	}
}
