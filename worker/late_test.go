package worker

import (
	"slices"
	"testing"
	"time"

	"sqlwitness/probe"
	"sqlwitness/stream"
	"sqlwitness/watcher"
)

// A connection that goes on behind its end is no repeat: whatever made the shard
// give it up, what it had not sent before is read. What it had is late.
func TestGoesOnBehindEnd(t *testing.T) {
	const port = 40000
	reset := func(fromClient bool, seq, ack uint32) []probe.Segment {
		return []probe.Segment{segment(second+2, port, fromClient, probe.RST|probe.ACK, seq, ack, nil)}
	}
	fins := []probe.Segment{
		segment(second+2, port, true, probe.FIN|probe.ACK, 1013, 5011, nil),
		segment(second+3, port, false, probe.FIN|probe.ACK, 5011, 1014, nil),
	}
	for name, c := range map[string]struct {
		config Config
		end    []probe.Segment
		reason string
		client uint32 // how far away the next bytes are
		server uint32
	}{
		"reset by the client":      {Config{}, reset(true, 1013, 5011), "reset", 0, 0},
		"reset by the server":      {Config{}, reset(false, 5011, 1013), "reset", 0, 0},
		"reset, bytes are missing": {Config{}, reset(true, 1013, 5011), "reset", 70, 90},
		"reset, bytes are hidden":  {Config{Stream: stream.Config{Mode: probe.ModeNone}}, reset(true, 2013, 5011), "reset", 0, 0},
		"silent for too long":      {Config{IdleTimeout: time.Second}, nil, "timeout", 0, 0},
		"another's, near":          {Config{}, fins, "fin", 5000, 7000},
		"another's, far ahead":     {Config{}, fins, "fin", 1 << 30, 1 << 31},
		"another's, far behind":    {Config{}, fins, "fin", 3 << 30, 3 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			src, out := &script{}, &tape{}
			status := "ok" // in ModeNone only of a reply that comes in order
			if c.config.Stream.Mode == probe.ModeNone {
				status = ""
			}
			const end = second + 1_200_000_000
			first := slices.Concat(query(second, port, 0), c.end)
			again := clone(query(end+second/10, port, 0))
			next := clone(query(end+second/5, port, 1))
			next[0].Seq, next[0].Ack = next[0].Seq+c.client, next[0].Ack+c.server
			next[1].Seq, next[1].Ack = next[1].Seq+c.server, next[1].Ack+c.client
			if c.client < 1<<20 { // else nothing tells where the first bytes begin
				slices.Reverse(next) // as a capture of two queues may bring them
			}
			src.batches = []probe.Batch{{Segments: first, NowNs: second + 4}, {NowNs: end},
				{Segments: again, NowNs: end + second/10}, {Segments: next, NowNs: end + second/5}, {NowNs: end + second/4}, {NowNs: end + second/2}}
			s := NewShard(c.config, src, out)
			if err := s.Run(); err != nil {
				t.Fatal(err)
			}
			checkSums(t, s.Stats())
			expect(t, out, "session_start 40000   ", "command 40000 select 0 ok ", "session_end 40000   "+c.reason,
				"session_start 40000   ", "command 40000 select 1 "+status+" ", "session_end 40000   capture_end")
			if late := s.Stats().Late; late != uint64(len(again)) {
				t.Errorf("%d late segments, want %d", late, len(again))
			}
		})
	}
}

// clone copies segments, so that one batch may be handed out twice.
func clone(segs []probe.Segment) []probe.Segment {
	segs = slices.Clone(segs)
	for i := range segs {
		segs[i].Payload = slices.Clone(segs[i].Payload)
	}
	return segs
}

// A connection that the process list has no more, and that goes on, is read.
func TestGoesOnWhenGone(t *testing.T) {
	l := loggedIn(t, Config{})
	l.poll(1, 7, "orderapp")
	for serial := range uint64(2) {
		l.now += second / 10
		l.desk.snap = watcher.NewSnapshot(2+serial, l.now, l.now+10, true, nil)
		l.now += second / 10
		l.batch(l.now)
	}
	l.expect("1 session_end orderapp/login gone after 1 of id 7")
	late := l.shard.stats.Late
	l.query("select 2")
	l.now += 3 * second
	l.batch(l.now)
	l.expect("2 session_start / +mid_stream +user_unknown", `2 command 1 "select 2" / +mid_stream +user_unknown`)
	if l.shard.stats.Late != late {
		t.Errorf("%d late segments", l.shard.stats.Late-late)
	}
}

// A segment of which a part was taken before is read from there on.
func TestLateInPart(t *testing.T) {
	src, out := &script{}, &tape{}
	both := query(2*second+2, 40000, 0)[0]
	both.Ack = 5011
	both.Payload = append(slices.Clone(both.Payload), query(2*second, 40000, 1)[0].Payload...)
	src.batches = []probe.Batch{{Segments: query(second, 40000, 0), NowNs: second}, {NowNs: 2*second + 2},
		{Segments: []probe.Segment{both, query(2*second+2, 40000, 1)[1]}, NowNs: 2*second + 3}}
	if err := NewShard(Config{IdleTimeout: time.Second}, src, out).Run(); err != nil {
		t.Fatal(err)
	}
	expect(t, out, "session_start 40000   ", "command 40000 select 0 ok ", "session_end 40000   timeout",
		"session_start 40000   ", "command 40000 select 1 ok ", "session_end 40000   capture_end")
}
