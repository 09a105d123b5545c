package warc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// OpenSuffix ends the name of a file that is being written.
const OpenSuffix = ".open"

const (
	fileSuffix  = ".warc.gz"
	spillPrefix = ".spill-"
)

// files are the files on disk. Only the leader uses them.
type files struct {
	cfg    Config
	stats  *stats
	serial int
	cur    *outFile
	// broken are files that a failed operation left under their .open name.
	broken []brokenFile
	buf    []byte
}

// outFile is the file that is being written.
type outFile struct {
	File
	name    string // the final name
	size    int64  // what was written
	durable int64  // what was synced; what is cut back to
	empty   int64  // the size with the warcinfo record alone
}

type brokenFile struct {
	name    string
	durable int64
}

func (f *files) path(name string) string { return filepath.Join(f.cfg.Dir, name) }

// start prepares the folder.
func (f *files) start() ([]Recovered, error) {
	if err := f.cfg.FS.MkdirAll(f.cfg.Dir); err != nil {
		return nil, storageError("create folder", f.cfg.Dir, err)
	}
	names, err := f.cfg.FS.List(f.cfg.Dir)
	if err != nil {
		return nil, storageError("list folder", f.cfg.Dir, err)
	}
	var recovered []Recovered
	for _, name := range names {
		if s, ok := f.serialOf(name); ok && s >= f.serial {
			f.serial = s + 1
		}
		switch {
		case f.ours(strings.TrimSuffix(name, OpenSuffix)) && strings.HasSuffix(name, OpenSuffix):
			r, err := recoverFile(f.cfg.FS, f.cfg.Dir, strings.TrimSuffix(name, OpenSuffix))
			if errors.Is(err, ErrLocked) {
				f.cfg.Log.Warn("warc: left a file alone that another process is writing", "file", f.path(name))
				continue
			}
			if err != nil {
				return recovered, err
			}
			recovered = append(recovered, r)
			f.cfg.Log.Info("warc: recovered a file that was left open", "file", r.File, "records", r.Records,
				"cut_bytes", r.Cut, "damaged", len(r.Damage), "removed", r.Removed)
		case strings.HasPrefix(name, spillPrefix+f.cfg.Job+"-"):
			_ = f.cfg.FS.Remove(f.path(name)) // a file that died between create and remove
		}
	}
	// That the folder can be written is said now and not at the first page.
	probe := f.path(spillPrefix + f.cfg.Job + "-probe")
	p, err := f.cfg.FS.Create(probe)
	if err != nil {
		return recovered, storageError("create", probe, err)
	}
	_ = p.Close()
	if err := f.cfg.FS.Remove(probe); err != nil {
		return recovered, storageError("remove", probe, err)
	}
	return recovered, nil
}

// ours reports whether a name is of the form that the job's files have.
func (f *files) ours(name string) bool {
	_, ok := f.serialOf(name)
	return ok
}

// serialOf reads the serial of <job>-<14 digits>-<serial>.warc.gz[.open].
func (f *files) serialOf(name string) (int, bool) {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(name, OpenSuffix), f.cfg.Job+"-")
	if !ok {
		return 0, false
	}
	rest, ok = strings.CutSuffix(rest, fileSuffix)
	stamp, serial, dash := strings.Cut(rest, "-")
	if !ok || !dash || len(stamp) != 14 || strings.Trim(stamp, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(serial)
	return n, err == nil && n >= 0
}

// commit appends the groups in order and makes them durable. Every group's err
// is set; one failure fails all that were not durable before it, and the rest of
// the batch.
func (f *files) commit(batch []*group) {
	var waiting []*group // appended to the current file, not yet synced
	var failed error
	fail := func(err error) {
		failed = err
		f.stats.failures.Add(1)
		f.abandon(err)
		for _, g := range waiting {
			g.err = err
		}
		waiting = nil
	}
	flush := func() {
		if len(waiting) == 0 || failed != nil {
			return
		}
		if err := f.sync(); err != nil {
			fail(err)
			return
		}
		for _, g := range waiting {
			f.stats.bytes.Add(g.loc.Length)
		}
		waiting = waiting[:0]
	}
	for _, g := range batch {
		if g.op != nil {
			flush()
			g.err = g.op()
			continue
		}
		if failed != nil {
			g.err = failed
			continue
		}
		if f.cur != nil && f.cur.size > f.cur.empty && f.cur.size+g.spill.size > f.cfg.MaxFileBytes {
			if flush(); failed != nil {
				g.err = failed
				continue
			}
			// The records are durable: a failure here is repaired later.
			if err := f.finish(); err != nil {
				f.cfg.Log.Error("warc: closing a full file failed; it will be tried again", "error", err)
			}
		}
		waiting = append(waiting, g)
		if err := f.append(g); err != nil {
			fail(err)
		}
	}
	flush()
}

// append writes the group to the current file, opening one if there is none.
func (f *files) append(g *group) error {
	if f.cur == nil {
		if err := f.begin(); err != nil {
			return err
		}
	}
	g.loc = Location{File: f.cur.name, Offset: f.cur.size, Length: g.spill.size}
	f.cur.size += g.spill.size
	if g.spill.file == nil {
		f.buf = append(f.buf, g.spill.mem...)
		if len(f.buf) >= batchBytes {
			return f.flushBuffer()
		}
		return nil
	}
	if err := f.flushBuffer(); err != nil {
		return err
	}
	buf := make([]byte, pieceBytes)
	for off := int64(0); off < g.spill.size; {
		n, err := g.spill.file.ReadAt(buf[:min(pieceBytes, g.spill.size-off)], off)
		if n == 0 {
			return storageError("read", "temporary file in "+f.cfg.Dir, fmt.Errorf("at byte %d: %w", off, err))
		}
		if err := f.write(buf[:n]); err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

func (f *files) flushBuffer() error {
	if len(f.buf) == 0 {
		return nil
	}
	err := f.write(f.buf)
	f.buf = f.buf[:0]
	return err
}

func (f *files) write(p []byte) error {
	if err := writeFull(f.cur.File, p); err != nil {
		return storageError("write", f.path(f.cur.name+OpenSuffix), err)
	}
	return nil
}

func (f *files) sync() error {
	if err := f.flushBuffer(); err != nil {
		return err
	}
	if err := f.cur.Sync(); err != nil {
		return storageError("fsync", f.path(f.cur.name+OpenSuffix), err)
	}
	f.cur.durable = f.cur.size
	return nil
}

// begin creates the next file with its warcinfo record. What it writes becomes
// durable with the first records.
func (f *files) begin() error {
	if err := f.mend(); err != nil {
		f.cfg.Log.Error("warc: a file that failed earlier still cannot be closed", "error", err)
	}
	now := f.cfg.Now().UTC()
	for {
		name := fmt.Sprintf("%s-%s-%05d%s", f.cfg.Job, now.Format("20060102150405"), f.serial, fileSuffix)
		path := f.path(name + OpenSuffix)
		f.serial++
		if old, err := f.cfg.FS.Open(f.path(name)); err == nil {
			_ = old.Close()
			continue // never replaced
		}
		file, err := f.cfg.FS.Create(path)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if errors.Is(err, fs.ErrNotExist) { // the folder has been removed
			if err = f.cfg.FS.MkdirAll(f.cfg.Dir); err == nil {
				file, err = f.cfg.FS.Create(path)
			}
		}
		if err != nil {
			return storageError("create", path, err)
		}
		f.cur = &outFile{File: file, name: name}
		break
	}
	if err := f.cfg.FS.SyncDir(f.cfg.Dir); err != nil {
		return storageError("fsync folder", f.cfg.Dir, err)
	}
	info, err := f.warcinfo(now)
	if err != nil {
		return err
	}
	f.buf = append(f.buf[:0], info...)
	f.cur.size, f.cur.empty = int64(len(info)), int64(len(info))
	f.stats.files.Add(1)
	return nil
}

func (f *files) warcinfo(now time.Time) ([]byte, error) {
	var body, out bytes.Buffer
	fields := []Field{
		{"software", "Lycosa"},
		{"format", "WARC File Format 1.1"},
		{"conformsTo", "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"},
	}
	for _, in := range f.cfg.Info {
		if in.Name == "software" {
			fields[0] = in
		} else {
			fields = append(fields, in)
		}
	}
	for _, x := range fields {
		body.WriteString(x.Name + ": " + x.Value + "\r\n")
	}
	c, err := newCompressor(f.cfg.Level) // once a file
	if err != nil {
		return nil, err
	}
	r := Record{
		Type: Warcinfo, ID: NewID(), Date: now, Body: body.Bytes(),
		Fields: []Field{{"WARC-Filename", f.cur.name}},
	}
	err = c.encode(context.Background(), &r, &out, false)
	return out.Bytes(), err
}

// finish closes the current file under its final name. One without records is
// removed.
func (f *files) finish() error {
	cur := f.cur
	f.cur, f.buf = nil, f.buf[:0]
	if cur == nil {
		return nil
	}
	if err := cur.Close(); err != nil {
		f.broken = append(f.broken, brokenFile{cur.name, cur.durable})
		return storageError("close", f.path(cur.name+OpenSuffix), err)
	}
	if err := f.settle(cur.name, cur.durable > cur.empty); err != nil {
		f.broken = append(f.broken, brokenFile{cur.name, cur.durable})
		return err
	}
	return nil
}

// settle renames a closed file, or removes it if it holds no records.
func (f *files) settle(name string, keep bool) error {
	if keep {
		if err := f.cfg.FS.Rename(f.path(name+OpenSuffix), f.path(name)); err != nil {
			return storageError("rename", f.path(name+OpenSuffix), err)
		}
	} else if err := f.cfg.FS.Remove(f.path(name + OpenSuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return storageError("remove", f.path(name+OpenSuffix), err)
	}
	if err := f.cfg.FS.SyncDir(f.cfg.Dir); err != nil {
		return storageError("fsync folder", f.cfg.Dir, err)
	}
	return nil
}

// abandon cuts the current file back to its last durable record and closes it.
// After a failed fsync nothing that was written since can be trusted, so the
// file is never written again.
func (f *files) abandon(cause error) {
	cur := f.cur
	f.cur, f.buf = nil, f.buf[:0]
	f.cfg.Log.Error("warc: writing failed; the file is cut back to its last durable record", "error", cause)
	if cur == nil {
		return
	}
	err := cur.Truncate(cur.durable)
	if err == nil {
		err = cur.Sync()
	}
	if cerr := cur.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = f.settle(cur.name, cur.durable > cur.empty)
	}
	if err != nil {
		f.broken = append(f.broken, brokenFile{cur.name, cur.durable})
		f.cfg.Log.Error("warc: cutting it back failed; it will be tried again", "file", cur.name, "error", err)
	}
}

// mend tries again to close the files that could not be closed.
func (f *files) mend() error {
	var left []brokenFile
	var errs []error
	for _, b := range f.broken {
		if err := f.mendOne(b); err != nil {
			left, errs = append(left, b), append(errs, err)
		}
	}
	f.broken = left
	return errors.Join(errs...)
}

func (f *files) mendOne(b brokenFile) error {
	path := f.path(b.name + OpenSuffix)
	file, err := f.cfg.FS.OpenWrite(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // renamed or removed; only syncing the folder had failed
	}
	if err != nil {
		return storageError("open", path, err)
	}
	err = file.Truncate(b.durable)
	if err == nil {
		err = file.Sync()
	}
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return storageError("truncate", path, err)
	}
	return f.settle(b.name, b.durable > 0)
}

// spillFile makes a temporary file that is gone when it is closed.
func (w *Writer) spillFile() (File, error) {
	path := filepath.Join(w.cfg.Dir, fmt.Sprintf("%s%s-%d-%d", spillPrefix, w.cfg.Job, w.cfg.Now().UnixNano(), w.spills.Add(1)))
	f, err := w.cfg.FS.Create(path)
	if err != nil {
		return nil, storageError("create", path, err)
	}
	if err := w.cfg.FS.Remove(path); err != nil {
		_ = f.Close()
		return nil, storageError("remove", path, err)
	}
	return f, nil
}
