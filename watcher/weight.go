package watcher

// QuestionWeight is by how much a command raises the server's Questions; false
// if that is not known. command is named as in the general log and in the
// events. A Query counts once for each statement of its text that was executed,
// the one that failed included, and at least once.
//
// Servers skip the commands that are flagged CF_SKIP_QUESTIONS
// (init_update_queries, sql/sql_parse.cc of both). The weights of MariaDB are
// measured (10.11), those of MySQL are from its manual:
// https://dev.mysql.com/doc/refman/8.4/en/server-status-variables.html#statvar_Questions
func QuestionWeight(command string, f Flavour) (weight int, known bool) {
	if f != MariaDB && f != MySQL {
		return 0, false
	}
	switch command {
	case "Ping", "Statistics", "Prepare", "Close stmt", "Reset stmt":
		return 0, true
	case "Query", "Execute", "Fetch", "Long Data", "Init DB", "Field List", "Set option",
		"Reset connection", "Change user", "Quit", "Processlist", "Kill", "Refresh", "Debug",
		"Create DB", "Drop DB", "Register Slave", "Binlog Dump", "Binlog Dump GTID":
		return 1, true
	case "Bulk_execute", "Unknown", "Sleep", "Connect", "Time", "Delayed insert", "Table Dump", "Connect Out", "Daemon",
		"Clone", "Subscribe Group Replication":
		return 1, f == MariaDB // also where it does not know the command
	}
	return 0, false
}
