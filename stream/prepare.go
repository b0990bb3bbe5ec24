package stream

// readPrepareOK reads the answer to COM_STMT_PREPARE.
//
//	1  0x00
//	4  statement id
//	2  columns
//	2  parameters
//	1  filler
//	2  warnings
//	1  metadata follows, under optional metadata
//
// Definitions of the parameters follow, then those of the columns, each behind
// them an EOF without DEPRECATE_EOF.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_prepare.html#sect_protocol_com_stmt_prepare_response_ok
func (c *Conn) readPrepareOK(p *packet) {
	q, r := &c.waiting[0], &c.resp
	metadata := true
	if !r.readPrepared(q, p, &metadata) {
		c.desync(FlagResponseGap)
		return
	}
	if !metadata && c.caps.optionalMetadata() {
		c.finish(StatusOK, 0)
		return
	}
	if r.params == 0 {
		c.beginPrepareColumns()
		return
	}
	r.left, r.state = uint64(r.params), respParams
}

// readPrepared reads what COM_STMT_PREPARE_OK itself says.
func (r *response) readPrepared(q *command, p *packet, metadata *bool) bool {
	if len(p.body) < 10 || p.body[0] != 0 {
		return false
	}
	cur := newCursor(p.body)
	cur.skip(1)
	q.stmtID, q.hasStmt = cur.u32(), true
	r.columns = cur.u16()
	r.params = int(cur.u16())
	cur.skip(1)
	r.warnings, r.warned = uint64(cur.u16()), true
	if len(cur.b) == 1 {
		*metadata = cur.u8() != 0
	}
	return true
}

// beginPrepareColumns goes on behind the definitions of the parameters.
func (c *Conn) beginPrepareColumns() {
	r := &c.resp
	if r.columns == 0 {
		c.finish(StatusOK, 0)
		return
	}
	r.left, r.state = uint64(r.columns), respColumns
}

// readParamsEnd reads the packet behind the parameters' definitions: their EOF,
// or, where it was not known that there is none, the first column's definition.
func (c *Conn) readParamsEnd(p *packet, first byte) {
	if first == 0xfe && p.length <= 5 {
		c.caps.deprecateEOF = No
		c.beginPrepareColumns()
		return
	}
	if c.caps.deprecateEOF == No || c.resp.columns == 0 {
		c.desync(FlagResponseGap)
		return
	}
	c.caps.deprecateEOF = Yes
	c.beginPrepareColumns()
	if c.resp.left--; c.resp.left == 0 {
		c.resp.state = respColumnsEnd
		c.skipEnd()
	}
}

// endPrepare completes a COM_STMT_PREPARE whose last definition has come, where
// it is not known whether an EOF follows: the client's next command says that
// none does.
func (c *Conn) endPrepare() {
	if len(c.waiting) != 1 || c.waiting[0].com != ComStmtPrepare || c.caps.deprecateEOF != Unknown {
		return
	}
	r := &c.resp
	if r.state == respColumnsEnd || r.state == respParamsEnd && r.columns == 0 {
		c.caps.deprecateEOF = Yes
		c.finish(StatusOK, 0)
	}
}
