//go:build linux

package foreign

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const schemaFile = "../../docs/events.schema.json"

// readSchema compiles the schema; strict, it allows no member that it does not describe.
func readSchema(t *testing.T, strict bool) *jsonschema.Schema {
	t.Helper()
	f, err := os.Open(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	doc, err := jsonschema.UnmarshalJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	if strict {
		root := doc.(map[string]any)
		delete(root, "additionalProperties")
		root["unevaluatedProperties"] = false
		for _, def := range root["$defs"].(map[string]any) {
			for _, p := range def.(map[string]any)["properties"].(map[string]any) {
				closeObjects(p.(map[string]any))
			}
		}
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("events.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("events.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// closeObjects makes a schema allow only the members that it describes.
func closeObjects(s map[string]any) {
	properties, ok := s["properties"].(map[string]any)
	if !ok {
		return
	}
	s["additionalProperties"] = false
	for _, p := range properties {
		closeObjects(p.(map[string]any))
	}
}

// TestLiveEventsFollowTheSchema: events of every type, made by an agent beside a real
// server, are as the published schema says, and hold nothing that it does not describe.
func TestLiveEventsFollowTheSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	record(t, fmt.Sprintf("[{type: file, path: %q}]", path))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	events := byKey(t, text)
	t.Log(types(events))
	plain, strict := readSchema(t, false), readSchema(t, true)
	seen := map[string]map[string]bool{}
	for key, e := range events {
		if err := strict.Validate(e); err != nil {
			line, _ := json.Marshal(e)
			t.Fatalf("%s: %v\n%s", key, err, line)
		}
		kind := e["type"].(string)
		if seen[kind] == nil {
			seen[kind] = map[string]bool{}
		}
		for name := range e {
			seen[kind][name] = true
		}
		e["of_a_later_version"] = true
		if plain.Validate(e) != nil || strict.Validate(e) == nil {
			t.Fatalf("%s with a member of a later version: %v, strictly %v", key, plain.Validate(e), strict.Validate(e))
		}
	}
	for _, c := range []struct{ kind, members string }{
		{"command", "sql digest params tables tables_written accounts traits status error_code rows affected_rows labels rules alerts severity sample_probability"},
		{"session_start", "user user_source program client_attrs server_version auth_plugin visibility"},
		{"login_failed", "error_code error"}, {"session_end", "commands errors end_reason"},
		{"agent_start", "lanes config_hash rules_hash previous_boot previous_clean previous_seqs blind_from"},
		{"agent_change", "rules_hash previous_rules_hash"}, {"agent_report", "server event_classes"}, {"agent_stop", "uptime_ms"},
	} {
		for _, name := range strings.Fields(c.members) {
			if !seen[c.kind][name] {
				t.Errorf("no %s had %s; they had %q", c.kind, name, slices.Sorted(maps.Keys(seen[c.kind])))
			}
		}
	}
}
