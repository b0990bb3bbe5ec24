// Package worker runs the connections of a shard.
//
// In go batches of segments from a Source, out come the events of all
// connections, through a Sink. One goroutine, the caller of Shard.Run, owns a
// shard with all its connections: nothing in it is locked.
//
// A batch is one ring block, and so one tick. Each segment is queued at its
// connection by index; then every touched connection is drained once, while its
// state is warm; then the batch goes back to the source. What a connection must
// keep longer it has copied by then (stream.Conn.Settle).
package worker
