package scheduler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
	"lycosa.dev/scheduler/internal/frontier"
)

// snapshotTime is the form of the names of snapshots that are made at an
// interval, in the order of time.
const snapshotTime = "20060102-150405.000"

// Checkpoint implements ControlService.
func (s *Scheduler) Checkpoint(ctx context.Context, req *schedulerv1.CheckpointRequest) (*schedulerv1.CheckpointResponse, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	dest := req.GetFolder()
	switch {
	case dest == "" && s.cfg.CheckpointDir == "":
		return nil, status.Error(codes.InvalidArgument, "folder is empty, and the scheduler has no checkpoint_dir")
	case dest == "":
		if err := os.MkdirAll(s.cfg.CheckpointDir, 0o755); err != nil {
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
		dest = filepath.Join(s.cfg.CheckpointDir, time.Now().UTC().Format(snapshotTime))
	case !filepath.IsAbs(dest):
		return nil, status.Errorf(codes.InvalidArgument, "folder %q: want an absolute path on the scheduler's machine", dest)
	}
	if _, err := os.Stat(filepath.Dir(dest)); err != nil {
		return nil, status.Errorf(codes.FailedPrecondition, "folder %q: make its parent first: %v", dest, err)
	}
	if err := s.f.Checkpoint(ctx, dest); err != nil {
		switch {
		case errors.Is(err, frontier.ErrExists):
			return nil, status.Error(codes.AlreadyExists, err.Error())
		case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
		return nil, toStatus(err)
	}
	return &schedulerv1.CheckpointResponse{Folder: dest}, nil
}

// checkpoints makes snapshots at the interval of the settings and keeps the
// latest of them. One that fails is told and tried again when it is due next.
func (s *Scheduler) checkpoints(ctx context.Context) error {
	if s.cfg.CheckpointInterval <= 0 {
		return nil
	}
	tick := time.NewTicker(s.cfg.CheckpointInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		start := time.Now()
		res, err := s.Checkpoint(ctx, &schedulerv1.CheckpointRequest{})
		if err == nil {
			err = s.dropCheckpoints()
		}
		if err != nil {
			s.log.Error("no snapshot of the frontier was made", "error", err)
			continue
		}
		s.log.Info("snapshot of the frontier", "folder", res.GetFolder(), "took", time.Since(start))
	}
}

// dropCheckpoints removes the snapshots of the interval but the latest, and what
// is left of older ones that a crash has cut.
func (s *Scheduler) dropCheckpoints() error {
	list, err := os.ReadDir(s.cfg.CheckpointDir)
	if err != nil {
		return err
	}
	var names, whole []string
	for _, e := range list {
		name, cut := strings.CutSuffix(e.Name(), frontier.Partial)
		if _, err := time.Parse(snapshotTime, name); err != nil || !e.IsDir() {
			continue
		}
		if names = append(names, e.Name()); !cut {
			whole = append(whole, e.Name())
		}
	}
	slices.Sort(whole)
	if len(whole) < s.cfg.CheckpointKeep {
		return nil
	}
	oldest := whole[len(whole)-s.cfg.CheckpointKeep]
	for _, name := range names {
		if name < oldest {
			err = errors.Join(err, dropCheckpoint(filepath.Join(s.cfg.CheckpointDir, name)))
		}
	}
	return err
}

// dropCheckpoint removes a snapshot, which loses its name first: what bears a
// snapshot's name is whole at every moment.
func dropCheckpoint(path string) error {
	if !strings.HasSuffix(path, frontier.Partial) {
		gone := path + frontier.Partial
		if err := os.Rename(path, gone); err != nil {
			return err
		}
		path = gone
	}
	return os.RemoveAll(path)
}

// CheckpointOffline makes a snapshot of a frontier's folder that nobody runs,
// in a new folder.
func CheckpointOffline(dir, dest string) error {
	if err := frontier.CheckpointDir(dir, dest); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	return nil
}
