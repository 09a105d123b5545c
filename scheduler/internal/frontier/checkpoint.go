package frontier

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"

	"lycosa.dev/scheduler/internal/frontier/sieve"
	"lycosa.dev/scheduler/internal/frontier/store"
)

// ErrExists: a snapshot's folder is there already.
var ErrExists = errors.New("the folder exists already")

// snapshotter is a store that can copy itself.
type snapshotter interface {
	// Snapshot makes a folder, which must not exist, that holds what was
	// applied, durably.
	Snapshot(dir string) error
}

const (
	// Partial ends the name of a snapshot that is being made.
	Partial = ".partial"
	// restoreMark is a file of a snapshot that makes whoever opens it, or a
	// copy, give the jobs' frontiers new epochs: what others remember of the
	// frontier that went on is not true of this one.
	restoreMark = "SNAPSHOT"
)

// Checkpoint makes a snapshot of the frontier in a new folder dest, beside the
// work: the store, the runs of the seen sets, the journal, all as of one
// instant. The snapshot is complete or absent, also when the power is cut:
// what is being made is named dest.partial and renamed when all of it is
// durable. Files are linked where the file system can, so that a snapshot costs
// little until the frontier has moved on. To restore it, copy it to where the
// frontier is to be, as often as wanted, on any machine. Errors: ErrExists,
// ErrState where the store cannot copy itself, the file system's.
func (f *Frontier) Checkpoint(ctx context.Context, dest string) error {
	snap, ok := f.st.(snapshotter)
	if !ok {
		return fmt.Errorf("%w: its store makes no snapshots", ErrState)
	}
	fs, _ := f.st.Files()
	if _, err := fs.Stat(dest); err == nil {
		return fmt.Errorf("snapshot to %s: %w", dest, ErrExists)
	}
	// The lists of runs do not change, and no run is removed.
	f.decideMu.Lock()
	defer f.decideMu.Unlock()
	if f.broken() {
		return f.end(nil)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	dir := f.seenDir
	var runs []uint64
	for _, j := range f.jobList() {
		for _, r := range j.seen.Runs() {
			runs = append(runs, r.Number)
		}
	}
	if err := snapshot(fs, snap, dir, runs, dest); err != nil {
		return fmt.Errorf("snapshot to %s: %w", dest, err)
	}
	return nil
}

func snapshot(fs vfs.FS, snap snapshotter, dir *sieve.Dir, runs []uint64, dest string) error {
	tmp := dest + Partial
	if err := fs.RemoveAll(tmp); err != nil { // of one that was cut
		return err
	}
	err := snap.Snapshot(tmp)
	seen := fs.PathJoin(tmp, seenFolder)
	if err == nil {
		err = fs.MkdirAll(seen, 0o755)
	}
	for _, n := range runs {
		if err == nil {
			err = dir.LinkTo(n, seen)
		}
	}
	if err == nil {
		err = writeMark(fs, fs.PathJoin(tmp, restoreMark))
	}
	for _, p := range []string{seen, tmp} {
		if err == nil {
			err = store.SyncDir(fs, p)
		}
	}
	if err == nil {
		err = fs.Rename(tmp, dest)
	}
	if err == nil {
		err = store.SyncDir(fs, fs.PathDir(dest))
	}
	if err != nil {
		return errors.Join(err, fs.RemoveAll(tmp))
	}
	return nil
}

func writeMark(fs vfs.FS, path string) error {
	m, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = m.Write([]byte("A snapshot of a frontier. Copy the folder to restore it.\n"))
	return errors.Join(err, m.Sync(), m.Close())
}

// afterRestore gives the jobs' frontiers new epochs where the folder is a
// snapshot, or the copy of one. Called with mu held by Open.
func (f *Frontier) afterRestore() error {
	fs, dir := f.st.Files()
	path := fs.PathJoin(dir, restoreMark)
	switch _, err := fs.Stat(path); {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("open the frontier: %w", err)
	}
	b := f.newBatch()
	for _, j := range f.order {
		j.epoch = f.newID()
		j.version++
		f.saveJob(b, j)
	}
	p, err := f.apply(b, true)
	if err != nil {
		return err
	}
	if err := p.Wait(); err != nil {
		return err
	}
	f.log.Info("this frontier is restored from a snapshot", "jobs", len(f.order))
	return fs.Remove(path)
}

// CheckpointDir makes a snapshot of a directory that nobody runs.
func CheckpointDir(dir, dest string) error {
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("snapshot of the frontier: %w", err)
	}
	s, err := OpenStore(dir)
	if err != nil {
		return err
	}
	f := newFrontier(Options{Store: s, questionsOnly: true})
	f.readOnly = true
	err = f.loadControl()
	fs, path := s.Files()
	f.seenDir = sieve.ViewDir(fs, fs.PathJoin(path, seenFolder), 0)
	for _, j := range f.order {
		if err == nil {
			err = f.loadSeen(j, map[uint64]bool{})
		}
		if j.seenBad && err == nil {
			err = fmt.Errorf("%w: the seen set of job %q; open the frontier first, so that it is built anew", ErrCorrupt, j.id)
		}
	}
	if err == nil {
		err = f.Checkpoint(context.Background(), dest)
	}
	return errors.Join(err, f.Close())
}
