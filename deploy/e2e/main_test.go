package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// binDir is where the binaries are built, once a test run.
var binDir string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "lycosa-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binDir = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// builds holds how each binary is built, at most once.
var builds = map[string]func() error{}

func init() {
	builds["lycosa"] = builder("lycosa.dev/deploy/cmd/lycosa")
	services := builder(
		"lycosa.dev/scheduler/cmd/scheduler", "lycosa.dev/downloader/cmd/downloader", "lycosa.dev/extractor/cmd/extractor",
		"lycosa.dev/dnser/cmd/dnser", "lycosa.dev/gateway/cmd/gateway")
	for _, s := range []string{"scheduler", "downloader", "extractor", "dnser", "gateway"} {
		builds[s] = services
	}
}

// builder builds packages into binDir the first time that it is called; with
// LYCOSA_E2E_RACE set, with the race detector in them, whose findings end a
// process with exit code 66.
func builder(packages ...string) func() error {
	return sync.OnceValue(func() error {
		args := []string{"build", "-o", binDir + string(filepath.Separator)}
		cgo := "CGO_ENABLED=0"
		if os.Getenv("LYCOSA_E2E_RACE") != "" {
			args, cgo = append(args, "-race"), "CGO_ENABLED=1"
		}
		args = append(args, packages...)
		cmd := exec.Command("go", args...)
		cmd.Env = append(os.Environ(), cgo)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
		return nil
	})
}

// binary returns the path of one of the binaries.
func binary(t testing.TB, name string) string {
	t.Helper()
	if err := builds[name](); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(binDir, name)
}
