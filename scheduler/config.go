package scheduler

import (
	"errors"
	"time"

	"lycosa.dev/internal/config"
	"lycosa.dev/internal/job"
	"lycosa.dev/internal/service"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// Port is the scheduler's default port.
const Port = 7071

// Config is the scheduler's settings.
type Config struct {
	service.Config `yaml:",inline"`

	Dir                string        `yaml:"dir" usage:"folder of the frontier"`
	LeaseDeadline      time.Duration `yaml:"lease_deadline" usage:"how long a lease lasts without a sign of life from its downloader"`
	LeaseGrace         time.Duration `yaml:"lease_grace" usage:"what the scheduler waits beyond a lease's deadline"`
	MaxLease           time.Duration `yaml:"max_lease" usage:"how long signs of life can stretch a lease"`
	AdoptWait          time.Duration `yaml:"adopt_wait" usage:"how long after a start the leases of before are kept for downloaders that still hold them"`
	MaxActiveHosts     int           `yaml:"max_active_hosts" usage:"queues kept in memory; the others wait on disk"`
	DrainTimeout       time.Duration `yaml:"drain_timeout" usage:"how long leases that are out may take to come home when the scheduler stops"`
	SeenFilterBytes    int           `yaml:"seen_filter_bytes" usage:"most memory of the filter that tells new URLs from known ones; 10 bits a URL are best"`
	SeenCacheBytes     int           `yaml:"seen_cache_bytes" usage:"memory for blocks of the seen set's files"`
	SeenTableKeys      int           `yaml:"seen_table_keys" usage:"youngest keys of a job's seen set that are in memory before they become a file"`
	StoreCacheBytes    int64         `yaml:"store_cache_bytes" usage:"memory for blocks of the store's files"`
	StoreBufferBytes   int64         `yaml:"store_buffer_bytes" usage:"size that a write buffer of the store grows to; there are two mostly, up to four while the disk is slow"`
	CheckpointInterval time.Duration `yaml:"checkpoint_interval" usage:"how often a snapshot of the frontier is made; 0: never"`
	CheckpointDir      string        `yaml:"checkpoint_dir" usage:"folder of the snapshots, on the frontier's file system so that files can be linked"`
	CheckpointKeep     int           `yaml:"checkpoint_keep" usage:"how many snapshots are kept"`
	GroupsFile         string        `yaml:"groups_file" usage:"YAML file of named groups of hosts and networks that share a clock in all jobs (groups: as in a job file)"`
	CommitWindow       int           `yaml:"commit_window" usage:"commits worked on at a time on one stream"`

	// Groups are named groups beside those of GroupsFile.
	Groups []*jobv1.ClockGroup `yaml:"-"`

	// SingleProcess: the ring is one process, so leases found at the start
	// belong to nobody. It is no setting of the binary.
	SingleProcess bool `yaml:"-"`
}

// Default returns the settings of a scheduler on this machine.
func Default() Config {
	return Config{
		Config:           service.Defaults("scheduler", Port),
		Dir:              "frontier",
		LeaseDeadline:    2 * time.Minute,
		LeaseGrace:       15 * time.Second,
		MaxLease:         time.Hour,
		AdoptWait:        30 * time.Second,
		MaxActiveHosts:   10000,
		DrainTimeout:     20 * time.Second,
		CommitWindow:     256,
		SeenFilterBytes:  128 << 20,
		SeenCacheBytes:   64 << 20,
		SeenTableKeys:    1 << 17,
		StoreCacheBytes:  64 << 20,
		StoreBufferBytes: 64 << 20,
		CheckpointKeep:   2,
	}
}

// Validate returns all problems.
func (c Config) Validate() error {
	var errs []error
	positive := func(name string, v time.Duration) {
		if v <= 0 {
			errs = append(errs, config.Invalid(name, "must be positive, is %s", v))
		}
	}
	positive("lease_deadline", c.LeaseDeadline)
	positive("lease_grace", c.LeaseGrace)
	positive("max_lease", c.MaxLease)
	positive("drain_timeout", c.DrainTimeout)
	if c.AdoptWait < 0 {
		errs = append(errs, config.Invalid("adopt_wait", "must not be negative, is %s", c.AdoptWait))
	}
	if c.Dir == "" {
		errs = append(errs, config.Invalid("dir", "is empty; name the folder of the frontier"))
	}
	if c.MaxActiveHosts < 1 {
		errs = append(errs, config.Invalid("max_active_hosts", "must be at least 1, is %d", c.MaxActiveHosts))
	}
	for _, m := range []struct {
		name         string
		value, least int64
	}{
		{"seen_filter_bytes", int64(c.SeenFilterBytes), 1 << 20}, {"seen_cache_bytes", int64(c.SeenCacheBytes), 1 << 20},
		{"store_cache_bytes", c.StoreCacheBytes, 1 << 20}, {"store_buffer_bytes", c.StoreBufferBytes, 64 << 10},
		{"seen_table_keys", int64(c.SeenTableKeys), 1},
	} {
		if m.value < m.least {
			errs = append(errs, config.Invalid(m.name, "must be at least %d, is %d", m.least, m.value))
		}
	}
	if c.StoreBufferBytes > 1<<30 {
		errs = append(errs, config.Invalid("store_buffer_bytes", "must be at most %d, is %d", 1<<30, c.StoreBufferBytes))
	}
	if c.CheckpointInterval < 0 {
		errs = append(errs, config.Invalid("checkpoint_interval", "must not be negative, is %s", c.CheckpointInterval))
	}
	if c.CheckpointInterval > 0 && c.CheckpointDir == "" {
		errs = append(errs, config.Invalid("checkpoint_dir", "is empty; name the folder of the snapshots"))
	}
	if c.CheckpointKeep < 1 {
		errs = append(errs, config.Invalid("checkpoint_keep", "must be at least 1, is %d", c.CheckpointKeep))
	}
	if err := job.CheckGroups(c.Groups); err != nil {
		errs = append(errs, err)
	}
	if c.CommitWindow < 1 {
		errs = append(errs, config.Invalid("commit_window", "must be at least 1, is %d", c.CommitWindow))
	}
	return errors.Join(append(errs, c.Config.Validate())...)
}
