package stream

import "sqlwitness/probe"

// resetWindow is how far from the next byte a RST may be to be believed where the
// filter withholds bytes of its sender.
const resetWindow = 64 << 10

// ResetNs is when a RST came that the connection has not gone on behind; 0 = none.
// Who ignored a forged RST goes on soon: after a second of silence the connection
// is over.
func (c *Conn) ResetNs() int64 { return c.resetNs }

// noteReset takes a RST for the end, if nothing more comes.
func (c *Conn) noteReset(s *probe.Segment) {
	if !c.inPlace(s) {
		c.env.Stats.ResetsIgnored++
		return
	}
	if c.resetNs == 0 {
		c.resetNs = s.TimeNs
	}
}

// inPlace reports that a RST's receiver believes it: its Seq is the byte that comes
// next, RFC 5961 section 3.2. Any other is answered at most, and the connection goes
// on: who forges one may be the client. The next byte is behind what was taken, or, if
// bytes are missing, behind what came later or what the receiver has acknowledged. It
// may be the FIN, for whose sender the connection is over (tcp_reset_check,
// net/ipv4/tcp_input.c, Linux 6.1).
func (c *Conn) inPlace(s *probe.Segment) bool {
	h := c.halfOf(s)
	if c.filtered() && (!s.FromClient || c.env.config.Mode == probe.ModeNone) {
		far := int32(s.Seq - h.next)
		return far <= resetWindow && far >= -resetWindow
	}
	return s.Seq == h.next || s.Seq == h.end() || h.closed && s.Seq == h.next-1
}

// goesOn takes a RST back: the connection has gone on behind it.
func (c *Conn) goesOn(s *probe.Segment) {
	if s.TimeNs >= c.resetNs && s.Flags&probe.RST == 0 {
		c.resetNs = 0
		c.env.Stats.ResetsIgnored++
	}
}

// Reason says how a connection that is Done ended.
func (c *Conn) Reason() EndReason {
	if c.resetNs != 0 {
		return EndReset
	}
	return EndFIN
}
