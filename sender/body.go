package sender

// A bodyNesting follows the blocks of a stored program, to know which `;` ends
// the statement that creates it. Where it is wrong, statements are counted
// wrong; masking does not depend on it.
// https://dev.mysql.com/doc/refman/8.4/en/sql-compound-statements.html
type bodyNesting struct {
	open    int
	last    keyword // the word before
	cond    keyword // IF or WHEN that waits for THEN
	loop    keyword // WHILE or FOR that waits for DO
	pkg     bool    // AS or IS opens the body
	pending bool    // REPEAT was read: a block, unless '(' follows
	// declares: a block of sql_mode=ORACLE began with DECLARE. Its BEGIN opens no other.
	declares bool
}

// packageBody notes what is created.
func (b *bodyNesting) packageBody(object keyword) { b.pkg = object == kwPackage }

// word takes the next word.
func (b *bodyNesting) word(k keyword) {
	b.settle()
	last := b.last
	b.last = k
	if last == kwEnd && closesNamed(k) {
		return // END IF and the like
	}
	switch k {
	case kwBegin, kwCase, kwLoop:
		if k != kwBegin || !b.declares {
			b.open++
		}
		b.declares, b.loop = b.declares && k != kwBegin, kwNone
	case kwAs, kwIs:
		if b.pkg {
			b.open++
			b.pkg = false
		}
	case kwEnd:
		b.open = max(b.open-1, 0)
	case kwRepeat:
		b.pending = true
	case kwIf, kwElseif, kwWhen:
		if b.cond != kwWhen {
			b.cond = k
		}
	case kwThen:
		if b.cond == kwIf {
			b.open++
		}
		b.cond = kwNone
	case kwWhile, kwFor:
		b.loop = k
	case kwEach:
		b.loop = kwNone
	case kwDo:
		if b.loop != kwNone {
			b.open++
			b.loop = kwNone
		}
	}
}

// paren takes an opening parenthesis.
func (b *bodyNesting) paren() { b.pending = false }

// settle opens the block of a REPEAT that was no function.
func (b *bodyNesting) settle() {
	if b.pending {
		b.open++
		b.pending = false
	}
}

// semicolon tells whether a `;` here belongs to the body.
func (b *bodyNesting) semicolon() bool {
	b.settle()
	b.last, b.cond, b.loop = kwNone, kwNone, kwNone
	return b.open > 0
}

// closesNamed tells whether END k closes a block.
func closesNamed(k keyword) bool {
	switch k {
	case kwIf, kwCase, kwLoop, kwWhile, kwRepeat, kwFor:
		return true
	}
	return false
}

// What an anonymous block holds is run at once, and counts beside the block itself
// where it may do more. Of a block that is only stored nothing is run.
type blockStatements struct {
	fresh   bool // the next verb begins a statement
	object  bool // the statement's verb waits for its object
	definer bool // DEFINER was read: an account follows, no object
	command sqlCommand
	top     [2]sqlCommand // the first that changes a definition, and the first about accounts
}

// word takes the next word of the block.
func (n *blockStatements) word(k keyword) {
	switch {
	case n.definer:
		n.definer = false
	case n.object && k == kwDefiner:
		n.definer = true
	case n.object:
		object, ok, skip := objectOf(n.command.verb, k)
		if n.command.verb == kwSet {
			object, ok, skip = k, k == kwPassword || k == kwRole || k == kwStatement, k == kwDefault
		}
		if ok {
			n.command.object = object
		}
		n.object = !ok && skip
	case n.fresh && isVerb(k) && !closesNamed(k):
		n.command, n.fresh, n.object = sqlCommand{verb: k}, false, true
	}
	switch k {
	case kwBegin, kwThen, kwElse, kwDo, kwLoop, kwRepeat:
		n.next()
	case kwFor:
		if n.command.verb == kwHandler || n.command.object == kwStatement {
			n.next() // DECLARE … HANDLER FOR condition statement; SET STATEMENT … FOR statement
		}
	}
}

// paren takes an opening parenthesis: behind TRUNCATE it makes a function of it.
func (n *blockStatements) paren() {
	if n.object && n.command.verb == kwTruncate {
		n.command, n.object = sqlCommand{}, false
	}
}

// assignment tells whether the next word may say what SET sets.
func (n *blockStatements) assignment(begins bool) {
	if n.command == (sqlCommand{verb: kwSet}) {
		n.object = begins
	}
}

// next ends a statement of the block.
func (n *blockStatements) next() {
	if r := n.command.rank(); r >= rankDDL && n.top[r-rankDDL].verb == kwNone {
		n.top[r-rankDDL] = n.command
	}
	n.command, n.object, n.definer, n.fresh = sqlCommand{}, false, false, true
}
