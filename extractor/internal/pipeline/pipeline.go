// Package pipeline runs a page through the handlers that a job's spec names. A
// handler may have a condition; what follows it is said in the spec: proceed,
// finish, or jump to a later step by its label. There are no loops: a jump
// leads forward only, so every page reaches the end.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	"cel.dev/cel-go/cel"

	"lycosa.dev/extractor/internal/page"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// Handler works on a page. An error is the extractor's own trouble (a store
// that fails): the page is not answered as done. What is wrong with a page is
// the page's annotations.
type Handler interface {
	Handle(ctx context.Context, p *page.Page) error
}

// HandlerFunc makes a Handler of a function.
type HandlerFunc func(ctx context.Context, p *page.Page) error

// Handle calls the function.
func (f HandlerFunc) Handle(ctx context.Context, p *page.Page) error { return f(ctx, p) }

// Factory makes a handler from the settings of a step (Handler.with).
type Factory func(with map[string]string) (Handler, error)

// Pipeline is the compiled form of a spec's pipeline; safe for concurrent use.
type Pipeline struct{ steps []step }

type step struct {
	label   string
	handler Handler
	when    cel.Program // nil: always
	then    int         // index of the step that follows if it ran
	other   int         // and if its condition was false
}

// Compile makes a pipeline of a spec's steps; factories by handler name. All
// problems are returned together, named by their field.
func Compile(spec []*jobv1.Handler, factories map[string]Factory) (*Pipeline, error) {
	var errs []error
	p := &Pipeline{steps: make([]step, len(spec))}
	labels := map[string]int{}
	for i, h := range spec {
		label := h.GetLabel()
		if label == "" {
			label = h.GetHandler()
		}
		if _, taken := labels[label]; taken && h.GetLabel() != "" {
			errs = append(errs, fmt.Errorf("pipeline[%d].label: %q is taken by an earlier step", i, label))
		} else if !taken {
			labels[label] = i
		}
		p.steps[i].label = label
	}
	env, err := environment()
	if err != nil {
		return nil, err
	}
	for i, h := range spec {
		s := &p.steps[i]
		at := fmt.Sprintf("pipeline[%d]", i)
		factory, ok := factories[h.GetHandler()]
		if !ok {
			errs = append(errs, fmt.Errorf("%s.handler: %q is unknown; there are %s", at, h.GetHandler(), names(factories)))
			continue
		}
		if s.handler, err = factory(h.GetWith()); err != nil {
			errs = append(errs, fmt.Errorf("%s.with: %w", at, err))
		}
		if h.GetWhen() != "" {
			if s.when, err = condition(env, h.GetWhen()); err != nil {
				errs = append(errs, fmt.Errorf("%s.when: %w", at, err))
			}
		}
		if s.then, err = target(h.GetThen(), i, len(spec), labels); err != nil {
			errs = append(errs, fmt.Errorf("%s.then: %w", at, err))
		}
		if s.other, err = target(h.GetOtherwise(), i, len(spec), labels); err != nil {
			errs = append(errs, fmt.Errorf("%s.otherwise: %w", at, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return p, nil
}

// Run passes a page through the pipeline. It stops at the first error.
func (p *Pipeline) Run(ctx context.Context, pg *page.Page) error {
	var vars map[string]any
	for i := 0; i < len(p.steps); {
		s := &p.steps[i]
		if s.when != nil {
			if vars == nil {
				vars = variables(pg)
			}
			out, _, err := s.when.ContextEval(ctx, vars)
			if err != nil {
				return fmt.Errorf("pipeline step %s: condition: %w", s.label, err)
			}
			if yes, _ := out.Value().(bool); !yes {
				i = s.other
				continue
			}
		}
		if err := s.handler.Handle(ctx, pg); err != nil {
			return fmt.Errorf("pipeline step %s: %w", s.label, err)
		}
		i = s.then
	}
	return nil
}

func target(word string, at, steps int, labels map[string]int) (int, error) {
	switch word {
	case "", "proceed":
		return at + 1, nil
	case "finish":
		return steps, nil
	}
	to, ok := labels[word]
	if !ok {
		return 0, fmt.Errorf("%q is neither proceed, finish nor the label of a step", word)
	}
	if to <= at {
		return 0, fmt.Errorf("%q is not a later step: a jump leads forward", word)
	}
	return to, nil
}

func environment() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("url", cel.StringType), cel.Variable("host", cel.StringType), cel.Variable("path", cel.StringType),
		cel.Variable("status", cel.IntType), cel.Variable("type", cel.StringType), cel.Variable("length", cel.IntType),
		cel.Variable("depth", cel.IntType),
	)
}

// costLimit bounds one evaluation: conditions come from job specs.
const costLimit = 100_000

func condition(env *cel.Env, text string) (cel.Program, error) {
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	if ast.OutputType() != cel.BoolType {
		return nil, fmt.Errorf("%q is of type %s, must be a condition (bool)", text, ast.OutputType())
	}
	return env.Program(ast, cel.CostLimit(costLimit), cel.InterruptCheckFrequency(100))
}

func variables(p *page.Page) map[string]any {
	return map[string]any{
		"url": p.URL.String(), "host": p.URL.HostKey(), "path": p.URL.Path(),
		"status": int64(p.Result.GetStatus()), "type": p.ContentType, "length": p.Body.Size(),
		"depth": int64(p.Lease.GetDepth()),
	}
}

func names(factories map[string]Factory) string {
	var out []string
	for n := range factories {
		out = append(out, n)
	}
	sort.Strings(out)
	return strings.Join(out, ", ")
}
