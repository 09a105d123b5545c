package warc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"lycosa.dev/internal/warc"
)

var clock = time.Date(2026, 11, 30, 20, 15, 7, 123_456_789, time.UTC)

func config(dir string) warc.Config {
	return warc.Config{
		Dir: dir, Job: "test", Now: func() time.Time { return clock },
		Info: []warc.Field{{Name: "software", Value: "Lycosa/test"}, {Name: "robots", Value: "obey"}},
	}
}

func open(t testing.TB, cfg warc.Config) *warc.Writer {
	t.Helper()
	w, _, err := warc.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// capture is the three records of one page.
func capture(url string, head, body []byte) []warc.Record {
	return []warc.Record{
		{Type: warc.Response, TargetURI: url, IP: netip.MustParseAddr("192.0.2.7"), Head: head, Body: body, PayloadType: "text/html"},
		{Type: warc.Request, TargetURI: url, IP: netip.MustParseAddr("192.0.2.7"), Head: []byte("GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: Lycosa/test\r\n\r\n")},
		{Type: warc.Metadata, TargetURI: url, Body: []byte("fetchTimeMs: 12\r\nhopPath: LL\r\n")},
	}
}

func okHead(n int) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n", n)
}

// got is one record as it was read back.
type got struct {
	warc.Location
	Type   warc.RecordType
	Fields map[string]string
	Block  string
}

func readAll(t testing.TB, name string, data []byte) []got {
	t.Helper()
	r := warc.NewReader(bytes.NewReader(data))
	r.OnProblem = func(p warc.Problem) { t.Errorf("%s: %s", name, p) }
	var out []got
	for {
		e, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(e.Block)
		if err != nil {
			t.Fatal(err)
		}
		g := got{Type: e.Type, Fields: map[string]string{}, Block: string(b)}
		for _, f := range e.Fields {
			g.Fields[f.Name] = f.Value
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		g.Location = warc.Location{File: name, Offset: e.Offset, Length: e.Length}
		out = append(out, g)
	}
}

func verify(t testing.TB, name string, data []byte) *warc.Report {
	t.Helper()
	rep, err := warc.VerifyReaderAt(context.Background(), name, bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func mustVerify(t testing.TB, name string, data []byte) *warc.Report {
	t.Helper()
	rep := verify(t, name, data)
	for _, p := range rep.Problems {
		t.Errorf("%s: %s", name, p)
	}
	return rep
}

func onlyFile(t testing.TB, dir string) (string, []byte) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("files %v, %v; want one", names, err)
	}
	b, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(names[0]), b
}

func TestWriteAndRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "warc")
	w := open(t, config(dir))
	body := []byte("<html><p>Grüße</p></html>")
	recs := capture("https://example.org/", okHead(len(body)), body)
	loc, err := w.Write(context.Background(), recs)
	if err != nil {
		t.Fatal(err)
	}
	if loc.File != "test-20261130201507-00000.warc.gz" {
		t.Errorf("file %q", loc.File)
	}
	// While it is written it has its suffix, and is readable at the location.
	r, c, err := warc.OpenFile(filepath.Join(dir, loc.File), loc.Offset)
	if err != nil {
		t.Fatal(err)
	}
	e, err := r.Next()
	if err != nil || e.Type != warc.Response || e.Offset != loc.Offset {
		t.Fatalf("at the location: %+v, %v", e, err)
	}
	_ = c.Close()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(context.Background(), recs); !errors.Is(err, warc.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	name, data := onlyFile(t, dir)
	if name != loc.File {
		t.Fatalf("file %q", name)
	}
	all := readAll(t, name, data)
	if len(all) != 4 {
		t.Fatalf("%d records", len(all))
	}
	for i, g := range all[1:] {
		if g.Location != recs[i].Location {
			t.Errorf("record %d at %+v, Write said %+v", i, g.Location, recs[i].Location)
		}
	}
	info, resp, req, meta := all[0], all[1], all[2], all[3]
	if info.Type != warc.Warcinfo || info.Fields["WARC-Filename"] != name || !strings.Contains(info.Block, "software: Lycosa/test\r\n") {
		t.Errorf("warcinfo %+v", info)
	}
	if resp.Block != string(okHead(len(body)))+string(body) {
		t.Errorf("response block %q", resp.Block)
	}
	for k, v := range map[string]string{
		"WARC-Date": "2026-11-30T20:15:07.123Z", "WARC-Target-URI": "https://example.org/", "WARC-IP-Address": "192.0.2.7",
		"WARC-Payload-Digest": warc.SumDigest(body).String(), "Content-Type": "application/http; msgtype=response",
		"WARC-Identified-Payload-Type": "text/html",
	} {
		if resp.Fields[k] != v {
			t.Errorf("response %s = %q, want %q", k, resp.Fields[k], v)
		}
	}
	if recs[0].PayloadDigest != warc.SumDigest(body) {
		t.Error("the digest is not given back")
	}
	for _, g := range []got{req, meta} {
		if g.Fields["WARC-Concurrent-To"] != resp.Fields["WARC-Record-ID"] || g.Fields["WARC-Block-Digest"] == "" {
			t.Errorf("%s: %v", g.Type, g.Fields)
		}
	}
	if rep := mustVerify(t, name, data); rep.Total() != 4 || rep.Digests != 4 {
		t.Errorf("report %+v", rep)
	}
	if s := w.Stats(); s.Records != 3 || s.Commits < 1 || s.Files != 1 || s.StoredBytes != loc.Length {
		t.Errorf("stats %+v", s)
	}
}

func TestRecordKinds(t *testing.T) {
	dir := t.TempDir()
	cfg := config(dir)
	cfg.BlockDigests = true
	w := open(t, cfg)
	ctx := context.Background()
	body := []byte("same")
	first := capture("http://example.org/a", okHead(4), body)
	if _, err := w.Write(ctx, first); err != nil {
		t.Fatal(err)
	}
	recs := []warc.Record{
		{Type: warc.Revisit, TargetURI: "http://example.org/b", Profile: warc.ProfileIdenticalPayload, PayloadDigest: warc.SumDigest(body),
			RefersTo: first[0].ID, RefersToURI: "http://example.org/a", RefersToDate: first[0].Date, Head: okHead(4), Truncated: warc.TruncatedLength},
		{Type: warc.Revisit, TargetURI: "http://example.org/a", Profile: warc.ProfileNotModified, RefersToURI: "http://example.org/a",
			RefersToDate: first[0].Date, Head: []byte("HTTP/1.1 304 Not Modified\r\n\r\n")},
		{Type: warc.Resource, TargetURI: "dns:example.org", ContentType: "text/dns", Body: []byte("20261130201507\nexample.org. 60 IN A 192.0.2.7\n")},
		{Type: warc.Conversion, TargetURI: "http://example.org/a", RefersTo: first[0].ID, ContentType: "text/plain", BodyParts: [][]byte{[]byte("sa"), nil, []byte("me")}},
		{Type: warc.Response, TargetURI: "http://[2001:db8::1]/", IP: netip.MustParseAddr("::ffff:192.0.2.7"), Head: okHead(9), Body: []byte("half"), Truncated: warc.TruncatedDisconnect},
		{Type: warc.Response, TargetURI: "http://example.org/empty", Head: []byte("HTTP/1.1 204 No Content\r\n\r\n")},
		{Type: warc.Response, TargetURI: "http://example.org/nothing"},
		{Type: warc.Metadata, TargetURI: "http://example.org/a", Fields: []warc.Field{{Name: "Lycosa-Note", Value: "x"}}},
	}
	if _, err := w.Write(ctx, recs); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	name, data := onlyFile(t, dir)
	rep := mustVerify(t, name, data)
	if rep.Records[warc.Revisit] != 2 || rep.Total() != 12 {
		t.Errorf("report %+v", rep)
	}
	all := readAll(t, name, data)[4:]
	if f := all[0].Fields; f["WARC-Refers-To"] != "<"+first[0].ID.String()+">" || f["WARC-Refers-To-Date"] != "2026-11-30T20:15:07.123Z" || f["WARC-Truncated"] != "length" {
		t.Errorf("revisit %v", f)
	}
	if f := all[3].Fields; f["WARC-Concurrent-To"] != "" || all[3].Block != "same" || f["WARC-Payload-Digest"] != f["WARC-Block-Digest"] {
		t.Errorf("conversion %v", f)
	}
	if f := all[4].Fields; f["WARC-IP-Address"] != "192.0.2.7" || f["WARC-Truncated"] != "disconnect" {
		t.Errorf("response %v", f)
	}
}

func TestBadRecords(t *testing.T) {
	w := open(t, config(t.TempDir()))
	for name, r := range map[string]warc.Record{
		"no type":             {TargetURI: "http://x/"},
		"continuation":        {Type: warc.Continuation, TargetURI: "http://x/"},
		"no URI":              {Type: warc.Response},
		"line end in URI":     {Type: warc.Response, TargetURI: "http://x/\r\nWARC-Type: x"},
		"line end in a field": {Type: warc.Response, TargetURI: "http://x/", Fields: []warc.Field{{Name: "A", Value: "b\nc"}}},
		"colon in a name":     {Type: warc.Response, TargetURI: "http://x/", Fields: []warc.Field{{Name: "A:", Value: "b"}}},
		"unknown truncation":  {Type: warc.Response, TargetURI: "http://x/", Truncated: "bored"},
		"no profile":          {Type: warc.Revisit, TargetURI: "http://x/"},
		"no digest":           {Type: warc.Revisit, TargetURI: "http://x/", Profile: warc.ProfileIdenticalPayload},
	} {
		if _, err := w.Write(context.Background(), []warc.Record{r}); !errors.Is(err, warc.ErrBadRecord) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.Write(context.Background(), nil); !errors.Is(err, warc.ErrBadRecord) {
		t.Errorf("nothing: %v", err)
	}
	if _, _, err := warc.Open(warc.Config{Job: "a/b", Level: 12, Dir: ""}); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("three problems at once: %v", err)
	}
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	cfg := config(dir)
	cfg.MaxFileBytes = 20_000
	w := open(t, cfg)
	rng := rand.New(rand.NewPCG(1, 1))
	noise := make([]byte, 5000)
	files := map[string]bool{}
	for i := range 12 {
		for j := range noise {
			noise[j] = byte(rng.Uint32())
		}
		recs := capture(fmt.Sprintf("http://example.org/%d", i), okHead(len(noise)), noise)
		loc, err := w.Write(context.Background(), recs)
		if err != nil {
			t.Fatal(err)
		}
		files[loc.File] = true
		if loc.Offset+loc.Length > cfg.MaxFileBytes {
			t.Errorf("file of %d bytes", loc.Offset+loc.Length)
		}
	}
	if err := w.Rotate(context.Background()); err != nil {
		t.Fatal(err)
	}
	if open, _ := filepath.Glob(filepath.Join(dir, "*.open")); len(open) > 0 {
		t.Errorf("open after Rotate: %v", open)
	}
	if _, err := w.Write(context.Background(), capture("http://example.org/last", okHead(1), []byte("x"))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if len(files) != 4 {
		t.Errorf("%d files, want 4", len(files))
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*.warc.gz"))
	total := 0
	for _, n := range names {
		rep, err := warc.Verify(context.Background(), n)
		if err != nil || !rep.OK() {
			t.Errorf("%s: %v %v", n, err, rep.Problems)
		}
		total += rep.Records[warc.Response]
	}
	if total != 13 || len(names) != 5 {
		t.Errorf("%d responses in %d files", total, len(names))
	}
	// The next process goes on with the numbers, and one that wrote nothing leaves nothing.
	w2 := open(t, config(dir))
	if err := w2.Close(); err != nil {
		t.Fatal(err)
	}
	w3 := open(t, config(dir))
	loc, err := w3.Write(context.Background(), capture("http://example.org/", okHead(1), []byte("x")))
	if err != nil || !strings.HasSuffix(loc.File, "-00005.warc.gz") {
		t.Errorf("%v, %v", loc, err)
	}
}

func TestConcurrentWriters(t *testing.T) {
	dir := t.TempDir()
	cfg := config(dir)
	cfg.MaxFileBytes, cfg.MaxPending, cfg.MemoryBytes = 300_000, 8, 4096
	w := open(t, cfg)
	const callers, each = 16, 20
	locs := make([][]warc.Location, callers)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(c), 7))
			body := make([]byte, 8000)
			for i := range each {
				for j := range body {
					body[j] = byte(rng.UintN(64)) + ' '
				}
				n := rng.IntN(len(body))
				recs := capture(fmt.Sprintf("http://example.org/%d/%d", c, i), okHead(n), body[:n])
				ctx, cancel := context.WithCancel(context.Background())
				if i%5 == 4 {
					go cancel() // some give up at a random moment
				}
				_, err := w.Write(ctx, recs)
				cancel()
				if errors.Is(err, context.Canceled) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				locs[c] = append(locs[c], recs[0].Location)
			}
		})
	}
	wg.Go(func() {
		for range 5 {
			if err := w.Rotate(context.Background()); err != nil {
				t.Error(err)
			}
			runtime.Gosched()
		}
	})
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	stored := map[warc.Location]string{}
	responses := 0
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, path := range names {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		mustVerify(t, filepath.Base(path), data)
		for _, g := range readAll(t, filepath.Base(path), data) {
			stored[g.Location] = g.Fields["WARC-Target-URI"]
			if g.Type == warc.Response {
				responses++
			}
		}
	}
	acked := 0
	for c := range locs {
		for _, loc := range locs[c] {
			acked++
			if !strings.HasPrefix(stored[loc], fmt.Sprintf("http://example.org/%d/", c)) {
				t.Errorf("%+v holds %q", loc, stored[loc])
			}
		}
	}
	// A call that gave up in time left nothing behind.
	if responses != acked {
		t.Errorf("%d responses stored, %d acknowledged", responses, acked)
	}
	if s := w.Stats(); s.Records != int64(3*acked) {
		t.Errorf("stats %+v", s)
	}
}

// TestSecondWriter: a file that another process writes is left alone.
func TestSecondWriter(t *testing.T) {
	dir := t.TempDir()
	w := open(t, config(dir))
	if _, err := w.Write(context.Background(), capture("http://example.org/", okHead(1), []byte("x"))); err != nil {
		t.Fatal(err)
	}
	w2, recovered, err := warc.Open(config(dir))
	if err != nil || len(recovered) > 0 {
		t.Fatalf("%v, %v", recovered, err)
	}
	if _, err := w2.Write(context.Background(), capture("http://example.org/", okHead(1), []byte("y"))); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), w2.Close()); err != nil {
		t.Fatal(err)
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*.warc.gz"))
	if len(names) != 2 {
		t.Errorf("files %v", names)
	}
}

func TestUnwritableFolder(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var se *warc.StorageError
	if _, _, err := warc.Open(config(filepath.Join(file, "warc"))); !errors.As(err, &se) || !strings.Contains(err.Error(), file) {
		t.Errorf("a folder in a file: %v", err)
	}
}

// A folder that is deleted below a writer: what would be lost is not
// acknowledged, and the writer goes on in a new folder.
func TestRemovedFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "warc")
	w := open(t, config(dir))
	page := func(i int) error {
		url := fmt.Sprintf("http://example.org/%d", i)
		_, err := w.Write(context.Background(), capture(url, okHead(4), []byte("page")))
		return err
	}
	if err := page(1); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := page(2); err == nil {
		t.Fatal("a record of a file that is gone was acknowledged")
	}
	if err := page(3); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*.warc.gz"))
	if err != nil || len(left) != 1 {
		t.Errorf("files %v, %v, want one", left, err)
	}
}
