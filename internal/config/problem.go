package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Position is where a value came from: a place in a file, an environment
// variable, or a flag. The zero value is a default.
type Position struct {
	File         string
	Line, Column int // from 1; 0 is the whole file
	Env          string
	Flag         string
}

// String writes the position as compilers do: file:line:column, or the name of
// the variable or flag.
func (p Position) String() string {
	switch {
	case p.Flag != "":
		return "--" + p.Flag
	case p.Env != "":
		return p.Env
	case p.Line > 0:
		return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	}
	return p.File
}

// Problem is one thing wrong with the settings.
type Problem struct {
	Pos     Position
	Key     string // path of the setting, "tls.cert"; may be ""
	Message string // what is wrong and what would be right
	// Suggestion is the name that was probably meant; "" is none.
	Suggestion string
}

// String is the problem in one line: position: key: message.
func (p Problem) String() string {
	var b strings.Builder
	if pos := p.Pos.String(); pos != "" {
		b.WriteString(pos)
		b.WriteString(": ")
	}
	if p.Key != "" {
		b.WriteString(p.Key)
		b.WriteString(": ")
	}
	b.WriteString(p.Message)
	if p.Suggestion != "" {
		fmt.Fprintf(&b, " (did you mean %q?)", p.Suggestion)
	}
	return b.String()
}

// Error is every problem of one Load.
type Error struct{ Problems []Problem }

// Error is the problems, one a line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// ExitCode is 2: bad usage.
func (e *Error) ExitCode() int { return 2 }

// FieldError is a problem with the setting at a path, from a Validate method.
type FieldError struct {
	Path    string
	Message string
}

// Error is path: message.
func (e *FieldError) Error() string { return e.Path + ": " + e.Message }

// Invalid returns a problem with the setting at path ("tls.cert", or
// "rules[2].if") for Validate: what is wrong and what would be right.
func Invalid(path, format string, args ...any) error {
	return &FieldError{Path: path, Message: fmt.Sprintf(format, args...)}
}

// Within puts a section's name before the paths of its problems:
// Within("tls", c.TLS.Validate()). nil stays nil.
func Within(section string, err error) error {
	errs := flatten(err)
	if len(errs) == 0 {
		return nil
	}
	joined := make(joinedErrors, len(errs))
	for i, e := range errs {
		if fe, ok := e.(*FieldError); ok {
			joined[i] = &FieldError{Path: joinPath(section, fe.Path), Message: fe.Message}
		} else {
			joined[i] = &FieldError{Path: section, Message: e.Error()}
		}
	}
	return joined
}

type joinedErrors []error

func (j joinedErrors) Error() string {
	lines := make([]string, len(j))
	for i, e := range j {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

func (j joinedErrors) Unwrap() []error { return j }

// flatten takes errors.Join's trees apart.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range many.Unwrap() {
			all = append(all, flatten(e)...)
		}
		return all
	}
	return []error{err}
}

func joinPath(parent, name string) string {
	switch {
	case parent == "":
		return name
	case name == "":
		return parent
	case name[0] == '[':
		return parent + name
	}
	return parent + "." + name
}

func indexPath(parent string, i int) string { return parent + "[" + strconv.Itoa(i) + "]" }

// parentPath cuts the last name or index off.
func parentPath(path string) string {
	if i := strings.LastIndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return ""
}
