package config

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// Flags are the command line flags of a settings struct: one for each setting,
// named by its path with "-" for "_", and --config, --check-config, --version
// and --help. Lists take a flag more than once, or values with commas between.
type Flags struct {
	// What the flags of every service said.
	File        string // --config
	CheckConfig bool
	Version     bool
	Help        bool
	// Args are the arguments that are no flags.
	Args []string

	given    []givenFlag
	settings []setting
	problems []Problem
}

type givenFlag struct{ name, value string }

// builtin are the flags that every service has.
var builtin = []struct{ name, kind, usage string }{
	{"config", "file", "read settings from this YAML file"},
	{"check-config", "bool", "check the settings, print those in effect as YAML (secrets hidden) and exit"},
	{"version", "bool", "print the version and exit"},
	{"help", "bool", "print this help and exit"},
}

// NewFlags derives flags from dst, a pointer to a settings struct.
func NewFlags(dst any) (*Flags, error) {
	root, err := structOf(dst)
	if err != nil {
		return nil, err
	}
	f := &Flags{settings: fieldsOf(root)}
	names := f.names()
	slices.Sort(names)
	for i := 1; i < len(names); i++ {
		if names[i] == names[i-1] {
			return nil, fmt.Errorf("config: two settings of %T make the flag --%s", dst, names[i])
		}
	}
	return f, nil
}

func (f *Flags) names() []string {
	var names []string
	for _, b := range builtin {
		names = append(names, b.name)
	}
	for _, s := range f.settings {
		names = append(names, s.flagName())
	}
	return names
}

// Parse reads arguments (without the program's name): --name value,
// --name=value, --name for a bool; "--" ends the flags. Values are set by Load.
// All problems come at once, as an *Error.
func (f *Flags) Parse(args []string) error {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			f.Args = append(f.Args, args...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			f.Args = append(f.Args, arg)
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		name = strings.ReplaceAll(name, "_", "-")
		if name == "h" {
			name = "help"
		}
		isBool, known := f.kind(name)
		if !known {
			f.problems = append(f.problems, Problem{
				Pos: Position{Flag: name}, Message: "unknown flag", Suggestion: dashed(Closest(name, f.names())),
			})
			// Its value, if it has one, is not an argument.
			if !hasValue && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
				args = args[1:]
			}
			continue
		}
		switch {
		case hasValue:
		case isBool:
			value = "true"
		case len(args) == 0:
			f.problems = append(f.problems, Problem{Pos: Position{Flag: name}, Message: "needs a value"})
			continue
		default:
			value, args = args[0], args[1:]
		}
		f.take(name, value)
	}
	if len(f.problems) > 0 {
		return &Error{Problems: f.problems}
	}
	return nil
}

func dashed(name string) string {
	if name == "" {
		return ""
	}
	return "--" + name
}

// kind says of a flag whether it is a bool, and whether it exists.
func (f *Flags) kind(name string) (isBool, known bool) {
	for _, b := range builtin {
		if b.name == name {
			return b.kind == "bool", true
		}
	}
	for _, s := range f.settings {
		if s.flagName() == name {
			return s.value.Kind() == reflect.Bool, true
		}
	}
	return false, false
}

func (f *Flags) take(name, value string) {
	var b *bool
	switch name {
	case "config":
		f.File = value
		return
	case "check-config":
		b = &f.CheckConfig
	case "version":
		b = &f.Version
	case "help":
		b = &f.Help
	default:
		f.given = append(f.given, givenFlag{name, value})
		return
	}
	switch value {
	case "true":
		*b = true
	case "false":
		*b = false
	default:
		f.problems = append(f.problems, Problem{Pos: Position{Flag: name}, Message: fmt.Sprintf("must be true or false, not %q", value)})
	}
}

// flags sets the settings that were given as flags.
func (l *loader) flags(f *Flags, settings []setting) {
	byName := map[string]setting{}
	for _, s := range settings {
		byName[s.flagName()] = s
	}
	seen := map[string]string{}
	for _, g := range f.given {
		s, ok := byName[g.name]
		if !ok {
			l.problems = append(l.problems, Problem{Pos: Position{Flag: g.name}, Message: "unknown flag"})
			continue
		}
		value := g.value
		if before, again := seen[g.name]; again {
			switch s.value.Kind() {
			case reflect.Slice, reflect.Map:
				value = before + "," + value
			}
		}
		seen[g.name] = value
		l.setText(s, value, Position{Flag: g.name})
	}
}

// env sets the settings that have a variable.
func (l *loader) env(prefix string, env []string, settings []setting) {
	byName := map[string]setting{}
	names := make([]string, 0, len(settings)+1)
	for _, s := range settings {
		byName[prefix+s.envName()] = s
		names = append(names, prefix+s.envName())
	}
	names = append(names, prefix+"CONFIG")
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, prefix) || name == prefix+"CONFIG" {
			continue
		}
		s, ok := byName[name]
		if !ok {
			l.problems = append(l.problems, Problem{
				Pos: Position{Env: name}, Message: "unknown setting in the environment", Suggestion: Closest(name, names),
			})
			continue
		}
		l.setText(s, value, Position{Env: name})
	}
}

func (l *loader) setText(s setting, value string, pos Position) {
	l.origins[s.path] = pos
	if err := setText(s.value, value); err != nil {
		msg := err.Error()
		if isSecret(s.value.Type()) {
			msg = "cannot be read"
		}
		l.problems = append(l.problems, Problem{Pos: pos, Key: s.path, Message: msg})
	}
}

// WriteHelp lists all flags: name, type, usage, default, variable. The defaults
// are what dst holds when it is called.
func (f *Flags) WriteHelp(w io.Writer, envPrefix string) {
	for _, b := range builtin {
		fmt.Fprintf(w, "  --%s", b.name)
		if b.kind != "bool" {
			fmt.Fprintf(w, " %s", b.kind)
		}
		fmt.Fprintf(w, "\n        %s", b.usage)
		if b.name == "config" && envPrefix != "" {
			fmt.Fprintf(w, " (%sCONFIG)", envPrefix)
		}
		fmt.Fprintln(w)
	}
	for _, s := range f.settings {
		fmt.Fprintf(w, "  --%s", s.flagName())
		if s.value.Kind() != reflect.Bool {
			fmt.Fprintf(w, " %s", typeName(s.value.Type()))
		}
		var notes []string
		if d := showDefault(s.value); d != "" {
			notes = append(notes, "default "+d)
		}
		if envPrefix != "" {
			notes = append(notes, envPrefix+s.envName())
		}
		fmt.Fprintf(w, "\n        %s", s.usage)
		if len(notes) > 0 {
			if s.usage != "" {
				fmt.Fprint(w, " ")
			}
			fmt.Fprintf(w, "(%s)", strings.Join(notes, ", "))
		}
		fmt.Fprintln(w)
	}
}

// showDefault is the value as help shows it; "" for zero values, which say
// nothing.
func showDefault(v reflect.Value) string {
	if v.IsZero() {
		return ""
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		if v.Len() == 0 {
			return ""
		}
		if v.Kind() == reflect.Slice {
			parts := make([]string, v.Len())
			for i := range parts {
				parts[i] = fmt.Sprint(plain(v.Index(i)))
			}
			return strings.Join(parts, ",")
		}
	}
	return fmt.Sprint(plain(v))
}
