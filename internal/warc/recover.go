package warc

import (
	"errors"
	"path/filepath"
)

// Recovered says what Open did with a file that an earlier process left open.
type Recovered struct {
	// File is its final name.
	File string
	// Records is how many it holds, the warcinfo record included.
	Records int
	// Cut is how many bytes of a torn tail were cut off.
	Cut int64
	// Removed says that it held no record and is gone.
	Removed bool
	// Damage lists what is broken before the last complete record and was left.
	Damage []Problem
}

// recoverFile cuts a file after its last complete record and gives it its final
// name. The file is read once from the start: only that tells a record from
// bytes inside another one that look the same.
func recoverFile(fsys FS, dir, name string) (Recovered, error) {
	rec := Recovered{File: name}
	path := filepath.Join(dir, name+OpenSuffix)
	f, err := fsys.OpenWrite(path)
	if errors.Is(err, ErrLocked) {
		return rec, err
	}
	if err != nil {
		return rec, storageError("open", path, err)
	}
	end, pages, err := scanComplete(f, &rec)
	if err == nil && rec.Cut > 0 {
		if err = f.Truncate(end); err != nil {
			err = storageError("truncate", path, err)
		} else if err = f.Sync(); err != nil {
			err = storageError("fsync", path, err)
		}
	}
	if cerr := f.Close(); err == nil && cerr != nil {
		err = storageError("close", path, cerr)
	}
	if err != nil {
		return rec, err
	}
	// A file with its warcinfo record alone was acknowledged to nobody.
	rec.Removed = !pages
	if rec.Removed {
		err = fsys.Remove(path)
	} else {
		err = fsys.Rename(path, filepath.Join(dir, name))
	}
	if err != nil {
		return rec, storageError("rename or remove", path, err)
	}
	if err := fsys.SyncDir(dir); err != nil {
		return rec, storageError("fsync folder", dir, err)
	}
	return rec, nil
}

// scanComplete returns where the last complete record ends, and whether there is
// one other than warcinfo.
func scanComplete(f File, rec *Recovered) (end int64, pages bool, err error) {
	size, err := f.Size()
	if err != nil {
		return 0, false, storageError("stat", rec.File, err)
	}
	var problems []Problem
	r := NewReaderAt(f, size)
	r.OnProblem = func(p Problem) {
		if len(problems) < maxProblems {
			problems = append(problems, p)
		}
	}
	for {
		e, err := r.Next()
		if err != nil {
			if cause := r.sourceErr(); cause != nil {
				return 0, false, storageError("read", rec.File, cause)
			}
			break
		}
		if err := e.Close(); err == nil {
			rec.Records++
			end = e.Offset + e.Length
			pages = pages || e.Type != Warcinfo
		}
	}
	rec.Cut = size - end
	for _, p := range problems {
		if p.Offset < end {
			rec.Damage = append(rec.Damage, p)
		}
	}
	return end, pages, nil
}
