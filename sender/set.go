package sender

// setWord takes the first word of an assignment.
// https://dev.mysql.com/doc/refman/8.4/en/set-variable.html
func (x *lexer) setWord(k keyword) {
	st := &x.st
	if st.phase != phaseSet || k == kwStatement && st.command.object != kwNone {
		return
	}
	st.phase = phaseDone
	switch k {
	case kwStatement:
		st.phase, st.grammar = phaseStatement, grammarPlain
	case kwGlobal, kwPersist, kwPersistOnly:
		st.keepNumbers = keepSetting
	case kwPassword:
		st.command.object, st.grammar = kwPassword, grammarAccount
	case kwRole:
		st.command.object, st.grammar, st.expect, st.list = kwRole, grammarAccount, true, true
	case kwDefault:
		st.phase = phaseSet // SET DEFAULT ROLE
	case kwResource, kwTransaction:
		if st.command.object == kwNone {
			st.command.object = k
		}
	}
}

// systemVariable takes what stands behind "@@": a scope or a name.
func (x *lexer) systemVariable(name []byte) {
	st := &x.st
	first := st.phase == phaseSet
	st.other()
	if !first {
		return
	}
	switch lookup(name) {
	case kwGlobal, kwPersist, kwPersistOnly:
		st.keepNumbers = keepSetting
	}
}
