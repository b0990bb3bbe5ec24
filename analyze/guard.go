package analyze

import (
	"reflect"

	"github.com/expr-lang/expr/ast"
)

// guard makes a comparison with an unknown false: `a != b` becomes
// `known(a) && a != b`, where a is a field. NaN does the same for numbers, but
// for != and in.
type guard struct{}

// Visit implements ast.Visitor.
func (guard) Visit(node *ast.Node) {
	b, ok := (*node).(*ast.BinaryNode)
	if !ok {
		return
	}
	switch b.Operator {
	case "==", "!=", "<", "<=", ">", ">=", "in", "contains", "matches", "startsWith", "endsWith":
	default:
		return
	}
	guarded := ast.Node(b)
	for _, side := range []ast.Node{b.Left, b.Right} {
		id, ok := side.(*ast.IdentifierNode)
		if !ok {
			continue
		}
		kind := kindOf(id.Value)
		if kind != reflect.String && !(kind == reflect.Float64 && (b.Operator == "!=" || b.Operator == "in")) {
			continue
		}
		call := &ast.CallNode{Callee: &ast.IdentifierNode{Value: "known"}, Arguments: []ast.Node{&ast.IdentifierNode{Value: id.Value}}}
		guarded = &ast.BinaryNode{Operator: "&&", Left: call, Right: guarded}
	}
	if guarded != ast.Node(b) {
		ast.Patch(node, guarded)
	}
}
