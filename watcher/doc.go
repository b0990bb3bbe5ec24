// Package watcher asks a server what the wire cannot tell: who is behind each
// connection, the text of statements prepared earlier, and how many commands
// the server itself has counted.
//
// In goes a server, asked over database/sql. Out come Snapshots of its process
// list behind an atomic pointer: every worker reads the same one, without a
// lock, and nothing is asked per event. Counters are read on demand.
//
// One goroutine asks the server and one each proxy. Whatever happens to the
// server, no caller waits longer than Config.Timeout, and the capture goes on:
// the only signs are State and the age of the Snapshot.
//
// # Right or silent
//
// A Snapshot tells what was so at some moments in [BeginNs, EndNs]. Whoever
// applies it to a connection must have seen the capture up to EndNs, with the
// connection open before BeginNs and neither a SYN, a login, a Change user, a
// change of the schema nor a close in between. For that the snapshot says what
// it does not know: while a statement runs, the process list shows the definer
// of a running procedure as the user, and the procedure's schema as db. Hence
// Session.UserKnown and Session.DBKnown.
//
// # The account
//
//	CREATE USER sqlwitness@localhost IDENTIFIED BY '…' WITH MAX_USER_CONNECTIONS 3;
//	GRANT PROCESS ON *.* TO sqlwitness@localhost;
//
// Without PROCESS the server shows an account only its own connections; the
// state is then Down. Where performance_schema is on, statement texts, session
// attributes and the counts by transport need as well
//
//	GRANT SELECT ON performance_schema.* TO sqlwitness@localhost;
package watcher
