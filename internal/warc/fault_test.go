package warc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"lycosa.dev/internal/warc"
)

// script writes pages of several sizes (one through a temporary file) over two
// files and returns the URLs that were acknowledged, and the last error.
func script(m *memFS) (acked []string, last error) {
	cfg := config("/w")
	cfg.FS, cfg.MaxFileBytes, cfg.MemoryBytes, cfg.LargeBytes = m, 9000, 2000, 3000
	w, _, err := warc.Open(cfg)
	if err != nil {
		return nil, err
	}
	noise := func(n, seed int) []byte {
		b := make([]byte, n)
		x := uint32(seed)*2654435761 + 1
		for i := range b {
			x ^= x << 13
			x ^= x >> 17
			x ^= x << 5
			b[i] = byte(x)
		}
		return b
	}
	for i, n := range []int{100, 900, 4000, 200, 2500, 300, 1000} {
		url := fmt.Sprintf("http://example.org/%d", i)
		if _, err := w.Write(context.Background(), capture(url, okHead(n), noise(n, i))); err != nil {
			last = err
			continue
		}
		acked = append(acked, url)
	}
	if err := w.Close(); err != nil {
		last = err
	}
	return acked, last
}

// responses returns the URLs of the response records in all closed files, each
// file being valid and without open ones left.
func responses(t *testing.T, m *memFS) []string {
	t.Helper()
	var urls []string
	for name, data := range m.files(".warc.gz") {
		rep := verify(t, name, data)
		for _, p := range rep.Problems {
			t.Errorf("%s: %s", name, p)
		}
		for _, g := range readAll(t, name, data) {
			if g.Type == warc.Response {
				urls = append(urls, g.Fields["WARC-Target-URI"])
			}
		}
	}
	slices.Sort(urls)
	return urls
}

func reopen(t *testing.T, m *memFS) []warc.Recovered {
	t.Helper()
	cfg := config("/w")
	cfg.FS = m
	w, rec, err := warc.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if left := m.files(warc.OpenSuffix); len(left) > 0 {
		t.Errorf("left open: %d files", len(left))
	}
	return rec
}

func opsOfScript(t *testing.T) int {
	m := newMemFS()
	acked, err := script(m)
	if err != nil || len(acked) != 7 {
		t.Fatalf("%v, %v", acked, err)
	}
	return m.op
}

// TestFaultAtEveryOperation: one operation fails; what was acknowledged is
// there and nothing else, the files are right, and later pages are stored.
func TestFaultAtEveryOperation(t *testing.T) {
	ops := opsOfScript(t)
	for name, fault := range map[string]error{"ENOSPC": errNoSpace, "EIO": syscall.EIO, "short write": errShort} {
		for k := 1; k <= ops; k++ {
			m := newMemFS()
			hit := ""
			m.fault = func(op int, what string) error {
				if op == k && (what == "write" || !errors.Is(fault, errShort)) {
					hit = what
					return fault
				}
				return nil
			}
			acked, last := script(m)
			m.fault = nil
			if hit != "" && last != nil {
				var se *warc.StorageError
				if !errors.As(last, &se) {
					t.Fatalf("%s at operation %d (%s): error %v is no StorageError", name, k, hit, last)
				}
				if errors.Is(last, warc.ErrStorageFull) != (fault == errNoSpace) {
					t.Errorf("%s at operation %d (%s): full is wrong: %v", name, k, hit, last)
				}
				if !strings.Contains(last.Error(), "/w") {
					t.Errorf("%s: no path in %v", name, last)
				}
			}
			if len(acked) < 5 && len(acked) > 0 {
				t.Errorf("%s at operation %d (%s): only %v stored", name, k, hit, acked)
			}
			if len(acked) == 0 && last != nil { // Open failed: it is tried again
				acked, last = script(m)
				if last != nil {
					t.Fatalf("%s at operation %d (%s): not even afterwards: %v", name, k, hit, last)
				}
			}
			reopen(t, m)
			if got := responses(t, m); !slices.Equal(got, acked) {
				t.Errorf("%s at operation %d (%s): stored %v, acknowledged %v", name, k, hit, got, acked)
			}
		}
	}
}

// TestFullDisk: every write fails for a while; each call gets the typed error,
// nothing piles up, and writing goes on when there is space.
func TestFullDisk(t *testing.T) {
	m := newMemFS()
	cfg := config("/w")
	cfg.FS = m
	w := open(t, cfg)
	write := func(i int) error {
		_, err := w.Write(context.Background(), capture(fmt.Sprintf("http://example.org/%d", i), okHead(3), []byte("abc")))
		return err
	}
	if err := write(0); err != nil {
		t.Fatal(err)
	}
	full := true
	m.fault = func(_ int, what string) error {
		if full && (what == "write" || what == "create") {
			return errNoSpace
		}
		return nil
	}
	for i := 1; i < 20; i++ {
		if err := write(i); !errors.Is(err, warc.ErrStorageFull) {
			t.Fatalf("error %v", err)
		}
	}
	full = false
	if err := write(20); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := responses(t, m); !slices.Equal(got, []string{"http://example.org/0", "http://example.org/20"}) {
		t.Errorf("stored %v", got)
	}
	if n := len(m.names); n != 2 {
		t.Errorf("%d files, want 2", n)
	}
}

// TestCrashAtEveryOperation: the machine stops at an operation, with none, half
// or all of the unsynced bytes on disk; what was acknowledged survives.
func TestCrashAtEveryOperation(t *testing.T) {
	ops := opsOfScript(t)
	for k := 1; k <= ops; k++ {
		for _, keep := range []float64{0, 0.5, 1} {
			m := newMemFS()
			at := ""
			m.fault = func(op int, what string) error {
				if op == k {
					at = what
					return errCrash
				}
				return nil
			}
			acked, _ := script(m)
			m = m.afterCrash(keep)
			for _, r := range reopen(t, m) {
				if len(r.Damage) > 0 {
					t.Errorf("crash at %d (%s): damage %v", k, at, r.Damage)
				}
			}
			got := responses(t, m)
			for _, url := range acked {
				if !slices.Contains(got, url) {
					t.Errorf("crash at %d (%s), %v kept: %s was acknowledged and is lost", k, at, keep, url)
				}
			}
			if extra := len(got) - len(acked); extra > 1 {
				t.Errorf("crash at %d (%s): %d records nobody asked to keep", k, at, extra)
			}
			for name := range m.names {
				if strings.Contains(name, ".spill") {
					t.Errorf("crash at %d (%s): %s is left", k, at, name)
				}
			}
		}
	}
}

// TestRecoveryAtEveryCut: a file cut at any byte keeps its complete records.
func TestRecoveryAtEveryCut(t *testing.T) {
	m := newMemFS()
	cfg := config("/w")
	cfg.FS = m
	w := open(t, cfg)
	var recs []warc.Record
	for i := range 3 {
		recs = append(recs, capture(fmt.Sprintf("http://example.org/%d", i), okHead(30), bytes.Repeat([]byte("ab"), 15))...)
	}
	loc, err := w.Write(context.Background(), recs)
	if err != nil {
		t.Fatal(err)
	}
	path := "/w/" + loc.File + warc.OpenSuffix
	full := m.files(warc.OpenSuffix)[loc.File+warc.OpenSuffix]
	ends := []int64{0, loc.Offset}
	for _, r := range recs {
		ends = append(ends, r.Location.Offset+r.Location.Length)
	}
	if ends[len(ends)-1] != int64(len(full)) {
		t.Fatalf("ends %v, file of %d", ends, len(full))
	}
	for cut := range len(full) + 1 {
		for _, tail := range []string{"", "\x00\x00\x00\x00\x00\x00\x00\x00", "garbage\x1f\x8b\x08\x00"} {
			data := append(slices.Clone(full[:cut]), tail...)
			n := newMemFS()
			n.names[path] = &inode{data: data, synced: data}
			rec := reopen(t, n)
			// Zeros can happen to be the bytes that were cut.
			same := 0
			for same < min(len(data), len(full)) && data[same] == full[same] {
				same++
			}
			records, want := -1, int64(0)
			for _, e := range ends {
				if e <= int64(same) {
					records, want = records+1, e
				}
			}
			if len(rec) != 1 || rec[0].Records != records || rec[0].Cut != int64(len(data))-want || rec[0].Removed != (records < 2) || len(rec[0].Damage) > 0 {
				t.Fatalf("cut at %d, tail %q: %+v, want %d records and %d bytes cut", cut, tail, rec, records, int64(len(data))-want)
			}
			left := n.files("")
			if records < 2 {
				if len(left) != 0 {
					t.Fatalf("cut at %d: files are left", cut)
				}
				continue
			}
			if !bytes.Equal(left[loc.File], full[:want]) || len(left) != 1 {
				t.Fatalf("cut at %d: the recovered file is not the first %d bytes", cut, want)
			}
		}
	}
	// Damage before complete records is reported and nothing behind it is cut.
	data := slices.Clone(full)
	data[recs[4].Location.Offset+20] ^= 0xff
	n := newMemFS()
	n.names[path] = &inode{data: data, synced: data}
	rec := reopen(t, n)
	if len(rec) != 1 || rec[0].Cut != 0 || len(rec[0].Damage) != 1 || rec[0].Damage[0].Offset != recs[4].Location.Offset || rec[0].Records != 9 {
		t.Errorf("damaged in the middle: %+v", rec)
	}
	if !bytes.Equal(n.files("")[loc.File], data) {
		t.Error("the damaged file was changed")
	}
}

// TestKilledProcess does the same with the real file system: what a process
// left open is found, repaired and closed.
func TestKilledProcess(t *testing.T) {
	dir := t.TempDir()
	w := open(t, config(dir))
	loc, err := w.Write(context.Background(), capture("http://example.org/", okHead(1), []byte("x")))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, loc.File+warc.OpenSuffix))
	if err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	torn := append(slices.Clone(data), data[:50]...)
	if err := os.WriteFile(filepath.Join(other, loc.File+warc.OpenSuffix), torn, 0o644); err != nil {
		t.Fatal(err)
	}
	// A file of another job and another's open file are not touched.
	for _, name := range []string{"else-20260101000000-00000.warc.gz.open", "notes.open"} {
		if err := os.WriteFile(filepath.Join(other, name), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, rec, err := warc.Open(config(other))
	if err != nil || len(rec) != 1 || rec[0].Cut != 50 || rec[0].Records != 4 {
		t.Fatalf("%+v, %v", rec, err)
	}
	f, err := os.Open(filepath.Join(other, loc.File))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, _ := io.ReadAll(f)
	if !bytes.Equal(got, data) {
		t.Error("the recovered file differs")
	}
	if left, _ := filepath.Glob(filepath.Join(other, "*.open")); len(left) != 2 {
		t.Errorf("left %v", left)
	}
}
