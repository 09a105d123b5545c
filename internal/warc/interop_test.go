package warc_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/nlnwa/gowarc/v3"

	"lycosa.dev/internal/httpwire"
	"lycosa.dev/internal/testdeps"
	"lycosa.dev/internal/warc"
)

// shape is one form of a response.
type shape struct {
	name    string
	head    string // fields
	body    []byte // as stored
	entity  []byte // the payload
	text    []byte // the decoded payload; nil: not compared
	framed  bool   // the payload is not the stored body
	trunc   warc.Truncation
	noDiges bool
}

func shapes(t testing.TB) []shape {
	text := []byte(strings.Repeat("<p>Die Würde des Menschen ist unantastbar.</p>\n", 300))
	chunk := func(b []byte) []byte {
		var out bytes.Buffer
		for len(b) > 0 {
			n := min(len(b), 1777)
			fmt.Fprintf(&out, "%x\r\n%s\r\n", n, b[:n])
			b = b[n:]
		}
		out.WriteString("0\r\n\r\n")
		return out.Bytes()
	}
	enc := func(f func(io.Writer) io.WriteCloser) []byte {
		var out bytes.Buffer
		w := f(&out)
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	gz := enc(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	br := enc(func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) })
	zs := enc(func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z })
	return []shape{
		{name: "plain", body: text, entity: text, text: text},
		{name: "empty", head: "Content-Length: 0\r\n"},
		{name: "chunked", head: "Transfer-Encoding: chunked\r\n", body: chunk(text), entity: text, text: text, framed: true},
		{name: "chunked-empty", head: "Transfer-Encoding: chunked\r\n", body: chunk(nil), framed: true},
		{name: "gzip", head: "Content-Encoding: gzip\r\n", body: gz, entity: gz, text: text},
		{name: "gzip-chunked", head: "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", body: chunk(gz), entity: gz, text: text, framed: true},
		{name: "br", head: "Content-Encoding: br\r\n", body: br, entity: br},
		{name: "zstd", head: "Content-Encoding: zstd\r\n", body: zs, entity: zs},
		{name: "truncated", head: "Content-Length: 99999\r\n", body: text[:1000], entity: text[:1000], trunc: warc.TruncatedLength},
		{name: "chunked-truncated", head: "Transfer-Encoding: chunked\r\n", body: chunk(text)[:5000], entity: nil, framed: true, trunc: warc.TruncatedDisconnect},
		{name: "chunked-claimed", head: "Transfer-Encoding: chunked\r\n", body: text, entity: text, text: text},
		{name: "chunked-broken", head: "Transfer-Encoding: chunked\r\n", body: []byte("3\r\nabcXYZ"), framed: true, noDiges: true},
		{name: "binary", body: bytes.Repeat([]byte{0, 1, 2, 0xff, '\r', '\n', '\r', '\n'}, 500), entity: bytes.Repeat([]byte{0, 1, 2, 0xff, '\r', '\n', '\r', '\n'}, 500)},
	}
}

// writeShapes makes a file of all shapes and returns its path.
func writeShapes(t testing.TB, blockDigests bool) string {
	t.Helper()
	dir := t.TempDir()
	cfg := config(dir)
	cfg.BlockDigests = blockDigests
	w := open(t, cfg)
	for _, s := range shapes(t) {
		recs := capture("http://example.org/"+s.name, []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"+s.head+"\r\n"), s.body)
		recs[0].Truncated = s.trunc
		if _, err := w.Write(context.Background(), recs); err != nil {
			t.Fatal(err)
		}
		if s.entity != nil && recs[0].PayloadDigest != warc.SumDigest(s.entity) {
			t.Errorf("%s: the payload digest is not that of the entity", s.name)
		}
		var h httpwire.Head
		if _, err := h.Parse(recs[0].Head); err != nil {
			t.Fatal(err)
		}
		half := len(s.body) / 2
		whole, ok1 := warc.EntityDigest(&h, s.body)
		pieces, ok2 := warc.EntityDigest(&h, s.body[:half], s.body[half:])
		if whole != recs[0].PayloadDigest || pieces != whole || ok1 == s.noDiges || ok2 == s.noDiges {
			t.Errorf("%s: EntityDigest is %v %v, %v %v, the record has %v", s.name, whole, ok1, pieces, ok2, recs[0].PayloadDigest)
		}
		if recs[0].PayloadDigest.IsZero() != s.noDiges {
			t.Errorf("%s: payload digest %v", s.name, recs[0].PayloadDigest)
		}
	}
	revisit := []warc.Record{{
		Type: warc.Revisit, TargetURI: "http://example.org/again", Profile: warc.ProfileIdenticalPayload,
		PayloadDigest: warc.SumDigest([]byte("x")), RefersToURI: "http://example.org/plain", RefersToDate: clock,
		Head: okHead(1),
	}}
	if _, err := w.Write(context.Background(), revisit); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	name, data := onlyFile(t, dir)
	mustVerify(t, name, data)
	return filepath.Join(dir, name)
}

// TestGowarc: an independent reader finds every record and, in its strict mode,
// nothing to object to, but for chunked responses, whose payload digest it takes
// over the chunk framing.
func TestGowarc(t *testing.T) {
	path := writeShapes(t, true)
	framed := map[string]bool{}
	for _, s := range shapes(t) {
		framed["http://example.org/"+s.name] = s.framed && !s.noDiges
	}
	r, err := gowarc.NewWarcFileReader(path, 0, gowarc.WithSyntaxErrorPolicy(gowarc.ErrWarn), gowarc.WithSpecViolationPolicy(gowarc.ErrWarn),
		gowarc.WithBlockErrorPolicy(gowarc.ErrWarn))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	own := readAll(t, "x", mustRead(t, path))
	n := 0
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if n >= len(own) {
			t.Fatal("more records than our own reader finds")
		}
		w := rec.WarcRecord
		want := own[n]
		url := w.WarcHeader().Get(gowarc.WarcTargetURI)
		if rec.Offset != want.Offset || w.Type().String() != want.Type.String() || url != want.Fields["WARC-Target-URI"] {
			t.Errorf("record %d: %s %s at %d, we read %s at %d", n, w.Type(), url, rec.Offset, want.Type, want.Offset)
		}
		for _, v := range rec.Validation {
			if framed[url] && w.Type() == gowarc.Response && strings.HasPrefix(v.Error(), "payload:") {
				framed[url] = false // seen, as expected
				continue
			}
			t.Errorf("record %d %s %s: %v", n, w.Type(), url, v)
		}
		_ = rec.Close()
		n++
	}
	if n != len(own) {
		t.Errorf("gowarc finds %d records, we find %d", n, len(own))
	}
	for url, not := range framed {
		if not {
			t.Errorf("gowarc agrees with the payload digest of %s: it no longer takes it over the chunk framing", url)
		}
	}
}

func mustRead(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestWarcio: npm warcio reads every record at the same place and agrees with
// every digest, chunked and content-coded responses among them.
func TestWarcio(t *testing.T) {
	folder, node := testdeps.Folder(t, "LYCOSA_WARCIO"), testdeps.Program(t, "node")
	path := writeShapes(t, true)
	own := readAll(t, "x", mustRead(t, path))
	texts := map[string]string{}
	for _, s := range shapes(t) {
		if s.text != nil {
			texts["http://example.org/"+s.name] = warc.SumDigest(s.text).String()
		}
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), node, "testdata/warcio-check.mjs", folder, path)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	if stderr.Len() > 0 {
		t.Errorf("warcio warns: %s", stderr.String())
	}
	n := 0
	for sc := bufio.NewScanner(bytes.NewReader(out)); sc.Scan(); n++ {
		var r struct {
			Type, ID, URL, Block, Payload, Text string
			Offset, Length, Said                int64
		}
		if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if n >= len(own) {
			t.Fatal("more records than our own reader finds")
		}
		want := own[n]
		if r.Offset != want.Offset || r.Type != want.Type.String() || r.ID != want.Fields["WARC-Record-ID"] || r.Length != int64(len(want.Block)) || r.Said != r.Length {
			t.Errorf("record %d: %s, we read %+v", n, sc.Text(), want.Location)
		}
		if want.Fields["WARC-Block-Digest"] != "" && r.Block != "ok" {
			t.Errorf("record %d %s %s: block digest %s", n, r.Type, r.URL, r.Block)
		}
		if want.Type == warc.Response && want.Fields["WARC-Payload-Digest"] != "" && r.Payload != "ok" {
			t.Errorf("record %d %s: payload digest %s", n, r.URL, r.Payload)
		}
		if text, ok := texts[r.URL]; ok && want.Type == warc.Response && r.Text != text {
			t.Errorf("record %d %s: the decoded text is not what was served", n, r.URL)
		}
	}
	if n != len(own) {
		t.Errorf("warcio finds %d records, we find %d", n, len(own))
	}
}
