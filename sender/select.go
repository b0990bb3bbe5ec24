package sender

import (
	"hash/maphash"
	"math/bits"

	"github.com/expr-lang/expr/vm"

	"sqlwitness/stream"
)

// A selector decides for one lane which events are kept, in three stages:
//
//  1. What is the same for all commands of a session: user, client, schema. It is
//     evaluated once per session and kept in sessions. If that decides, the
//     statement is not even read.
//  2. What is the same for all statements of a shape, or of one masked text where a
//     rule names that. It is evaluated once per shape or text and facts of the
//     session that rules name, and kept in shapes.
//  3. Numbers and outcomes of the event itself.
//
// A kept event is one with an alert or of a class that is always kept; otherwise
// the first rule with another action that matches decides, and behind them
// sampling.
//
// Where a list that a rule names lacks something (see Lane.lacks) the rule is in doubt,
// whatever it says of the list. An event that a rule in doubt may decide is kept.
type selector struct {
	rules    *Rules
	vm       vm.VM
	env      map[string]any
	sessions []sessionVerdict // direct-mapped
	shapes   []shapeVerdict   // direct-mapped
	scratch  []byte
	counts   [maxRules]ruleCount
	counted  bool // counts holds something

	// The event at hand.
	unknown uint64 // rules that were not evaluated for want of a field
	doubted uint64 // rules that were evaluated on a list that lacks something
	untrue  uint64 // those of them that were false
	session *sessionVerdict
	verdict verdict
}

// A verdict says what becomes of an event, and what it shows of the selection.
type verdict struct {
	decided, keep bool
	match         uint64 // rules that matched
	alerts        uint64 // those of them whose alerts were not left off
	classes       classSet
	doubt         bool     // a rule or class that would keep it may have missed it
	sampler       *sampler // that kept it; nil: it was sure to be kept
}

// A shapeVerdict is which rules' parts of stageShape are true.
type shapeVerdict struct{ key, match, unknown uint64 }

const (
	sessionSlots = 1024
	shapeSlots   = 4096
)

// use makes the selector go by other rules.
func (s *selector) use(r *Rules) {
	s.fold()
	s.rules = r
	s.env = make(map[string]any)
	s.sessions, s.shapes = nil, nil
	if r.has[stageSession] != 0 || r.has[stageShape] != 0 {
		s.sessions = make([]sessionVerdict, sessionSlots)
	}
	if r.has[stageShape] != 0 {
		s.shapes = make([]shapeVerdict, shapeSlots)
	}
}

// selectEarly tells whether e may be kept, before its text has been looked at.
func (l *Lane) selectEarly(e *stream.Event) bool {
	s := &l.selector
	if r := l.s.rules.Load(); r != s.rules {
		s.use(r)
	}
	r := s.rules
	s.unknown, s.doubted, s.untrue, s.session = 0, 0, 0, nil
	s.verdict = verdict{classes: eventClasses(e) & r.classes}
	if len(r.rules) == 0 && (r.keepAll || s.verdict.classes != 0) {
		s.verdict.keep = true
		s.verdict.decided = r.keepAll && r.classes&textClasses == 0
		return true
	}
	match := ^uint64(0) >> (maxRules - len(r.rules)) // of no rules none: a shift by 64 gives 0
	if s.sessions != nil {
		s.session = l.sessionVerdict(e)
		match, s.unknown = s.session.match, s.session.unknown
	}
	s.verdict.match = match
	if r.needShape && isStatement(e.Command) || match&r.textual != 0 {
		return true
	}
	return l.decide(e, l.matchEvent(e, l.matchShape(e, match)))
}

// selectLate decides about e, whose text has been read.
func (l *Lane) selectLate(e *stream.Event) bool {
	s := &l.selector
	if s.verdict.decided {
		return s.verdict.keep
	}
	s.verdict.classes |= l.textClassesOf() & s.rules.classes
	s.verdict.doubt = l.classDoubt() && s.rules.classes&(classDDL|classAccount) != 0
	if len(s.rules.rules) == 0 {
		return l.decide(e, 0)
	}
	return l.decide(e, l.matchEvent(e, l.matchShape(e, s.verdict.match)))
}

// matchShape takes from match the rules whose part of stageShape is false. Verdicts in
// doubt are not kept: what is lacking is no part of the key.
func (l *Lane) matchShape(e *stream.Event, match uint64) uint64 {
	s := &l.selector
	ask := match & s.rules.has[stageShape]
	if ask == 0 {
		return match
	}
	if l.lacks() != 0 {
		yes, unknown := l.evaluate(e, stageShape, ask)
		s.unknown |= unknown
		return match&^ask | yes
	}
	key := scramble(l.verdictKey(e) ^ s.session.key)
	v := &s.shapes[key%shapeSlots]
	if v.key != key {
		*v = shapeVerdict{key: key}
		v.match, v.unknown = l.evaluate(e, stageShape, ask)
	}
	s.unknown |= v.unknown
	return match&^ask | v.match&ask
}

// verdictKey is a key of all that rules see of the statement: its shape, what was
// found in what the shape does not show, and its text, where a rule names that.
func (l *Lane) verdictKey(e *stream.Event) uint64 {
	f, s := &l.facts, &l.selector
	key := f.shapeKey
	if a := f.shape; a != nil && a.parsed() {
		key = ^key // its tables were a guess before
	}
	if f.lexed && l.masker.doubted {
		s.scratch = l.masker.best.appendKey(s.scratch[:0], e.SQL)
		key = scramble(key) + maphash.Bytes(l.s.shapes.seed, s.scratch)
	}
	if s.rules.namesText {
		l.render(e)
		key = scramble(key) + maphash.Bytes(l.s.shapes.seed, f.sql)
	}
	return key
}

// matchEvent takes from match the rules whose part of stageEvent is false.
func (l *Lane) matchEvent(e *stream.Event, match uint64) uint64 {
	s := &l.selector
	ask := match & s.rules.has[stageEvent]
	if ask == 0 {
		return match
	}
	yes, unknown := l.evaluate(e, stageEvent, ask)
	s.unknown |= unknown
	return match&^ask | yes
}

// evaluate evaluates the parts that the rules in ask have in a stage. unknown are
// those for which a field was not known. Rules in doubt are noted, and match.
func (l *Lane) evaluate(e *stream.Event, st stage, ask uint64) (match, unknown uint64) {
	s, lacking := &l.selector, fieldsLacking(l.lacks())
	for ; ask != 0; ask &= ask - 1 {
		i := bits.TrailingZeros64(ask)
		yes, doubted, untrue := true, false, false
		for k := range s.rules.rules[i].parts[st] {
			t := &s.rules.rules[i].parts[st][k]
			result, known := l.evaluateTerm(e, t, i)
			if !known {
				unknown |= 1 << i
			}
			if t.mask&lacking != 0 {
				doubted, untrue = true, untrue || !result
			} else if yes = result; !yes {
				break
			}
		}
		if !yes {
			continue
		}
		match |= 1 << i
		if doubted {
			s.doubted |= 1 << i
		}
		if untrue {
			s.untrue |= 1 << i
		}
	}
	return match, unknown
}

func (l *Lane) evaluateTerm(e *stream.Event, t *term, rule int) (result, known bool) {
	if t.number != nil {
		return t.compare(e)
	}
	s := &l.selector
	known = true
	for _, i := range t.fields {
		f := &ruleFields[i]
		value, ok := f.value(l, e)
		if !ok {
			value = f.zero
		}
		s.env[f.name], s.env[f.known] = value, ok
		known = known && ok
	}
	out, err := s.vm.Run(t.program, s.env)
	if err != nil {
		s.counts[rule].failed++
		s.counted = true
		return false, known
	}
	return out.(bool), known
}

// decide decides by the rules that matched, and counts.
func (l *Lane) decide(e *stream.Event, match uint64) bool {
	s := &l.selector
	v, r := &s.verdict, s.rules
	doubted := match & s.doubted
	deciders := match & r.deciders
	v.doubt = v.doubt || doubted&r.alerts&s.untrue != 0
	match &^= s.untrue
	s.unknown |= doubted
	v.decided, v.match = true, match
	if match|s.unknown != 0 {
		s.count(match)
	}
	v.alerts = match & r.alerts
	for rest := v.alerts; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		if !r.rules[i].admits(e) {
			v.alerts &^= 1 << i
			s.counts[i].limited++
		}
	}
	first := deciders & -deciders
	v.keep = v.alerts != 0 || v.classes != 0 || v.doubt || first&doubted != 0
	if v.keep {
		return true
	}
	by := &r.sampler
	if first != 0 {
		i := bits.TrailingZeros64(first)
		rule := &r.rules[i]
		switch rule.action {
		case actionDrop:
			l.tally.DroppedByRule++
			return false
		case actionSample:
			by = &rule.sampler
		case actionKeep:
			by = nil
		}
		if (by == nil || by.takes(e)) && !rule.admits(e) {
			s.counts[i].limited++
			l.tally.RateLimited++
			return false
		}
	}
	if by != nil && !by.takes(e) {
		l.tally.SampledOut++
		return false
	}
	if by != nil && !by.always() {
		v.sampler = by
	}
	v.keep = true
	return true
}

// admits tells whether the rule's limit lets e through.
func (r *rule) admits(e *stream.Event) bool { return r.limit == nil || r.limit.admit(e.TimeNs) }

// count counts the rules that matched and those that lacked a field.
func (s *selector) count(match uint64) {
	for rest := match; rest != 0; rest &= rest - 1 {
		s.counts[bits.TrailingZeros64(rest)].matched++
	}
	for rest := s.unknown; rest != 0; rest &= rest - 1 {
		s.counts[bits.TrailingZeros64(rest)].unknown++
	}
	s.counted = true
}
