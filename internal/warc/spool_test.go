package warc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"lycosa.dev/internal/warc"
)

// zeros is a spool file of n patterned bytes that takes no memory.
type zeros struct{ fail int64 }

func (z zeros) ReadAt(p []byte, off int64) (int, error) {
	if z.fail > 0 && off+int64(len(p)) > z.fail {
		return 0, errors.New("bad sector")
	}
	for i := range p {
		x := uint64(off) + uint64(i)
		p[i] = byte((x>>3)*0x9e3779b97f4a7c15>>57) + ' '
	}
	return len(p), nil
}

func TestLargeBodyInBoundedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("100 MB are compressed")
	}
	dir := t.TempDir()
	w := open(t, config(dir))
	const size = 100 << 20
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	recs := capture("http://example.org/large", okHead(size), nil)
	recs[0].BodyAt, recs[0].BodySize = zeros{}, size
	loc, err := w.Write(context.Background(), recs)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if d := after.TotalAlloc - before.TotalAlloc; d > 16<<20 {
		t.Errorf("%d MiB allocated for a body of 100 MiB", d>>20)
	}
	if loc.Length < 1<<20 {
		t.Fatalf("only %d bytes: the body must not fit the memory limit for this test", loc.Length)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(names) != 1 {
		t.Fatalf("files %v", names)
	}
	rep, err := warc.Verify(context.Background(), names[0])
	if err != nil || len(rep.Problems) > 0 || rep.Digests != 4 {
		t.Errorf("%v %+v", err, rep)
	}
}

func TestUnreadableSpool(t *testing.T) {
	dir := t.TempDir()
	w := open(t, config(dir))
	recs := capture("http://example.org/large", okHead(1), nil)
	recs[0].BodyAt, recs[0].BodySize = zeros{fail: 3 << 20}, 4<<20
	if _, err := w.Write(context.Background(), recs); err == nil || !strings.Contains(err.Error(), "bad sector") {
		t.Fatalf("error %v", err)
	}
	short := capture("http://example.org/short", okHead(1), nil)
	short[0].BodyAt, short[0].BodySize = bytes.NewReader([]byte("abc")), 4
	if _, err := w.Write(context.Background(), short); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("error %v", err)
	}
	if _, err := w.Write(context.Background(), capture("http://example.org/", okHead(1), []byte("x"))); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	name, data := onlyFile(t, dir)
	if rep := mustVerify(t, name, data); rep.Total() != 4 {
		t.Errorf("%+v", rep)
	}
}
