package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// field is one exported field of a settings struct.
type field struct {
	name  string // key in YAML
	usage string
	index int
	value reflect.Value
}

// setting is a field that holds a value and no section, with its full path.
type setting struct {
	path  string
	usage string
	value reflect.Value
}

// envName is the setting's environment variable without the prefix.
func (s setting) envName() string {
	return strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(s.path))
}

// flagName is the setting's flag without the dashes before it.
func (s setting) flagName() string { return strings.ReplaceAll(s.path, "_", "-") }

var (
	durationType        = reflect.TypeFor[time.Duration]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// keyed lists the fields of a struct as YAML sees them, inlined ones included.
func keyed(v reflect.Value) []field {
	var list []field
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		embedded := f.Anonymous && f.Type.Kind() == reflect.Struct
		if !f.IsExported() && !embedded {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "-" {
			continue
		}
		if options == "inline" || embedded && name == "" {
			list = append(list, keyed(v.Field(i))...)
			continue
		}
		if name == "" {
			name = snakeCase(f.Name)
		}
		list = append(list, field{name: name, usage: f.Tag.Get("usage"), index: i, value: v.Field(i)})
	}
	return list
}

// snakeCase writes MaxIdleConns as max_idle_conns and TLSCert as tls_cert.
func snakeCase(s string) string {
	var b strings.Builder
	runes := []rune(s)
	for i, r := range runes {
		if unicode.IsUpper(r) && i > 0 &&
			(unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// isSection says that v is a struct whose fields are settings, not a value.
func isSection(v reflect.Value) bool {
	return v.Kind() == reflect.Struct && !isText(v.Type())
}

// isText says that values of t are read by UnmarshalText.
func isText(t reflect.Type) bool { return reflect.PointerTo(t).Implements(textUnmarshalerType) }

// fieldsOf lists all settings that one line of text can set, in order: slices
// and maps of scalars too, slices and maps of structs not.
func fieldsOf(root reflect.Value) []setting {
	var list []setting
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		for _, f := range keyed(v) {
			p := joinPath(path, f.name)
			switch {
			case isSection(f.value):
				walk(f.value, p)
			case textSettable(f.value.Type()):
				list = append(list, setting{path: p, usage: f.usage, value: f.value})
			}
		}
	}
	walk(root, "")
	return list
}

func textSettable(t reflect.Type) bool {
	if isScalar(t) {
		return true
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return isScalar(t.Elem())
	case reflect.Map:
		return t.Key().Kind() == reflect.String && isScalar(t.Elem())
	}
	return false
}

func isScalar(t reflect.Type) bool {
	if isText(t) {
		return true
	}
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	}
	return false
}

// typeName is what help calls the type of a setting.
func typeName(t reflect.Type) string {
	switch {
	case t == durationType:
		return "duration"
	case t == reflect.TypeFor[Size]():
		return "size"
	case isSecret(t):
		return "secret"
	case isText(t):
		return "text"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "bool"
	case reflect.String:
		return "text"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.Slice:
		return "list of " + typeName(t.Elem())
	case reflect.Map:
		return "map of " + typeName(t.Elem())
	}
	return "int"
}

// setText sets v from one line of text: a variable or a flag. Lists are comma
// separated; maps are name=value, comma separated.
func setText(v reflect.Value, text string) error {
	t := v.Type()
	if isScalar(t) {
		return setScalarText(v, text)
	}
	switch t.Kind() {
	case reflect.Pointer:
		p := reflect.New(t.Elem())
		if err := setScalarText(p.Elem(), text); err != nil {
			return err
		}
		v.Set(p)
	case reflect.Slice:
		list := reflect.MakeSlice(t, 0, 0)
		for _, part := range splitList(text) {
			e := reflect.New(t.Elem()).Elem()
			if err := setScalarText(e, part); err != nil {
				return err
			}
			list = reflect.Append(list, e)
		}
		v.Set(list)
	case reflect.Map:
		m := reflect.MakeMap(t)
		for _, part := range splitList(text) {
			name, value, ok := strings.Cut(part, "=")
			if !ok {
				return fmt.Errorf("%q must be name=value", part)
			}
			e := reflect.New(t.Elem()).Elem()
			if err := setScalarText(e, value); err != nil {
				return err
			}
			m.SetMapIndex(reflect.ValueOf(name).Convert(t.Key()), e)
		}
		v.Set(m)
	}
	return nil
}

func splitList(text string) []string {
	if text == "" {
		return nil
	}
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

func setScalarText(v reflect.Value, text string) error {
	t := v.Type()
	if isText(t) {
		return v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
	}
	if t == durationType {
		return setDuration(v, text)
	}
	switch t.Kind() {
	case reflect.Bool:
		switch text {
		case "true":
			v.SetBool(true)
		case "false":
			v.SetBool(false)
		default:
			return fmt.Errorf("must be true or false, not %q", text)
		}
	case reflect.String:
		v.SetString(text)
	case reflect.Float32, reflect.Float64:
		f, err := strconv.ParseFloat(text, t.Bits())
		if err != nil || f != f {
			return fmt.Errorf("must be a number, not %q", text)
		}
		v.SetFloat(f)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, err := strconv.ParseUint(text, 10, t.Bits())
		if err != nil {
			return fmt.Errorf("must be a whole number %s, not %q", intRange(t), text)
		}
		v.SetUint(n)
	default:
		n, err := strconv.ParseInt(text, 10, t.Bits())
		if err != nil {
			return fmt.Errorf("must be a whole number %s, not %q", intRange(t), text)
		}
		v.SetInt(n)
	}
	return nil
}

func setDuration(v reflect.Value, text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("must be a duration with a unit, such as 500ms, 5s or 1h30m, not %q", text)
	}
	v.SetInt(int64(d))
	return nil
}

func intRange(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Uint, reflect.Uint64:
		return "of 0 or more"
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return fmt.Sprintf("from 0 to %d", uint64(1)<<t.Bits()-1)
	case reflect.Int8, reflect.Int16, reflect.Int32:
		return fmt.Sprintf("from %d to %d", -int64(1)<<(t.Bits()-1), int64(1)<<(t.Bits()-1)-1)
	}
	return "of 64 bits"
}
