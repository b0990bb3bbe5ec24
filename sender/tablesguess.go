package sender

import "strings"

// guessTables finds the tables of a statement by the words before them, for what
// no parser takes: SELECT … INTO OUTFILE, HANDLER, triggers, RETURNING, much of
// MariaDB's syntax, and text that was cut off. It takes rather a name too many
// than one too few.
func (s *scan) guessTables() touched {
	g := guess{s: s}
	g.cut = s.cut
	g.commonTables()
	for i := 0; i < len(s.tokens); i++ {
		t := s.tokens[i]
		switch {
		case t.punct == '(':
			g.open(i)
		case t.punct == ')':
			g.close()
		case t.punct == ';':
			g.verb = wordNone
		case t.kind == tokenWord:
			if g.verb == wordNone {
				g.verb = t.word
				if g.verb == wordNone {
					g.verb = wordDo // some verb that does not matter
				}
			}
			g.word(i, t.word)
		}
	}
	return g.touched
}

// maxLookBack bounds how far back from a word its meaning is looked for.
const maxLookBack = 256

// A guess is how far guessTables has come.
type guess struct {
	touched
	s         *scan
	verb      word     // of the statement
	ctes      []string // common table expressions
	functions []bool   // for every open parenthesis: FROM inside belongs to a function
	steps     int      // tokens that lists have gone over, which bounds the work
}

// commonTables collects the names of common table expressions: name [(…)] AS (.
func (g *guess) commonTables() {
	s, with := g.s, false
	for i := range s.tokens {
		with = with || s.is(i, wordWith)
		if !with || !s.is(i, wordAs) || !s.opens(i+1) || i == 0 {
			continue
		}
		k := i - 1
		if s.at(k).punct == ')' {
			for k > 0 && !s.opens(k) {
				k--
			}
			k--
		}
		if canName(s.at(k)) {
			g.ctes = append(g.ctes, strings.ToLower(s.name(k)))
		}
	}
}

func (g *guess) open(i int) {
	w := g.s.at(i - 1).word
	g.functions = append(g.functions, w == wordExtract || w == wordSubstring)
}

func (g *guess) close() {
	if n := len(g.functions); n > 0 {
		g.functions = g.functions[:n-1]
	}
}

// word takes the word w at i.
func (g *guess) word(i int, w word) {
	before := g.s.at(i - 1).word
	switch w {
	case wordFrom:
		g.from(i)
	case wordJoin, wordStraightJoin:
		g.list(i+1, false)
	case wordInto:
		g.into(i)
	case wordUpdate:
		if before != wordKey && before != wordFor && before != wordOn && before != wordBefore && before != wordAfter {
			g.list(i+1, true)
		}
	case wordReplace, wordInsert:
		if g.verb == w && before == wordNone {
			g.into(i)
		}
	case wordTable, wordTables, wordView:
		g.definition(i)
	case wordTruncate, wordDesc, wordDescribe, wordCall, wordHandler:
		if before == wordNone && !g.s.is(i+1, wordTable) && (w != wordHandler || g.verb == w) && (w == g.verb || w == wordTruncate || w == wordCall) {
			g.list(i+1, w == wordTruncate)
		}
	case wordReferences:
		g.list(i+1, false)
	case wordUsing:
		if g.verb == wordDelete && !g.s.opens(i+1) {
			g.list(i+1, false)
		}
	case wordOn:
		if g.verb == wordCreate || g.verb == wordDrop || g.verb == wordGrant || g.verb == wordRevoke || g.verb == wordAlter {
			g.on(i)
		}
	case wordTo:
		if g.verb == wordRename {
			g.list(i+1, true)
		}
	}
}

// from takes FROM, which names schemas in some forms of SHOW.
func (g *guess) from(i int) {
	s := g.s
	if n := len(g.functions); n > 0 && g.functions[n-1] {
		return
	}
	if g.verb == wordShow {
		for k := max(i-maxLookBack, 0); k < i; k++ {
			if w := s.at(k).word; w == wordTables || w == wordSchemaOf || w == wordFrom {
				return
			}
		}
	}
	if g.verb == wordRevoke || g.verb == wordPrepare || g.verb == wordExecute {
		return
	}
	g.list(i+1, g.deletes(i))
}

// deletes tells whether FROM at i names what is deleted from: no SELECT stands
// between it and DELETE.
func (g *guess) deletes(i int) bool {
	least := max(i-maxLookBack, 0)
	for k := i - 1; k >= least; k-- {
		switch g.s.at(k).word {
		case wordDelete:
			return true
		case wordSelect, wordFrom:
			return false
		}
	}
	g.cut = g.cut || least > 0 && g.verb == wordDelete
	return false
}

// into takes INTO, or the verb that it may be left out behind. Behind SELECT it
// names variables and files.
func (g *guess) into(i int) {
	s, k := g.s, g.skip(i+1)
	if s.is(k, wordInto) {
		return
	}
	if s.is(i, wordInto) && !s.is(i+1, wordTable) {
		switch s.at(i - 1).word {
		case wordInsert, wordReplace, wordMerge, wordLowPriority, wordHighPriority, wordDelayed, wordIgnore:
		default:
			return
		}
	}
	g.list(k, true)
}

// definition takes TABLE or VIEW.
func (g *guess) definition(i int) {
	write := false
	switch g.verb {
	case wordCreate, wordAlter, wordDrop, wordRename, wordTruncate, wordLoad, wordInsert, wordReplace:
		write = true
	case wordShow:
		if !g.s.is(i-1, wordCreate) {
			return
		}
	}
	g.list(i+1, write)
}

// on takes ON, which stands before the table of a trigger, an index or a
// privilege, but also in the conditions of joins.
func (g *guess) on(i int) {
	s := g.s
	if s.opens(i+2) && g.verb != wordCreate || s.at(i+2).kind == tokenCompare || s.at(i+4).kind == tokenCompare {
		return
	}
	if w := s.at(i + 1).word; w == wordDelete || w == wordUpdate {
		return // of a foreign key
	} else if w == wordSchedule {
		return // of an event
	}
	g.list(i+1, false)
}
