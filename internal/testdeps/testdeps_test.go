package testdeps

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// probe is a test that only remembers how it ended.
type probe struct {
	testing.TB
	skipped, failed string
}

func (p *probe) Helper()                   {}
func (p *probe) Skipf(f string, a ...any)  { p.skipped = fmt.Sprintf(f, a...) }
func (p *probe) Fatalf(f string, a ...any) { p.failed = fmt.Sprintf(f, a...) }

func TestMissing(t *testing.T) {
	for _, required := range []string{"", "1"} {
		t.Setenv(Required, required)
		t.Setenv("LYCOSA_NO_FOLDER", "")
		for _, find := range []func(testing.TB) string{
			func(tb testing.TB) string { return Program(tb, "no-program-of-this-name") },
			func(tb testing.TB) string { return Folder(tb, "LYCOSA_NO_FOLDER") },
		} {
			p := &probe{TB: t}
			if found := find(p); found != "" || (p.failed != "") != (required != "") || (p.skipped != "") != (required == "") ||
				!strings.Contains(p.failed+p.skipped, "make test-deps") {
				t.Errorf("required %q: found %q, skipped %q, failed %q", required, found, p.skipped, p.failed)
			}
		}
	}
}

func TestFound(t *testing.T) {
	if path := Program(t, "sh"); !filepath.IsAbs(path) {
		t.Errorf("sh is at %q", path)
	}
	t.Setenv("LYCOSA_SOME_FOLDER", "/x")
	if Folder(t, "LYCOSA_SOME_FOLDER") != "/x" {
		t.Error("the folder is not found")
	}
}
