package config

import (
	"encoding"
	"fmt"
	"io"
	"reflect"
	"sort"
	"time"

	"github.com/goccy/go-yaml"
)

// redactor is what a secret's type implements.
type redactor interface{ Redacted() string }

var redactorType = reflect.TypeFor[redactor]()

func isSecret(t reflect.Type) bool {
	return t.Implements(redactorType) || reflect.PointerTo(t).Implements(redactorType)
}

// Dump writes src, a settings struct or a pointer to one, as YAML that Load
// reads, in the order of its fields and with its secrets hidden.
func Dump(w io.Writer, src any) error {
	v := reflect.Indirect(reflect.ValueOf(src))
	if v.Kind() != reflect.Struct {
		return fmt.Errorf("config: only a struct can be written, not %T", src)
	}
	out, err := yaml.MarshalWithOptions(plain(v), yaml.IndentSequence(true))
	if err != nil {
		return fmt.Errorf("config: write settings: %w", err)
	}
	_, err = w.Write(out)
	return err
}

// plain turns a value into what the YAML encoder writes without knowing our
// types: ordered maps, lists, strings, numbers, bools.
func plain(v reflect.Value) any {
	t := v.Type()
	if v.CanInterface() {
		switch x := v.Interface().(type) {
		case redactor:
			return x.Redacted()
		case time.Duration:
			return x.String()
		case encoding.TextMarshaler:
			if t.Kind() != reflect.Pointer || !v.IsNil() {
				if text, err := x.MarshalText(); err == nil {
					return string(text)
				}
			}
		}
	}
	switch t.Kind() {
	case reflect.Struct:
		m := yaml.MapSlice{}
		for _, f := range keyed(v) {
			if f.value.Kind() == reflect.Pointer && f.value.IsNil() {
				continue
			}
			m = append(m, yaml.MapItem{Key: f.name, Value: plain(f.value)})
		}
		return m
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return plain(v.Elem())
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = plain(v.Index(i))
		}
		return list
	case reflect.Map:
		keys := v.MapKeys()
		sort.Slice(keys, func(i, j int) bool { return keys[i].String() < keys[j].String() })
		m := yaml.MapSlice{}
		for _, k := range keys {
			m = append(m, yaml.MapItem{Key: k.String(), Value: plain(v.MapIndex(k))})
		}
		return m
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return v.Bool()
	case reflect.Float32, reflect.Float64:
		return v.Float()
	}
	if v.CanUint() {
		return v.Uint()
	}
	if v.CanInt() {
		return v.Int()
	}
	return fmt.Sprint(v)
}
