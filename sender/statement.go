package sender

import (
	"slices"

	"sqlwitness/stream"
)

// A phase says what the next word of a statement decides.
type phase uint8

const (
	phaseVerb      phase = iota // nothing but comments and parentheses so far
	phaseObject                 // the verb waits for its object
	phaseCTE                    // WITH waits for the verb behind the common table expressions
	phaseSet                    // SET: the first word behind it
	phaseStatement              // SET STATEMENT … FOR waits for FOR
	phaseDone
)

// A grammar says which words matter once the verb and its object are known.
type grammar uint8

const (
	grammarPlain   grammar = iota // none
	grammarAccount                // account names, credentials
	grammarShow                   // SHOW: GRANTS FOR and CREATE USER are followed by an account
	grammarSet                    // assignments
	grammarPrepare                // the text behind FROM or IMMEDIATE is SQL
	grammarBody                   // a stored program: `;` does not end the statement
	grammarOptions                // options, of which PASSWORD and those that end in it are credentials
)

// A statement is what the lexer remembers of the statement it is in.
type statement struct {
	phase   phase
	grammar grammar
	command sqlCommand
	// watch: words and punctuation matter. Otherwise they are stepped over, which
	// is what happens in nearly all statements behind the verb.
	watch bool
	seen  bool // it is not empty
	depth int  // open parentheses, while watched
	base  int  // depth at WITH

	last keyword // the word before, where it matters and nothing else stands in between

	// Accounts and credentials.
	expect     bool // the next token may be an account name
	definer    bool // DEFINER was read: an account follows '='
	list       bool // a comma may separate account names
	proxy      bool // GRANT PROXY ON account
	credential uint8
	roles      int               // accounts found before this statement
	lacked     stream.EventFlags // FlagAccountsCut, if it was set before

	keepNumbers uint8
	prepare     bool       // a string here is SQL
	runs        sqlCommand // the most privileged statement in the string of EXECUTE IMMEDIATE, or PREPARE
	body        bodyNesting
	block       blockStatements // of a body that is run, not stored

	secret      bool // it handles credentials
	mysqlSchema bool

	ownModes bool // SET STATEMENT: what it runs may be read in another mode than it itself
	uncalled bool // it stands behind a `;` of a server that takes one statement: never run
}

// The values of statement.credential.
const (
	credentialNone     uint8 = iota
	credentialNear           // IDENTIFIED WITH was read, or VIA
	credentialExpected       // the next word or literal is one
)

// The values of statement.keepNumbers. A number is kept where it is the value of the
// variable, or a part of it: '=' and, behind it, numbers with operators between them.
const (
	keepNone     uint8 = iota
	keepSetting        // SET GLOBAL or PERSIST was read: its variable follows
	keepValue          // a number
	keepOperator       // an operator, behind a number
)

func newStatement() statement { return statement{watch: true} }

// literal notes a literal: a statement does not begin with one.
func (st *statement) literal() {
	st.block.definer = false
	st.other()
}

// other notes something that is no word: what a word before it announced does not
// stand behind it.
func (st *statement) other() {
	st.seen, st.expect, st.definer, st.prepare, st.last = true, false, false, false, kwNone
	if st.phase == phaseVerb || st.phase == phaseSet {
		st.phase = phaseDone
	}
}

// operator notes an arithmetic operator or a point.
func (st *statement) operator() {
	st.expect, st.definer, st.last = false, false, kwNone
	if st.keepNumbers == keepOperator {
		st.keepNumbers = keepValue
	}
}

func (st *statement) isDDL() bool {
	return st.command.verb == kwCreate || st.command.verb == kwAlter
}

// settle decides whether the rest of the statement must be watched.
func (x *lexer) settle() {
	st := &x.st
	st.watch = x.secretsOnly || st.phase != phaseDone || st.grammar != grammarPlain
}

// name handles the unquoted or quoted name [i, j) and returns where to go on: j,
// or behind the host of an account.
func (x *lexer) name(s []byte, i, j int) int {
	st := &x.st
	st.seen = true
	k := kwNone
	quoted := s[i] == '`' || s[i] == '"'
	if !quoted {
		k = lookup(s[i:j])
	}
	if x.secretsOnly {
		if quoted {
			x.secretWord(lookup(s[i+1:j-1]), s[i+1:j-1])
		} else {
			x.secretWord(k, s[i:j])
		}
	}
	switch {
	case st.credential == credentialExpected:
		return x.credentialWord(s, i, j, k)
	case st.expect && st.phase == phaseObject:
		return x.definerWord(s, i, j, k)
	case st.grammar == grammarAccount:
		return x.accountWord(s, i, j, k)
	case st.phase != phaseDone:
		x.advance(k)
	case st.grammar == grammarOptions:
		x.optionWord(k, s[i:j])
	default:
		x.grammarWord(k, s[i:j])
	}
	return j
}

// advance takes the word k on the way to the verb and its object.
func (x *lexer) advance(k keyword) {
	st := &x.st
	switch st.phase {
	case phaseVerb:
		x.verb(k)
	case phaseObject:
		x.object(k)
	case phaseCTE:
		if st.depth <= st.base && isDML(k) {
			x.verb(k)
		}
	case phaseStatement:
		if k == kwFor && st.depth == 0 {
			st.phase, st.command, st.ownModes = phaseVerb, sqlCommand{}, true
		}
	case phaseSet:
		x.setWord(k)
	}
	x.settle()
}

// verb takes the first word of a statement.
func (x *lexer) verb(k keyword) {
	st := &x.st
	if k == kwDeclare {
		st.phase = phaseDone
		x.block()
		st.block.fresh, st.body.declares = false, true
		return
	}
	if !isVerb(k) {
		st.phase = phaseDone
		return
	}
	st.command = sqlCommand{verb: k}
	switch k {
	case kwWith:
		st.phase, st.base = phaseCTE, st.depth
	case kwCreate, kwAlter, kwDrop, kwRename, kwAnalyze, kwOptimize, kwRepair, kwCheck, kwChecksum, kwImport, kwLoad, kwCache,
		kwLock, kwUnlock, kwStart, kwStop, kwChange, kwInstall, kwUninstall, kwRelease, kwDeallocate, kwExecute, kwBegin:
		st.phase = phaseObject
	case kwSet:
		st.phase, st.grammar = phaseSet, grammarSet
	case kwGrant, kwRevoke:
		st.phase, st.grammar, st.expect, st.list = phaseDone, grammarAccount, true, true
		st.roles, st.lacked = len(x.accounts), x.lacks&stream.FlagAccountsCut
	case kwShow:
		st.phase, st.grammar, st.last = phaseDone, grammarShow, kwShow
	case kwPrepare:
		st.phase, st.grammar, st.last = phaseDone, grammarPrepare, kwPrepare
	case kwClone:
		st.phase, st.grammar = phaseDone, grammarAccount
	case kwIf, kwCase, kwLoop, kwWhile, kwRepeat, kwFor:
		st.phase, st.grammar = phaseDone, grammarBody
		st.body.open, st.block.fresh = 1, true
	default:
		st.phase = phaseDone
	}
}

// block begins an anonymous block. MariaDB takes one that begins with BEGIN or DECLARE
// with sql_mode=ORACLE; on others that is no statement.
// https://mariadb.com/kb/en/sql_modeoracle/
func (x *lexer) block() {
	st := &x.st
	st.phase, st.command = phaseDone, sqlCommand{kwBegin, kwNot}
	st.grammar, st.body.open, st.block.fresh = grammarBody, 1, true
}

// object takes a word behind a verb that has an object.
func (x *lexer) object(k keyword) {
	st := &x.st
	verb := st.command.verb
	if k == kwDefiner && (verb == kwCreate || verb == kwAlter) {
		st.definer = true
		return
	}
	st.definer = false
	object, ok, skip := objectOf(verb, k)
	if !ok {
		switch {
		case skip:
		case verb == kwAnalyze && (isDML(k) || k == kwWith):
			x.verb(k) // MariaDB: ANALYZE runs the statement
		case verb == kwAnalyze && (k == kwFormat || k == kwJSON || k == kwNone):
		case verb == kwBegin && k != kwWork:
			x.block() // BEGIN statement, without NOT ATOMIC
			x.grammarWord(k, nil)
		default:
			st.phase = phaseDone
		}
		return
	}
	st.phase, st.command.object = phaseDone, object
	switch object {
	case kwUser, kwRole:
		st.grammar, st.expect, st.list = grammarAccount, true, true
	case kwProcedure, kwFunction, kwTrigger, kwEvent, kwPackage:
		if verb != kwDrop {
			st.grammar = grammarBody
			st.body.packageBody(object)
		}
	case kwNot:
		x.block()
	case kwMaster, kwSlave, kwGroupReplication, kwServer:
		st.grammar = grammarOptions
	case kwImmediate:
		st.grammar, st.prepare = grammarPrepare, true
	}
}

// grammarWord takes the word k, spelled w, behind the verb and its object.
func (x *lexer) grammarWord(k keyword, w []byte) {
	st := &x.st
	switch st.grammar {
	case grammarSet:
		if st.keepNumbers != keepSetting {
			st.keepNumbers = keepNone
		}
	case grammarShow:
		x.showWord(k)
	case grammarPrepare:
		st.prepare = k == kwFrom && st.last == kwStatement
		if st.last == kwPrepare {
			st.last = kwStatement // its name
		} else {
			st.last = kwNone
		}
	case grammarBody:
		st.body.word(k)
		if !st.isDDL() {
			st.block.word(k)
		}
		x.bodyCredential(k, w)
	}
}

// showWord takes a word of SHOW: of its objects two are accounts, and only they are
// watched further.
func (x *lexer) showWord(k keyword) {
	st := &x.st
	last := st.last
	st.last = k
	switch {
	case last == kwShow && (k == kwCreate || k == kwGrants):
	case last == kwCreate && k == kwUser, last == kwGrants && k == kwFor:
		st.grammar, st.expect = grammarAccount, true
	default:
		st.grammar = grammarPlain
		x.settle()
	}
}

// punct takes a punctuation byte of a watched statement.
func (x *lexer) punct(c byte) {
	st := &x.st
	definer := st.definer
	st.expect, st.definer, st.last = false, false, kwNone
	switch c {
	case '(':
		st.depth++
		st.body.paren()
		st.block.paren()
	case ')':
		st.depth = max(st.depth-1, 0)
	case ',':
		if st.depth > 0 {
			return
		}
		st.block.assignment(true)
		if st.expect = st.list; st.expect {
			st.credential = credentialNone
		}
		if st.command == setPassword {
			st.grammar = grammarSet
		}
		if st.grammar == grammarSet && st.phase != phaseVerb {
			st.phase, st.keepNumbers = phaseSet, keepNone
		}
	case '=':
		st.block.assignment(false)
		st.expect = definer
		if st.grammar == grammarAccount && st.command == setPassword || st.grammar == grammarBody && st.block.command == setPassword {
			st.credential = credentialExpected
		}
		if st.keepNumbers == keepSetting {
			st.keepNumbers = keepValue
		} else {
			st.keepNumbers = keepNone
		}
	case ':': // := is =
	case '+', '%':
		st.operator()
	default:
		st.keepNumbers = keepNone
	}
}

// semicolon ends a statement, unless it stands inside a stored program. A server
// that does not take several refuses what stands behind it, and it is no statement,
// but lexed like one: nothing that is kept before the `;` is kept behind it.
func (x *lexer) semicolon() {
	st := &x.st
	if st.grammar == grammarBody && st.body.semicolon() {
		st.block.next()
		st.credential, st.last = credentialNone, kwNone
		return
	}
	x.endStatement()
	secret := st.secret
	x.st = newStatement()
	if !x.multi && !x.nested && x.found > 0 {
		x.st.uncalled, x.st.secret = true, secret
	}
}

// list lists a statement. Behind the first maxListed only those of a kind that is not
// listed yet are: what kinds there are is always known.
func (x *lexer) list(c sqlCommand) {
	if len(x.commands) < maxListed || !slices.Contains(x.commands, c) {
		x.commands = append(x.commands, c)
	}
}

// endStatement lists the statement and decides which of its spans count.
func (x *lexer) endStatement() {
	st := &x.st
	st.secret = st.secret || st.command.verbHandlesSecrets()
	x.anySecrets = x.anySecrets || st.secret
	if x.nested {
		x.noStatement = x.noStatement || st.seen && st.command.verb == kwNone
		st.block.next()
		for _, c := range [...]sqlCommand{st.command, st.block.top[0], st.block.top[1]} {
			if c.rank() > x.inner.rank() || x.inner.verb == kwNone {
				x.inner = c
			}
		}
		return
	}
	if st.seen && !st.uncalled {
		x.found++
		x.list(st.command)
		st.block.next()
		for _, c := range [...]sqlCommand{st.runs, st.block.top[0], st.block.top[1]} {
			if c.verb != kwNone {
				x.list(c)
			}
		}
	}
	if x.secretsOnly {
		for i := x.firstSpan; i < len(x.spans); i++ {
			if sp := &x.spans[i]; sp.kind == spanNumber || sp.kind == spanText && !st.secret {
				sp.kind = spanShown
			}
		}
	}
	if x.blind && st.secret {
		x.spans[len(x.spans)-1].kind = spanAlways
	}
	x.firstSpan = len(x.spans)
}
