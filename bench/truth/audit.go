package truth

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// An AuditEntry is one record of server_audit: a login, its end, or an executed
// statement.
type AuditEntry struct {
	Thread    uint64
	Query     uint64 // numbers the statements of the server; 0 = none
	User      string
	Operation string // CONNECT, FAILED_CONNECT, DISCONNECT, QUERY
	DB        string
	ErrorCode int
}

// ReadAudit reads the file of server_audit. A record is one line,
//
//	time,server,user,host,thread,query id,operation,database,object,error
//
// whose object, the statement in quotes, may hold commas and is not kept.
// https://mariadb.com/docs/server/reference/plugins/mariadb-audit-plugin/mariadb-audit-plugin-log-format
func ReadAudit(r io.Reader) ([]AuditEntry, error) {
	var entries []AuditEntry
	br := bufio.NewReaderSize(r, 1<<16)
	for n := 1; ; n++ {
		line, err := br.ReadString('\n')
		if line = strings.TrimSuffix(line, "\n"); line != "" {
			e, parseErr := auditRecord(line)
			if parseErr != nil {
				return nil, fmt.Errorf("audit log, line %d: %w", n, parseErr)
			}
			entries = append(entries, e)
		}
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read audit log, line %d: %w", n, err)
		}
	}
}

func auditRecord(line string) (AuditEntry, error) {
	fields := strings.SplitN(line, ",", 9)
	last := strings.LastIndexByte(line, ',')
	if len(fields) < 9 || last < 0 {
		return AuditEntry{}, fmt.Errorf("%d fields, want 10: %s", len(fields), clip([]byte(line)))
	}
	thread, err := strconv.ParseUint(fields[4], 10, 64)
	if err != nil {
		return AuditEntry{}, fmt.Errorf("thread: %w", err)
	}
	code, err := strconv.Atoi(line[last+1:])
	if err != nil {
		return AuditEntry{}, fmt.Errorf("error code: %w", err)
	}
	query, err := strconv.ParseUint(fields[5], 10, 64)
	if err != nil {
		return AuditEntry{}, fmt.Errorf("query id: %w", err)
	}
	return AuditEntry{Thread: thread, Query: query, User: fields[2], Operation: fields[6], DB: fields[7], ErrorCode: code}, nil
}

// topLevel drops the statements that a stored program ran from the records of a
// connection. They stand in front of the CALL that ran them, with higher query
// ids than its own.
func topLevel(entries []AuditEntry) []AuditEntry {
	keep := len(entries)
	lowest := ^uint64(0)
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].Query > lowest {
			continue
		}
		lowest = entries[i].Query
		keep--
		entries[keep] = entries[i]
	}
	return entries[keep:]
}
