package worker

import (
	"testing"

	"sqlwitness/probe"
	"sqlwitness/stream"
)

// ahead is a byte of the client that its server drops: so far ahead it is.
func (l *dialogue) ahead(bytes uint32) probe.Segment {
	return segment(l.now, 40000, true, probe.ACK, l.request+bytes, l.reply, []byte("x"))
}

// tick lets time pass.
func (l *dialogue) tick(ns int64) {
	for end := l.now + ns; l.now < end; {
		l.now += second / 10
		l.batch(l.now)
	}
}

// A byte far ahead hides no command that follows, nor whose it is, in no mode in which
// the server's Acks are seen.
func TestForgedAhead(t *testing.T) {
	for _, mode := range []probe.Mode{probe.ModeFull, probe.ModeStatus} {
		l := loggedIn(t, Config{Stream: stream.Config{Mode: mode}})
		l.batch(l.now, l.ahead(100_000))
		l.tick(20 * second)
		l.query("select 2")
		l.tick(2 * second)
		l.expect(`1 command 2 "select 2" orderapp/login db=orders`)
		if s := &l.shard.env.Stats; s.Gaps != 0 || s.RepeatedBytes != 0 {
			t.Errorf("%d gaps, %d bytes taken for repeats", s.Gaps, s.RepeatedBytes)
		}
	}
}

// Where the hole before it was given up, the command is read all the same, of a user who
// is in doubt until the process list confirms it.
func TestForgedAheadLongAgo(t *testing.T) {
	l := loggedIn(t, Config{})
	l.batch(l.now, l.ahead(100_000))
	l.tick(31 * second)
	l.query("select 2")
	l.query("select 3")
	l.expect()
	l.poll(1, 7, "orderapp")
	l.expect(`1 command 2 "select 2" orderapp/login db=shop +gap_before`, `1 command 3 "select 3" orderapp/login db=shop`)
	if n := l.shard.env.Stats.RepeatedBytes; n != 0 {
		t.Errorf("%d bytes taken for repeats", n)
	}
}

// Nor does it where the connection seemed to end meanwhile.
func TestForgedAheadOfReset(t *testing.T) {
	l := loggedIn(t, Config{})
	x := l.ahead(100_000)
	l.batch(l.now, x, segment(l.now+1, 40000, true, probe.RST|probe.ACK, x.Seq+1, l.reply, nil))
	l.tick(12 * second / 10)
	l.expect("1 session_end / reset after 1 of id 7 +user_unknown")
	l.query("select 2")
	l.tick(3 * second)
	l.expect("2 session_start / +mid_stream +user_unknown", `2 command 1 "select 2" / +mid_stream +user_unknown`)
	if late := l.shard.stats.Late; late != 0 {
		t.Errorf("%d late segments", late)
	}
}

// An Ack of what the server has not sent hides nothing of what follows: neither the
// commands, whose Acks are lower, nor their answers.
func TestForgedAck(t *testing.T) {
	for name, c := range map[string]struct {
		wait int64
		want []string
	}{
		"soon": {second / 10, []string{`1 command 2 "select 2" orderapp/login db=orders +gap_before`,
			`1 command 3 "select 3" orderapp/login db=orders`, `1 command 4 "select 4" orderapp/login db=orders`}},
		"late": {40 * second, []string{`1 command 2 "select 2" orderapp/login db=shop +gap_before`,
			`1 command 3 "select 3" orderapp/login db=shop`, `1 command 4 "select 4" orderapp/login db=shop`}},
	} {
		t.Run(name, func(t *testing.T) {
			l := loggedIn(t, Config{})
			x := l.ahead(100)
			x.Ack += 1000
			l.batch(l.now, x)
			l.tick(c.wait)
			l.query("select 2")
			l.query("select 3")
			l.query("select 4")
			l.poll(1, 7, "orderapp")
			l.expect(c.want...)
			if s := &l.shard.env.Stats; s.RepeatedBytes != 0 || s.SkippedBytes > 1 {
				t.Errorf("%d bytes taken for repeats, %d passed over", s.RepeatedBytes, s.SkippedBytes)
			}
		})
	}
}
