package truth

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// A LogEntry is one record of the general log.
type LogEntry struct {
	Thread uint64
	Word   string
	Text   []byte // raw bytes; may hold newlines
}

// generalWords are the command words that may stand in a record. A line that
// looks like a record but has another word is part of a statement.
var generalWords = func() map[string]bool {
	words := map[string]bool{"Connect": true, "Change user": true, "Prepare": true, "Execute": true, "Fetch": true,
		"Long Data": true, "Reset stmt": true, "Close stmt": true, "Debug": true}
	for _, r := range Rules {
		words[r.Word] = true
	}
	return words
}()

// ReadGeneral reads a general log that was written to a file. A record is
//
//	[261130 10:52:27] TAB [TAB] thread SP word TAB text LF
//
// where the time stands only when it changed, and the text is raw: a statement
// with newlines goes on in the next lines (sql/log.cc of MariaDB 10.11,
// MYSQL_QUERY_LOG::write). A statement that imitates a record in a line of its
// own cannot be told from one.
func ReadGeneral(r io.Reader) ([]LogEntry, error) {
	var entries []LogEntry
	br := bufio.NewReaderSize(r, 1<<16)
	for n := 1; ; n++ {
		line, err := br.ReadBytes('\n')
		if len(line) > 0 {
			if e, ok := generalRecord(line); ok {
				entries = append(entries, e)
			} else if len(entries) > 0 {
				last := &entries[len(entries)-1]
				last.Text = append(last.Text, line...)
			} // else a line of the header
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read general log, line %d: %w", n, err)
		}
	}
	for i := range entries {
		entries[i].Text = bytes.TrimSuffix(entries[i].Text, []byte{'\n'})
	}
	return entries, nil
}

// generalRecord takes the first line of a record apart.
func generalRecord(line []byte) (LogEntry, bool) {
	rest, ok := cutStamp(line)
	if !ok {
		return LogEntry{}, false
	}
	rest = bytes.TrimLeft(rest, " ")
	id, rest, ok := bytes.Cut(rest, []byte{' '})
	if !ok {
		return LogEntry{}, false
	}
	thread, err := strconv.ParseUint(string(id), 10, 64)
	if err != nil {
		return LogEntry{}, false
	}
	word, text, ok := bytes.Cut(rest, []byte{'\t'})
	if !ok || !generalWords[string(word)] {
		return LogEntry{}, false
	}
	return LogEntry{Thread: thread, Word: string(word), Text: text}, true
}

// cutStamp takes the time, or the two tabs in its place, off a line.
func cutStamp(line []byte) ([]byte, bool) {
	if rest, ok := bytes.CutPrefix(line, []byte("\t\t")); ok {
		return rest, true
	}
	const stamp = len("261130 10:52:27\t")
	if len(line) < stamp || line[6] != ' ' || line[9] != ':' || line[12] != ':' || line[15] != '\t' {
		return nil, false
	}
	return line[stamp:], true
}
