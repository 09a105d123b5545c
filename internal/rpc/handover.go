package rpc

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
)

// handOver makes dst the message that src is, without copying what src refers
// to. Both are pointers; dst is freshly made or may be overwritten.
//
// The exported fields of a generated message are all of its content besides its
// unknown fields. The rest of the struct (cached message type and size) is left
// alone, because others may be reading src at the same time: one message is
// sometimes sent on several streams.
func handOver(dst, src any) error {
	dt, st := reflect.TypeOf(dst), reflect.TypeOf(src)
	dm, dok := dst.(proto.Message)
	sm, sok := src.(proto.Message)
	if !dok || !sok {
		return fmt.Errorf("rpc: a message handed over in process must be a proto.Message, not %T to %T", src, dst)
	}
	if dt != st {
		// A generic client and a generated server: only the wire form is common.
		wire, err := proto.Marshal(sm)
		if err != nil {
			return fmt.Errorf("rpc: hand %T over as %T: %w", src, dst, err)
		}
		return proto.Unmarshal(wire, dm)
	}
	fields := planFor(st)
	if fields == nil {
		proto.Reset(dm)
		proto.Merge(dm, sm)
		return nil
	}
	d, s := reflect.ValueOf(dst).Elem(), reflect.ValueOf(src).Elem()
	for _, i := range fields {
		d.Field(i).Set(s.Field(i))
	}
	sr, dr := sm.ProtoReflect(), dm.ProtoReflect()
	if u := sr.GetUnknown(); len(u) > 0 || len(dr.GetUnknown()) > 0 {
		dr.SetUnknown(u)
	}
	return nil
}

// plans caches planFor by pointer type; its size is the number of message types.
var plans sync.Map // reflect.Type -> []int

// planFor returns the indices of the fields that make up the content of the
// message type t (a pointer to a struct), or nil when they are not all
// exported (the opaque API, dynamic messages) and handing over must copy.
func planFor(t reflect.Type) []int {
	if p, ok := plans.Load(t); ok {
		return p.([]int)
	}
	p := makePlan(t)
	plans.Store(t, p)
	return p
}

func makePlan(t reflect.Type) []int {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil
	}
	fields := []int{}
	for i := range t.Elem().NumField() {
		f := t.Elem().Field(i)
		switch f.Name {
		case "state", "sizeCache", "unknownFields":
			continue
		}
		if !f.IsExported() || strings.HasPrefix(f.Name, "XXX_") || strings.HasPrefix(f.Name, "xxx_hidden_") {
			return nil
		}
		fields = append(fields, i)
	}
	if _, ok := t.Elem().FieldByName("state"); !ok {
		return nil
	}
	return fields
}
