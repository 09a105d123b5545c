// Package config reads a service's settings from a YAML file, the environment
// and the command line into a documented Go struct.
//
// It is strict: an unknown key, a value of the wrong type or out of range, an
// unknown flag or variable is an error that names its place (file, line and
// column, or the variable, or the flag), the key, and the name that was
// probably meant; all problems are reported at once.
//
// A settings struct is its own description:
//
//	type Config struct {
//		Listen string        `yaml:"listen" usage:"address to serve on"`
//		Cache  config.Size   `yaml:"cache" usage:"memory for answers"`
//		Wait   time.Duration `yaml:"wait" usage:"longest wait for an answer"`
//		TLS    rpc.TLSFiles  `yaml:"tls"`
//	}
//
// A field is a bool, an integer, a float, a string, a time.Duration ("5s"), a
// Size ("10MiB"), anything with UnmarshalText, a struct (a section), a pointer
// to one of these, a slice, or a map with string keys. What the struct holds
// before Load are the defaults. `yaml:"-"` leaves a field out, `yaml:",inline"`
// lifts a struct's fields into its parent; a field without a yaml tag is named
// in snake case. A type with a method Redacted() string is a secret: it is
// shown as that method says.
//
// The setting tls.cert of service dnser is `cert:` below `tls:` in YAML,
// LYCOSA_DNSER_TLS_CERT in the environment and --tls.cert on the command line.
package config

import (
	"fmt"
	"os"
	"reflect"
)

// Options says where settings come from. A flag wins over the environment, the
// environment over the file, the file over what dst holds before.
type Options struct {
	// File is the YAML file; "" is none.
	File string
	// EnvPrefix is the prefix of the environment variables, "LYCOSA_DNSER_". A
	// variable with the prefix that names no setting is an error.
	EnvPrefix string
	// Env is the environment in os.Environ's form; nil is none.
	Env []string
	// Flags are flags that were parsed; nil is none.
	Flags *Flags
}

// Validator is what a settings struct may implement: Validate returns all
// problems at once, joined with errors.Join. Problems made by Invalid carry the
// setting's path, and Load adds where its value came from. Only the method of
// the struct given to Load is called; it calls those of its sections, with
// Within.
type Validator interface {
	Validate() error
}

// Load fills dst, a pointer to a struct, from the places of opt and validates
// it. Problems come as an *Error.
func Load(dst any, opt Options) error {
	root, err := structOf(dst)
	if err != nil {
		return err
	}
	l := &loader{origins: map[string]Position{}}
	if opt.File != "" {
		data, err := os.ReadFile(opt.File)
		if err != nil {
			return &Error{Problems: []Problem{{Message: fmt.Sprintf("settings file: %v", err)}}}
		}
		l.file(opt.File, data, root)
	}
	settings := fieldsOf(root)
	if opt.EnvPrefix != "" {
		l.env(opt.EnvPrefix, opt.Env, settings)
	}
	if opt.Flags != nil {
		l.flags(opt.Flags, settings)
	}
	// Values that could not be read are not worth judging.
	if len(l.problems) == 0 {
		l.validate(dst)
	}
	return l.err()
}

// DecodeYAML reads one YAML document strictly into dst, a pointer to a struct,
// and validates it: Load for documents that are not settings (a job's spec).
// file is its name in messages.
func DecodeYAML(file string, data []byte, dst any) error {
	root, err := structOf(dst)
	if err != nil {
		return err
	}
	l := &loader{origins: map[string]Position{}}
	l.file(file, data, root)
	if len(l.problems) == 0 {
		l.validate(dst)
	}
	return l.err()
}

// loader gathers the problems of one Load, and where each value came from.
type loader struct {
	problems []Problem
	origins  map[string]Position // by path
}

func (l *loader) err() error {
	if len(l.problems) == 0 {
		return nil
	}
	return &Error{Problems: l.problems}
}

func (l *loader) validate(dst any) {
	v, ok := dst.(Validator)
	if !ok {
		return
	}
	for _, err := range flatten(v.Validate()) {
		p := Problem{Message: err.Error()}
		if fe, ok := err.(*FieldError); ok {
			p = Problem{Key: fe.Path, Message: fe.Message, Pos: l.originOf(fe.Path)}
		}
		l.problems = append(l.problems, p)
	}
}

// originOf finds where the setting at path, or the closest section around it,
// was set.
func (l *loader) originOf(path string) Position {
	for path != "" {
		if pos, ok := l.origins[path]; ok {
			return pos
		}
		path = parentPath(path)
	}
	return Position{}
}

func structOf(dst any) (reflect.Value, error) {
	v := reflect.ValueOf(dst)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return reflect.Value{}, fmt.Errorf("config: the destination must be a pointer to a struct, not %T", dst)
	}
	return v.Elem(), nil
}
