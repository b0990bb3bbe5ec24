package faults

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"sqlwitness/probe"
	"sqlwitness/stream"
)

// conversation is one recorded connection.
type conversation struct {
	name     string
	segments []probe.Segment
	bytes    int
}

// recorded reads the connections of the committed captures, without those that
// carry more than maxBytes.
func recorded(t testing.TB, maxBytes int) []conversation {
	t.Helper()
	files, _ := filepath.Glob("../testdata/clients/*.pcap.gz")
	files = append(files, "../testdata/demo.pcap")
	var all []conversation
	for _, path := range files {
		src, err := probe.OpenFiles([]string{path}, probe.FileConfig{Filter: probe.Filter{Ports: []uint16{3306}}})
		if err != nil {
			t.Fatal(err)
		}
		byFlow := make(map[probe.Flow]*conversation)
		var order []*conversation
		for {
			batch, err := src.Next()
			if batch == nil || err != nil {
				break
			}
			for _, s := range batch.Segments {
				c := byFlow[s.Flow]
				if c == nil {
					c = &conversation{name: fmt.Sprintf("%s/%d", filepath.Base(path), len(order))}
					byFlow[s.Flow] = c
					order = append(order, c)
				}
				s.Payload = bytes.Clone(s.Payload)
				c.segments = append(c.segments, s)
				c.bytes += len(s.Payload)
			}
			src.Release()
		}
		src.Close()
		for _, c := range order {
			if c.bytes > 0 && c.bytes <= maxBytes && c.segments[0].Flags&probe.SYN != 0 {
				all = append(all, *c)
			}
		}
	}
	if len(all) < 40 {
		t.Fatalf("only %d conversations", len(all))
	}
	return all
}

// fact is what an event says, without its times.
type fact struct {
	kind                  stream.Kind
	number                uint64
	command               stream.Command
	user, db, sql, params string
	source                stream.UserSource
	sqlBytes              int
	cut                   bool
	status                stream.Status
	code                  uint16
	text                  string
	results               int
	rows, affected        uint64
	warnings              uint64
	server                uint16
	in, out               uint64
	known                 stream.Known
	flags                 stream.EventFlags
	stmt                  uint32
	reason                stream.EndReason
}

func factOf(e *stream.Event) fact {
	f := fact{kind: e.Kind, number: e.SessionSeq, command: e.Command, user: e.User, db: e.DB, sql: string(e.SQL), source: e.UserSource,
		sqlBytes: e.SQLBytes, cut: e.SQLTruncated, status: e.Status, code: e.ErrorCode, text: string(e.ErrorText), results: e.Results,
		rows: e.Rows, affected: e.AffectedRows, warnings: e.Warnings, server: e.ServerStatus, in: e.RequestBytes, out: e.ResponseBytes,
		known: e.Known, flags: e.Flags, stmt: e.StmtID, reason: e.EndReason}
	for _, p := range e.Params {
		f.params += fmt.Sprintf("%q,%v;", p.Text, p.Null)
	}
	if e.Kind == stream.KindSessionEnd {
		f.in, f.out = 0, 0 // repeats are not counted, but a reset may come before the last bytes
	}
	return f
}

// replay feeds segments in batches and returns the facts. The payloads of a batch
// are overwritten when it is over.
func replay(t testing.TB, segments []probe.Segment, batch func() int) ([]fact, stream.Stats) {
	t.Helper()
	var facts []fact
	env := stream.NewEnv(stream.Config{Params: true}, func(e *stream.Event) { facts = append(facts, factOf(e)) })
	c := stream.NewConn(env, segments[0].Flow)
	var now int64
	var arena []byte
	left, from := batch(), 0
	for i := range segments {
		s := segments[i]
		at := len(arena)
		arena = append(arena, s.Payload...)
		s.Payload = arena[at:len(arena):len(arena)]
		now = max(now, s.TimeNs)
		c.Feed(&s)
		if left--; left > 0 {
			continue
		}
		c.Settle(now)
		clear(arena[from:])
		from = len(arena)
		if len(arena) > 1<<20 {
			arena, from = nil, 0
		}
		left = batch()
	}
	reason := stream.EndCapture
	if c.Done() {
		reason = c.Reason()
	}
	c.Close(reason)
	checkSums(t, &env.Stats)
	return facts, env.Stats
}

// checkSums holds the counters against the sums that stream.Stats promises.
func checkSums(t testing.TB, s *stream.Stats) {
	t.Helper()
	if sum := s.ParsedBytes + s.RepeatedBytes + s.SkippedBytes + s.OpaqueBytes + s.DiscardedBytes + s.HeldBytes; sum != s.Bytes {
		t.Errorf("bytes: %d fed, %d in classes: %+v", s.Bytes, sum, *s)
	}
	if s.Commands != s.CommandEvents || s.HeldBytes != 0 || s.KeptBytes != 0 || s.Statements != 0 || s.PendingCommands != 0 {
		t.Errorf("left behind: %+v", *s)
	}
	if s.SessionEnds != s.SessionStarts && s.LoginsFailed == 0 {
		t.Errorf("%d sessions started, %d ended", s.SessionStarts, s.SessionEnds)
	}
}

func difference(got, want []fact) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("event %d is missing: %+v", i, want[i])
		case i >= len(want):
			return fmt.Sprintf("event %d is invented: %+v", i, got[i])
		case got[i] != want[i]:
			return fmt.Sprintf("event %d:\n%+v\nwant\n%+v", i, got[i], want[i])
		}
	}
	return ""
}
