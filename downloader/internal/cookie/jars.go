package cookie

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// maxJars bounds the jars kept; of more jobs than that at a time, the cookies
// of some are forgotten (or, with a folder, left to their file).
const maxJars = 1024

// Jars are the jars of jobs, one each. With a folder they outlive the process:
// each is a cookies.txt there, readable by its owner alone.
type Jars struct {
	dir string

	mu   sync.Mutex
	jars map[string]*Jar
}

// NewJars returns no jars yet. dir is where they are kept; empty: nowhere.
func NewJars(dir string) *Jars { return &Jars{dir: dir, jars: map[string]*Jar{}} }

func (s *Jars) file(job string) string { return filepath.Join(s.dir, url.PathEscape(job)+".txt") }

// Get returns the jar of a job and makes it if there is none: from the job's
// file, or else with what seed reads (a cookies.txt; nil: nothing).
func (s *Jars) Get(job string, maxBytes int64, seed func(*Jar) error) (*Jar, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jars[job]; j != nil {
		return j, nil
	}
	j := New(maxBytes)
	loaded := false
	if s.dir != "" {
		f, err := os.Open(s.file(job))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("cookies: %w", err)
		default:
			_, err = j.ReadNetscape(f, time.Now())
			_ = f.Close()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.file(job), err)
			}
			loaded = true
		}
	}
	if !loaded && seed != nil {
		if err := seed(j); err != nil {
			return nil, err
		}
	}
	if len(s.jars) >= maxJars {
		for name, old := range s.jars {
			_ = s.save(name, old)
			delete(s.jars, name)
			break
		}
	}
	s.jars[job] = j
	return j, nil
}

// Save writes the jars that have changed to the folder, if there is one.
func (s *Jars) Save() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for name, j := range s.jars {
		errs = append(errs, s.save(name, j))
	}
	return errors.Join(errs...)
}

// save replaces the file of a jar as a whole.
func (s *Jars) save(job string, j *Jar) error {
	if s.dir == "" || !j.Dirty() {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(s.dir, ".cookies-*") // mode 0600
	if err != nil {
		return err
	}
	err = j.WriteNetscape(f, time.Now())
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), s.file(job))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
