package sender

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/optimizer"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"
)

const (
	// timeField is the event's time in microseconds since 1970, which hour()
	// works on. Rules cannot name it otherwise than they can any field.
	timeField = "time_us"
	// knownPrefix makes of a field's name that of the boolean that says whether it
	// is known.
	knownPrefix = "known_"
)

// A term is a part of a rule's condition. All parts must be true.
type term struct {
	program *vm.Program
	fields  []int  // indexes into ruleFields
	mask    uint64 // the same as bits

	// A comparison of one number of the event with a constant needs no program.
	number   func(e *event) (int64, bool)
	operator string
	constant int64
}

// compile parses and checks a condition, and splits it at the `and` of its top
// level into parts by the stage at which their fields are known. An error says
// where in the condition it is.
func compile(when string) (parts [stages][]term, err error) {
	defer func() {
		if r := recover(); r != nil {
			refused, ok := r.(*file.Error)
			if !ok {
				panic(r)
			}
			err = refused.Bind(file.NewSource(when))
		}
	}()
	if _, err := expr.Compile(when, compileOptions()...); err != nil {
		return parts, err
	}
	config := compileConfig()
	tree, err := parser.ParseWithConfig(when, config)
	if err != nil {
		return parts, err
	}
	ast.Walk(&tree.Node, walker(refuseInner))
	var nodes [stages][2]ast.Node // without and with a list that may lack something
	for _, n := range conjuncts(tree.Node, nil) {
		mask := fieldsOf(n)
		st, with := stageOf(mask), 0
		if mask&fieldsListed != 0 {
			with = 1
		}
		if t, ok := comparison(n); ok {
			parts[st] = append(parts[st], t)
		} else if nodes[st][with] == nil {
			nodes[st][with] = n
		} else {
			nodes[st][with] = &ast.BinaryNode{Operator: "and", Left: nodes[st][with], Right: n}
		}
	}
	for st, both := range nodes {
		for _, n := range both {
			if n == nil {
				continue
			}
			t, err := newTerm(&parser.Tree{Node: n, Source: tree.Source})
			if err != nil {
				return parts, err
			}
			parts[st] = append(parts[st], t)
		}
	}
	return parts, nil
}

// newTerm compiles a part of a condition.
func newTerm(tree *parser.Tree) (t term, err error) {
	t.mask = fieldsOf(tree.Node)
	for i := range ruleFields {
		if t.mask&(1<<i) != 0 {
			t.fields = append(t.fields, i)
		}
	}
	t.program, err = compileNode(tree)
	return t, err
}

// refuseInner refuses what names no field of an event: all that an expression is
// given, which is only what the fields that it names need, and what this package
// adds to it.
func refuseInner(n *ast.Node) {
	id, ok := (*n).(*ast.IdentifierNode)
	switch {
	case !ok:
	case id.Value == "$env":
		refuse(id, "$env is not for rules; name the field")
	case strings.HasPrefix(id.Value, knownPrefix):
		refuse(id, fmt.Sprintf("%s is not for rules; say known(field)", id.Value))
	}
}

// compileNode is expr.Compile from a parsed condition on.
func compileNode(tree *parser.Tree) (*vm.Program, error) {
	config := compileConfig()
	if _, err := new(checker.Checker).PatchAndCheck(tree, config); err != nil {
		return nil, err
	}
	if err := optimizer.Optimize(&tree.Node, config); err != nil {
		return nil, err
	}
	return compiler.Compile(tree, config)
}

// compileConfig is what expr.Compile makes of compileOptions.
func compileConfig() *conf.Config {
	config := conf.CreateNew()
	for _, option := range compileOptions() {
		option(config)
	}
	for name := range config.Disabled {
		delete(config.Builtins, name)
	}
	config.Check()
	return config
}

// conjuncts are the operands of the `and` operators at the top.
func conjuncts(n ast.Node, list []ast.Node) []ast.Node {
	if b, ok := n.(*ast.BinaryNode); ok && (b.Operator == "and" || b.Operator == "&&") {
		return conjuncts(b.Right, conjuncts(b.Left, list))
	}
	return append(list, n)
}

// A walker calls itself for every node.
type walker func(n *ast.Node)

// Visit implements ast.Visitor.
func (w walker) Visit(n *ast.Node) { w(n) }

// fieldsOf are the fields that n names, as bits.
func fieldsOf(n ast.Node) (mask uint64) { return variables(nil).fieldsOf(n) }

// fieldsOf are the fields that n names, itself or by a variable, as bits.
func (v variables) fieldsOf(n ast.Node) (mask uint64) {
	seen := make(map[ast.Node]bool)
	var collect func(n ast.Node)
	collect = func(n ast.Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		ast.Walk(&n, walker(func(n *ast.Node) {
			id, ok := (*n).(*ast.IdentifierNode)
			if !ok {
				return
			}
			if value := v[id]; value != nil {
				collect(value)
			}
			name := id.Value
			if name == "hour" {
				name = timeField
			}
			if i, ok := ruleFieldByName[name]; ok {
				mask |= 1 << i
			}
		}))
	}
	collect(n)
	return mask
}

func stageOf(mask uint64) stage {
	st := stageSession
	for i, f := range ruleFields {
		if mask&(1<<i) != 0 {
			st = max(st, f.stage)
		}
	}
	return st
}

// comparison is n as a comparison of a number with a constant.
func comparison(n ast.Node) (term, bool) {
	b, ok := n.(*ast.BinaryNode)
	if !ok {
		return term{}, false
	}
	id, ok := b.Left.(*ast.IdentifierNode)
	constant, ok2 := b.Right.(*ast.IntegerNode)
	if !ok || !ok2 {
		return term{}, false
	}
	i, ok := ruleFieldByName[id.Value]
	if !ok || ruleFields[i].number == nil {
		return term{}, false
	}
	switch b.Operator {
	case "==", "!=", "<", "<=", ">", ">=":
		return term{fields: []int{i}, mask: 1 << i, number: ruleFields[i].number, operator: b.Operator, constant: int64(constant.Value)}, true
	}
	return term{}, false
}

// compare is the value of a comparison, and whether its number is known.
func (t *term) compare(e *event) (result, known bool) {
	n, known := t.number(e)
	if !known {
		return false, false
	}
	switch t.operator {
	case "==":
		return n == t.constant, true
	case "!=":
		return n != t.constant, true
	case "<":
		return n < t.constant, true
	case "<=":
		return n <= t.constant, true
	case ">":
		return n > t.constant, true
	}
	return n >= t.constant, true
}

// compileOptions are those of every condition.
func compileOptions() []expr.Option {
	env := make(map[string]any, 2*len(ruleFields))
	for _, f := range ruleFields {
		env[f.name], env[knownPrefix+f.name] = f.zero, false
	}
	named := variables{}
	return []expr.Option{
		expr.Env(env), expr.AsBool(), expr.DisableBuiltin("now"), expr.MaxNodes(2000),
		expr.Function("cidr", inPrefix, new(func(string, []netip.Prefix) bool)),
		expr.Function("hour", hourIn, new(func(int, *time.Location) int)),
		expr.Patch(walker(patchCalls)), expr.Patch(walker(named.note)), expr.Patch(walker(named.patchComparisons)),
	}
}
