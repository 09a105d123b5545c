package scheduler_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/service"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	"lycosa.dev/scheduler"
)

// A file of groups that cannot be used ends the start, with its name and place.
func TestGroupsFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "groups.yaml")
	run := func(text string, more ...*jobv1.ClockGroup) error {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := scheduler.Default()
		cfg.Dir, cfg.GroupsFile, cfg.Groups = filepath.Join(dir, "frontier"), path, more
		s, err := scheduler.New(cfg, service.Deps{Dialer: rpc.NewLocal(rpc.ServerOptions{})})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		return s.Run(ctx)
	}
	const good = "groups: [{name: x, hosts: [a.test], limit: {concurrency: 1}}]"
	if err := run(good); err != nil && !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("%s: %v", good, err)
	}
	if err := run("groups:\n- {name: x, hosts: [a.test], limits: {}}"); err == nil || !strings.Contains(err.Error(), "groups_file: ") || !strings.Contains(err.Error(), "groups.yaml:2:") {
		t.Errorf("an unknown key: %v", err)
	}
	x := &jobv1.ClockGroup{Name: "x", Hosts: []string{"b.test"}, Limit: &jobv1.ClockLimit{Concurrency: 1}}
	if err := run(good, x); err == nil || !strings.Contains(err.Error(), `"x" is the name of another group`) {
		t.Errorf("a name twice: %v", err)
	}
	if err := run(good, &jobv1.ClockGroup{Name: "y"}); err == nil || !strings.Contains(err.Error(), "groups[0]: has neither hosts nor nets") {
		t.Errorf("a group of nothing: %v", err)
	}
}
