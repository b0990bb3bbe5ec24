package main

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// A described is an object as docs/events.schema.json describes it.
type described struct {
	Properties map[string]*described
}

// TestAgentEventsAreDescribed: the schema and the tables of docs/events.md have every
// member that an event about the agent itself may have, and no other.
func TestAgentEventsAreDescribed(t *testing.T) {
	text, err := os.ReadFile("../../docs/events.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Defs map[string]*described `json:"$defs"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile("../../docs/events.md"); err != nil {
		t.Fatal(err)
	}
	events := map[string]any{"agent_start": startEvent{}, "agent_stop": stopEvent{}, "agent_change": changeEvent{}, "agent_report": report{}}
	if len(schema.Defs) != len(events) {
		t.Errorf("the schema defines %d events", len(schema.Defs))
	}
	for name, event := range events {
		_, after, _ := strings.Cut(string(text), "### `"+name+"`\n")
		section, _, _ := strings.Cut(after, "\n#")
		table := map[string]bool{}
		for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_0-9.]+)` \\|").FindAllStringSubmatch(section, -1) {
			table[m[1]] = true
		}
		want := map[string]bool{}
		memberNames(reflect.TypeOf(event), "", want)
		if name == "agent_report" { // of the lane, see sender.Notice
			for _, lane := range []string{"seq_from", "seq_to", "holes", "sink_holes", "earlier_holes", "earlier_damage"} {
				want[lane] = true
			}
		}
		got := map[string]bool{}
		schema.Defs[name].names("", got)
		for member := range want {
			if !got[member] {
				t.Errorf("%s: the schema has no %s", name, member)
			}
			// The two comparisons with the server have the same members.
			if inner := strings.HasPrefix(member, "server.interval.") && member != "server.interval.seconds"; !inner && !table[member] {
				t.Errorf("%s: events.md has no %s", name, member)
			}
		}
		for _, list := range []map[string]bool{got, table} {
			for member := range list {
				if !want[member] {
					t.Errorf("%s: there is no member %s", name, member)
				}
			}
		}
	}
}

func (d *described) names(at string, into map[string]bool) {
	if d == nil {
		return
	}
	for name, p := range d.Properties {
		into[at+name] = true
		p.names(at+name+".", into)
	}
}

// memberNames are the JSON names of a struct's fields, those of structs inside with
// dots.
func memberNames(t reflect.Type, at string, into map[string]bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		kind := f.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			memberNames(kind, at, into)
			continue
		}
		into[at+name] = true
		if kind.Kind() == reflect.Struct && kind.PkgPath() == t.PkgPath() {
			memberNames(kind, at+name+".", into)
		}
	}
}
