package scheduler_test

import (
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
	"lycosa.dev/scheduler"
)

// A scheduler that works makes a snapshot that passes the audit, once a folder.
func TestCheckpointOfARunningScheduler(t *testing.T) {
	r, stop := start(t, t.TempDir(), nil)
	defer stop()
	dest := filepath.Join(t.TempDir(), "snap")
	ask := func(folder string) error {
		_, err := r.control.Checkpoint(t.Context(), &schedulerv1.CheckpointRequest{Folder: folder})
		return err
	}
	if err := ask(dest); err != nil {
		t.Fatal(err)
	}
	if rep, err := scheduler.Audit(dest); err != nil || len(rep.Violations) > 0 {
		t.Errorf("the snapshot: %v, %v", rep, err)
	}
	for _, c := range []struct {
		folder string
		want   codes.Code
	}{{dest, codes.AlreadyExists}, {"relative", codes.InvalidArgument}, {"", codes.InvalidArgument}} {
		if err := ask(c.folder); status.Code(err) != c.want {
			t.Errorf("folder %q: %v, want %s", c.folder, err, c.want)
		}
	}
}
