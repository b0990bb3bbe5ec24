package sender

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"sqlwitness/stream"
)

// A RuleConfig is one rule. When is an expression (github.com/expr-lang/expr,
// docs/rules.md) over the fields of the event.
type RuleConfig struct {
	Name   string // letters, digits, '_', '-', '.'
	When   string // true for the events that it is about
	Action string // keep, sample, drop, alert

	Probability float64 // of sample: 0 to 1
	By          string  // of sample: event (default), session
	Severity    string  // of alert: low, medium (default), high, critical
	// RateLimit is how many events a second keep, sample and alert may let through;
	// 0 = any number. Behind the limit an event is dropped, an alert is left off.
	RateLimit float64
}

// A SelectionConfig says which events are kept.
type SelectionConfig struct {
	Rules []RuleConfig
	// Sample is the probability of events that no rule and no class decides on;
	// nil = 1.
	Sample   *float64
	SampleBy string // event (default), session
	// Always are the classes that are kept whatever the rules say; nil = all.
	Always []string
}

// maxRules bounds the rules of a set: a set of them is one word.
const maxRules = 64

// An action is what a rule does.
type action uint8

const (
	actionKeep action = iota
	actionSample
	actionDrop
	actionAlert
)

var actionNames = [...]string{"keep", "sample", "drop", "alert"}

var severityNames = [...]string{"low", "medium", "high", "critical"}

// A rule is a RuleConfig that was compiled.
type rule struct {
	RuleConfig
	action   action
	severity int // index into severityNames
	parts    [stages][]term
	sampler  sampler
	limit    *limiter // nil = none
}

// Rules are a compiled set of rules, with the classes and the sampling that go
// with it. It is safe for concurrent use and does not change, but for what it
// counts.
type Rules struct {
	rules   []rule
	classes classSet
	sampler sampler

	// Sets of rules, as bits in their order.
	has      [stages]uint64 // those with a part in the stage
	alerts   uint64
	deciders uint64 // keep, sample, drop
	textual  uint64 // those whose part in stageEvent is more than comparisons of numbers

	needShape  bool // some rule or class depends on the statement
	namesText  bool // some rule names `sql`, which statements of one shape need not have in common
	keepAll    bool // there is nothing to decide
	firstSeen  limiter
	mu         sync.Mutex
	counted    []RuleStat
	perSession uint64 // fields of stageSession that rules name, as bits
}

// firstSeenPerSecond bounds the class @first_seen, so that a client that never
// repeats itself does not undo sampling.
const firstSeenPerSecond = 500

// CompileRules compiles rules, with everything else at its default. An error
// names the rule and the place in its expression.
func CompileRules(rules []RuleConfig) (*Rules, error) {
	return SelectionConfig{Rules: rules}.Compile()
}

// Compile compiles c. An error names all that is wrong.
func (c SelectionConfig) Compile() (*Rules, error) {
	r := &Rules{rules: make([]rule, len(c.Rules)), counted: make([]RuleStat, len(c.Rules))}
	r.firstSeen.setRate(firstSeenPerSecond)
	var errs []error
	if len(c.Rules) > maxRules {
		errs = append(errs, fmt.Errorf("%d rules; at most %d are allowed", len(c.Rules), maxRules))
		r.rules = r.rules[:maxRules]
	}
	names := make(map[string]bool)
	for i := range r.rules {
		if err := r.rules[i].compile(c.Rules[i]); err != nil {
			errs = append(errs, fmt.Errorf("rule %d (%q): %w", i+1, c.Rules[i].Name, err))
		} else if names[c.Rules[i].Name] {
			errs = append(errs, fmt.Errorf("rule %d: there is another rule %q", i+1, c.Rules[i].Name))
		}
		names[c.Rules[i].Name] = true
		r.counted[i].Name = c.Rules[i].Name
	}
	var err error
	if r.classes, err = parseClasses(c.Always); err != nil {
		errs = append(errs, err)
	}
	probability := 1.0
	if c.Sample != nil {
		probability = *c.Sample
	}
	if r.sampler, err = newSampler(probability, c.SampleBy); err != nil {
		errs = append(errs, fmt.Errorf("sample: %w", err))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	r.plan()
	return r, nil
}

// plan derives what the lanes look at.
func (r *Rules) plan() {
	for i := range r.rules {
		rule := &r.rules[i]
		bit := uint64(1) << i
		if rule.action == actionAlert {
			r.alerts |= bit
		} else {
			r.deciders |= bit
		}
		for st, terms := range rule.parts {
			for _, t := range terms {
				r.has[st] |= bit
				if stage(st) == stageEvent && t.number == nil {
					r.textual |= bit
				}
				r.counted[i].Fields = appendFieldNames(r.counted[i].Fields, t.mask)
				r.perSession |= t.mask & fieldsOfStage[stageSession]
				r.namesText = r.namesText || stage(st) == stageShape && t.mask&fieldText != 0
			}
		}
	}
	r.keepAll = r.deciders == 0 && r.sampler.always()
	r.needShape = r.has[stageShape] != 0 || r.classes&textClasses != 0
}

// fieldsOfStage never changes.
var fieldsOfStage = func() (masks [stages]uint64) {
	for i, f := range ruleFields {
		masks[f.stage] |= 1 << i
	}
	return masks
}()

// fieldsLacking are the fields, as bits, of lists that the flags say lack something.
func fieldsLacking(flags stream.EventFlags) (mask uint64) {
	if flags&stream.FlagTablesCut != 0 {
		mask |= fieldsTables
	}
	if flags&stream.FlagAccountsCut != 0 {
		mask |= fieldAccounts
	}
	if flags&stream.FlagTraitsCut != 0 {
		mask |= fieldTraits
	}
	return mask
}

// The bits of the lists that may lack something. They never change.
var (
	fieldsTables  = fieldBit("tables") | fieldBit("tables_written")
	fieldAccounts = fieldBit("accounts")
	fieldTraits   = fieldBit("traits")
	fieldsListed  = fieldsTables | fieldAccounts | fieldTraits
)

func fieldBit(name string) uint64 { return 1 << ruleFieldByName[name] }

// fieldText is the bit of `sql`. It never changes.
var fieldText = fieldBit("sql")

func appendFieldNames(names []string, mask uint64) []string {
	for i, f := range ruleFields {
		if mask&(1<<i) != 0 {
			names = append(names, f.name)
		}
	}
	return names
}

func (r *rule) compile(c RuleConfig) (err error) {
	r.RuleConfig = c
	if !goodRuleName(c.Name) {
		return errors.New("name: 1 to 64 letters, digits, '_', '-', '.'")
	}
	k, err := oneOf("action", c.Action, "", actionNames[:])
	if err != nil {
		return err
	}
	r.action = action(k)
	if r.severity, err = oneOf("severity", c.Severity, "medium", severityNames[:]); err != nil {
		return err
	}
	if err := r.checkSettings(); err != nil {
		return err
	}
	if c.RateLimit > 0 {
		r.limit = new(limiter)
		r.limit.setRate(c.RateLimit)
	}
	if r.action == actionSample {
		if r.sampler, err = newSampler(c.Probability, c.By); err != nil {
			return err
		}
	}
	if r.parts, err = compile(c.When); err != nil {
		return fmt.Errorf("when: %w", err)
	}
	return nil
}

// checkSettings refuses what the rule's action does not have.
func (r *rule) checkSettings() error {
	switch {
	case r.RateLimit < 0 || math.IsNaN(r.RateLimit) || math.IsInf(r.RateLimit, 0):
		return fmt.Errorf("rate_limit %v: events a second, 0 = no limit", r.RateLimit)
	case r.RateLimit > 0 && r.action == actionDrop:
		return errors.New("rate_limit: not for action drop")
	case r.action != actionSample && (r.Probability != 0 || r.By != ""):
		return errors.New("probability and by: only for action sample")
	case r.action != actionAlert && r.Severity != "":
		return errors.New("severity: only for action alert")
	}
	return nil
}

// oneOf is the index of value, or of the default if it is empty, in allowed.
func oneOf(key, value, otherwise string, allowed []string) (int, error) {
	if value == "" {
		value = otherwise
	}
	for i, a := range allowed {
		if a == value {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%s %q: must be one of %s", key, value, strings.Join(allowed, ", "))
}

func goodRuleName(name string) bool {
	for i := range len(name) {
		if c := name[i]; !isDigit(c) && !isLetter(c) && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return len(name) > 0 && len(name) <= 64
}
