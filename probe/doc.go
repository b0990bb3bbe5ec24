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
//
// A packet that is captured twice, on two devices or by a mirror, is handed out
// twice: the copies differ in nothing that a Segment has, and whoever puts a
// connection together trims them as repeats. Where addresses are translated
// between the devices (NAT, a load balancer) the copies are of two connections,
// and each statement shows twice: Filter.Interfaces or ExcludeClients must
// choose one side.
//
// Tunnels (VXLAN, Geneve, GRE, ERSPAN, IP in IP) are opened in files. Rings do
// not look into them: capture on the tunnel's own device, where the kernel hands
// out what is inside.
package probe
