package sender

import "strings"

// skip steps over the words that may stand before a table's name.
func (g *guess) skip(i int) int {
	for {
		switch g.s.at(i).word {
		case wordIf, wordNot, wordExists, wordLowPriority, wordHighPriority, wordDelayed, wordIgnore, wordQuick, wordOnly, wordTable,
			wordLocal, wordLateral, wordProcedure, wordFunction:
			i++
		default:
			return i
		}
	}
}

// list takes a table's name at i, and those behind it in a list with commas.
func (g *guess) list(i int, write bool) {
	s, open := g.s, 0
	for from := i; ; from = i {
		if g.steps >= maxTokens {
			g.cut = true
			return
		}
		i = g.skip(i)
		if !s.subquery(i) {
			for ; s.opens(i); i++ {
				open++
			}
		}
		if s.opens(i) {
			from := i
			i = s.behindGroup(i)
			g.steps += i - from
		} else {
			n, end, ok := s.qualified(i)
			if !ok {
				return
			}
			// A name before a parenthesis is a function, unless columns may follow it.
			if !s.opens(end) || write || g.verb == wordCreate || g.verb == wordCall {
				g.named(n, write)
			}
			i = end
		}
		for i = s.behindAlias(i); open > 0 && s.at(i).punct == ')'; i++ {
			open--
		}
		if s.at(i).punct != ',' {
			return
		}
		i++
		g.steps += i - from
	}
}

// subquery tells whether the parenthesis at i opens one.
func (s *scan) subquery(i int) bool {
	for ; s.opens(i); i++ {
	}
	w := s.at(i).word
	return w == wordSelect || w == wordWith || w == wordValues
}

// behindGroup is the index behind the parenthesis that closes the one at i.
func (s *scan) behindGroup(i int) int {
	for depth := 0; i < len(s.tokens); i++ {
		switch s.tokens[i].punct {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return i
}

func (g *guess) named(n tableName, write bool) {
	if n.schema == "" {
		low := strings.ToLower(n.name)
		for _, c := range g.ctes {
			if c == low {
				return
			}
		}
		if low == "dual" {
			return
		}
	}
	g.add(n, write)
}

// canName tells whether t can name something.
func canName(t token) bool {
	return t.kind == tokenName || t.kind == tokenWord && !t.word.reserved()
}

// qualified is the name, with or without a schema, that begins at i.
func (s *scan) qualified(i int) (n tableName, end int, ok bool) {
	if !canName(s.at(i)) {
		return n, i, false
	}
	n.name = s.name(i)
	if s.at(i+1).punct != '.' {
		return n, i + 1, true
	}
	if k := s.at(i + 2).kind; k != tokenWord && k != tokenName && k != tokenNumber {
		return n, i, false // schema.*
	}
	return tableName{n.name, s.name(i + 2)}, i + 3, true
}

// behindAlias steps over [AS] alias, and the lock that LOCK TABLES names.
func (s *scan) behindAlias(i int) int {
	if s.is(i, wordAs) {
		i++
	}
	for range 2 {
		if canName(s.at(i)) {
			i++
		}
	}
	return i
}

// reserved tells whether w cannot name a table or an alias unless it is quoted.
func (w word) reserved() bool {
	switch w {
	case wordAnd, wordAs, wordBy, wordCall, wordCheck, wordCreate, wordCross, wordDelete, wordDistinct, wordDrop, wordExcept, wordExists,
		wordFor, wordForce, wordFrom, wordGrant, wordGroup, wordHaving, wordIf, wordIgnore, wordIn, wordIndex, wordInner,
		wordInsert, wordIntersect, wordInto, wordJoin, wordKey, wordLateral, wordLeft, wordLike, wordLimit, wordLoad, wordLock,
		wordNatural, wordNot, wordOn, wordOr, wordOrder, wordOutfile, wordDumpfile, wordPartition, wordReferences, wordReplace,
		wordReturning, wordRight, wordSelect, wordSet, wordShow, wordStraightJoin, wordTable, wordTo, wordUnion, wordUpdate,
		wordUse, wordUsing, wordValue, wordValues, wordWhere, wordWindow, wordWith, wordXor:
		return true
	}
	return false
}
