package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"lycosa.dev/internal/job"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// jobFile is a job file that was read. The nil *jobFile is none.
type jobFile struct {
	name string
	spec *jobv1.Spec
	tree *ast.File
}

// readJob reads a job file; its problems name file, line and column.
func readJob(name string) (*jobFile, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("job file: %w", err)
	}
	return parseJob(name, data)
}

func parseJob(name string, data []byte) (*jobFile, error) {
	spec, err := job.ParseYAML(name, data)
	if err != nil {
		return nil, err
	}
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, fmt.Errorf("job file %s: %w", name, err)
	}
	return &jobFile{name: name, spec: spec, tree: tree}, nil
}

// place puts file, line and column before those problems ("field: what") whose
// field stands in the file.
func (f *jobFile) place(err error) error {
	if f == nil || err == nil {
		return err
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, e := range many.Unwrap() {
			errs = append(errs, f.place(e))
		}
		return errors.Join(errs...)
	}
	field, _, ok := strings.Cut(err.Error(), ":")
	if !ok || strings.ContainsAny(field, " \t") {
		return err
	}
	path, pathErr := yaml.PathString("$." + field)
	if pathErr != nil {
		return err
	}
	node, nodeErr := path.FilterFile(f.tree)
	if nodeErr != nil || node == nil || node.GetToken() == nil {
		return err
	}
	pos := node.GetToken().Position
	return fmt.Errorf("%s:%d:%d: %w", f.name, pos.Line, pos.Column, err)
}
