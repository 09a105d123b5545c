package secret_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lycosa.dev/downloader/internal/secret"
)

func TestValue(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("one", "first\n", 0o600)
	write("open", "seen", 0o644)
	t.Setenv("LYCOSA_SECRET_TWO_B", "second")
	t.Setenv("LYCOSA_SECRET_ONE", "not this")
	t.Setenv("HOME_KEY", "nothing of ours")
	s := secret.Store{Dir: dir}
	for name, want := range map[string]string{"one": "first", "two-b": "second"} {
		if got, err := s.Value(name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{"open": "0600", "none": "LYCOSA_SECRET_NONE", "../one": "must be", "": "must be", "HOME_KEY": "LYCOSA_SECRET_HOME_KEY"} {
		if _, err := s.Value(name); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "seen") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := (secret.Store{}).Value("one"); err != nil || string(got) != "not this" {
		t.Errorf("%q, %v", got, err)
	}
}
