package scheduler

import (
	"fmt"
	"os"
	"slices"

	"lycosa.dev/internal/job"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// groups are the deployment's named groups, of its settings and of their file.
func (c *Config) groups() ([]*jobv1.ClockGroup, error) {
	if c.GroupsFile == "" {
		return c.Groups, nil
	}
	data, err := os.ReadFile(c.GroupsFile)
	if err != nil {
		return nil, fmt.Errorf("groups_file: %w", err)
	}
	list, err := job.ParseGroups(c.GroupsFile, data)
	if err != nil {
		return nil, fmt.Errorf("groups_file: %w", err)
	}
	list = append(slices.Clone(c.Groups), list...)
	if err := job.CheckGroups(list); err != nil {
		return nil, fmt.Errorf("groups_file: %w", err)
	}
	return list, nil
}
