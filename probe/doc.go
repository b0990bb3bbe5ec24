// Package probe turns frames into the TCP segments of MySQL connections.
//
// In go frames: from the kernel through a Group of Rings (AF_PACKET, Linux
// only), or from capture files through OpenFiles. Out come Batches of Segments.
//
// Every source has the same two methods. Next hands out a Batch and keeps it
// untouched until Release, or the next Next, takes it back; payloads borrow
// from the source's memory and are invalid from then on. One goroutine reads a
// source; Stats may be read by any.
//
// One Filter describes what is wanted. From it come the kernel's program, which
// drops the rest before it is copied, and the Go function that does the same
// for files. One FlowHash decides which shard owns a connection: the kernel
// computes it for Rings, a Splitter computes it where one reader feeds several
// shards.
//
// Every packet that a source took in ends in exactly one Outcome.
package probe
