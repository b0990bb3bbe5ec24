// Package stream rebuilds the commands of one MySQL or MariaDB connection.
//
// In go the TCP segments of one connection in any order, out come Events: one
// for each command with its response, one for the start of the session, one for
// its end. A Conn is a deterministic state machine: it has no goroutine, no
// lock and no clock, does no I/O, and sees time only in the segments and in the
// calls of Settle.
//
// The way of a byte, and the file that each step lives in:
//
//	conn.go      Feed takes a segment, Settle ends a batch, Close ends the connection
//	tcp.go       one direction's sequence numbers: trims repeats, holds what came early
//	frame.go     in-order bytes become MySQL packets; a packet's tail is skipped, not kept
//	greeting.go, login.go, auth.go   the connection phase
//	early.go     keeps what a client sends before its login is answered
//	request.go   client packets become commands that wait for their response
//	response.go  server packets advance the oldest waiting command until it is complete
//	emit.go      a complete command becomes an Event
//	resync.go    finds a command boundary: joining mid-stream, or after lost bytes
//
// Bytes: segments are borrowed until Settle returns. What must live longer, a
// statement whose response is still to come or a segment that came early, is
// copied by Settle into a pooled buffer (pool.go).
//
// Order: a segment is taken only when everything its sender had received by
// then (its Ack) has been taken as well. So requests and responses are seen in
// the order in which the two ends saw them, whatever the order of capture.
package stream
