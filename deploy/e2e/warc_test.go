package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lycosa.dev/internal/testdeps"
)

// record is a WARC record as this package's own reader sees it, which knows
// nothing of the product's: gzip members of the standard library, header lines,
// Content-Length.
type record struct {
	file    string
	fields  map[string]string // names in lower case; values of one name joined by commas
	version string
	block   []byte
}

func (r record) kind() string { return r.fields["warc-type"] }
func (r record) uri() string  { return r.fields["warc-target-uri"] }

// status is the HTTP status of a response record, 0 if it is none.
func (r record) status() int {
	if r.kind() != "response" && r.kind() != "revisit" {
		return 0
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(r.block)), nil)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// warcFiles are the files of a crawl; open ones are there only while a crawl
// runs or after it was killed.
func warcFiles(t testing.TB, dir string) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.warc.gz", "*.warc.gz.open"} {
		found, err := filepath.Glob(filepath.Join(dir, "warc", pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return files
}

// readWARC reads all records of all files of a crawl that has ended.
func readWARC(t testing.TB, dir string) []record {
	t.Helper()
	var all []record
	files := warcFiles(t, dir)
	if len(files) == 0 {
		t.Errorf("no WARC file in %s", dir)
	}
	for _, f := range files {
		if strings.HasSuffix(f, ".open") {
			t.Errorf("%s: still open after the crawl's end", f)
		}
		recs, err := readWARCFile(f)
		if err != nil {
			t.Errorf("%s: %v", f, err)
		}
		all = append(all, recs...)
	}
	return all
}

func readWARCFile(path string) ([]record, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return nil, err
	}
	var recs []record
	r := bufio.NewReaderSize(z, 64<<10)
	for {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" {
			return recs, nil
		}
		if err != nil {
			return recs, fmt.Errorf("after %d records: %w", len(recs), err)
		}
		rec := record{file: path, version: strings.TrimRight(line, "\r\n"), fields: map[string]string{}}
		if !strings.HasPrefix(rec.version, "WARC/1.") {
			return recs, fmt.Errorf("after %d records: %q is no record's first line", len(recs), line)
		}
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return recs, err
			}
			line = strings.TrimRight(line, "\r\n")
			if line == "" {
				break
			}
			name, value, ok := strings.Cut(line, ":")
			if !ok {
				return recs, fmt.Errorf("record %d: header line %q", len(recs), line)
			}
			name = strings.ToLower(name)
			if before, again := rec.fields[name]; again {
				value = before + "," + value
			}
			rec.fields[name] = strings.TrimSpace(value)
		}
		var length int64
		if _, err := fmt.Sscan(rec.fields["content-length"], &length); err != nil {
			return recs, fmt.Errorf("record %d: Content-Length %q", len(recs), rec.fields["content-length"])
		}
		rec.block = make([]byte, length)
		if _, err := io.ReadFull(r, rec.block); err != nil {
			return recs, err
		}
		var end [4]byte
		if _, err := io.ReadFull(r, end[:]); err != nil || string(end[:]) != "\r\n\r\n" {
			return recs, fmt.Errorf("record %d: ends with %q: %w", len(recs), end, err)
		}
		recs = append(recs, rec)
	}
}

// stored counts the response records of each URL with a status.
func stored(recs []record, status int) map[string]int {
	n := map[string]int{}
	for _, r := range recs {
		if r.kind() == "response" && r.status() == status {
			n[r.uri()]++
		}
	}
	return n
}

// checkWARC holds every file of a crawl that has ended against two judges: the
// product's `warc verify` and npm warcio, digests included.
func checkWARC(t testing.TB, dir string) {
	t.Helper()
	files := warcFiles(t, dir)
	if len(files) == 0 {
		return
	}
	mustLycosa(t, time.Minute, append([]string{"warc", "verify"}, files...)...)
	warcio(t, files)
}

// warcio reads files with npm warcio; without it, it says so in the log.
func warcio(t testing.TB, files []string) {
	t.Helper()
	folder := os.Getenv("LYCOSA_WARCIO")
	node, err := exec.LookPath("node")
	if folder == "" || err != nil {
		if os.Getenv(testdeps.Required) != "" {
			t.Errorf("no npm warcio: LYCOSA_WARCIO=%q, node: %v", folder, err)
		}
		t.Logf("WARC files are not read by npm warcio: LYCOSA_WARCIO=%q (make test-deps installs it), node: %v", folder, err)
		return
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), node, append([]string{"../../internal/warc/testdata/warcio-check.mjs", folder}, files...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("warcio: %v\n%s", err, ends(stderr.String()))
		return
	}
	if stderr.Len() > 0 {
		t.Errorf("warcio warns: %s", ends(stderr.String()))
	}
	responses := 0
	for line := range bytes.Lines(out) {
		var r struct {
			File, Type, URL, Block, Payload string
			Length, Said                    int64
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		if r.Type == "response" {
			responses++
		}
		if r.Length != r.Said {
			t.Errorf("%s: %s %s: block of %d bytes, said to be %d", r.File, r.Type, r.URL, r.Length, r.Said)
		}
		if strings.HasPrefix(r.Block, "wrong") || strings.HasPrefix(r.Payload, "wrong") {
			t.Errorf("%s: %s %s: block digest %s, payload digest %s", r.File, r.Type, r.URL, r.Block, r.Payload)
		}
	}
	if responses == 0 {
		t.Error("warcio found no response")
	}
}
