package stream

import (
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"sqlwitness/probe"
)

// timesOf calls visit for every time that a value keeps, by its name.
func timesOf(v reflect.Value, name string, visit func(name string, ns *int64)) {
	switch {
	case v.Type() == reflect.TypeFor[*Env](), v.Type() == reflect.TypeFor[*Tally]():
	case v.Kind() == reflect.Pointer && !v.IsNil():
		timesOf(v.Elem(), name, visit)
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			timesOf(v.Index(i), name, visit)
		}
	case v.Kind() == reflect.Int64 && strings.HasSuffix(name, "Ns"):
		visit(name, (*int64)(unsafe.Pointer(v.UnsafeAddr())))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			timesOf(v.Field(i), name+"."+v.Type().Field(i).Name, visit)
		}
	}
}

// A clock that is set takes every time with it, and leaves none ahead of it.
func TestSetClock(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to int64
		step     Step
	}{
		{"forward", 100, 1100, Step{1000, 5000}},
		{"back", 5000, 4000, Step{-1000, 4500}},
		{"back to the last", 5000, 4000, Step{-1000, 4000}},
		{"not told", 5000, 4500, Step{0, 4500}},
		{"no time", 0, 0, Step{1000, 5000}},
		{"a time remains one", 1000, 1, Step{-1000, 5000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := NewConn(NewEnv(Config{}, func(*Event) {}), probe.Flow{})
			conn.waiting = make([]command, 2)
			conn.client.held, conn.server.held = make([]heldSegment, 2), make([]heldSegment, 1)
			conn.doubt = &doubt{}
			n := 0
			timesOf(reflect.ValueOf(conn), "Conn", func(_ string, ns *int64) { *ns = c.from; n++ })
			conn.SetClock(c.step)
			timesOf(reflect.ValueOf(conn), "Conn", func(name string, ns *int64) {
				if *ns != c.to {
					t.Errorf("%s is %d, want %d", name, *ns, c.to)
				}
			})
			if n < 20 {
				t.Errorf("%d times found", n)
			}
		})
	}
}
