// Package modes compares what the capture modes make of the same traffic.
package modes

import (
	"fmt"
	"path/filepath"
	"testing"

	"sqlwitness/probe"
	"sqlwitness/stream"
	"sqlwitness/worker"
)

// row is what the modes can be compared by.
type row struct {
	session  string
	kind     stream.Kind
	number   uint64
	command  stream.Command
	sql      string
	status   stream.Status
	code     uint16
	db, user string
	bytes    uint64
	known    stream.Known
	flags    stream.EventFlags
}

func (r row) String() string {
	return fmt.Sprintf("%s %s %d %s %q %s %d db=%s user=%s out=%d flags=%b", r.session, r.kind, r.number, r.command, r.sql, r.status, r.code, r.db, r.user, r.bytes, r.flags)
}

type table map[string][]row

func (t table) Put(e *stream.Event) {
	r := row{session: e.Session.Client.String(), kind: e.Kind, number: e.SessionSeq, command: e.Command, sql: string(e.SQL), status: e.Status,
		code: e.ErrorCode, db: e.DB, user: e.User, bytes: e.ResponseBytes, known: e.Known, flags: e.Flags}
	t[r.session] = append(t[r.session], r)
}

func (t table) Flush() {}

func read(t *testing.T, path string, mode probe.Mode) (table, worker.Stats) {
	t.Helper()
	src, err := probe.OpenFiles([]string{path}, probe.FileConfig{Filter: probe.Filter{Ports: []uint16{3306}, Mode: mode}})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	out := table{}
	s := worker.NewShard(worker.Config{Stream: stream.Config{Mode: mode}}, src, out)
	if err := s.Run(); err != nil {
		t.Fatal(err)
	}
	return out, s.Stats()
}

func captures(t *testing.T) []string {
	t.Helper()
	files, _ := filepath.Glob("../testdata/*.pcap")
	more, _ := filepath.Glob("../testdata/clients/*.pcap.gz")
	if len(files) == 0 {
		t.Fatal("no captures")
	}
	return append(files, more...)
}

// unseen are sessions that mode "none" cannot follow, and why.
var unseen = map[string]string{
	"mysql2-compressed.pcap.gz":   "the client sends a compressed packet's header and payload in two segments, of which only the first begins like a command",
	"mariadbj-compressed.pcap.gz": "likewise",
	"proxy-v1.pcap.gz":            "a PROXY header does not begin like a command: the session has the proxy's address",
	"proxy-v2.pcap.gz":            "likewise",
	"proxy-v1-late.pcap.gz":       "likewise",
	"proxy-v2-late.pcap.gz":       "likewise",
}

// TestStatus: with only the start of each reply the same commands have the same
// texts, outcomes and response sizes.
func TestStatus(t *testing.T) {
	compare(t, probe.ModeStatus, func(t *testing.T, full, got row) {
		if got.kind != full.kind || got.number != full.number || got.command != full.command || got.sql != full.sql || got.user != full.user || got.db != full.db {
			t.Errorf("%v\nwant %v", got, full)
		}
		if got.status != full.status && got.flags&stream.FlagResponseNotCaptured == 0 {
			t.Errorf("status of %v\nwant %v", got, full)
		}
		if got.status == stream.StatusError && got.code != full.code {
			t.Errorf("code of %v\nwant %v", got, full)
		}
		if got.kind == stream.KindCommand && got.known&stream.KnownResponseBytes != 0 && got.bytes != full.bytes {
			t.Errorf("bytes of %v\nwant %v", got, full)
		}
	})
}

// TestNone: without replies the same commands have the same texts, or say that
// they were cut.
func TestNone(t *testing.T) {
	compare(t, probe.ModeNone, func(t *testing.T, full, got row) {
		cut := got.flags&(stream.FlagCommandCut|stream.FlagNoStatementText) != 0
		if got.command != full.command || got.sql != full.sql && !cut {
			t.Errorf("%v\nwant %v", got, full)
		}
		if got.status != stream.StatusNone || got.known&stream.KnownRows != 0 {
			t.Errorf("a status without a reply: %v", got)
		}
		if got.known&stream.KnownResponseBytes != 0 && got.bytes < full.bytes { // more, if a command that is no command to the filter came next
			t.Errorf("bytes of %v\nwant %v", got, full)
		}
	})
}

func compare(t *testing.T, mode probe.Mode, check func(t *testing.T, full, got row)) {
	for _, path := range captures(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			full, _ := read(t, path, probe.ModeFull)
			got, stats := read(t, path, mode)
			if stats.Stream.Gaps != 0 {
				t.Errorf("%d gaps: what the filter withholds is none", stats.Stream.Gaps)
			}
			commands := 0
			for session, rows := range full {
				want, have := commandsOf(rows, mode), commandsOf(got[session], mode)
				if mode == probe.ModeNone && unseen[filepath.Base(path)] != "" && len(have) == 0 {
					continue
				}
				if len(want) != len(have) {
					t.Errorf("%s: %d commands, want %d%s", session, len(have), len(want), firstDifference(have, want))
					continue
				}
				for i := range want {
					check(t, want[i], have[i])
					commands++
				}
			}
			t.Logf("%d commands compared", commands)
		})
	}
}

func firstDifference(have, want []row) string {
	for i := range min(len(have), len(want)) {
		if have[i].command != want[i].command {
			return fmt.Sprintf("\n%v\nwant %v", have[i], want[i])
		}
	}
	return ""
}

// commandsOf leaves out what mode "none" takes for the rest of an earlier command:
// a command byte that no command has.
func commandsOf(rows []row, mode probe.Mode) (out []row) {
	for _, r := range rows {
		if r.kind == stream.KindCommand && (mode != probe.ModeNone || r.command.String() != "Unknown") {
			out = append(out, r)
		}
	}
	return out
}
