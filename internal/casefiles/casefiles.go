// Package casefiles finds the recorded cases (inputs with their right answers)
// that lie beside the repository in ../shared/cases. They are not part of the
// repository; a test that needs one that is absent is skipped and says so.
package casefiles

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// Dir returns the folder of the cases, or "" if there is none. LYCOSA_CASES
// names another folder.
func Dir() string {
	if d := os.Getenv("LYCOSA_CASES"); d != "" {
		return d
	}
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			cases := filepath.Join(dir, "..", "shared", "cases")
			if st, err := os.Stat(cases); err == nil && st.IsDir() {
				return cases
			}
			return ""
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

// Path returns the path of one case file or folder, named relative to the
// cases' folder, and skips the test where it is absent.
func Path(t testing.TB, name string) string {
	t.Helper()
	dir := Dir()
	if dir == "" {
		t.Skipf("casefiles: no ../shared/cases beside the repository (or set LYCOSA_CASES); %s is not run", name)
	}
	p := filepath.Join(dir, filepath.FromSlash(name))
	if _, err := os.Stat(p); err != nil {
		t.Skipf("casefiles: %s is absent: %v", name, err)
	}
	return p
}

// Lines decodes a JSON-lines case file, one T a line.
func Lines[T any](t testing.TB, name string) []T {
	t.Helper()
	f, err := os.Open(Path(t, name))
	if err != nil {
		t.Fatalf("casefiles: %v", err)
	}
	defer f.Close()
	var out []T
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 64<<20)
	for n := 1; sc.Scan(); n++ {
		if len(sc.Bytes()) == 0 {
			continue
		}
		var v T
		if err := json.Unmarshal(sc.Bytes(), &v); err != nil {
			t.Fatalf("casefiles: %s:%d: %v", name, n, err)
		}
		out = append(out, v)
	}
	if err := sc.Err(); err != nil {
		t.Fatalf("casefiles: %s: %v", name, err)
	}
	if len(out) == 0 {
		t.Fatalf("casefiles: %s holds no cases", name)
	}
	return out
}
