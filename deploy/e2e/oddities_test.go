package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lycosa.dev/internal/testweb"
)

// TestOdditiesIntoTheWARC: every odd server behaviour in one crawl, with short
// limits. What the WARC holds of each is what the server sent, byte for byte;
// what is cut says why; bombs and encodings are told; other readers accept the
// files; and the crawl ends.
func TestOdditiesIntoTheWARC(t *testing.T) {
	t.Parallel()
	cases := testweb.WebOddities()
	s := testweb.StartOddities(t, nil, cases...)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := z.Write(make([]byte, 32<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	s.Script("/case/bomb", testweb.Say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", bomb.Len(), bomb.String())))
	cyrillic := "<meta charset=cp-1251><p>\xcf\xf0\xe8\xe2\xe5\xf2</p>"
	s.Script("/case/cyrillic", testweb.Say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s", len(cyrillic), cyrillic)))

	// A host each: failures have a host left alone for a while.
	url := func(id string) string { return fmt.Sprintf("http://%s.test:%d/case/%s", id, s.Addr().Port, id) }
	var seeds strings.Builder
	for _, c := range append(slices.Clone(cases), testweb.Oddity{ID: "bomb"}, testweb.Oddity{ID: "cyrillic"}) {
		seeds.WriteString(url(c.ID) + "\n")
	}
	dir, tmp := t.TempDir(), t.TempDir()
	job, list := filepath.Join(tmp, "job.yaml"), filepath.Join(tmp, "seeds.txt")
	// Limits that a loaded machine bears; a failure is tried again soon, and once.
	spec := "name: odd\nlimits: {max_page_bytes: 1MiB}\npoliteness: {max_tries: 2, back_off: 1s}\nfetch:\n  first_byte_timeout: 3s\n  head_timeout: 3s\n" +
		"  idle_timeout: 3s\n  total_timeout: 8s\n  min_rate_bytes: 10240\n  min_rate_grace: 3s\n"
	for path, text := range map[string]string{job: spec, list: seeds.String()} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := lycosa(t, 2*time.Minute, polite(dir, "--job", job, "--seeds", list, "--scope", "page", "--max-duration", "1m")...)
	if r.code != 0 {
		t.Fatalf("exit code %d: %s", r.code, ends(r.err))
	}
	recs := map[string]record{}
	for _, rec := range readWARC(t, dir) {
		if rec.kind() == "response" {
			recs[rec.uri()] = rec
		}
	}
	sent := map[string][][]byte{}
	for _, x := range s.Log() {
		sent[x.Target] = append(sent[x.Target], x.Sent)
	}
	for _, c := range cases {
		rec, ok := recs[url(c.ID)]
		if ok != (c.Class == "") {
			t.Errorf("%s: in the WARC: %v, want %v", c.ID, ok, c.Class == "")
			continue
		}
		if !ok {
			continue
		}
		if !slices.ContainsFunc(sent["/case/"+c.ID], func(b []byte) bool { return bytes.Contains(b, rec.block) }) {
			t.Errorf("%s: the record %.200q is no part of what was sent", c.ID, rec.block)
		}
		if c.Body != "-" && !bytes.HasSuffix(rec.block, []byte(c.Body)) {
			t.Errorf("%s: the record ends with %.100q, want %.100q", c.ID, rec.block[max(0, len(rec.block)-100):], c.Body)
		}
		if rec.fields["warc-truncated"] != c.Truncated {
			t.Errorf("%s: WARC-Truncated %q, want %q", c.ID, rec.fields["warc-truncated"], c.Truncated)
		}
	}
	for id, want := range map[string]string{"bomb": "ratio-limit", "cyrillic": "charset=windows-1251;meta", "head-many-length": "too-many-fields", "slow-body": "timeout-rate"} {
		if out := mustLycosa(t, time.Minute, "why", url(id), "--dir", dir, "--json").out; !strings.Contains(out, want) {
			t.Errorf("why %s does not tell %q:\n%s", id, want, out)
		}
		if out := mustLycosa(t, time.Minute, "why", url(id), "--dir", dir).out; !strings.Contains(out, want) {
			t.Errorf("why %s does not tell %q:\n%s", id, want, out)
		}
	}
	if out := mustLycosa(t, time.Minute, "why", url("head-endless"), "--dir", dir).out; !regexp.MustCompile(`(?m)^tries +1$`).MatchString(out) {
		t.Errorf("a header block beyond the limit is not that page's failure alone:\n%s", out)
	}
	// The digests are those of the product's own verifier: npm warcio reads some of
	// this differently (trailers, heads without a field, chunked twice).
	mustLycosa(t, time.Minute, append([]string{"warc", "verify"}, warcFiles(t, dir)...)...)
	mustLycosa(t, time.Minute, "audit", dir)
}
