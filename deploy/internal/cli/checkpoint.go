package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"lycosa.dev/deploy/allinone"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
	"lycosa.dev/scheduler"
)

// checkpointCmd makes snapshots.
type checkpointCmd struct {
	Crawl string `arg:"" name:"dir" help:"Folder of the crawl."`
	Dest  string `arg:"" help:"New folder for the snapshot."`
}

// Help is shown below the flags.
func (*checkpointCmd) Help() string {
	return `The snapshot is the crawl's state as of one instant: its frontier and job.yaml,
without the pages. A crawl that runs goes on meanwhile. To go on from it, copy it
to a new folder, on any machine and as often as wanted, and give that folder to
"lycosa crawl --dir". The snapshot is audited before the command ends; one that
is cut off leaves no frontier in DEST.`
}

// Run implements the command.
func (c *checkpointCmd) Run(a *App) error {
	from, to := allinone.Layout(c.Crawl), allinone.Layout(c.Dest)
	if !exists(from.Frontier()) {
		return usage("%s holds no crawl: there is no %s", c.Crawl, from.Frontier())
	}
	if exists(to.Frontier()) {
		return usage("%s exists; a snapshot goes to a new folder", to.Frontier())
	}
	dest, err := filepath.Abs(to.Frontier())
	if err != nil {
		return usage("%w", err)
	}
	if err := os.MkdirAll(c.Dest, 0o755); err != nil {
		return err
	}
	if err := copyIfThere(filepath.Join(c.Crawl, "job.yaml"), filepath.Join(c.Dest, "job.yaml")); err != nil {
		return err
	}
	if socket := allinone.SocketPath(from); socket != "" && answers("unix", socket) {
		flags := adminFlags{}
		cl, err := flags.dial(a, "unix:"+socket)
		if err != nil {
			return err
		}
		defer cl.Close()
		if err := c.ask(a.ctx, cl, dest); err != nil {
			return err
		}
	} else if err := scheduler.CheckpointOffline(from.Frontier(), dest); err != nil {
		return err
	}
	rep, err := scheduler.Audit(dest)
	if err != nil {
		return err
	}
	for _, v := range rep.Violations {
		fmt.Fprintf(a.Stderr, "%s: %s: %s\n", v.Job, v.Rule, v.Detail)
	}
	if len(rep.Violations) > 0 {
		return silent(ExitFailure)
	}
	fmt.Fprintf(a.Stdout, "snapshot in %s: %d records, all invariants hold\n", c.Dest, rep.Records)
	return nil
}

func (c *checkpointCmd) ask(ctx context.Context, cl gatewayv1.AdminServiceClient, dest string) error {
	_, err := cl.Checkpoint(ctx, &gatewayv1.CheckpointRequest{Question: &schedulerv1.CheckpointRequest{Folder: dest}})
	return err
}

// copyIfThere copies a small file where there is one.
func copyIfThere(from, to string) error {
	raw, err := os.ReadFile(from)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(to, raw, 0o644)
}
