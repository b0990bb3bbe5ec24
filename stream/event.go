package stream

import "net/netip"

// Kind says what an Event reports.
type Kind uint8

// The kinds of event a connection produces.
const (
	KindCommand      Kind = iota + 1 // one command and its response
	KindSessionStart                 // a login that succeeded, a TLS upgrade, or the first sight of an older connection
	KindLoginFailed                  // a login or a COM_CHANGE_USER that the server refused
	KindSessionEnd                   // the connection is over, or given up
)

var kindNames = [...]string{KindCommand: "command", KindSessionStart: "session_start", KindLoginFailed: "login_failed", KindSessionEnd: "session_end"}

// String is the value of the event's `type` field.
func (k Kind) String() string { return name(kindNames[:], int(k)) }

// UserSource says how a session's user became known.
type UserSource uint8

// The sources of a user name. UserUnknown is the zero value.
const (
	UserUnknown UserSource = iota
	UserLogin
	UserChangeUser
	UserProcesslist
	UserProxy
)

var userSourceNames = [...]string{UserLogin: "login", UserChangeUser: "change_user", UserProcesslist: "processlist", UserProxy: "proxy"}

// String is the value of the event's `user_source` field, empty for UserUnknown.
func (u UserSource) String() string { return name(userSourceNames[:], int(u)) }

// Status is the outcome of a command or a login.
type Status uint8

// The outcomes. StatusNone belongs to commands that have no response.
const (
	StatusNone Status = iota
	StatusOK
	StatusError
	StatusAborted // the connection ended first
	StatusUnknown // the response was not seen
)

var statusNames = [...]string{StatusOK: "ok", StatusError: "error", StatusAborted: "aborted", StatusUnknown: "unknown"}

// String is the value of the event's `status` field, empty for StatusNone.
func (s Status) String() string { return name(statusNames[:], int(s)) }

// Visibility says how much of a session the capture can show.
type Visibility uint8

// The visibilities. VisibilityFull is the zero value.
const (
	VisibilityFull Visibility = iota
	VisibilityTLS
	VisibilitySocket
)

var visibilityNames = [...]string{VisibilityFull: "full", VisibilityTLS: "tls", VisibilitySocket: "socket"}

// String is the value of the event's `visibility` field.
func (v Visibility) String() string { return name(visibilityNames[:], int(v)) }

// EndReason says why a session ended.
type EndReason uint8

// The reasons.
const (
	EndUnknown EndReason = iota
	EndQuit              // COM_QUIT
	EndFIN               // FIN without COM_QUIT
	EndReset             // RST
	EndTimeout           // silent for longer than the idle limit
	EndKilled            // the server said so (ERR 1927, 4031, 1053, …)
	EndNoLogin           // over before a login succeeded
	EndEvicted           // given up to keep a limit
	EndGone              // missing in the process list, or its ports are used anew
	EndCapture           // the capture ended first
)

var endReasonNames = [...]string{EndQuit: "quit", EndFIN: "fin", EndReset: "reset", EndTimeout: "timeout", EndKilled: "killed", EndNoLogin: "no_login", EndEvicted: "evicted", EndGone: "gone", EndCapture: "capture_end"}

// String is the value of the event's `end_reason` field, empty for EndUnknown.
func (e EndReason) String() string { return name(endReasonNames[:], int(e)) }

// EventFlags mark what is odd about an event; a set of bits.
type EventFlags uint32

// The closed list of flags.
const (
	FlagMidStream EventFlags = 1 << iota
	FlagGapBefore
	FlagRequestGap
	FlagResponseGap
	FlagResponseNotCaptured
	FlagCommandCut
	FlagSnapped
	FlagNoStatementText
	FlagUserLate
	FlagUserUnknown
	FlagTablesCut
	FlagParamsCut
	FlagCharsetGuessed
	FlagUnconfirmed
	FlagOverlapConflict
	FlagTablesGuessed
	FlagAccountsCut
	FlagTraitsCut
)

// EventFlagNames are the values of the `flags` field in the order of their bits.
var EventFlagNames = [...]string{"mid_stream", "gap_before", "request_gap", "response_gap",
	"response_not_captured", "command_cut", "snapped", "no_statement_text", "user_late",
	"user_unknown", "tables_cut", "params_cut", "charset_guessed", "unconfirmed",
	"overlap_conflict", "tables_guessed", "accounts_cut", "traits_cut"}

// Tri is a truth value that may be unknown; the zero value is unknown.
type Tri uint8

// The three values of Tri.
const (
	Unknown Tri = iota
	No
	Yes
)

// LexMode is what the wire tells of how the server read a statement's text. A
// masking lexer must be right under every reading that is still possible.
type LexMode struct {
	NoBackslashEscapes Tri    // sql_mode NO_BACKSLASH_ESCAPES
	ANSIQuotes         Tri    // sql_mode ANSI_QUOTES
	Collation          uint16 // id of the connection's collation, which names its character set; 0 = unknown
	// CharsetSure: the server reports every change of the character set (session
	// tracking). Else SET NAMES may have hidden in a prepared statement, a built
	// string or the server's init_connect: a lexer must not rely on it.
	CharsetSure bool
}

// Known says which of an Event's numbers were seen; a set of bits.
type Known uint16

// The numbers that may be unknown.
const (
	KnownRows Known = 1 << iota
	KnownAffectedRows
	KnownWarnings
	KnownResponseBytes
	KnownFirstByte
	KnownDuration
	KnownServerStatus
	KnownStmtID
	KnownRequestBytes
)

// Attr is one connection attribute of the login packet.
type Attr struct{ Key, Value string }

// A Session is the part of an event that all events of one connection share.
// Its connection owns it.
type Session struct {
	// Encoded is a place for an encoder to keep the encoded constant part. The
	// connection empties it whenever one of the other fields changes.
	Encoded    []byte
	Visibility Visibility
	MultiStmts Tri // CLIENT_MULTI_STATEMENTS: may a text hold several statements

	ID           uint64 // counts the sessions of a lane, from 1
	Server       netip.AddrPort
	Client       netip.AddrPort
	Proxy        netip.AddrPort // the TCP peer, where Client was taken from a PROXY header; else invalid
	ConnectionID uint64         // the server's thread id; 0 = unknown
	Program      string

	ServerVersion string // without MariaDB's "5.5.5-"
	AuthPlugin    string
	Compression   string // "zlib", "zstd"; empty = none
	TLSVersion    string
	TLSCipher     string
	Attrs         []Attr
}

// An Event is one thing to report of a connection. The connection owns it and
// everything it refers to: it is valid during the call that hands it over.
type Event struct {
	Kind    Kind
	Session *Session
	TimeNs  int64 // capture time of the first byte, nanoseconds since the Unix epoch

	User       string // valid iff UserSource != UserUnknown
	UserSource UserSource
	DB         string // default schema when the command was sent; valid iff DBKnown
	DBKnown    bool
	// Doubtful: user and schema are what they were before a hole that may hide a
	// change; the flag unconfirmed says so too. Who can ask a process list should.
	Doubtful bool

	SessionSeq uint64  // numbers all commands of the session, from 1
	Command    Command // 0 on events that are not commands

	// SQL is the kept text as the client sent it: borrowed, not masked, in the
	// character set of Lex.Collation. SQLBytes is its length on the wire.
	SQL          []byte
	SQLBytes     int
	SQLTruncated bool
	Lex          LexMode
	StmtID       uint32
	Params       []Param // bound values, where Config.Params asks for them

	Status       Status
	ErrorCode    uint16
	SQLState     [5]byte // zero = unknown
	ErrorText    []byte  // borrowed, not masked, in the character set of Lex.Collation
	Results      int     // results seen; 0 = none seen
	Rows         uint64
	AffectedRows uint64
	Warnings     uint64
	ServerStatus uint16 // status flags of the last OK or EOF

	RequestBytes  uint64
	ResponseBytes uint64
	FirstByteNs   int64 // from the first byte of the command to the first of the response
	DurationNs    int64 // to the last byte of the response; of a session: first to last byte

	Known Known
	Flags EventFlags

	// Session ends only.
	Commands  uint64
	Errors    uint64
	EndReason EndReason
}

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return ""
}
