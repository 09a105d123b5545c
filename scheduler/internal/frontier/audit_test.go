package frontier

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// firstKey is the first key of a kind.
func firstKey(t *testing.T, s store.Store, kind byte) (key, value []byte) {
	t.Helper()
	_ = s.Scan([]byte{kind}, []byte{kind + 1}, func(k, v []byte) bool {
		key, value = bytes.Clone(k), bytes.Clone(v)
		return false
	})
	if key == nil {
		t.Fatalf("no record of kind %c", kind)
	}
	return key, value
}

func TestAuditNamesEachViolation(t *testing.T) {
	for _, c := range []struct {
		rule, detail string
		harm         func(t *testing.T, b *store.Batch, s store.Store)
	}{
		{"queue-entry", "not in its queue", func(t *testing.T, b *store.Batch, s store.Store) {
			k, _ := firstKey(t, s, kindQueued)
			b.Delete(k)
		}},
		{"queue-entry", "not known", func(t *testing.T, b *store.Batch, s store.Store) {
			k, _ := firstKey(t, s, kindQueued)
			num, _, _, _, key, _ := parseQueuedKey(k)
			b.Delete(urlKey(num, key))
		}},
		{"conservation", "queued", func(t *testing.T, b *store.Batch, s store.Store) {
			k, _ := firstKey(t, s, kindQueued)
			num, _, _, _, key, _ := parseQueuedKey(k)
			b.Delete(urlKey(num, key))
			b.Delete(k)
		}},
		{"lease", "does not exist", func(t *testing.T, b *store.Batch, s store.Store) {
			k, _ := firstKey(t, s, kindLease)
			b.Delete(k)
		}},
		{"queue-order", "never be served", func(t *testing.T, b *store.Batch, s store.Store) {
			k, _ := firstKey(t, s, kindQueued)
			num, host, _, _, _, _ := parseQueuedKey(k)
			b.Delete(queueKey(num, host))
		}},
		{"queue-order", "not in the order", func(t *testing.T, b *store.Batch, s store.Store) {
			k, _ := firstKey(t, s, kindInactive)
			b.Delete(k)
		}},
		{"record", "checksum", func(t *testing.T, b *store.Batch, s store.Store) {
			k, v := firstKey(t, s, kindURL)
			v[len(v)/2] ^= 1
			b.Set(k, v)
		}},
		{"stored-before-done", "is not in store", func(t *testing.T, b *store.Batch, s store.Store) {
			k, v := firstKey(t, s, kindJob)
			j, err := decodeJob(k, v)
			if err != nil {
				t.Fatal(err)
			}
			j.spec.Storage.None, j.spec.Storage.Stores = false, []string{"warc"}
			f := newFrontier(Options{Store: s})
			ck, cv := firstKey(t, s, kindCounters)
			j.cnt, _ = decodeCounters(ck, cv)
			f.saveJob(b, j)
		}},
		{"orphan", "no known kind", func(t *testing.T, b *store.Batch, s store.Store) { b.Set([]byte("?"), nil) }},
	} {
		t.Run(c.rule+" "+c.detail, func(t *testing.T) {
			mem := store.NewMemory()
			r := newRig(t, mem)
			r.job("j", testSpec(open24), "http://a.test/", "http://b.test/", "http://c.test/", "http://c.test/2")
			ls := r.lease(2)
			r.commit(outcomeOf(ls[0], 200))
			r.audit()
			var b store.Batch
			c.harm(t, &b, mem)
			if _, err := mem.Apply(&b, true); err != nil {
				t.Fatal(err)
			}
			rep, err := AuditStore(mem)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range rep.Violations {
				if v.Rule == c.rule && strings.Contains(v.Detail, c.detail) {
					return
				}
			}
			t.Errorf("not found; the audit says %v", rep.Violations)
		})
	}
}

// A rule that let a page go in some stores says nothing about the others: the
// page has to be in those.
func TestAuditSkipsOnlyTheStoresOfTheRule(t *testing.T) {
	in := func(names ...string) (list []*crawlv1.StoredRecord) {
		for _, n := range names {
			list = append(list, &crawlv1.StoredRecord{Store: n, File: "f", Length: 1})
		}
		return list
	}
	for _, c := range []struct {
		name    string
		stored  []*crawlv1.StoredRecord
		by      string
		skipped []string
		missing []string
	}{
		{"in all", in("warc", "files"), "", nil, nil},
		{"in one, the other by a rule", in("warc"), "nothing to store in files", []string{"files"}, nil},
		{"in none, one by a rule", nil, "nothing to store in files", []string{"files"}, []string{"warc"}},
		{"in none, all by a rule", nil, "noarchive", nil, nil},
		{"in none, each by a rule", nil, "nothing to store", []string{"files", "warc"}, nil},
		{"in none, no rule", nil, "", nil, []string{"warc", "files"}},
		{"stores and no rule", in("warc"), "", []string{"files"}, []string{"files"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := store.NewMemory()
			r := newRig(t, mem)
			r.job("j", testSpec(open24, func(s *jobv1.Spec) {
				s.Storage = &jobv1.Storage{Stores: []string{"warc", "files"}}
			}), "http://a.test/")
			o := outcomeOf(r.lease(1)[0], 200)
			o.Stored, o.SkippedBy, o.SkippedStores = c.stored, c.by, c.skipped
			r.commit(o)
			rep, err := AuditStore(mem)
			if err != nil {
				t.Fatal(err)
			}
			var missing []string
			for _, v := range rep.Violations {
				_, store, ok := strings.Cut(v.Detail, `is not in store "`)
				if v.Rule != "stored-before-done" || !ok {
					t.Errorf("violation %v", v)
					continue
				}
				missing = append(missing, store[:strings.IndexByte(store, '"')])
			}
			if !slices.Equal(missing, c.missing) {
				t.Errorf("missing in %q, want %q", missing, c.missing)
			}
		})
	}
}

// A damaged record is set aside and told; the crawl goes on and ends.
func TestDamagedRecordsAreSetAside(t *testing.T) {
	mem := store.NewMemory()
	r := newRig(t, mem)
	r.job("j", testSpec(open24), "http://a.test/1", "http://a.test/2", "http://a.test/3")
	_ = r.f.Close()
	mem = mem.Reopen()
	k, v := firstKey(t, mem, kindQueued)
	v[3] ^= 0xff
	var b store.Batch
	b.Set(k, v)
	if _, err := mem.Apply(&b, true); err != nil {
		t.Fatal(err)
	}
	r.open(mem)
	for range 2 {
		l := r.wait(1e9)
		if l == nil {
			t.Fatal("the crawl stands still")
		}
		r.commit(outcomeOf(l, 200))
	}
	s := r.wantEnd("j", "empty")
	if s.Counters.Failed != 1 || s.Counters.Done != 2 {
		t.Errorf("counters %v", s.Counters)
	}
	rep, _ := AuditStore(mem)
	if rep.Quarantined != 1 {
		t.Errorf("%d records set aside", rep.Quarantined)
	}
}

func TestReadOnlyDirectoryAnswers(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, s)
	r.job("j", testSpec(open24), "http://a.test/", "http://b.test/")
	r.commit(outcomeOf(r.lease(1)[0], 200))
	if err := r.f.Close(); err != nil {
		t.Fatal(err)
	}
	rep, err := Audit(dir)
	if err != nil || len(rep.Violations) > 0 {
		t.Fatalf("audit: %v, %v", err, rep)
	}
	f, err := OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	e, err := f.Explain(t.Context(), "j", "http://a.test/")
	if err != nil || e.State != stateDone || e.LastOutcome.GetFetch().GetStatus() != 200 {
		t.Errorf("explain: %v, %v", e, err)
	}
	if _, err := f.Lease(t.Context(), "d1", 1); err == nil {
		t.Error("a lease from a directory that is open for reading")
	}
}
