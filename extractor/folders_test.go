package extractor_test

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// What one job has stored of a URL is not replaced by what another gets there,
// with other headers or credentials.
func TestJobsHaveFoldersOfTheirOwn(t *testing.T) {
	r := start(t, &jobv1.Spec{Storage: &jobv1.Storage{Stores: []string{"files"}}})
	r.mu.Lock()
	both := proto.CloneOf(r.topology)
	both.Jobs = append(both.Jobs, proto.CloneOf(both.GetJobs()[0]))
	both.Jobs[1].JobId = "k"
	r.topology = both
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
	files := map[string]string{}
	for _, id := range []string{"j", "k"} {
		l := lease("http://a.test/x.html")
		l.JobId = id
		done(t, r.send(t, l, 200, htmlHead, []byte("of "+id)))
		o, _ := r.last(t)
		files[id] = o.GetStored()[0].GetFile()
	}
	for id, file := range files {
		b, err := os.ReadFile(filepath.Join(r.dir, "pages", filepath.FromSlash(file)))
		if err != nil || string(b) != "of "+id {
			t.Errorf("job %s: %s is %q, %v", id, file, b, err)
		}
	}
}
