package sender

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sqlwitness/stream"
)

// A schema is the part of JSON Schema (2020-12) that docs/events.schema.json uses.
type schema struct {
	Type                 any // a string or several
	Const                any
	Enum                 []any
	Pattern              string
	Minimum, Maximum     *float64
	ExclusiveMinimum     *float64
	Required             []string
	Properties           map[string]*schema
	Items                *schema
	AdditionalProperties json.RawMessage
}

func readSchema(t *testing.T) *schema {
	t.Helper()
	text, err := os.ReadFile("../docs/events.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	s := new(schema)
	if err := json.Unmarshal(text, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// check is what is wrong with v.
func (s *schema) check(v any) error {
	types, several := s.Type.([]any)
	if !several {
		types = []any{s.Type}
	}
	if !slices.ContainsFunc(types, func(name any) bool { return hasType(v, name.(string)) }) {
		return fmt.Errorf("%v is no %v", v, s.Type)
	}
	if s.Const != nil && v != s.Const || s.Enum != nil && !slices.Contains(s.Enum, v) {
		return fmt.Errorf("%v is not allowed", v)
	}
	switch v := v.(type) {
	case string:
		if s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(v) {
			return fmt.Errorf("%q does not match %s", v, s.Pattern)
		}
	case float64:
		if s.Minimum != nil && v < *s.Minimum || s.Maximum != nil && v > *s.Maximum || s.ExclusiveMinimum != nil && v <= *s.ExclusiveMinimum {
			return fmt.Errorf("%v is out of range", v)
		}
	case []any:
		for _, item := range v {
			if err := s.Items.check(item); err != nil {
				return err
			}
		}
	case map[string]any:
		return s.checkMembers(v)
	}
	return nil
}

func (s *schema) checkMembers(v map[string]any) error {
	for _, name := range s.Required {
		if v[name] == nil {
			return fmt.Errorf("%s is missing", name)
		}
	}
	other := new(schema)
	if s.Properties == nil {
		if err := json.Unmarshal(s.AdditionalProperties, other); err != nil {
			return err
		}
	}
	for name, value := range v {
		p := s.Properties[name]
		if s.Properties == nil {
			p = other
		}
		if p == nil {
			return fmt.Errorf("%s is not described", name)
		}
		if err := p.check(value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func hasType(v any, name string) bool {
	switch v := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case float64:
		return name == "number" || name == "integer" && v == float64(int64(v))
	case []any:
		return name == "array"
	}
	return name == "object"
}

// Every line is as the schema says, and together they show every field that it
// describes.
func TestEventsFollowTheSchema(t *testing.T) {
	s, seen := readSchema(t), map[string]bool{}
	cfg := goldenConfig
	rules, err := SelectionConfig{Sample: share(0.999), Always: []string{"account"}, Rules: []RuleConfig{{Name: "a", When: "rows > 0", Action: "alert", Severity: "high"}}}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Rules = rules
	shown := goldenConfig
	shown.Mask = false
	withParams := benchEvent("select a from mysql.user where b=? into outfile 'x'")
	withParams.Params = []stream.Param{{Null: true}, {Text: []byte("x")}}
	cutShort := benchEvent("update t set a=1")
	cutShort.SQLTruncated, cutShort.Rows = true, 0
	all := slices.Concat(lines(t, goldenConfig, goldenEvents()...), lines(t, cfg, goldenEvents()[0], cutShort), lines(t, shown, withParams))
	for _, line := range all {
		m := decode(t, line)
		if err := s.check(m); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		for name := range m {
			seen[name] = true
		}
	}
	for name := range s.Properties {
		if !seen[name] {
			t.Errorf("no event has %s", name)
		}
	}
	for _, bad := range []string{`{"v":1}`, strings.Replace(all[0], `"v":1`, `"v":2`, 1), strings.Replace(all[0], `"rows":1`, `"rows":-1`, 1), strings.Replace(all[0], `"rows":1`, `"rows":1.5`, 1),
		strings.Replace(all[0], `"rows":1`, `"rows":"1"`, 1), strings.Replace(all[0], `"status":"error"`, `"status":"bad"`, 1), strings.Replace(all[0], `"traits":["`, `"traits":["x`, 1),
		strings.Replace(all[0], `"lane":0`, `"lane":0,"new":1`, 1), strings.Replace(all[0], `"digest":"`, `"digest":"x`, 1)} {
		if !strings.HasSuffix(bad, "}") && !strings.HasSuffix(bad, "}\n") || slices.Contains(all, bad) {
			t.Fatalf("no test: %s", bad)
		}
		if s.check(decode(t, bad)) == nil {
			t.Errorf("accepted: %s", bad)
		}
	}
}

// The table, the schema and the rules know the same fields, flags and traits.
func TestDocsAreComplete(t *testing.T) {
	s := readSchema(t)
	text, err := os.ReadFile("../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_0-9]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		rows[m[1]] = true
	}
	for name := range s.Properties {
		if !rows[name] {
			t.Errorf("events.md has no %s", name)
		}
	}
	for _, f := range ruleFields {
		if s.Properties[f.name] == nil && f.name != "raw_sql" && f.name != timeField {
			t.Errorf("rules know %s, the schema does not", f.name)
		}
	}
	for _, name := range slices.Concat(traitNames[:], stream.EventFlagNames[:]) {
		if !rows[name] {
			t.Errorf("events.md has no %s", name)
		}
	}
	for _, list := range []struct {
		of   *schema
		want []string
	}{{s.Properties["traits"].Items, traitNames[:]}, {s.Properties["flags"].Items, stream.EventFlagNames[:]}, {s.Properties["severity"], severityNames[:]}} {
		if len(list.of.Enum) != len(list.want) {
			t.Errorf("%v, want %v", list.of.Enum, list.want)
		}
	}
	for name := range s.Properties {
		switch name {
		case "v", "seq", "time", "params", "rules", "alerts", "severity", "sample_probability":
		default:
			if !isField(name) {
				t.Errorf("rules do not know %s", name)
			}
		}
	}
}

// The examples of docs/rules.md compile.
func TestDocumentedRules(t *testing.T) {
	text, err := os.ReadFile("../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, m := range regexp.MustCompile(`when: '([^']*)', action: (\w+)`).FindAllStringSubmatch(string(text), -1) {
		found++
		if _, err := CompileRules([]RuleConfig{{Name: "r", When: m[1], Action: m[2]}}); err != nil {
			t.Errorf("%s: %v", m[1], err)
		}
	}
	if found < 6 {
		t.Errorf("%d examples", found)
	}
}

// What the pages say of bounds is what the code keeps.
func TestDocsOfBounds(t *testing.T) {
	events, err := os.ReadFile("../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	for want, ok := range map[string]bool{"at most a tenth of a processor": workShare == 0.1} {
		if !ok || !strings.Contains(string(events), want) {
			t.Errorf("docs/events.md should say %q: %v", want, ok)
		}
	}
}
