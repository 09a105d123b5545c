package frontier

import (
	"fmt"
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

func pages(from, n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("http://h%d.test/%d", (from+i)%7, from+i))
	}
	return list
}

// smallTables makes runs and merges come early.
func smallTables(o *Options) { o.SeenTable, o.SeenFilterBytes = 10, 64 }

// reopen closes the frontier, lets harm be done to its files, and opens it.
func reopen(t *testing.T, r *rig, fs vfs.FS, harm func(dir string)) {
	t.Helper()
	if err := r.f.Close(); err != nil {
		t.Fatal(err)
	}
	harm(fs.PathJoin("f", seenFolder))
	s, err := store.OpenPebble("f", store.PebbleOptions{FS: fs, MemTableBytes: 1 << 20, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	r.open(s, smallTables)
}

// flip changes one byte of the largest run.
func flip(t *testing.T, fs vfs.FS, dir string, at int64) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil || len(names) == 0 {
		t.Fatalf("no runs: %v, %v", names, err)
	}
	path := fs.PathJoin(dir, names[0])
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	raw[(at+int64(len(raw)))%int64(len(raw))] ^= 4
	g, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Write(raw); err != nil {
		t.Fatal(err)
	}
	g.Close()
}

// A damaged or lost run is found by its checksum and built anew; no URL is
// fetched again, none is lost.
func TestDamagedRunIsBuiltAnew(t *testing.T) {
	for _, c := range []struct {
		name string
		harm func(t *testing.T, fs vfs.FS, dir string)
	}{
		{"block", func(t *testing.T, fs vfs.FS, dir string) { flip(t, fs, dir, 20) }},
		{"footer", func(t *testing.T, fs vfs.FS, dir string) { flip(t, fs, dir, -20) }},
		{"missing", func(t *testing.T, fs vfs.FS, dir string) {
			names, _ := fs.List(dir)
			if err := fs.Remove(fs.PathJoin(dir, names[0])); err != nil {
				t.Fatal(err)
			}
		}},
		{"nothing", func(*testing.T, vfs.FS, string) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := vfs.NewMem()
			s, err := store.OpenPebble("f", store.PebbleOptions{FS: fs, MemTableBytes: 1 << 20, CacheBytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			r := newRig(t, s, smallTables)
			r.job("j", testSpec(), pages(0, 1)...)
			for i := range 10 {
				r.seed("j", pages(i*10, 10)...)
			}
			reopen(t, r, fs, func(dir string) { c.harm(t, fs, dir) })
			if c.name != "nothing" {
				found := false
				rep, err := AuditStore(r.f.st)
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range rep.Violations {
					found = found || v.Rule == "seen-set"
				}
				if !found {
					t.Errorf("the audit does not name it: %v", rep.Violations)
				}
			}
			if added, known, err := r.f.AddSeeds(r.ctx, "j", candidates(0, pages(0, 100)...)); err != nil || added != 0 || known != 100 {
				t.Errorf("%d added, %d known, %v; want all known", added, known, err)
			}
			if added, known, err := r.f.AddSeeds(r.ctx, "j", candidates(0, pages(90, 20)...)); err != nil || added != 10 || known != 10 {
				t.Errorf("%d added, %d known, %v; want 10 and 10", added, known, err)
			}
			r.work()
			r.audit()
			if err := r.f.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// The set of a deleted job leaves no file and no record.
func TestDeletedJobLeavesNoRuns(t *testing.T) {
	mem := store.NewMemory()
	r := newRig(t, mem, smallTables)
	r.job("j", testSpec(), pages(0, 1)...)
	for i := range 10 {
		r.seed("j", pages(i*10, 10)...)
	}
	r.work()
	fs, dir := mem.Files()
	if names, _ := fs.List(fs.PathJoin(dir, seenFolder)); len(names) == 0 {
		t.Fatal("no runs were made")
	}
	if _, err := r.f.SetJobState(r.ctx, "j", schedulerv1.JobWish_JOB_WISH_STOP); err != nil {
		t.Fatal(err)
	}
	r.work()
	if err := r.f.DeleteJob(r.ctx, "j"); err != nil {
		t.Fatal(err)
	}
	if names, _ := fs.List(fs.PathJoin(dir, seenFolder)); len(names) > 0 {
		t.Errorf("runs of a deleted job: %v", names)
	}
	r.audit()
}

// A filter that has grown, and one that is filled after a start, know every
// URL.
func TestFilterGrowsAndIsFilled(t *testing.T) {
	mem := store.NewMemory()
	r := newRig(t, mem, func(o *Options) { o.SeenTable, o.SeenFilterBytes = 1000, 1<<20 })
	r.job("j", testSpec(), pages(0, 1)...)
	r.f.filter.bits = make(bloom, 2) // as if it had begun this small
	for i := range 20 {
		r.seed("j", pages(i*200, 200)...)
		for r.f.fillSome() {
		}
	}
	if n := len(r.f.filter.bits) * 512; n < 4000*filterBits {
		t.Errorf("the filter has %d bits", n)
	}
	check := func() {
		t.Helper()
		j := r.f.jobs["j"]
		for _, u := range pages(0, 4000) {
			if r.f.filter.absent(tag(j, j.key(u))) {
				t.Fatalf("%s is absent", u)
			}
		}
		no := 0
		for _, u := range pages(100000, 1000) {
			if r.f.filter.absent(tag(j, j.key(u))) {
				no++
			}
		}
		if no < 900 {
			t.Errorf("of 1000 new URLs the filter knows %d as new", no)
		}
	}
	check()
	if err := r.f.Close(); err != nil {
		t.Fatal(err)
	}
	r.open(mem.Reopen())
	for r.f.fillSome() {
	}
	check()
	_ = r.f.Close()
}
