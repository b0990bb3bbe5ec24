package sender

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

// A tableName is a table, view or routine as a statement names it. Without a
// schema it belongs to the default schema of the connection.
type tableName struct{ schema, name string }

// maxTables bounds the tables of one statement, and maxNameBytes their names,
// which the server bounds at 64 characters.
const (
	maxTables    = 32
	maxNameBytes = 256
)

// touched is what a statement reads and changes, in the order of its text.
type touched struct {
	tables  []tableName // all
	written []tableName // those of them whose contents or definition it changes
	cut     bool        // there may be more: there were more than maxTables, or not all was looked at
}

func (t *touched) add(n tableName, write bool) {
	if n.name == "" || n.name == "*" {
		return
	}
	n.schema, n.name = cut(n.schema, maxNameBytes), cut(n.name, maxNameBytes)
	t.tables = t.put(t.tables, n)
	if write {
		t.written = t.put(t.written, n)
	}
}

func (t *touched) put(list []tableName, n tableName) []tableName {
	switch {
	case slices.Contains(list, n):
	case len(list) >= maxTables:
		t.cut = true
	default:
		list = append(list, n)
	}
	return list
}

// merge adds what o touches.
func (t *touched) merge(o touched) {
	for _, n := range o.tables {
		t.add(n, slices.Contains(o.written, n))
	}
	t.cut = t.cut || o.cut
}

// A tableVisitor finds the tables of a parsed statement. The names of common table
// expressions are none where they are in sight, nor are the aliases in the list of
// a multi-table DELETE.
type tableVisitor struct {
	touched
	scopes [][]string // the common table expressions in sight, innermost last
}

// tablesOf are the tables of parsed statements.
func tablesOf(stmts []ast.StmtNode) touched {
	var v tableVisitor
	for _, s := range stmts {
		s.Accept(&v)
	}
	return v.touched
}

// Enter implements ast.Visitor.
func (v *tableVisitor) Enter(n ast.Node) (ast.Node, bool) {
	switch n := n.(type) {
	case *ast.TableName:
		v.table(n, false)
	case *ast.DeleteTableList:
		return n, true
	case *ast.WithClause:
		return n, true // its statement has visited it
	case ast.StmtNode:
		v.scopes = append(v.scopes, nil)
		if w := withOf(n); w != nil {
			v.with(w)
		}
		v.statement(n)
	}
	return n, false
}

// Leave implements ast.Visitor.
func (v *tableVisitor) Leave(n ast.Node) (ast.Node, bool) {
	if _, ok := n.(ast.StmtNode); ok {
		v.scopes = v.scopes[:len(v.scopes)-1]
	}
	return n, true
}

// withOf is the WITH clause of a statement, or nil.
func withOf(n ast.StmtNode) *ast.WithClause {
	switch n := n.(type) {
	case *ast.SelectStmt:
		return n.With
	case *ast.SetOprStmt:
		return n.With
	case *ast.UpdateStmt:
		return n.With
	case *ast.DeleteStmt:
		return n.With
	}
	return nil
}

// with visits common table expressions. One is in sight of those behind it, and
// of itself if it is recursive.
// https://dev.mysql.com/doc/refman/8.4/en/with.html
func (v *tableVisitor) with(w *ast.WithClause) {
	top := len(v.scopes) - 1
	for _, c := range w.CTEs {
		if w.IsRecursive {
			v.scopes[top] = append(v.scopes[top], c.Name.L)
		}
		c.Query.Accept(v)
		if !w.IsRecursive {
			v.scopes[top] = append(v.scopes[top], c.Name.L)
		}
	}
}

func (v *tableVisitor) table(n *ast.TableName, write bool) {
	if n.Schema.L == "" {
		for _, scope := range v.scopes {
			if slices.Contains(scope, n.Name.L) {
				return
			}
		}
	}
	v.add(tableName{n.Schema.O, n.Name.O}, write)
}

// statement adds what the statement changes, and what its children do not say.
func (v *tableVisitor) statement(n ast.Node) {
	if v.definition(n) {
		return
	}
	switch n := n.(type) {
	case *ast.InsertStmt:
		v.all(sources(n.Table), true)
	case *ast.UpdateStmt:
		v.update(n)
	case *ast.DeleteStmt:
		v.delete(n)
	case *ast.LoadDataStmt:
		v.table(n.Table, true)
	case *ast.ImportIntoStmt:
		v.table(n.Table, true)
	case *ast.CallStmt:
		v.add(tableName{n.Procedure.Schema.O, n.Procedure.FnName.O}, false)
	case *ast.GrantStmt:
		v.level(n.Level)
	case *ast.RevokeStmt:
		v.level(n.Level)
	}
}

// definition is statement for what changes definitions or looks after tables.
func (v *tableVisitor) definition(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CreateTableStmt:
		v.table(n.Table, true)
	case *ast.CreateViewStmt:
		v.table(n.ViewName, true)
	case *ast.DropTableStmt:
		v.all(n.Tables, true)
	case *ast.TruncateTableStmt:
		v.table(n.Table, true)
	case *ast.AlterTableStmt:
		v.table(n.Table, true)
	case *ast.CreateIndexStmt:
		v.table(n.Table, true)
	case *ast.DropIndexStmt:
		v.table(n.Table, true)
	case *ast.OptimizeTableStmt:
		v.all(n.Tables, false)
	case *ast.RenameTableStmt:
		for _, t := range n.TableToTables {
			v.table(t.OldTable, true)
			v.table(t.NewTable, true)
		}
	default:
		return false
	}
	return true
}

func (v *tableVisitor) all(tables []*ast.TableName, write bool) {
	for _, t := range tables {
		v.table(t, write)
	}
}

func (v *tableVisitor) level(l *ast.GrantLevel) {
	if l != nil && l.Level == ast.GrantLevelTable {
		v.add(tableName{l.DBName, l.TableName}, false)
	}
}

// update adds the tables whose columns are assigned. A column without a table may
// belong to any of several.
func (v *tableVisitor) update(n *ast.UpdateStmt) {
	refs := references(n.TableRefs)
	for _, r := range refs {
		v.table(r.table, slices.ContainsFunc(n.List, func(a *ast.Assignment) bool {
			return a.Column.Table.L == "" || r.is(a.Column.Table.L)
		}))
	}
}

// delete adds the tables that rows are deleted from.
func (v *tableVisitor) delete(n *ast.DeleteStmt) {
	refs := references(n.TableRefs)
	if n.Tables == nil {
		for _, r := range refs {
			v.table(r.table, true)
		}
		return
	}
	for _, t := range n.Tables.Tables {
		i := slices.IndexFunc(refs, func(r reference) bool { return r.is(t.Name.L) })
		if i >= 0 {
			t = refs[i].table
		}
		v.table(t, true)
	}
}

// A reference is a table in a FROM or UPDATE list, with its alias.
type reference struct {
	table *ast.TableName
	alias string
}

// is tells whether name, in lower case, names the table here.
func (r reference) is(name string) bool {
	return name == r.alias || r.alias == "" && name == r.table.Name.L
}

// references are the tables of a list, without those in subqueries.
func references(refs *ast.TableRefsClause) []reference {
	var out []reference
	var walk func(ast.ResultSetNode)
	walk = func(n ast.ResultSetNode) {
		switch n := n.(type) {
		case *ast.Join:
			walk(n.Left)
			walk(n.Right)
		case *ast.TableSource:
			if t, ok := n.Source.(*ast.TableName); ok {
				out = append(out, reference{t, strings.ToLower(n.AsName.O)})
			} else if j, ok := n.Source.(*ast.Join); ok {
				walk(j)
			}
		}
	}
	if refs != nil && refs.TableRefs != nil {
		walk(refs.TableRefs)
	}
	return out
}

func sources(refs *ast.TableRefsClause) []*ast.TableName {
	var out []*ast.TableName
	for _, r := range references(refs) {
		out = append(out, r.table)
	}
	return out
}
