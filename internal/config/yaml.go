package config

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"sort"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxAliases bounds how many aliases may stand directly for each other, maxDepth
// the nesting, and maxAliased how many nodes are read through aliases: a few
// lines of YAML can otherwise describe any amount of data.
const (
	maxAliases = 8
	maxDepth   = 100
	maxAliased = 10_000
)

// file reads a YAML document into root.
func (l *loader) file(name string, data []byte, root reflect.Value) {
	d := &decoder{loader: l, name: name, anchors: map[string]ast.Node{}}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		d.syntaxError(err)
		return
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			d.problem(doc.Body, "", "one YAML document is expected, a second begins here")
			return
		}
		body = doc.Body
	}
	if body == nil {
		return // an empty file sets nothing
	}
	d.value(body, root, "")
}

type decoder struct {
	*loader
	name    string
	anchors map[string]ast.Node
	depth   int
	within  int // aliases that the node being read is in
	aliased int // nodes read within aliases
}

func (d *decoder) pos(n ast.Node) Position {
	p := Position{File: d.name}
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		p.Line, p.Column = tk.Position.Line, tk.Position.Column
	}
	return p
}

func (d *decoder) problem(n ast.Node, key, format string, args ...any) {
	d.problems = append(d.problems, Problem{Pos: d.pos(n), Key: key, Message: fmt.Sprintf(format, args...)})
}

func (d *decoder) syntaxError(err error) {
	p := Problem{Pos: Position{File: d.name}, Message: "YAML: " + err.Error()}
	var ye yaml.Error
	if errors.As(err, &ye) {
		p.Message = "YAML: " + ye.GetMessage()
		if tk := ye.GetToken(); tk != nil && tk.Position != nil {
			p.Pos.Line, p.Pos.Column = tk.Position.Line, tk.Position.Column
		}
	}
	d.problems = append(d.problems, p)
}

// resolve follows anchors and aliases; alias says that it met one. It returns
// nil after reporting a problem.
func (d *decoder) resolve(n ast.Node, path string) (resolved ast.Node, alias bool) {
	for range maxAliases {
		switch t := n.(type) {
		case *ast.AnchorNode:
			d.anchors[t.Name.GetToken().Value] = t.Value
			n = t.Value
		case *ast.AliasNode:
			name := t.Value.GetToken().Value
			target, ok := d.anchors[name]
			if !ok {
				d.problem(n, path, "alias *%s has no anchor &%s before it", name, name)
				return nil, true
			}
			n, alias = target, true
		case *ast.TagNode:
			d.problem(n, path, "YAML tags (%s) have no meaning here; remove it", t.Start.Value)
			return nil, alias
		default:
			return n, alias
		}
	}
	d.problem(n, path, "aliases refer to each other too deeply")
	return nil, true
}

// value reads node n into v, the setting or section at path.
func (d *decoder) value(n ast.Node, v reflect.Value, path string) {
	d.depth++
	defer func() { d.depth-- }()
	if d.depth > maxDepth {
		d.problem(n, path, "the document is nested too deeply")
		return
	}
	n, alias := d.resolve(n, path)
	if n == nil {
		return
	}
	if alias {
		d.within++
		defer func() { d.within-- }()
	}
	if d.within > 0 {
		if d.aliased++; d.aliased == maxAliased {
			d.problem(n, path, "aliases make the document too large")
		}
		if d.aliased >= maxAliased {
			return
		}
	}
	t := v.Type()
	if _, null := n.(*ast.NullNode); null {
		switch {
		case isSection(v), t.Kind() == reflect.Map, t.Kind() == reflect.Slice, t.Kind() == reflect.Pointer, t.Kind() == reflect.Interface:
			return // a section with all its lines commented out
		}
		d.problem(n, path, "has no value; must be %s (remove the line to have the default)", wanted(t))
		return
	}
	switch {
	case isText(t):
		d.text(n, v, path)
	case t.Kind() == reflect.Struct:
		d.section(n, v, path)
	case t.Kind() == reflect.Pointer:
		p := reflect.New(t.Elem())
		if !v.IsNil() {
			p.Elem().Set(v.Elem())
		}
		d.value(n, p.Elem(), path)
		v.Set(p)
	case t.Kind() == reflect.Slice:
		d.list(n, v, path)
	case t.Kind() == reflect.Map:
		d.mapping(n, v, path)
	case t.Kind() == reflect.Interface && t.NumMethod() == 0:
		d.anything(n, v, path)
	default:
		d.scalar(n, v, path)
	}
}

// entries lists a mapping's entries, or reports that n is none.
func (d *decoder) entries(n ast.Node, path, want string) ([]*ast.MappingValueNode, bool) {
	switch m := n.(type) {
	case *ast.MappingNode:
		return m.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{m}, true
	}
	d.problem(n, path, "must be %s, not %s", want, describe(n))
	return nil, false
}

func (d *decoder) section(n ast.Node, v reflect.Value, path string) {
	entries, ok := d.entries(n, path, "a section (name: value, one a line)")
	if !ok {
		return
	}
	fields := keyed(v)
	byName := make(map[string]reflect.Value, len(fields))
	names := make([]string, len(fields))
	for i, f := range fields {
		byName[f.name] = f.value
		names[i] = f.name
	}
	for _, e := range entries {
		key, ok := d.key(e, path)
		if !ok {
			continue
		}
		f, known := byName[key]
		if !known {
			d.unknown(e, path, key, names)
			continue
		}
		p := joinPath(path, key)
		d.origins[p] = d.pos(e.Key)
		d.value(e.Value, f, p)
	}
}

// unknown reports a key that is no setting, and what was probably meant.
func (d *decoder) unknown(e *ast.MappingValueNode, path, key string, names []string) {
	p := Problem{Pos: d.pos(e.Key), Key: path, Message: fmt.Sprintf("unknown key %q", key), Suggestion: Closest(key, names)}
	if p.Suggestion == "" && len(names) > 0 && len(names) <= 30 {
		sorted := append([]string(nil), names...)
		sort.Strings(sorted)
		p.Message += "; known here: " + strings.Join(sorted, ", ")
	}
	d.problems = append(d.problems, p)
}

func (d *decoder) key(e *ast.MappingValueNode, path string) (string, bool) {
	switch k := e.Key.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.MergeKeyNode:
		d.problem(e.Key, path, "merge keys (<<) are not supported; write the lines out")
		return "", false
	case *ast.MappingKeyNode:
		d.problem(e.Key, path, "complex keys (?) are not supported")
		return "", false
	}
	return e.Key.GetToken().Value, true
}

func (d *decoder) list(n ast.Node, v reflect.Value, path string) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.problem(n, path, "must be a list (- value, one a line, or [a, b]), not %s", describe(n))
		return
	}
	list := reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values))
	for i, e := range seq.Values {
		p := indexPath(path, i)
		d.origins[p] = d.pos(e)
		d.value(e, list.Index(i), p)
	}
	v.Set(list)
}

func (d *decoder) mapping(n ast.Node, v reflect.Value, path string) {
	t := v.Type()
	if t.Key().Kind() != reflect.String {
		d.problem(n, path, "config: a map must have string keys, not %s", t.Key())
		return
	}
	entries, ok := d.entries(n, path, "a mapping (name: value, one a line)")
	if !ok {
		return
	}
	m := reflect.MakeMapWithSize(t, len(entries))
	for _, e := range entries {
		key, ok := d.key(e, path)
		if !ok {
			continue
		}
		p := joinPath(path, key)
		d.origins[p] = d.pos(e.Key)
		value := reflect.New(t.Elem()).Elem()
		d.value(e.Value, value, p)
		m.SetMapIndex(reflect.ValueOf(key).Convert(t.Key()), value)
	}
	v.Set(m)
}

// anything reads a value of no fixed type: a map[string]any, a []any, or the
// scalar that YAML makes of it (integers as int64 where they fit, else uint64).
func (d *decoder) anything(n ast.Node, v reflect.Value, path string) {
	set := func(x any) { v.Set(reflect.ValueOf(x)) }
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		m := map[string]any{}
		d.mapping(n, reflect.ValueOf(&m).Elem(), path)
		set(m)
	case *ast.SequenceNode:
		list := []any{}
		d.list(n, reflect.ValueOf(&list).Elem(), path)
		set(list)
	case *ast.StringNode:
		set(n.Value)
	case *ast.LiteralNode:
		set(n.Value.Value)
	case *ast.BoolNode:
		set(n.Value)
	case *ast.FloatNode:
		set(n.Value)
	case *ast.IntegerNode:
		if u, ok := n.Value.(uint64); ok && u <= math.MaxInt64 {
			set(int64(u))
		} else {
			set(n.Value)
		}
	default:
		d.problem(n, path, "must be text, a number, true or false, a list or a section, not %s", describe(n))
	}
}

// text reads a scalar of any YAML type by its source text.
func (d *decoder) text(n ast.Node, v reflect.Value, path string) {
	s, ok := scalarText(n)
	if !ok {
		d.problem(n, path, "must be %s, not %s", wanted(v.Type()), describe(n))
		return
	}
	if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s)); err != nil {
		d.problem(n, path, "%v", err)
	}
}

func scalarText(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func (d *decoder) scalar(n ast.Node, v reflect.Value, path string) {
	t := v.Type()
	wrong := func() { d.problem(n, path, "must be %s, not %s", wanted(t), describe(n)) }
	if isSecret(t) {
		// Messages end up in logs: they do not repeat a secret.
		if _, ok := n.(*ast.StringNode); !ok {
			d.problem(n, path, "must be text; put it in quotes")
			return
		}
	}
	switch {
	case t == durationType:
		switch n := n.(type) {
		case *ast.StringNode:
			if err := setDuration(v, n.Value); err != nil {
				d.problem(n, path, "%v", err)
			}
		case *ast.IntegerNode:
			if fmt.Sprint(n.Value) != "0" {
				d.problem(n, path, "must be a duration with a unit, such as %ss or %sms", n.GetToken().Value, n.GetToken().Value)
				return
			}
			v.SetInt(0)
		default:
			wrong()
		}
		return
	case t.Kind() == reflect.Bool:
		b, ok := n.(*ast.BoolNode)
		if !ok {
			wrong()
			return
		}
		v.SetBool(b.Value)
	case t.Kind() == reflect.String:
		switch n := n.(type) {
		case *ast.StringNode:
			v.SetString(n.Value)
		case *ast.LiteralNode:
			v.SetString(n.Value.Value)
		case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
			d.problem(n, path, "must be text, not %s; put it in quotes: %q", describe(n), n.GetToken().Value)
		default:
			wrong()
		}
	case t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64:
		var f float64
		switch n := n.(type) {
		case *ast.FloatNode:
			f = n.Value
		case *ast.IntegerNode:
			switch i := n.Value.(type) {
			case int64:
				f = float64(i)
			case uint64:
				f = float64(i)
			}
		default:
			wrong()
			return
		}
		if v.OverflowFloat(f) {
			d.problem(n, path, "%s is too large", n.GetToken().Value)
			return
		}
		v.SetFloat(f)
	default:
		d.integer(n, v, path, wrong)
	}
}

func (d *decoder) integer(n ast.Node, v reflect.Value, path string, wrong func()) {
	i, ok := n.(*ast.IntegerNode)
	if !ok || !isScalar(v.Type()) {
		wrong()
		return
	}
	outside := func() {
		d.problem(n, path, "must be a whole number %s, not %s", intRange(v.Type()), n.GetToken().Value)
	}
	var signed int64
	var unsigned uint64
	fitsSigned := true
	switch x := i.Value.(type) {
	case int64:
		signed, unsigned = x, uint64(x)
	case uint64:
		signed, unsigned = int64(x), x
		fitsSigned = x <= math.MaxInt64
	default:
		outside()
		return
	}
	if v.CanUint() {
		if fitsSigned && signed < 0 || v.OverflowUint(unsigned) {
			outside()
			return
		}
		v.SetUint(unsigned)
		return
	}
	if !fitsSigned || v.OverflowInt(signed) {
		outside()
		return
	}
	v.SetInt(signed)
}

// wanted says in words what a value of type t looks like.
func wanted(t reflect.Type) string {
	switch {
	case t == durationType:
		return "a duration such as 5s"
	case t == reflect.TypeFor[Size]():
		return "a size such as 10MiB"
	case isText(t):
		return "text"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	if isScalar(t) {
		return "a whole number"
	}
	return "a value of another kind (" + t.String() + ")"
}

// describe says in words what a node is.
func describe(n ast.Node) string {
	text := func() string {
		s := n.GetToken().Value
		if len(s) > 40 {
			s = s[:40] + "..."
		}
		return s
	}
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		return fmt.Sprintf("the text %q", text())
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "the number " + text()
	case *ast.BoolNode:
		return text()
	case *ast.NullNode:
		return "nothing"
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a section"
	}
	return n.Type().String()
}
