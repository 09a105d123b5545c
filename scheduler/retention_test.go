package scheduler

import (
	"os"
	"path/filepath"
	"testing"

	"lycosa.dev/scheduler/internal/frontier"
)

// Of the snapshots of the interval the latest are kept; what else lies in the
// folder is left alone.
func TestDropCheckpointsKeepsTheLatest(t *testing.T) {
	dir := t.TempDir()
	names := []string{"20260101-000000.000", "20260102-000000.000" + frontier.Partial, "20260103-000000.000", "20260104-000000.000", "mine"}
	for _, n := range names {
		if err := os.Mkdir(filepath.Join(dir, n), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := &Scheduler{cfg: Config{CheckpointDir: dir, CheckpointKeep: 2}}
	if err := s.dropCheckpoints(); err != nil {
		t.Fatal(err)
	}
	for i, n := range names {
		_, err := os.Stat(filepath.Join(dir, n))
		if kept := i >= 2; kept != (err == nil) {
			t.Errorf("%s: %v", n, err)
		}
	}
}
