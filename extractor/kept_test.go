package extractor_test

import (
	"os"
	"path/filepath"
	"testing"

	"lycosa.dev/internal/warc"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	dnserv1 "lycosa.dev/proto/gen/lycosa/dnser/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// A page that is stored and that the frontier could not take is sent again: it
// is not stored a second time, and the outcome names the record of the first.
func TestPageThatComesAgainIsStoredOnce(t *testing.T) {
	r := start(t, &jobv1.Spec{Storage: &jobv1.Storage{Stores: []string{"warc", "files"}}})
	away := true
	r.answer = func(*dnserv1.ResolveRequest) *crawlv1.Answer {
		if away {
			return &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_RETRY_LATER, Reason: "no space", StorageUnavailable: true}
		}
		return &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_DONE}
	}
	const head, body = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", "<p>hello</p>"
	l := lease("http://a.test/x")
	for range 2 {
		if a := r.send(t, l, 200, head, []byte(body)); a.GetVerdict() != crawlv1.Verdict_VERDICT_RETRY_LATER {
			t.Fatalf("answer %v", a)
		}
	}
	first, _ := r.last(t)
	size := func() int64 {
		t.Helper()
		info, err := os.Stat(filepath.Join(r.dir, "warc", first.GetStored()[0].GetFile()+warc.OpenSuffix))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	r.mu.Lock()
	away = false
	r.mu.Unlock()
	done(t, r.send(t, l, 200, head, []byte(body)))
	o, _ := r.last(t)
	if len(o.GetStored()) != 2 || o.GetStored()[0].GetOffset() != first.GetStored()[0].GetOffset() || o.GetPayloadDigest() != warc.SumDigest([]byte(body)).String() {
		t.Errorf("stored %v (first %v), digest %s", o.GetStored(), first.GetStored(), o.GetPayloadDigest())
	}
	if after := size(); after != before {
		t.Errorf("the WARC has grown from %d to %d bytes", before, after)
	}
	// Another lease of the same URL is another visit.
	done(t, r.send(t, lease("http://a.test/x"), 200, head, []byte(body)))
	if again, _ := r.last(t); again.GetStored()[0].GetOffset() == o.GetStored()[0].GetOffset() {
		t.Error("another visit was not stored")
	}
}
