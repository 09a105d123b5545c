package warc_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"testing"

	"lycosa.dev/internal/casefiles"
	"lycosa.dev/internal/httpwire"
	"lycosa.dev/internal/warc"
)

// TestOddResponses stores what the servers of the shared cases send and lets
// the verifier judge; the chunked page has the digest of the plain one.
func TestOddResponses(t *testing.T) {
	type oddity struct {
		ID      string              `json:"id"`
		Actions [][]json.RawMessage `json:"actions"`
	}
	dir := t.TempDir()
	w := open(t, config(dir))
	digests := map[string]warc.Digest{}
	for _, c := range casefiles.Lines[oddity](t, "http-oddities.jsonl") {
		var raw []byte
		for _, a := range c.Actions {
			var verb, data string
			if _ = json.Unmarshal(a[0], &verb); verb != "send" {
				continue
			}
			_ = json.Unmarshal(a[1], &data)
			b, err := base64.StdEncoding.DecodeString(data)
			if err != nil {
				t.Fatal(err)
			}
			raw = append(raw, b...)
		}
		if len(raw) == 0 {
			continue
		}
		end := max(httpwire.HeadEnd(raw), 0)
		recs := capture("http://example.org/case/"+c.ID, raw[:end:end], raw[end:])
		if _, err := w.Write(context.Background(), recs); err != nil {
			t.Fatalf("%s: %v", c.ID, err)
		}
		digests[c.ID] = recs[0].PayloadDigest
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	name, data := onlyFile(t, dir)
	rep := verify(t, name, data)
	for _, p := range rep.Problems {
		// A server's answer that is no HTTP is no fault of the file.
		if p.Severity == warc.Error || p.Kind != "http" {
			t.Errorf("%s: %s", p.Target, p)
		}
	}
	for _, id := range []string{"chunked-payload-digest", "chunk-size-trailing-space", "lf-only", "chunked-and-cl"} {
		if digests[id] != digests["ok-plain"] || digests[id].IsZero() {
			t.Errorf("%s: payload digest %v, that of ok-plain is %v", id, digests[id], digests["ok-plain"])
		}
	}
}
