package sender

// A word is one of the words that the guess at a statement's tables and its traits
// depend on, or wordNone.
type word uint8

const (
	wordNone word = iota
	wordAfter
	wordAlter
	wordAnd
	wordAs
	wordBefore
	wordBenchmark
	wordBy
	wordCall
	wordChar
	wordCheck
	wordCreate
	wordCross
	wordDelayed
	wordDelete
	wordDesc
	wordDescribe
	wordDistinct
	wordDo
	wordDrop
	wordDual
	wordDumpfile
	wordExcept
	wordExecute
	wordExists
	wordExplain
	wordExtract
	wordExtractvalue
	wordFor
	wordForce
	wordFrom
	wordFunction
	wordGrant
	wordGroup
	wordHandler
	wordHaving
	wordHighPriority
	wordIf
	wordIgnore
	wordImmediate
	wordIn
	wordIndex
	wordInfile
	wordInner
	wordInsert
	wordIntersect
	wordInto
	wordJoin
	wordKey
	wordLateral
	wordLeft
	wordLike
	wordLimit
	wordLoad
	wordLoadFile
	wordLocal
	wordLock
	wordLowPriority
	wordMerge
	wordMetadata // information_schema, performance_schema, mysql, sys
	wordNatural
	wordNot
	wordOn
	wordOnly
	wordOptimize
	wordOr
	wordOrder
	wordOutfile
	wordPartition
	wordPrepare
	wordProcedure
	wordQuick
	wordReferences
	wordRename
	wordRepair
	wordReplace
	wordReturning
	wordRevoke
	wordRight
	wordSchedule
	wordSchemaOf // SHOW … FROM names a schema: TABLES, TRIGGERS, EVENTS, STATUS
	wordSelect
	wordSet
	wordShow
	wordSleep
	wordSQL // modifiers of SELECT: sql_no_cache and others
	wordStraightJoin
	wordSubstring // functions with FROM inside: trim, substring, overlay
	wordTable
	wordTables
	wordTo
	wordTrigger
	wordTrue
	wordTruncate
	wordUnion
	wordUpdate
	wordUpdatexml
	wordUse
	wordUsing
	wordValue
	wordValues
	wordView
	wordWhere
	wordWindow
	wordWith
	wordXor
)

// wordsByName never changes.
var wordsByName = map[string]word{
	"after": wordAfter, "alter": wordAlter, "and": wordAnd, "as": wordAs, "before": wordBefore, "benchmark": wordBenchmark, "by": wordBy,
	"call": wordCall, "char": wordChar, "check": wordCheck, "create": wordCreate, "cross": wordCross, "delayed": wordDelayed,
	"delete": wordDelete, "desc": wordDesc, "describe": wordDescribe, "distinct": wordDistinct, "do": wordDo, "drop": wordDrop,
	"dual": wordDual, "dumpfile": wordDumpfile, "except": wordExcept, "execute": wordExecute, "exists": wordExists,
	"explain": wordExplain, "extract": wordExtract, "extractvalue": wordExtractvalue, "for": wordFor, "force": wordForce,
	"from": wordFrom, "function": wordFunction, "grant": wordGrant, "group": wordGroup, "handler": wordHandler,
	"having": wordHaving, "high_priority": wordHighPriority, "if": wordIf, "ignore": wordIgnore, "immediate": wordImmediate,
	"in": wordIn, "index": wordIndex, "infile": wordInfile, "inner": wordInner, "insert": wordInsert,
	"intersect": wordIntersect, "into": wordInto, "join": wordJoin, "key": wordKey, "lateral": wordLateral, "left": wordLeft,
	"like": wordLike, "limit": wordLimit, "fetch": wordLimit, "merge": wordMerge, "load": wordLoad, "load_file": wordLoadFile, "local": wordLocal, "lock": wordLock,
	"low_priority": wordLowPriority, "information_schema": wordMetadata, "performance_schema": wordMetadata,
	"mysql": wordMetadata, "sys": wordMetadata, "natural": wordNatural, "not": wordNot, "on": wordOn, "only": wordOnly,
	"optimize": wordOptimize, "or": wordOr, "order": wordOrder, "outfile": wordOutfile, "partition": wordPartition,
	"prepare": wordPrepare, "procedure": wordProcedure, "quick": wordQuick, "references": wordReferences,
	"rename": wordRename, "repair": wordRepair, "replace": wordReplace, "returning": wordReturning, "revoke": wordRevoke,
	"right": wordRight, "triggers": wordSchemaOf, "events": wordSchemaOf, "status": wordSchemaOf, "schedule": wordSchedule, "select": wordSelect,
	"set": wordSet, "show": wordShow, "sleep": wordSleep, "sql_no_cache": wordSQL, "sql_cache": wordSQL,
	"sql_calc_found_rows": wordSQL, "sql_big_result": wordSQL, "sql_small_result": wordSQL, "sql_buffer_result": wordSQL,
	"all": wordSQL, "straight_join": wordStraightJoin, "trim": wordSubstring, "substring": wordSubstring,
	"substr": wordSubstring, "mid": wordSubstring, "overlay": wordSubstring, "position": wordSubstring, "table": wordTable,
	"tables": wordTables, "to": wordTo, "trigger": wordTrigger, "true": wordTrue, "truncate": wordTruncate,
	"union": wordUnion, "update": wordUpdate, "updatexml": wordUpdatexml, "use": wordUse, "using": wordUsing,
	"value": wordValue, "values": wordValues, "view": wordView, "where": wordWhere, "window": wordWindow, "with": wordWith,
	"xor": wordXor,
}

// longestWord bounds the words that wordOf considers.
const longestWord = 20

// wordOf is the word that b spells in any case.
func wordOf(b []byte) word {
	if len(b) > longestWord {
		return wordNone
	}
	var low [longestWord]byte
	for i, c := range b {
		low[i] = lower(c)
	}
	return wordsByName[string(low[:len(b)])]
}
