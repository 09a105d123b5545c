package job

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"lycosa.dev/internal/config"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// FieldError is one thing wrong in a job file.
type FieldError struct {
	// File is the name of the file as given.
	File string
	// Line and Column count from 1.
	Line, Column int
	// Field is the path of the field ("scope.kind"); empty for the document.
	Field string
	// Problem says what is wrong and what would be right.
	Problem string
}

// Error implements error in the form that editors jump to.
func (e *FieldError) Error() string {
	where := fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Column)
	if e.Field == "" {
		return where + ": " + e.Problem
	}
	return where + ": " + e.Field + ": " + e.Problem
}

// ParseYAML decodes a job file strictly; file is the name that errors show.
// The result has no defaults filled in. Errors are *FieldError values joined.
func ParseYAML(file string, data []byte) (*jobv1.Spec, error) {
	spec := &jobv1.Spec{}
	if err := parse(file, data, "a job file", spec.ProtoReflect()); err != nil {
		return nil, err
	}
	return spec, nil
}

// parse decodes a file of one document; what is what the file is, in errors.
func parse(file string, data []byte, what string, into protoreflect.Message) error {
	parsed, err := parser.ParseBytes(data, 0)
	if err != nil {
		return syntaxError(file, err)
	}
	d := &decoder{file: file}
	docs := 0
	for _, doc := range parsed.Docs {
		if doc == nil || doc.Body == nil {
			continue
		}
		if docs++; docs > 1 {
			d.fail(doc.Body, "", "%s holds one document; this is a second one", what)
			break
		}
		d.message(doc.Body, "", into)
	}
	return errors.Join(d.errs...)
}

func syntaxError(file string, err error) error {
	var withToken interface{ GetMessage() string }
	msg := err.Error()
	if errors.As(err, &withToken) {
		msg = withToken.GetMessage()
	}
	line, col := 1, 1
	// The parser begins its messages with "[line:column] ".
	if n, scanErr := fmt.Sscanf(err.Error(), "[%d:%d]", &line, &col); scanErr != nil || n != 2 {
		line, col = 1, 1
	}
	return &FieldError{File: file, Line: line, Column: col, Problem: "not YAML: " + strings.TrimSpace(msg)}
}

type decoder struct {
	file string
	errs []error
}

func (d *decoder) fail(n ast.Node, field, format string, args ...any) {
	e := &FieldError{File: d.file, Line: 1, Column: 1, Field: field, Problem: fmt.Sprintf(format, args...)}
	if n != nil && n.GetToken() != nil && n.GetToken().Position != nil {
		e.Line, e.Column = n.GetToken().Position.Line, n.GetToken().Position.Column
	}
	d.errs = append(d.errs, e)
}

func pairs(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch m := n.(type) {
	case *ast.MappingNode:
		return m.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{m}, true
	case *ast.NullNode:
		return nil, true
	}
	return nil, false
}

func (d *decoder) message(n ast.Node, path string, m protoreflect.Message) {
	kvs, ok := pairs(n)
	if !ok {
		d.fail(n, path, "must be a mapping of fields, is %s", describe(n))
		return
	}
	fields := m.Descriptor().Fields()
	seen := map[string]bool{}
	for _, kv := range kvs {
		key := kv.Key.String()
		if s, ok := kv.Key.(*ast.StringNode); ok {
			key = s.Value
		}
		at := join(path, key)
		if seen[key] {
			d.fail(kv.Key, at, "is given twice")
			continue
		}
		seen[key] = true
		fd := fields.ByName(protoreflect.Name(key))
		if fd == nil {
			var names []string
			for i := range fields.Len() {
				names = append(names, string(fields.Get(i).Name()))
			}
			sort.Strings(names)
			hint := "known here: " + strings.Join(names, ", ")
			if near := config.Closest(key, names); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			d.fail(kv.Key, at, "unknown key; %s", hint)
			continue
		}
		if _, null := kv.Value.(*ast.NullNode); null {
			continue
		}
		d.field(kv.Value, at, m, fd)
	}
}

func (d *decoder) field(n ast.Node, path string, m protoreflect.Message, fd protoreflect.FieldDescriptor) {
	switch {
	case fd.IsMap():
		kvs, ok := pairs(n)
		if !ok {
			d.fail(n, path, "must be a mapping, is %s", describe(n))
			return
		}
		mp := m.Mutable(fd).Map()
		for _, kv := range kvs {
			if v, ok := d.scalar(kv.Value, path, fd.MapValue()); ok {
				key := strings.Trim(kv.Key.String(), `"'`)
				mp.Set(protoreflect.ValueOfString(key).MapKey(), v)
			}
		}
	case fd.IsList():
		seq, ok := n.(*ast.SequenceNode)
		if !ok {
			d.fail(n, path, "must be a list (\"- item\" a line), is %s", describe(n))
			return
		}
		list := m.Mutable(fd).List()
		for i, item := range seq.Values {
			at := fmt.Sprintf("%s[%d]", path, i)
			if fd.Message() != nil {
				d.message(item, at, list.AppendMutable().Message())
			} else if v, ok := d.scalar(item, at, fd); ok {
				list.Append(v)
			}
		}
	case isDuration(fd):
		if v, ok := d.duration(n, path); ok {
			m.Set(fd, protoreflect.ValueOfMessage(durationpb.New(v).ProtoReflect()))
		}
	case fd.Message() != nil:
		d.message(n, path, m.Mutable(fd).Message())
	default:
		if v, ok := d.scalar(n, path, fd); ok {
			m.Set(fd, v)
		}
	}
}

func isDuration(fd protoreflect.FieldDescriptor) bool {
	return fd.Message() != nil && fd.Message().FullName() == "google.protobuf.Duration"
}

func (d *decoder) duration(n ast.Node, path string) (time.Duration, bool) {
	text, ok := plain(n)
	if ok {
		if text == "0" {
			return 0, true
		}
		if v, err := time.ParseDuration(text); err == nil && v >= 0 {
			return v, true
		}
	}
	d.fail(n, path, "must be a duration such as \"1.5s\" or \"2m\", is %s", describe(n))
	return 0, false
}

func (d *decoder) scalar(n ast.Node, path string, fd protoreflect.FieldDescriptor) (protoreflect.Value, bool) {
	text, ok := plain(n)
	if !ok {
		d.fail(n, path, "must be one value, is %s", describe(n))
		return protoreflect.Value{}, false
	}
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text), true
	case protoreflect.BoolKind:
		if b, ok := n.(*ast.BoolNode); ok {
			return protoreflect.ValueOfBool(b.Value), true
		}
		d.fail(n, path, "must be true or false, is %s", describe(n))
	case protoreflect.EnumKind:
		return d.enum(n, text, path, fd)
	case protoreflect.DoubleKind:
		if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
			return protoreflect.ValueOfFloat64(v), true
		}
		d.fail(n, path, "must be a number, is %s", describe(n))
	case protoreflect.Int64Kind:
		if strings.HasSuffix(string(fd.Name()), "_bytes") {
			v, err := config.ParseSize(text)
			if err == nil {
				return protoreflect.ValueOfInt64(int64(v)), true
			}
			d.fail(n, path, "must be a size such as \"10MiB\", is %s", describe(n))
			break
		}
		if v, err := strconv.ParseInt(text, 10, 64); err == nil {
			return protoreflect.ValueOfInt64(v), true
		}
		d.fail(n, path, "must be a whole number, is %s", describe(n))
	case protoreflect.Uint64Kind:
		if v, err := strconv.ParseUint(text, 10, 64); err == nil {
			return protoreflect.ValueOfUint64(v), true
		}
		d.fail(n, path, "must be a whole number, 0 or more, is %s", describe(n))
	case protoreflect.Uint32Kind:
		if v, err := strconv.ParseUint(text, 10, 32); err == nil {
			return protoreflect.ValueOfUint32(uint32(v)), true
		}
		d.fail(n, path, "must be a whole number, 0 or more, is %s", describe(n))
	default:
		d.fail(n, path, "cannot be set in a job file")
	}
	return protoreflect.Value{}, false
}

func (d *decoder) enum(n ast.Node, text, path string, fd protoreflect.FieldDescriptor) (protoreflect.Value, bool) {
	values := fd.Enum().Values()
	var names []string
	for i := range values.Len() {
		v := values.Get(i)
		name := enumName(v)
		if v.Number() == 0 {
			continue
		}
		if name == text {
			return protoreflect.ValueOfEnum(v.Number()), true
		}
		names = append(names, name)
	}
	d.fail(n, path, "must be one of %s, is %s", strings.Join(names, ", "), describe(n))
	return protoreflect.Value{}, false
}

// enumName is the name of an enum value in YAML: lower case, without the
// prefix that the enum's own name makes.
func enumName(v protoreflect.EnumValueDescriptor) string {
	var prefix strings.Builder
	for i, r := range string(v.Parent().Name()) {
		if i > 0 && r >= 'A' && r <= 'Z' {
			prefix.WriteByte('_')
		}
		prefix.WriteRune(r)
	}
	return strings.ToLower(strings.TrimPrefix(string(v.Name()), strings.ToUpper(prefix.String())+"_"))
}

func plain(n ast.Node) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		return v.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return v.GetToken().Value, true
	}
	return "", false
}

func describe(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "empty"
	}
	text, _ := plain(n)
	return strconv.Quote(text)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// MarshalYAML writes a spec as a job file that ParseYAML reads back to an
// equal message. Fields that are not set are left out.
func MarshalYAML(spec *jobv1.Spec) []byte {
	var b strings.Builder
	writeMessage(&b, "", spec.ProtoReflect())
	return []byte(b.String())
}

func writeMessage(b *strings.Builder, indent string, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !m.Has(fd) {
			continue
		}
		v := m.Get(fd)
		b.WriteString(indent + string(fd.Name()) + ":")
		switch {
		case fd.IsMap():
			b.WriteByte('\n')
			var keys []string
			v.Map().Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
				keys = append(keys, k.String())
				return true
			})
			sort.Strings(keys)
			for _, k := range keys {
				val := v.Map().Get(protoreflect.ValueOfString(k).MapKey())
				b.WriteString(indent + "  " + quote(k) + ": " + quote(val.String()) + "\n")
			}
		case fd.IsList():
			b.WriteByte('\n')
			for j := range v.List().Len() {
				item := v.List().Get(j)
				if fd.Message() == nil {
					b.WriteString(indent + "  - " + scalarText(fd, item) + "\n")
					continue
				}
				var inner strings.Builder
				writeMessage(&inner, indent+"    ", item.Message())
				text := strings.TrimPrefix(inner.String(), indent+"    ")
				if text == "" {
					text = "{}\n"
				}
				b.WriteString(indent + "  - " + text)
			}
		case isDuration(fd):
			d := v.Message().Interface().(*durationpb.Duration)
			b.WriteString(" " + d.AsDuration().String() + "\n")
		case fd.Message() != nil:
			if proto.Size(v.Message().Interface()) == 0 {
				b.WriteString(" {}\n")
				continue
			}
			b.WriteByte('\n')
			writeMessage(b, indent+"  ", v.Message())
		default:
			b.WriteString(" " + scalarText(fd, v) + "\n")
		}
	}
}

func scalarText(fd protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return quote(v.String())
	case protoreflect.EnumKind:
		if ev := fd.Enum().Values().ByNumber(v.Enum()); ev != nil {
			return enumName(ev)
		}
	case protoreflect.Int64Kind:
		if strings.HasSuffix(string(fd.Name()), "_bytes") {
			return config.FormatSize(config.Size(v.Int()))
		}
	}
	return v.String()
}

// quote writes a string as a YAML double-quoted scalar, which is JSON's form
// with YAML's escapes, unless it is plain beyond doubt.
func quote(s string) string {
	safe := s != ""
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || !(r >= '0' && r <= '9' || strings.ContainsRune("-_./", r))) {
			safe = false
			break
		}
	}
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		safe = false
	}
	if safe {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
