package gateway

import (
	"errors"
	"fmt"
	"time"

	"lycosa.dev/internal/service"
)

// Port is the gateway's default port.
const Port = 7070

// Config is the gateway's settings.
type Config struct {
	service.Config `yaml:",inline"`

	Scheduler      string        `yaml:"scheduler" usage:"address of the scheduler"`
	Timeout        time.Duration `yaml:"timeout" usage:"how long the scheduler may take to answer one question"`
	AllowNoContact bool          `yaml:"allow_no_contact" usage:"accept jobs that do not say who answers for them (identity.contact)"`
}

// Default returns the settings of a gateway on this machine.
func Default() Config {
	return Config{
		Config:    service.Defaults("gateway", Port),
		Scheduler: "127.0.0.1:7071",
		Timeout:   time.Minute,
	}
}

// Validate returns all problems.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	if c.Scheduler == "" {
		errs = append(errs, errors.New("scheduler: is empty; give the scheduler's address, such as 127.0.0.1:7071"))
	}
	if c.Timeout <= 0 {
		errs = append(errs, fmt.Errorf("timeout: must be positive, is %s", c.Timeout))
	}
	return errors.Join(errs...)
}
