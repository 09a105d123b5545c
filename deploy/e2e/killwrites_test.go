package e2e

import (
	"bytes"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lycosa.dev/internal/testweb"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// writes is the scheduler's folder in which files come and go: tables of the
// store, runs of the seen set, snapshots.
type writes struct {
	frontier, snapshots string
}

// files lists what a kill could cut, by name.
func (w *writes) files() []string {
	var files []string
	for dir, ext := range map[string]string{w.frontier: ".sst", filepath.Join(w.frontier, "seen"): ".run", w.snapshots: ".partial"} {
		list, _ := os.ReadDir(dir)
		for _, e := range list {
			if filepath.Ext(e.Name()) == ext {
				files = append(files, filepath.Join(dir, e.Name()))
			}
		}
	}
	return files
}

// await waits until something new is there, of a kind that the moment picks, or
// for a while at most. It does not sleep: what is looked for is written within a
// millisecond.
func (w *writes) await(rng *rand.Rand) {
	kinds := []string{".sst", ".run", ".partial"}
	kind := kinds[rng.IntN(len(kinds))]
	known := map[string]bool{}
	for _, f := range w.files() {
		known[f] = true
	}
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		for _, f := range w.files() {
			if !known[f] && filepath.Ext(f) == kind {
				return
			}
		}
	}
}

// cut counts what a kill has cut: tables without their end, and snapshots that
// are not whole. A run of this size gets its end in one write.
func (w *writes) cut() (tables, snapshots int) {
	for _, f := range w.files() {
		switch filepath.Ext(f) {
		case ".sst":
			if !endsWith(f, []byte("\xf0\x9f\xaa\xb3\xf0\x9f\xaa\xb3")) {
				tables++
			}
		case ".partial":
			snapshots++
		}
	}
	return
}

// endsWith tells whether a file ends with these bytes.
func endsWith(path string, want []byte) bool {
	f, err := os.Open(path)
	if err != nil {
		return true // it is gone
	}
	defer f.Close()
	if _, err := f.Seek(-int64(len(want)), io.SeekEnd); err != nil {
		return false
	}
	got := make([]byte, len(want))
	_, err = io.ReadFull(f, got)
	return err == nil && bytes.Equal(got, want)
}

// whole are the snapshots that bear a snapshot's name, oldest first.
func (w *writes) whole(t testing.TB) []string {
	t.Helper()
	list, err := os.ReadDir(w.snapshots)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		if !strings.HasSuffix(e.Name(), ".partial") {
			names = append(names, filepath.Join(w.snapshots, e.Name()))
		}
	}
	return names
}

// copySnapshot copies one into a crawl's folder.
func copySnapshot(t testing.TB, snapshot, dir string) {
	t.Helper()
	if err := os.CopyFS(filepath.Join(dir, "frontier"), os.DirFS(snapshot)); err != nil {
		t.Fatal(err)
	}
}

// busyWriter makes a ring's scheduler write all the time: small buffers, small
// runs, a snapshot every 50 ms.
func busyWriter(r *ring) *writes {
	w := &writes{frontier: filepath.Join(r.dir, "frontier"), snapshots: filepath.Join(r.dir, "snapshots")}
	r.args["scheduler"] = append(r.args["scheduler"], "--seen-table-keys", "50", "--store-buffer-bytes", "65536",
		"--checkpoint-interval", "50ms", "--checkpoint-dir", w.snapshots)
	return w
}

// TestKillWhileWriting: the scheduler is killed just when it writes a table of
// the store, a run of the seen set or a snapshot. What was acknowledged is
// there each time; a snapshot is whole or has no name; a crawl goes on from one
// as from its own folder, and fetches what was not done then, once.
func TestKillWhileWriting(t *testing.T) {
	t.Parallel()
	rng := killRand(t)
	times := max(4, kills(t)/4)
	s := newSite(t, []string{"a.test", "b.test", "c.test", "d.test"},
		testweb.Graph{Pages: 12 * times, Links: 10, BodyBytes: 2000, Delay: 20 * time.Millisecond})
	r := newRing(t, t.TempDir(), 1)
	w := busyWriter(r)
	r.launch()
	job := spec("writes", 0, s.seed)
	job.Limits = limits(killConcurrency)
	job.Politeness.PerHost = 2
	r.create(job)

	var tables, snapshots, audited, outstanding int
	kept, before := t.TempDir(), []testweb.Request(nil) // a snapshot of the middle, and what had been asked for by then
	killed := 0
	for ; killed < times; killed++ {
		asked := len(s.web.Requests())
		eventually(t, 30*time.Second, "the crawl goes on", func() bool {
			return len(s.web.Requests()) >= asked+8 || r.job("writes").GetState() == schedulerv1.JobState_JOB_STATE_FINISHED
		})
		if r.job("writes").GetState() == schedulerv1.JobState_JOB_STATE_FINISHED {
			break
		}
		w.await(rng)
		time.Sleep(time.Duration(rng.Int64N(int64(300 * time.Microsecond))))
		r.procs["scheduler"].kill()
		a, b := w.cut()
		tables, snapshots = tables+a, snapshots+b
		outstanding += audit(t, r.data())
		if whole := w.whole(t); len(whole) > 0 {
			dir := kept
			if killed != times/2 {
				dir = t.TempDir()
			} else {
				before = s.web.Requests()
			}
			copySnapshot(t, whole[len(whole)-1], dir)
			mustLycosa(t, time.Minute, "audit", "--no-stores", dir)
			audited++
		}
		r.start("scheduler")
	}
	t.Logf("%d kills cut %d tables and %d snapshots; %d whole snapshots were audited", killed, tables, snapshots, audited)
	if killed < times/2 || audited < killed/2 || before == nil {
		t.Errorf("%d kills, %d snapshots audited: the test's site is too small", killed, audited)
	}
	if killed >= 40 && (tables == 0 || snapshots == 0) {
		t.Error("some kind of write was never cut: the moments are wrong")
	}
	s.finishCalm(r, "writes", 90*time.Second+time.Duration(times)*time.Second)
	r.stopAll()
	s.checkAfterKills(t, r.data(), killed, outstanding)
	audit(t, r.data())
	s.goesOn(t, kept, before)
}

// goesOn starts a ring on a copied snapshot. before is what had been asked for
// when the snapshot was no younger.
func (s *site) goesOn(t testing.TB, dir string, before []testweb.Request) {
	t.Helper()
	done := len(s.web.Requests())
	r := newRing(t, dir, 1)
	r.launch()
	r.waitFinished("writes", 2*time.Minute)
	r.stopAll()
	got := byURL(pages(s.web.Requests()[done:]))
	onceEach(t, "requests after the snapshot", got)
	all := byURL(pages(before))
	t.Logf("the restored crawl asked for %d pages; %d had been asked for before", len(got), len(all))
	if len(got) == 0 || len(all) == 0 {
		t.Error("the snapshot is of the crawl's start or end: it shows nothing")
	}
	maps.Copy(all, got)
	sameSet(t, "requests before and after the snapshot", all, s.want)
	mustLycosa(t, time.Minute, "audit", "--no-stores", dir)
}
