package captures_test

import (
	"errors"
	"io"
	"slices"
	"testing"

	"sqlwitness/probe"
	"sqlwitness/stream"
	"sqlwitness/worker"
)

// events is a Sink that keeps a copy of every event.
type events struct{ list []event }

func (s *events) Put(e *stream.Event) { s.list = append(s.list, copyEvent(e)) }
func (s *events) Flush()              {}

// audit runs a source to its end. A capture that is cut is no fault here: what
// precedes the cut must be right.
func audit(t *testing.T, source worker.Source) ([]event, worker.Stats) {
	t.Helper()
	out := &events{}
	shard := worker.NewShard(worker.Config{Stream: stream.Config{Params: true}}, source, out)
	if err := shard.Run(); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	stats := shard.Stats()
	checkLedger(t, &stats)
	checkSessions(t, out.list)
	return out.list, stats
}

// auditFile audits a capture as `sqlwitness read` does.
func auditFile(t *testing.T, c *capture) []event {
	t.Helper()
	f := openCapture(t, c)
	defer f.Close()
	list, _ := audit(t, f)
	return list
}

func openCapture(t *testing.T, c *capture) *probe.File {
	t.Helper()
	f, err := probe.OpenFile(c.path, probe.FileConfig{Filter: probe.Filter{Ports: c.ports}})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// checkLedger checks the sums that worker.Stats and stream.Stats promise.
func checkLedger(t *testing.T, w *worker.Stats) {
	t.Helper()
	s := &w.Stream
	classes := s.ParsedBytes + s.RepeatedBytes + s.SkippedBytes + s.OpaqueBytes + s.DiscardedBytes + s.HeldBytes
	switch {
	case w.Segments != w.Fed+w.Strays+w.Late || w.Fed != s.Segments:
		t.Errorf("segments do not add up: %+v", *w)
	case w.Opened != w.Closed+w.Connections || w.Connections != 0:
		t.Errorf("connections do not add up: %+v", *w)
	case s.Bytes != classes || s.HeldBytes != 0:
		t.Errorf("bytes do not add up, %d of %d: %+v", classes, s.Bytes, *s)
	case s.Commands != s.CommandEvents+s.PendingCommands || s.PendingCommands != 0:
		t.Errorf("commands do not add up: %+v", *s)
	case s.KeptBytes != 0 || s.Statements != 0:
		t.Errorf("closed connections keep memory: %+v", *s)
	}
}

// checkSessions checks that each session has one start, or one refused login,
// then its commands, numbered without a hole, then one end that counts them.
func checkSessions(t *testing.T, list []event) {
	t.Helper()
	type session struct {
		begun, ended     bool
		commands, errors uint64
	}
	sessions := map[uint64]*session{}
	for i := range list {
		e := &list[i]
		s := sessions[e.session]
		begins := e.kind == "session_start" || e.kind == "login_failed" && e.source != "change_user"
		switch {
		case s == nil && begins:
			s = &session{begun: true}
			sessions[e.session] = s
		case s == nil || s.ended || begins:
			t.Errorf("out of place: %s", e.line())
			continue
		case e.kind == "command":
			s.commands++
			if e.seq != s.commands {
				t.Errorf("the %dth of its session: %s", s.commands, e.line())
			}
		case e.kind == "session_end":
			s.ended = true
			if e.commands != s.commands || e.errors != s.errors {
				t.Errorf("%d commands, %d errors: %s", s.commands, s.errors, e.line())
			}
		}
		if e.status == "error" {
			s.errors++
		}
	}
	for id, s := range sessions {
		if !s.ended {
			t.Errorf("session %d has no end", id)
		}
	}
}

// segments reads a whole capture into memory.
func segments(t *testing.T, c *capture) []probe.Segment {
	t.Helper()
	f := openCapture(t, c)
	defer f.Close()
	var list []probe.Segment
	for {
		b, err := f.Next()
		if b != nil {
			for _, s := range b.Segments {
				s.Payload = slices.Clone(s.Payload)
				list = append(list, s)
			}
			f.Release()
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A replay is a Source that hands out segments from memory, size at a time. It
// wipes their payloads when they go back, so that whoever still borrows one
// shows it.
type replay struct {
	segments []probe.Segment
	size     int
	next     int
	batch    probe.Batch
	arena    []byte
}

// Next copies the next segments, since a shard may turn them and none may stay.
func (r *replay) Next() (*probe.Batch, error) {
	if r.next == len(r.segments) {
		return nil, io.EOF
	}
	end := min(r.next+r.size, len(r.segments))
	bytes := 0
	for i := r.next; i < end; i++ {
		bytes += len(r.segments[i].Payload)
	}
	r.arena = slices.Grow(r.arena[:0], bytes)
	r.batch.Segments = append(r.batch.Segments[:0], r.segments[r.next:end]...)
	for i := range r.batch.Segments {
		s := &r.batch.Segments[i]
		from := len(r.arena)
		r.arena = append(r.arena, s.Payload...)
		s.Payload = r.arena[from:len(r.arena):len(r.arena)]
		r.batch.NowNs = max(r.batch.NowNs, s.TimeNs)
	}
	r.next = end
	return &r.batch, nil
}

// Release takes the batch back.
func (r *replay) Release() {
	for i := range r.arena {
		r.arena[i] = '#'
	}
}
