package stream

// Command is the first byte of a client's command packet plus one, so that the
// zero value is no command (COM_SLEEP is byte 0).
// https://dev.mysql.com/doc/dev/mysql-server/latest/my__command_8h.html
type Command uint16

// The commands of MySQL and MariaDB.
const (
	ComSleep Command = iota + 1
	ComQuit
	ComInitDB
	ComQuery
	ComFieldList
	ComCreateDB
	ComDropDB
	ComRefresh
	ComShutdown
	ComStatistics
	ComProcessInfo
	ComConnect
	ComProcessKill
	ComDebug
	ComPing
	ComTime
	ComDelayedInsert
	ComChangeUser
	ComBinlogDump
	ComTableDump
	ComConnectOut
	ComRegisterSlave
	ComStmtPrepare
	ComStmtExecute
	ComStmtSendLongData
	ComStmtClose
	ComStmtReset
	ComSetOption
	ComStmtFetch
	ComDaemon
	ComBinlogDumpGTID
	ComResetConnection
	ComClone
	ComSubscribeGroupReplication
)

// ComStmtBulkExecute is MariaDB's array execute, byte 0xfa.
// https://mariadb.com/kb/en/com_stmt_bulk_execute/
const ComStmtBulkExecute Command = 0xfa + 1

// NumCommands is the length of an array by command: see Command.Index.
const NumCommands = int(ComSubscribeGroupReplication) + 3

// Index is the place of a command in an array: Bulk_execute stands behind the
// others, then what is no command.
func (c Command) Index() int {
	switch {
	case c <= ComSubscribeGroupReplication:
		return int(c)
	case c == ComStmtBulkExecute:
		return NumCommands - 2
	}
	return NumCommands - 1
}

// CommandAt is the command with that Index.
func CommandAt(i int) Command {
	switch i {
	case NumCommands - 2:
		return ComStmtBulkExecute
	case NumCommands - 1:
		return 0xff // one that there is not
	}
	return Command(i)
}

// The names that the general log gives the commands (sql/sql_parse.cc,
// command_name, of MySQL and MariaDB).
var commandNames = [...]string{
	ComSleep: "Sleep", ComQuit: "Quit", ComInitDB: "Init DB", ComQuery: "Query",
	ComFieldList: "Field List", ComCreateDB: "Create DB", ComDropDB: "Drop DB",
	ComRefresh: "Refresh", ComShutdown: "Shutdown", ComStatistics: "Statistics",
	ComProcessInfo: "Processlist", ComConnect: "Connect", ComProcessKill: "Kill",
	ComDebug: "Debug", ComPing: "Ping", ComTime: "Time", ComDelayedInsert: "Delayed insert",
	ComChangeUser: "Change user", ComBinlogDump: "Binlog Dump", ComTableDump: "Table Dump",
	ComConnectOut: "Connect Out", ComRegisterSlave: "Register Slave", ComStmtPrepare: "Prepare",
	ComStmtExecute: "Execute", ComStmtSendLongData: "Long Data", ComStmtClose: "Close stmt",
	ComStmtReset: "Reset stmt", ComSetOption: "Set option", ComStmtFetch: "Fetch",
	ComDaemon: "Daemon", ComBinlogDumpGTID: "Binlog Dump GTID", ComResetConnection: "Reset connection",
	ComClone: "Clone", ComSubscribeGroupReplication: "Subscribe Group Replication",
}

// String is the value of the event's `command` field, as the general log names it.
func (c Command) String() string {
	switch {
	case c == ComStmtBulkExecute:
		return "Bulk_execute"
	case c != 0 && name(commandNames[:], int(c)) == "":
		return "Unknown"
	}
	return name(commandNames[:], int(c))
}

// streams reports that the answer to a command is a stream without end: a
// replica's events, a clone. Its contents are not read.
func (c Command) streams() bool {
	switch c {
	case ComBinlogDump, ComBinlogDumpGTID, ComTableDump, ComClone, ComSubscribeGroupReplication:
		return true
	}
	return false
}
