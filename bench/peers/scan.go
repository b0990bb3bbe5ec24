package peers

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"sqlwitness/bench/generator"
	"sqlwitness/probe"
)

// A wire is where to watch.
type wire struct {
	device string
	port   int
}

// prefix is what each statement of the load begins with; its number follows.
var prefix = strings.TrimSuffix(generator.Text(0, 0), "0")

// numbered reads a statement's text.
func numbered(text string) (s Statement, ok bool) {
	at := strings.Index(text, prefix)
	if at < 0 {
		return s, false
	}
	digits := text[at+len(prefix):]
	end := 0
	for end < len(digits) && digits[end] >= '0' && digits[end] <= '9' {
		end++
	}
	n, err := strconv.ParseInt(digits[:end], 10, 64)
	return Statement{Number: n, Text: at == 0 && end == len(digits)}, err == nil
}

// eachLine calls f with every whole line, without its end. A tool that was ended
// may leave half a line, which is no statement.
func eachLine(r io.Reader, f func(line string)) error {
	br := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := br.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		f(strings.TrimSuffix(line, "\n"))
	}
}

// event is what an event of sqlwitness says of a statement.
type event struct {
	Type       string `json:"type"`
	Command    string `json:"command"`
	Connection uint32 `json:"connection_id"`
	Warnings   int64  `json:"warnings"`
	SQL        string `json:"sql"`
	User       string `json:"user"`
	Status     string `json:"status"`
	Rows       int64  `json:"rows"`
}

// scanEvents reads sqlwitness's events, whose texts are masked: the number is that
// of the warnings.
func scanEvents(r io.Reader, _ wire, see func(Statement)) error {
	var broken error
	err := eachLine(r, func(line string) {
		if !strings.Contains(line, `"type":"command"`) || !strings.Contains(line, `"command":"Query"`) {
			return
		}
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			broken = err
			return
		}
		see(Statement{Connection: e.Connection, Number: e.Warnings, User: e.User,
			Text: e.SQL == generator.MaskedText(0) && e.Status == "ok" && e.Rows == 1})
	})
	return errors.Join(err, broken)
}

// scanPcap finds the statements in a capture file: the client's packets, each with
// its length in front. One that was not captured whole does not count.
func scanPcap(r io.Reader, w wire, see func(Statement)) error {
	f, err := probe.NewFile(r, "traffic.pcap", probe.FileConfig{Filter: probe.Filter{Ports: []uint16{uint16(w.port)}}})
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		batch, err := f.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // cut off when the tool was ended
			return nil
		}
		if err != nil {
			return err
		}
		for _, seg := range batch.Segments {
			if seg.FromClient {
				packets(seg.Payload, see)
			}
		}
		f.Release()
	}
}

// packets sees the statements in a stretch of packets of the MySQL protocol.
func packets(payload []byte, see func(Statement)) {
	const header, comQuery = 4, 3
	for len(payload) > header {
		end := header + (int(payload[0]) | int(payload[1])<<8 | int(payload[2])<<16)
		if end > len(payload) {
			return
		}
		if payload[header] == comQuery {
			if s, ok := numbered(string(payload[header+1 : end])); ok {
				see(s)
			}
		}
		payload = payload[end:]
	}
}

// scanShark reads lines of tshark's fields tcp.stream, mysql.user, mysql.query: the
// user stands in a stream's login only.
func scanShark(r io.Reader, _ wire, see func(Statement)) error {
	users := map[string]string{}
	return eachLine(r, func(line string) {
		f := strings.Split(line, "\t")
		if len(f) != 3 {
			return
		}
		if f[1] != "" {
			users[f[0]] = f[1]
		}
		if s, ok := numbered(f[2]); ok {
			s.User = users[f[0]]
			see(s)
		}
	})
}

// scanSlowLog reads MySQL's slow log as pt-query-digest writes it: lines that begin
// with # describe the statement below them.
func scanSlowLog(r io.Reader, _ wire, see func(Statement)) error {
	user := ""
	return eachLine(r, func(line string) {
		if rest, ok := strings.CutPrefix(line, "# User@Host: "); ok {
			user, _, _ = strings.Cut(rest, "[")
			return
		}
		if strings.HasPrefix(line, "#") {
			return
		}
		if s, ok := numbered(strings.TrimSuffix(line, ";")); ok {
			s.User = user
			see(s)
		}
	})
}

// scanTabs reads mysql-sniffer's lines: time, user, client, schema, duration, rows,
// statement (log_session_query in its src/sniff-log.cpp).
func scanTabs(r io.Reader, _ wire, see func(Statement)) error {
	return eachLine(r, func(line string) {
		f := strings.SplitN(line, "\t", 7)
		if len(f) != 7 {
			return
		}
		if s, ok := numbered(strings.TrimSpace(f[6])); ok {
			s.User = strings.TrimSpace(f[1])
			see(s)
		}
	})
}

// scanJSON reads the lines of sniffer-agent (docs/output.md: user, sql) and of tcpdp
// (README.md: username, query).
func scanJSON(r io.Reader, _ wire, see func(Statement)) error {
	return eachLine(r, func(line string) {
		var e struct{ User, SQL, Username, Query string }
		at := strings.Index(line, "{")
		if at < 0 || json.Unmarshal([]byte(line[at:]), &e) != nil {
			return // their logs go the same way
		}
		if s, ok := numbered(e.SQL + e.Query); ok {
			s.User = e.User + e.Username
			see(s)
		}
	})
}
