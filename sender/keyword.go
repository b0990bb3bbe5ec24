package sender

// A keyword is one of the words that the lexer acts upon, or kwNone.
type keyword uint8

// The keywords; kwNames spells them.
const (
	kwNone keyword = iota
	kwAdmin
	kwAll
	kwAlter
	kwAnalyze
	kwAs
	kwBackup
	kwBegin
	kwBinlog
	kwBy
	kwCache
	kwCall
	kwCase
	kwChange
	kwCheck
	kwChecksum
	kwClone
	kwCommit
	kwComponent
	kwConnection
	kwCreate
	kwCurrentRole
	kwCurrentUser
	kwData
	kwDatabase
	kwDeallocate
	kwDeclare
	kwDefault
	kwDefiner
	kwDelete
	kwDesc
	kwDescribe
	kwDiagnostics
	kwDo
	kwDrop
	kwEach
	kwElse
	kwElseif
	kwEnd
	kwEvent
	kwExcept
	kwExecute
	kwExists
	kwExplain
	kwFilter
	kwFlush
	kwFor
	kwFormat
	kwFrom
	kwFunction
	kwGet
	kwGlobal
	kwGrant
	kwGrants
	kwGroupReplication
	kwHandler
	kwHelp
	kwIdentified
	kwIf
	kwImmediate
	kwImport
	kwIndex
	kwInsert
	kwInstall
	kwInstance
	kwIs
	kwJSON
	kwKill
	kwLoad
	kwLocal
	kwLock
	kwLogfile
	kwLoop
	kwMaster
	kwMysql
	kwNoWriteToBinlog
	kwNone_
	kwNot
	kwOn
	kwOptimize
	kwOption
	kwPackage
	kwPassword
	kwPersist
	kwPersistOnly
	kwPlugin
	kwPrepare
	kwPrivileges
	kwProcedure
	kwProxy
	kwPurge
	kwRandom
	kwReference
	kwRelease
	kwRename
	kwRepair
	kwRepeat
	kwReplace
	kwReplica
	kwReplication
	kwReplicationFilter
	kwReset
	kwResignal
	kwResource
	kwRestart
	kwRevoke
	kwRole
	kwRollback
	kwSavepoint
	kwSchema
	kwSelect
	kwSequence
	kwServer
	kwSet
	kwShow
	kwShutdown
	kwSignal
	kwSlave
	kwSlaves
	kwSoname
	kwSource
	kwStart
	kwStatement
	kwStop
	kwTable
	kwTables
	kwTablespace
	kwThen
	kwTo
	kwTransaction
	kwTrigger
	kwTruncate
	kwUninstall
	kwUnlock
	kwUpdate
	kwUse
	kwUser
	kwUsing
	kwValues
	kwView
	kwWhen
	kwWhile
	kwWith
	kwWork
	kwXA
	kwXML
	kwSecret // a word that means credentials are near, see secret.go
	keywords // how many there are
)

var kwNames = [keywords]string{
	kwAdmin: "admin", kwAll: "all", kwAlter: "alter", kwAnalyze: "analyze", kwAs: "as", kwBackup: "backup",
	kwBegin: "begin", kwBinlog: "binlog", kwBy: "by", kwCache: "cache", kwCall: "call", kwCase: "case",
	kwChange: "change", kwCheck: "check", kwChecksum: "checksum", kwClone: "clone", kwCommit: "commit",
	kwComponent: "component", kwConnection: "connection", kwCreate: "create", kwCurrentRole: "current_role",
	kwCurrentUser: "current_user", kwData: "data", kwDatabase: "database", kwDeallocate: "deallocate",
	kwDeclare: "declare", kwDefault: "default", kwDefiner: "definer", kwDelete: "delete", kwDesc: "desc",
	kwDescribe: "describe", kwDiagnostics: "diagnostics", kwDo: "do", kwDrop: "drop", kwEach: "each", kwElse: "else",
	kwElseif: "elseif", kwEnd: "end", kwEvent: "event", kwExcept: "except", kwExecute: "execute",
	kwExists: "exists", kwExplain: "explain", kwFilter: "filter", kwFlush: "flush", kwFor: "for",
	kwFormat: "format", kwFrom: "from", kwFunction: "function", kwGet: "get", kwGlobal: "global",
	kwGrant: "grant", kwGrants: "grants", kwGroupReplication: "group_replication", kwHandler: "handler",
	kwHelp: "help", kwIdentified: "identified", kwIf: "if", kwImmediate: "immediate", kwImport: "import",
	kwIndex: "index", kwInsert: "insert", kwInstall: "install", kwInstance: "instance", kwIs: "is", kwJSON: "json",
	kwKill: "kill", kwLoad: "load", kwLocal: "local", kwLock: "lock", kwLogfile: "logfile", kwLoop: "loop",
	kwMaster: "master", kwMysql: "mysql", kwNoWriteToBinlog: "no_write_to_binlog", kwNone_: "none", kwNot: "not",
	kwOn: "on", kwOptimize: "optimize", kwOption: "option", kwPackage: "package", kwPassword: "password",
	kwPersist: "persist", kwPersistOnly: "persist_only", kwPlugin: "plugin", kwPrepare: "prepare",
	kwPrivileges: "privileges", kwProcedure: "procedure", kwProxy: "proxy", kwPurge: "purge", kwRandom: "random",
	kwReference: "reference", kwRelease: "release", kwRename: "rename", kwRepair: "repair", kwRepeat: "repeat",
	kwReplace: "replace", kwReplica: "replica", kwReplication: "replication", kwReplicationFilter: "replication_filter",
	kwReset: "reset", kwResignal: "resignal", kwResource: "resource", kwRestart: "restart", kwRevoke: "revoke",
	kwRole: "role", kwRollback: "rollback", kwSavepoint: "savepoint", kwSchema: "schema", kwSelect: "select",
	kwSequence: "sequence", kwServer: "server", kwSet: "set", kwShow: "show", kwShutdown: "shutdown",
	kwSignal: "signal", kwSlave: "slave", kwSlaves: "slaves", kwSoname: "soname", kwSource: "source", kwStart: "start",
	kwStatement: "statement", kwStop: "stop", kwTable: "table", kwTables: "tables", kwTablespace: "tablespace",
	kwThen: "then", kwTo: "to", kwTransaction: "transaction", kwTrigger: "trigger", kwTruncate: "truncate",
	kwUninstall: "uninstall", kwUnlock: "unlock", kwUpdate: "update", kwUse: "use", kwUser: "user", kwUsing: "using",
	kwValues: "values", kwView: "view", kwWhen: "when", kwWhile: "while", kwWith: "with", kwWork: "work", kwXA: "xa", kwXML: "xml",
}

// longestKeyword bounds the words that lookup considers.
const longestKeyword = 32

// A keywordEntry is one place of keywordTable.
type keywordEntry struct {
	name string
	kw   keyword
}

// keywordTable is a hash table with open addressing, half empty at least.
// It never changes.
var keywordTable = buildKeywords()

const keywordSlots = 1024

func buildKeywords() *[keywordSlots]keywordEntry {
	var t [keywordSlots]keywordEntry
	add := func(name string, k keyword) {
		h := uint32(0)
		for i := 0; i < len(name); i++ {
			h = h*31 + uint32(name[i])
		}
		for h %= keywordSlots; t[h].name != ""; h = (h + 1) % keywordSlots {
		}
		t[h] = keywordEntry{name, k}
	}
	for k, name := range kwNames {
		if name != "" {
			add(name, keyword(k))
		}
	}
	for _, name := range secretWords {
		add(name, kwSecret)
	}
	return &t
}

// lookup names the keyword that word spells in any case, or kwNone.
func lookup(word []byte) keyword {
	if len(word) > longestKeyword || len(word) < 2 {
		return kwNone
	}
	h := uint32(0)
	for _, c := range word {
		h = h*31 + uint32(lower(c))
	}
	for h %= keywordSlots; ; h = (h + 1) % keywordSlots {
		e := &keywordTable[h]
		if e.name == "" {
			return kwNone
		}
		if equalFold(word, e.name) {
			return e.kw
		}
	}
}

// lower folds the ASCII letters. A byte that is no letter stays, so that it
// never equals a keyword's.
func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// equalFold tells whether word is name in any case; name is in lower case.
func equalFold(word []byte, name string) bool {
	if len(word) != len(name) {
		return false
	}
	for i, c := range word {
		if lower(c) != name[i] {
			return false
		}
	}
	return true
}
