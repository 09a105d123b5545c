package extractor

import (
	"errors"
	"time"

	"lycosa.dev/internal/config"
	"lycosa.dev/internal/service"
)

// Port is the extractor's default port.
const Port = 7073

// Config is the extractor's settings.
type Config struct {
	service.Config `yaml:",inline"`

	Scheduler   string        `yaml:"scheduler" usage:"address of the scheduler"`
	Dir         string        `yaml:"dir" usage:"folder of the results: warc/, pages/ and logs/ are made in it"`
	PagesByJob  bool          `yaml:"pages_by_job" usage:"keep the files of the store files in pages/JOB/HOST/; false: in pages/HOST/, where jobs that store one URL replace each other's file"`
	Window      int           `yaml:"window" usage:"pages worked on at a time on one stream"`
	SpoolBytes  config.Size   `yaml:"spool_bytes" usage:"a larger page waits on disk instead of in memory"`
	CachedLinks int           `yaml:"cached_links" usage:"links remembered as acknowledged, 8 bytes each"`
	SpecWait    time.Duration `yaml:"spec_wait" usage:"how long a page waits for the spec of its job to arrive"`
	ForwardWait time.Duration `yaml:"forward_wait" usage:"how long a stored page waits for the stages behind before it is given back"`
}

// Default returns the settings of an extractor on this machine.
func Default() Config {
	return Config{
		Config:      service.Defaults("extractor", Port),
		Scheduler:   "127.0.0.1:7071",
		Dir:         "crawl",
		PagesByJob:  true,
		Window:      256,
		SpoolBytes:  1 << 20,
		CachedLinks: 1 << 20,
		SpecWait:    10 * time.Second,
		ForwardWait: time.Minute,
	}
}

// Validate returns all problems.
func (c Config) Validate() error {
	var errs []error
	for _, p := range []struct {
		name string
		v    int64
	}{
		{"window", int64(c.Window)}, {"spool_bytes", int64(c.SpoolBytes)},
		{"cached_links", int64(c.CachedLinks)}, {"spec_wait", int64(c.SpecWait)}, {"forward_wait", int64(c.ForwardWait)},
	} {
		if p.v <= 0 {
			errs = append(errs, config.Invalid(p.name, "must be positive, is %d", p.v))
		}
	}
	if c.Scheduler == "" {
		errs = append(errs, config.Invalid("scheduler", "is empty; name the scheduler's address"))
	}
	if c.Dir == "" {
		errs = append(errs, config.Invalid("dir", "is empty; name the folder of the results"))
	}
	return errors.Join(append(errs, c.Config.Validate())...)
}
