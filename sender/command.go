package sender

// A sqlCommand names a kind of statement: a verb and, where the verb has several,
// its object. create and table are create_table. The zero value is "other".
type sqlCommand struct{ verb, object keyword }

// The names that are not verb_object in the words of the statement.
var commandNames = map[sqlCommand]string{
	{kwStart, kwTransaction}: "begin", {kwBegin, kwNot}: "compound", {kwDesc, kwNone}: "explain", {kwDescribe, kwNone}: "explain",
	{kwValues, kwNone}: "select", {kwTable, kwNone}: "select", {kwWith, kwNone}: "select",
	{kwCreate, kwReference}: "create_spatial_reference_system", {kwDrop, kwReference}: "drop_spatial_reference_system",
	{kwCreate, kwLogfile}: "create_logfile_group", {kwAlter, kwLogfile}: "alter_logfile_group", {kwDrop, kwLogfile}: "drop_logfile_group",
	{kwCreate, kwResource}: "create_resource_group", {kwAlter, kwResource}: "alter_resource_group", {kwDrop, kwResource}: "drop_resource_group",
	{kwSet, kwResource}: "set_resource_group", {kwLock, kwTable}: "lock_tables", {kwUnlock, kwTable}: "unlock_tables",
	{kwGet, kwNone}: "get_diagnostics", {kwIf, kwNone}: "compound", {kwCase, kwNone}: "compound", {kwLoop, kwNone}: "compound",
	{kwWhile, kwNone}: "compound", {kwRepeat, kwNone}: "compound", {kwFor, kwNone}: "compound",
}

// appendTo appends the value of the event's `sql_command` field.
func (c sqlCommand) appendTo(dst []byte) []byte {
	if c.verb == kwNone {
		return append(dst, "other"...)
	}
	if name, ok := commandNames[c]; ok {
		return append(dst, name...)
	}
	dst = append(dst, kwNames[c.verb]...)
	if c.object != kwNone {
		dst = append(append(dst, '_'), kwNames[c.object]...)
	}
	return dst
}

// A rank orders commands by what they may do: the command of a text with several
// statements is the one of the highest rank, the first of them.
type rank uint8

const (
	rankOther rank = iota
	rankRead
	rankWrite
	rankDDL // also what administers the server
	rankAccount
)

func (c sqlCommand) rank() rank {
	switch c.object {
	case kwUser, kwRole, kwPassword:
		return rankAccount
	case kwTransaction:
		return rankOther
	}
	switch c.verb {
	case kwGrant, kwRevoke:
		return rankAccount
	case kwCreate, kwAlter, kwDrop, kwRename, kwTruncate, kwInstall, kwUninstall, kwChange, kwStart, kwStop, kwReset, kwPurge,
		kwKill, kwFlush, kwShutdown, kwRestart, kwClone, kwImport, kwBackup, kwOptimize, kwRepair:
		return rankDDL
	case kwInsert, kwUpdate, kwDelete, kwReplace, kwCall, kwBinlog, kwExecute, kwIf, kwCase, kwLoop, kwWhile, kwRepeat, kwFor:
		return rankWrite
	case kwLoad:
		if c.object == kwIndex {
			return rankOther
		}
		return rankWrite
	case kwBegin:
		if c.object == kwNot {
			return rankWrite
		}
	case kwSelect, kwWith, kwValues, kwTable, kwShow, kwExplain, kwDesc, kwDescribe, kwHandler, kwDo, kwHelp, kwAnalyze, kwCheck, kwChecksum:
		return rankRead
	}
	return rankOther
}

// isVerb tells whether k begins a statement.
func isVerb(k keyword) bool {
	switch k {
	case kwAlter, kwAnalyze, kwBackup, kwBegin, kwBinlog, kwCache, kwCall, kwCase, kwChange, kwCheck, kwChecksum, kwClone,
		kwCommit, kwCreate, kwDeallocate, kwDelete, kwDesc, kwDescribe, kwDo, kwDrop, kwExecute, kwExplain, kwFlush, kwFor,
		kwGet, kwGrant, kwHandler, kwHelp, kwIf, kwImport, kwInsert, kwInstall, kwKill, kwLoad, kwLock, kwLoop, kwOptimize,
		kwPrepare, kwPurge, kwRelease, kwRename, kwRepair, kwRepeat, kwReplace, kwReset, kwResignal, kwRestart, kwRevoke,
		kwRollback, kwSavepoint, kwSelect, kwSet, kwShow, kwShutdown, kwSignal, kwStart, kwStop, kwTable, kwTruncate,
		kwUninstall, kwUnlock, kwUpdate, kwUse, kwValues, kwWhile, kwWith, kwXA:
		return true
	}
	return false
}

// isDML tells whether k may be the verb behind WITH.
func isDML(k keyword) bool {
	switch k {
	case kwSelect, kwInsert, kwUpdate, kwDelete, kwReplace, kwValues, kwTable:
		return true
	}
	return false
}

// objectOf names the object that the word k gives to verb. skip says that a word
// which is none may still be followed by one, as in CREATE OR REPLACE VIEW.
func objectOf(verb, k keyword) (object keyword, ok, skip bool) {
	switch verb {
	case kwCreate, kwAlter, kwDrop, kwRename:
		object, ok = schemaObject(verb, k)
		return object, ok, true
	case kwAnalyze, kwOptimize, kwRepair, kwCheck, kwChecksum, kwImport:
		return kwTable, k == kwTable || k == kwTables, k == kwLocal || k == kwNoWriteToBinlog
	case kwLoad:
		return k, k == kwData || k == kwXML || k == kwIndex, false
	case kwCache:
		return k, k == kwIndex, false
	case kwLock, kwUnlock:
		if k == kwTables {
			k = kwTable
		}
		return k, k == kwTable || k == kwInstance, false
	case kwStart, kwStop:
		if k == kwReplica || k == kwAll {
			k = kwSlave
		}
		return k, k == kwTransaction || k == kwSlave || k == kwGroupReplication, false
	case kwChange:
		switch k {
		case kwMaster, kwSource:
			return kwMaster, true, false
		case kwFilter:
			return kwReplicationFilter, true, false
		}
		return kwNone, false, k == kwReplication
	case kwInstall, kwUninstall:
		if k == kwSoname {
			k = kwPlugin
		}
		return k, k == kwPlugin || k == kwComponent, false
	}
	return otherObject(verb, k)
}

// otherObject is objectOf for verbs with one word that may follow.
func otherObject(verb, k keyword) (object keyword, ok, skip bool) {
	var want keyword
	switch verb {
	case kwRelease:
		want = kwSavepoint
	case kwDeallocate:
		want = kwPrepare
	case kwExecute:
		want = kwImmediate
	case kwBegin:
		want = kwNot
	}
	return want, want != kwNone && k == want, false
}

// schemaObject is objectOf for CREATE, ALTER, DROP and RENAME.
func schemaObject(verb, k keyword) (keyword, bool) {
	switch k {
	case kwTable, kwTables:
		return kwTable, true
	case kwDatabase, kwSchema:
		return kwDatabase, true
	case kwIndex, kwView, kwProcedure, kwFunction, kwTrigger, kwEvent, kwUser, kwRole, kwServer, kwTablespace, kwSequence,
		kwPackage, kwLogfile, kwResource, kwReference, kwInstance:
		return k, true
	case kwPrepare:
		return k, verb == kwDrop
	}
	return kwNone, false
}
