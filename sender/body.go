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
		b.open++
		b.loop = kwNone
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
