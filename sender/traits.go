package sender

// A traitSet is what stands out about a statement: bits in the order of traitNames.
type traitSet uint32

// The traits, each with a statement that has it. They are read off the form, so
// they do not depend on values; they are signs, not verdicts.
const (
	traitUnion             traitSet = 1 << iota // select a from t union select b from u
	traitStacked                                // select 1; drop table t
	traitSleep                                  // select sleep(5); also benchmark()
	traitFileRead                               // select load_file('/etc/passwd'); load data infile, without LOCAL
	traitFileWrite                              // select a into outfile '/tmp/x' from t; into dumpfile
	traitMetadataSchema                         // select table_name from information_schema.tables; also mysql, sys, performance_schema
	traitDynamicSQL                             // prepare s from '…'; execute immediate '…'
	traitNoWhere                                // delete from t; update t set a=1
	traitFullRead                               // select * from t: no WHERE, no LIMIT, no GROUP BY
	traitCommentInWord                          // union/**/select
	traitLiteralComparison                      // where a=5 or 1=1; or 'x'; or true
	traitExecutableComment                      // /*!50000 select */ 1
	traitTrailingComment                        // select a from t where b='' -- '
	traitSystemVariable                         // select @@version
	traitXMLFunction                            // select extractvalue(1, concat(0x7e, version())); also updatexml()
	traitCharFunction                           // select char(65, 66)
)

var traitNames = [...]string{"union", "stacked", "sleep", "file_read", "file_write", "metadata_schema", "dynamic_sql",
	"no_where", "full_read", "comment_in_word", "literal_comparison", "executable_comment", "trailing_comment",
	"system_variable", "xml_function", "char_function"}

// names appends the names of the traits.
func (t traitSet) names(dst []string) []string {
	for i, name := range traitNames {
		if t&(1<<i) != 0 {
			dst = append(dst, name)
		}
	}
	return dst
}

// traits are those of the text that was read, which holds so many statements.
func (s *scan) traits(statements int) traitSet {
	var t traitSet
	set := func(has bool, trait traitSet) {
		if has {
			t |= trait
		}
	}
	set(statements > 1, traitStacked)
	set(s.inWord, traitCommentInWord)
	set(s.executable, traitExecutableComment)
	set(s.trailing, traitTrailingComment)
	for i := range s.tokens {
		t |= s.traitAt(i)
	}
	for from := 0; from < len(s.tokens); {
		end := s.statementEnd(from)
		t |= s.reach(from, end)
		from = end + 1
	}
	return t
}

// traitAt is what token i gives.
func (s *scan) traitAt(i int) traitSet {
	switch s.tokens[i].kind {
	case tokenSystem:
		if !s.is(i-1, wordSet) && s.at(i-1).punct != ',' || s.at(i+1).kind != tokenCompare {
			return traitSystemVariable
		}
	case tokenCompare:
		if isLiteral(s.at(i-1)) && isLiteral(s.at(i+1)) && !s.calculates(i-2) {
			return traitLiteralComparison
		}
	case tokenWord:
		return s.traitOfWord(i)
	case tokenName:
		if s.at(i+1).punct == '.' && wordOf([]byte(s.name(i))) == wordMetadata && s.tablePlace(i) {
			return traitMetadataSchema
		}
		if s.opens(i+1) && !s.namesObject(i) {
			return traitOfCall(wordOf([]byte(s.name(i))))
		}
	}
	return 0
}

// traitOfCall is what a call of the function w gives. MariaDB and MySQL take its name
// in backticks too, but not that of CHAR, which is a keyword.
// https://mariadb.com/kb/en/function-name-resolution/
func traitOfCall(w word) traitSet {
	switch w {
	case wordSleep, wordBenchmark:
		return traitSleep
	case wordLoadFile:
		return traitFileRead
	case wordExtractvalue, wordUpdatexml:
		return traitXMLFunction
	}
	return 0
}

// namesObject tells whether the name at i, behind which a parenthesis opens, is that of a
// table, an index or another object with its columns, and no function.
func (s *scan) namesObject(i int) bool {
	for s.at(i-1).punct == '.' {
		i -= 2
	}
	switch s.at(i - 1).word {
	case wordInto, wordTable, wordExists, wordReferences, wordKey, wordIndex, wordInsert, wordReplace, wordIgnore, wordDelayed,
		wordLowPriority, wordHighPriority, wordView, wordWith, wordProcedure, wordFunction, wordTrigger, wordCall, wordAs:
		return true
	case wordOn:
		return !s.fromBefore(i) // CREATE INDEX i ON t (a)
	}
	return false
}

func (s *scan) traitOfWord(i int) traitSet {
	call := s.opens(i + 1)
	if call {
		if t := traitOfCall(s.tokens[i].word); t != 0 {
			return t
		}
	}
	switch s.tokens[i].word {
	case wordUnion:
		if s.at(i+1).kind != tokenCompare {
			return traitUnion
		}
	case wordInfile:
		if !s.is(i-1, wordLocal) {
			return traitFileRead
		}
	case wordOutfile, wordDumpfile:
		if s.is(i-1, wordInto) {
			return traitFileWrite
		}
	case wordMetadata:
		if s.at(i+1).punct == '.' && s.tablePlace(i) || s.is(i-1, wordUse) {
			return traitMetadataSchema
		}
	case wordPrepare:
		if s.is(i+2, wordFrom) {
			return traitDynamicSQL
		}
	case wordExecute:
		if s.is(i+1, wordImmediate) {
			return traitDynamicSQL
		}
	case wordChar:
		if call && isLiteral(s.at(i+2)) && s.charCall(i) {
			return traitCharFunction
		}
	case wordLike:
		if isLiteral(s.at(i-1)) && isLiteral(s.at(i+1)) && !s.calculates(i-2) {
			return traitLiteralComparison
		}
	case wordOr, wordXor:
		if s.isTruth(i + 1) {
			return traitLiteralComparison
		}
	}
	return 0
}

// charCall tells whether CHAR at i is the function and no type: types stand behind
// a name, AS or a comma of CONVERT.
func (s *scan) charCall(i int) bool {
	before := s.at(i - 1)
	return !canName(before) && before.word != wordAs
}

// tablePlace tells whether a schema may be named at i: the names of schemas such as
// sys are also those of columns and aliases.
func (s *scan) tablePlace(i int) bool {
	if t := s.at(i); t.end-t.start > int32(len("`mysql`")) {
		return true // information_schema, performance_schema
	}
	switch before := s.at(i - 1); before.word {
	case wordFrom, wordJoin, wordInto, wordUpdate, wordTable, wordOn, wordStraightJoin, wordTables, wordTruncate, wordCall, wordDesc, wordDescribe:
		return true
	default:
		return before.punct == ',' && s.at(i+3).punct != '=' && s.fromBefore(i)
	}
}

// fromBefore tells whether the list that i is in began with FROM.
func (s *scan) fromBefore(i int) bool {
	for i, least := i-1, i-maxLookBack; i >= max(least, 0); i-- {
		switch s.at(i).word {
		case wordFrom, wordJoin, wordUpdate:
			return true
		case wordSelect, wordWhere, wordSet, wordBy:
			return false
		}
	}
	return false
}

// isTruth tells whether the literal at i is a whole condition, as in OR 1.
func (s *scan) isTruth(i int) bool {
	if !isLiteral(s.at(i)) && !s.is(i, wordTrue) {
		return false
	}
	after := s.at(i + 1)
	if i+1 >= len(s.tokens) || after.punct == ')' || after.punct == ';' {
		return true
	}
	switch after.word {
	case wordAnd, wordOr, wordXor, wordLimit, wordOrder, wordGroup, wordUnion:
		return true
	}
	return false
}

func isLiteral(t token) bool { return t.kind == tokenText || t.kind == tokenNumber }

// calculates tells whether token i is an operator, so that the literal behind it is
// only a part of what is compared.
func (s *scan) calculates(i int) bool {
	switch p := s.at(i).punct; p {
	case '+', '-', '*', '/', '%', '^', '.':
		return i >= 0
	case '|', '&':
		return i >= 0 && s.at(i-1).punct != p // || and && are none
	}
	return s.at(i).kind == tokenCompare
}

// statementEnd is the index of the `;` that ends the statement that begins at from.
func (s *scan) statementEnd(from int) int {
	for i := from; i < len(s.tokens); i++ {
		if s.tokens[i].punct == ';' {
			return i
		}
	}
	return len(s.tokens)
}

// reach tells whether the statement [from, end) changes or reads all of a table.
func (s *scan) reach(from, end int) traitSet {
	verb, star, bounded, where, reads, depth := wordNone, false, false, false, false, 0
	for i := from; i < end; i++ {
		t := s.tokens[i]
		switch t.punct {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth != 0 {
			continue
		}
		switch t.word {
		case wordSelect, wordUpdate, wordDelete:
			if verb == wordNone && (i == from || s.is(from, wordWith) || s.is(from, wordExplain)) {
				verb = t.word
			} else if t.word == wordSelect {
				bounded = true // UNION, or no plain statement
			}
			star = star || s.selectsAll(i)
		case wordWhere:
			where = true
		case wordLimit, wordGroup, wordHaving:
			bounded = true
		case wordFrom:
			reads = !s.is(i+1, wordDual) && !s.opens(i+1) && !s.opens(i+2)
		}
	}
	switch {
	case (verb == wordUpdate || verb == wordDelete) && !where:
		return traitNoWhere
	case verb == wordSelect && star && reads && !where && !bounded:
		return traitFullRead
	}
	return 0
}

// selectsAll tells whether the SELECT at i takes all columns.
func (s *scan) selectsAll(i int) bool {
	for i++; s.at(i).word == wordSQL || s.at(i).word == wordDistinct || s.at(i).word == wordHighPriority || s.at(i).word == wordStraightJoin; i++ {
	}
	if s.at(i+1).punct == '.' && canName(s.at(i)) {
		i += 2
	}
	return s.at(i).punct == '*'
}
