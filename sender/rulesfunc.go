package sender

import (
	"fmt"
	"net/netip"
	"reflect"
	"time"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
)

// patchCalls gives the functions their constant arguments: prefixes and time
// zones are read once, and bad ones are refused with their place.
func patchCalls(n *ast.Node) {
	call, ok := (*n).(*ast.CallNode)
	if !ok {
		return
	}
	callee, ok := call.Callee.(*ast.IdentifierNode)
	if !ok {
		return
	}
	switch callee.Value {
	case "known":
		if len(call.Arguments) == 1 {
			if id, ok := call.Arguments[0].(*ast.IdentifierNode); ok && isField(id.Value) {
				ast.Patch(n, &ast.IdentifierNode{Value: knownPrefix + id.Value})
				return
			}
		}
		refuse(call, "known() takes the name of one field")
	case "hour":
		zone := "UTC"
		if len(call.Arguments) == 1 {
			s, ok := call.Arguments[0].(*ast.StringNode)
			if !ok {
				refuse(call, `hour() takes the name of a time zone, as in hour("Europe/Berlin")`)
			}
			zone = s.Value
		}
		at, err := time.LoadLocation(zone)
		if err != nil || len(call.Arguments) > 1 {
			refuse(call, fmt.Sprintf("hour(): time zone %q is not known here", zone))
		}
		call.Arguments = []ast.Node{&ast.IdentifierNode{Value: timeField}, &ast.ConstantNode{Value: at}}
	case "cidr":
		patchPrefixes(call)
	}
}

func patchPrefixes(call *ast.CallNode) {
	if len(call.Arguments) < 2 {
		refuse(call, `cidr() takes an address and networks, as in cidr(client_ip, "10.0.0.0/8", "::1/128")`)
	}
	var prefixes []netip.Prefix
	for _, a := range call.Arguments[1:] {
		s, ok := a.(*ast.StringNode)
		if !ok {
			refuse(a, "cidr() takes constant networks")
		}
		p, err := netip.ParsePrefix(s.Value)
		if err != nil {
			refuse(a, fmt.Sprintf("%q is no network", s.Value))
		}
		prefixes = append(prefixes, p.Masked())
	}
	call.Arguments = []ast.Node{call.Arguments[0], &ast.ConstantNode{Value: prefixes}}
}

// refuse ends the compilation with an error at n. compile catches it.
func refuse(n ast.Node, why string) {
	panic(&file.Error{Location: n.Location(), Message: why})
}

func isField(name string) bool { _, ok := ruleFieldByName[name]; return ok }

// variables are the values of the identifiers that let has given a name to.
type variables map[*ast.IdentifierNode]ast.Node

// note notes what a let gives a name to.
func (v variables) note(n *ast.Node) {
	let, ok := (*n).(*ast.VariableDeclaratorNode)
	if !ok {
		return
	}
	ast.Walk(&let.Expr, walker(func(n *ast.Node) {
		if id, ok := (*n).(*ast.IdentifierNode); ok && id.Value == let.Name {
			v[id] = let.Value
		}
	}))
}

// patchComparisons makes a comparison with an unknown false: `a < b` becomes
// `known_a and known_b and a < b`. What let has given a name to counts as itself.
func (v variables) patchComparisons(n *ast.Node) {
	b, ok := (*n).(*ast.BinaryNode)
	if !ok {
		return
	}
	switch b.Operator {
	case "==", "!=", "<", "<=", ">", ">=", "in", "contains", "startsWith", "endsWith", "matches":
	default:
		return
	}
	mask := v.fieldsOf(b)
	var guarded ast.Node = b
	for i := range ruleFields {
		if mask&(1<<i) != 0 {
			known := &ast.IdentifierNode{Value: knownPrefix + ruleFields[i].name}
			known.SetType(reflect.TypeFor[bool]())
			guarded = &ast.BinaryNode{Operator: "and", Left: known, Right: guarded}
		}
	}
	if guarded != ast.Node(b) {
		ast.Patch(n, guarded)
	}
}

// inPrefix is cidr(ip, …): whether ip is in one of the networks.
func inPrefix(args ...any) (any, error) {
	ip, err := netip.ParseAddr(args[0].(string))
	if err != nil {
		return false, nil // unknown
	}
	for _, p := range args[1].([]netip.Prefix) {
		if p.Contains(ip.Unmap()) {
			return true, nil
		}
	}
	return false, nil
}

// hourIn is hour(): the hour of the event's time, 0 to 23.
func hourIn(args ...any) (any, error) {
	return time.UnixMicro(int64(args[0].(int))).In(args[1].(*time.Location)).Hour(), nil
}
