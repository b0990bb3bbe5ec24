package truth

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A SlowEntry is one record of the slow log: one executed statement.
type SlowEntry struct {
	Thread   uint64
	Schema   string // when the statement ended
	Rows     int64
	Affected int64
	Text     []byte
}

// ReadSlow reads a slow log that was written to a file. A record is
//
//	# Time: 261130 10:52:27                                      when it changed
//	# User@Host: u[u] @  [127.0.0.1]
//	# Thread_id: 5  Schema: shop  QC_hit: No
//	# Query_time: … Lock_time: … Rows_sent: 1  Rows_examined: 0
//	# Rows_affected: 0  Bytes_sent: 58
//	# …
//	use `shop`;                                                  when it changed
//	SET timestamp=1796035947;
//	the statement;
//
// (sql/log.cc of MariaDB 10.11, MYSQL_QUERY_LOG::write with a query time.)
func ReadSlow(r io.Reader) ([]SlowEntry, error) {
	p := slowParser{}
	br := bufio.NewReaderSize(r, 1<<16)
	for n := 1; ; n++ {
		line, err := br.ReadBytes('\n')
		if len(line) > 0 {
			p.line(line)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read slow log, line %d: %w", n, err)
		}
	}
	p.finish()
	return p.entries, nil
}

// slowParser: a record is open from its "# User@Host" line on; it is in its
// statement once the "SET timestamp" line has passed.
type slowParser struct {
	entries         []SlowEntry
	now             SlowEntry
	open, statement bool
}

func (p *slowParser) line(line []byte) {
	switch {
	case bytes.HasPrefix(line, []byte("# User@Host: ")):
		p.finish()
		p.open = true
	case bytes.HasPrefix(line, []byte("# Time: ")):
		p.finish()
	case !p.open:
		// the header of the file
	case p.statement:
		p.now.Text = append(p.now.Text, line...)
	case bytes.HasPrefix(line, []byte("# ")):
		p.header(string(line))
	case bytes.HasPrefix(line, []byte("SET timestamp=")):
		p.statement = true
	}
}

// header reads the pairs of a comment line.
func (p *slowParser) header(line string) {
	if rest, ok := strings.CutPrefix(line, "# Thread_id: "); ok {
		id, rest, _ := strings.Cut(rest, " ")
		p.now.Thread, _ = strconv.ParseUint(id, 10, 64)
		_, schema, _ := strings.Cut(rest, "Schema: ")
		schema, _, _ = strings.Cut(schema, "  QC_hit:")
		p.now.Schema = strings.TrimSpace(schema)
		return
	}
	words := strings.Fields(line)
	for i := 0; i+1 < len(words); i++ {
		switch words[i] {
		case "Rows_sent:":
			p.now.Rows, _ = strconv.ParseInt(words[i+1], 10, 64)
		case "Rows_affected:":
			p.now.Affected, _ = strconv.ParseInt(words[i+1], 10, 64)
		}
	}
}

// finish closes the open record. Records without a statement are the start and
// the end of the server.
func (p *slowParser) finish() {
	if p.open && p.statement {
		p.now.Text = bytes.TrimSuffix(p.now.Text, []byte(";\n"))
		p.entries = append(p.entries, p.now)
	}
	p.now, p.open, p.statement = SlowEntry{}, false, false
}
