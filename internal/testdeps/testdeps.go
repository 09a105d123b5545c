// Package testdeps finds what `make test-deps` installs for tests: servers,
// independent readers, real sites. A test whose part is missing is skipped and
// says so; where Required is set in the environment it fails instead, so that
// CI cannot pass by leaving out.
package testdeps

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Required is the environment variable that makes a missing part a failure; any
// value but "" does.
const Required = "LYCOSA_TEST_DEPS_REQUIRED"

// Missing skips or fails the test.
func Missing(tb testing.TB, format string, args ...any) {
	tb.Helper()
	if os.Getenv(Required) != "" {
		tb.Fatalf(format+" (make test-deps; "+Required+" is set)", args...)
		return
	}
	tb.Skipf(format+" (make test-deps)", args...)
}

// Program returns the path of a program, which may be where only root looks.
func Program(tb testing.TB, name string) string {
	tb.Helper()
	for _, dir := range []string{"", "/usr/sbin", "/usr/local/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	Missing(tb, "%s is not installed", name)
	return ""
}

// Folder returns the folder that an environment variable names.
func Folder(tb testing.TB, variable string) string {
	tb.Helper()
	path := os.Getenv(variable)
	if path == "" {
		Missing(tb, "%s is not set", variable)
	}
	return path
}
