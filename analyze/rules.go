package analyze

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"
	"go.yaml.in/yaml/v3"
)

//go:embed rules.yaml
var starterRules []byte

// A Rule raises an alert. Without count, sum, distinct or first it does so for
// every event that its expression is true of, at most once per cooldown and key.
type Rule struct {
	Name     string   `yaml:"name"`
	About    string   `yaml:"about"`    // one sentence for whoever reads the alert
	Severity string   `yaml:"severity"` // low, medium, high, critical
	Attack   string   `yaml:"attack"`   // id of the technique in MITRE ATT&CK
	When     string   `yaml:"when"`     // expression over the fields of an event
	By       []string `yaml:"by"`       // fields; what is counted is counted for each of their values

	Count    float64 `yaml:"count"`    // how many events, or how much of sum or distinct, raise an alert; default 1
	Sum      string  `yaml:"sum"`      // a numeric field whose values are added up
	Distinct string  `yaml:"distinct"` // a text field whose different values are counted
	First    bool    `yaml:"first"`    // the first event for each value of by, within window
	Window   string  `yaml:"window"`   // over which it is counted; default 1m
	Cooldown string  `yaml:"cooldown"` // how long a key is quiet after an alert; default window

	Examples Examples `yaml:"examples"`

	window, cooldown time.Duration
	program          *vm.Program
}

// Examples show what a rule is for. They are tested with it.
type Examples struct {
	Alert []Example `yaml:"alert"` // each raises at least one
	Quiet []Example `yaml:"quiet"` // none raises any
}

// An Example is a sequence of events: each of Events, Repeat times (default 1),
// Step apart (default 1s). In a text field {i} stands for the number of the
// repetition.
type Example struct {
	Repeat int              `yaml:"repeat"`
	Step   string           `yaml:"step"`
	Events []map[string]any `yaml:"events"`
}

// Rules are rules that were checked and compiled.
type Rules struct{ list []*Rule }

// StarterRules are the rules that come with the program.
func StarterRules() *Rules {
	r, err := ParseRules(starterRules)
	if err != nil {
		panic(fmt.Sprintf("rules.yaml: %v", err)) // a test parses it
	}
	return r
}

// StarterText is the file of the starter rules, to be copied and changed.
func StarterText() []byte { return bytes.Clone(starterRules) }

// LoadRules reads a file of rules.
func LoadRules(path string) (*Rules, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	r, err := ParseRules(text)
	if err != nil {
		return nil, fmt.Errorf("rules %s: %w", path, err)
	}
	return r, nil
}

// ParseRules reads rules. An error names the rule, and for an expression the
// place in it.
func ParseRules(text []byte) (*Rules, error) {
	var file struct {
		Rules []*Rule `yaml:"rules"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	seen := map[string]bool{}
	for i, r := range file.Rules {
		if r == nil || r.Name == "" || seen[r.Name] {
			return nil, fmt.Errorf("rule %d has no name of its own", i+1)
		}
		seen[r.Name] = true
		if err := r.compile(); err != nil {
			return nil, fmt.Errorf("rule %s: %w", r.Name, err)
		}
	}
	return &Rules{file.Rules}, nil
}

// List are the rules in the order of their file.
func (r *Rules) List() []*Rule { return r.list }

func (r *Rule) compile() (err error) {
	if !slices.Contains([]string{"low", "medium", "high", "critical"}, r.Severity) {
		return fmt.Errorf("severity %q is not allowed; allowed are low, medium, high, critical", r.Severity)
	}
	if r.window, err = duration("window", r.Window, time.Minute); err != nil {
		return err
	}
	if r.cooldown, err = duration("cooldown", r.Cooldown, r.window); err != nil {
		return err
	}
	if r.Count == 0 {
		r.Count = 1
	}
	kinds := 0
	for _, set := range []bool{r.Sum != "", r.Distinct != "", r.First} {
		if set {
			kinds++
		}
	}
	switch {
	case r.Count < 1 || r.Sum == "" && r.Count > maxMarks:
		return fmt.Errorf("count %v is not allowed; from 1 to %d, for a sum without limit", r.Count, maxMarks)
	case kinds > 1:
		return errors.New("sum, distinct and first exclude each other")
	case r.Sum != "" && kindOf(r.Sum) != reflect.Float64:
		return fmt.Errorf("sum: %q is no numeric field", r.Sum)
	case r.Distinct != "" && kindOf(r.Distinct) != reflect.String:
		return fmt.Errorf("distinct: %q is no text field", r.Distinct)
	}
	for _, f := range r.By {
		if kindOf(f) != reflect.String {
			return fmt.Errorf("by: %q is no text field", f)
		}
	}
	g := newGuard()
	r.program, err = expr.Compile(r.When, append(g.options(), expr.Env(Event{}), expr.AsBool(),
		expr.Function("known", func(p ...any) (any, error) { return known(p[0]), nil }, new(func(any) bool)),
		expr.Function("cidr", func(p ...any) (any, error) { return cidr(p[0].(string), p[1].(string)) }, new(func(string, string) bool)),
		expr.Function("hour", func(p ...any) (any, error) { return hour(p[0].(string)), nil }, new(func(string) float64)))...)
	if err == nil {
		err = g.check(r.When)
	}
	return err
}

func duration(key, text string, fallback time.Duration) (time.Duration, error) {
	if text == "" {
		return fallback, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d > 30*24*time.Hour {
		return 0, fmt.Errorf("%s: %q is not allowed; from 1s to 720h", key, text)
	}
	return d, nil
}

// fields are the indexes of Event's fields by their names in rules.
var fields = func() map[string]int {
	m := map[string]int{}
	for i, t := 0, reflect.TypeFor[Event](); i < t.NumField(); i++ {
		if name := t.Field(i).Tag.Get("expr"); name != "" && name != "-" {
			m[name] = i
		}
	}
	return m
}()

func kindOf(field string) reflect.Kind {
	i, ok := fields[field]
	if !ok {
		return reflect.Invalid
	}
	return reflect.TypeFor[Event]().Field(i).Type.Kind()
}

func (r *Rule) text(e *Event, field string) string {
	return reflect.ValueOf(e).Elem().Field(fields[field]).String()
}

func (r *Rule) number(e *Event) float64 {
	v := reflect.ValueOf(e).Elem().Field(fields[r.Sum]).Float()
	if math.IsInf(v, 0) || v < 0 {
		return math.NaN()
	}
	return v
}

// key is the values of the by fields.
func (r *Rule) key(e *Event) string {
	var parts []string
	for _, f := range r.By {
		parts = append(parts, r.text(e, f))
	}
	return strings.Join(parts, "\x00")
}

// match tells whether the expression is true of an event.
func (r *Rule) match(machine *vm.VM, e *Event) (bool, error) {
	out, err := machine.Run(r.program, e)
	if err != nil {
		return false, err
	}
	return out.(bool), nil
}

// expand are the events of an example as JSON.
func (x Example) expand() ([][]byte, error) {
	step, err := duration("step", x.Step, time.Second)
	if err != nil {
		return nil, err
	}
	at := time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC)
	var out [][]byte
	for i := range max(x.Repeat, 1) {
		for _, e := range x.Events {
			one := map[string]any{"v": 1, "type": "command", "agent": "db1", "boot": "b", "lane": 0, "time": at.Format(time.RFC3339Nano)}
			for k, v := range e {
				if s, ok := v.(string); ok {
					v = strings.ReplaceAll(s, "{i}", fmt.Sprint(i))
				}
				one[k] = v
			}
			b, err := json.Marshal(one)
			if err != nil {
				return nil, err
			}
			out = append(out, b)
			at = at.Add(step)
		}
	}
	return out, nil
}
