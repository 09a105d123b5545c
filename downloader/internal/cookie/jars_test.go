package cookie_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lycosa.dev/downloader/internal/cookie"
)

// Jars of two jobs share nothing, and outlive the process in files that only
// their owner reads.
func TestJars(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cookies")
	s := cookie.NewJars(dir)
	a, err := s.Get("a/../b", 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := s.Get("b", 1<<20, func(j *cookie.Jar) error {
		j.Set([]byte("seed=1"), "h.test", "/", true, time.Now())
		return nil
	})
	a.Set([]byte("k=v; Max-Age=1000"), "h.test", "/", true, time.Now())
	if got := string(b.Append(nil, "h.test", "/", true, time.Now())); got != "seed=1" {
		t.Errorf("job b has %q", got)
	}
	if again, _ := s.Get("a/../b", 1<<20, nil); again != a {
		t.Error("another jar for the same job")
	}
	if err := s.Save(); err != nil {
		t.Fatal(err)
	}
	files, _ := os.ReadDir(dir)
	if len(files) != 2 {
		t.Errorf("%d files", len(files))
	}
	for _, f := range files {
		if st, _ := f.Info(); st.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", f.Name(), st.Mode())
		}
	}
	s = cookie.NewJars(dir)
	a, err = s.Get("a/../b", 1<<20, func(*cookie.Jar) error { return fmt.Errorf("seeded although there is a file") })
	if err != nil || string(a.Append(nil, "h.test", "/", true, time.Now())) != "k=v" {
		t.Errorf("%v", err)
	}
}
