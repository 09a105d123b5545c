// Package config reads a service's settings from YAML, the environment and the
// command line into a documented Go struct, strictly.
package config

import "errors"

// Options says where settings come from. A flag wins over the environment, the
// environment over the file, the file over what dst holds before.
type Options struct {
	// File is the YAML file; "" is none.
	File string
	// EnvPrefix is the prefix of the environment variables, "LYCOSA_DNSER_".
	EnvPrefix string
	// Env is the environment in os.Environ's form; nil is none.
	Env []string
	// Flags are the parsed flags; nil is none.
	Flags *Flags
}

// Flags are the command line flags derived from a settings struct.
type Flags struct{}

// Load fills dst, a pointer to a struct, and validates it.
func Load(dst any, opt Options) error { return errors.New("config: not built") }

// DecodeYAML reads one YAML document strictly into dst, a pointer to a struct:
// the part of Load that a job spec's parser needs too.
func DecodeYAML(file string, data []byte, dst any) error { return errors.New("config: not built") }

// Main reads the settings of a service's binary: --config, --check-config,
// --version, --help and the flags of dst, on os.Args and os.Environ. An error
// that is not nil has an exit code for rpc.Main (0 after --help).
func Main(service string, dst any) error { return errors.New("config: not built") }

// Validator is what a settings struct, or a struct in it, may implement: all
// problems at once, with errors.Join.
type Validator interface{ Validate() error }

// Size is a number of bytes, written "10MiB", "1GB" or 4096.
type Size int64

// ParseSize reads a size.
func ParseSize(s string) (Size, error) { return 0, errors.New("config: not built") }

// FormatSize writes a size.
func FormatSize(n Size) string { return "" }

// Closest returns the candidate most like name, or "" when none is near.
func Closest(name string, candidates []string) string { return "" }

// Invalid returns a problem with the setting at path ("tls.cert").
func Invalid(path, format string, args ...any) error { return errors.New(path) }
