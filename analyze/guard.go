package analyze

import (
	"reflect"
	"slices"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
)

// A guard makes a comparison with an unknown false: `a != b` becomes
// `known(a) && a != b`, where a is a field, also if it stands inside of a call or has
// got another name by let. NaN does the same for numbers that are compared as they are,
// but for != and in.
type guard struct {
	values map[*ast.IdentifierNode]ast.Node // of the names that let has given
	asked  map[*ast.IdentifierNode]bool     // stand inside of known()
	whole  ast.Node                         // that stands for the whole event
}

func newGuard() *guard {
	return &guard{values: map[*ast.IdentifierNode]ast.Node{}, asked: map[*ast.IdentifierNode]bool{}}
}

// options are the patches of an expression, in their order.
func (g *guard) options() []expr.Option {
	return []expr.Option{expr.Patch(walker(g.name)), expr.Patch(walker(g.patch))}
}

// check refuses an expression that names the whole event: of its fields no comparison
// is guarded.
func (g *guard) check(when string) error {
	if g.whole == nil {
		return nil
	}
	e := &file.Error{Location: g.whole.Location(), Message: "$env is not for rules; name the field"}
	return e.Bind(file.NewSource(when))
}

// A walker calls itself for every node.
type walker func(n *ast.Node)

// Visit implements ast.Visitor.
func (w walker) Visit(n *ast.Node) { w(n) }

// name notes what identifiers stand for.
func (g *guard) name(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.VariableDeclaratorNode:
		ast.Walk(&n.Expr, walker(func(node *ast.Node) {
			if id, ok := (*node).(*ast.IdentifierNode); ok && id.Value == n.Name {
				g.values[id] = n.Value
			}
		}))
	case *ast.IdentifierNode:
		if n.Value == "$env" {
			g.whole = n
		}
	}
}

// patch guards a comparison, and has known() of an expression ask for each of its
// fields.
func (g *guard) patch(node *ast.Node) {
	var fields []string
	switch n := (*node).(type) {
	case *ast.CallNode:
		if id, ok := n.Callee.(*ast.IdentifierNode); !ok || id.Value != "known" || len(n.Arguments) != 1 {
			return
		}
		if id, ok := n.Arguments[0].(*ast.IdentifierNode); !ok || kindOf(id.Value) == reflect.Invalid {
			fields = g.fields(nil, n.Arguments[0])
		}
		ast.Walk(&n.Arguments[0], walker(func(node *ast.Node) {
			if id, ok := (*node).(*ast.IdentifierNode); ok {
				g.asked[id] = true
			}
		}))
	case *ast.BinaryNode:
		switch n.Operator {
		case "<", "<=", ">", ">=", "==":
			fields = g.fields(g.fields(nil, ordered(n.Left)), ordered(n.Right))
		case "!=", "in", "contains", "matches", "startsWith", "endsWith":
			fields = g.fields(g.fields(nil, n.Left), n.Right)
		}
	}
	guarded := *node
	for _, f := range fields {
		id := &ast.IdentifierNode{Value: f}
		g.asked[id] = true
		call := &ast.CallNode{Callee: &ast.IdentifierNode{Value: "known"}, Arguments: []ast.Node{id}}
		guarded = &ast.BinaryNode{Operator: "&&", Left: call, Right: guarded}
	}
	if len(fields) > 0 {
		ast.Patch(node, guarded)
	}
}

// ordered is an operand without what needs no guard in a comparison that is false of
// NaN.
func ordered(n ast.Node) ast.Node {
	if id, ok := n.(*ast.IdentifierNode); ok && kindOf(id.Value) == reflect.Float64 {
		return nil
	}
	return n
}

// fields adds to a list the fields in n that an event may not have.
func (g *guard) fields(list []string, n ast.Node) []string {
	seen := map[ast.Node]bool{}
	var collect func(n ast.Node)
	collect = func(n ast.Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		ast.Walk(&n, walker(func(node *ast.Node) {
			id, ok := (*node).(*ast.IdentifierNode)
			if !ok || g.asked[id] {
				return
			}
			if v := g.values[id]; v != nil {
				collect(v)
			}
			if k := kindOf(id.Value); (k == reflect.String || k == reflect.Float64) && !slices.Contains(list, id.Value) {
				list = append(list, id.Value)
			}
		}))
	}
	collect(n)
	return list
}
