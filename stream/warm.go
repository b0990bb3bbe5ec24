package stream

// What is read only to have it in the cache is added up in a warmth, which means
// nothing: without one the compiler would leave the reads out.

// Warm reads a word of each cache line that a command and its response need of the
// connection. A caller who warms several before it feeds them waits for their
// misses together, not for one after the other. What it returns means nothing: it is
// there so that the reads are done.
func (c *Conn) Warm() int64 {
	return int64(cap(c.waiting)) + int64(c.kept) + c.lastNs + c.freshNs + int64(len(c.client.held)) + int64(c.server.next) +
		int64(c.request.have) + int64(c.request.p.length) + int64(c.reply.p.length) + int64(c.resp.left) + c.resp.firstNs +
		int64(c.resp.err.code) + int64(len(c.user)) + int64(c.session.MultiStmts)
}
