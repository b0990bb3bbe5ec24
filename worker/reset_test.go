package worker

import (
	"testing"

	"sqlwitness/probe"
)

// A RST that its receiver only answers ends nothing: the session goes on, with its
// user. Where bytes are missing, one behind them is believed.
func TestResetOutOfPlace(t *testing.T) {
	for name, c := range map[string]struct {
		segments func(l *dialogue) []probe.Segment
		believed bool
	}{
		"ahead": {func(l *dialogue) []probe.Segment {
			return []probe.Segment{segment(l.now, 40000, true, probe.RST|probe.ACK, l.request+1000, l.reply, nil)}
		}, false},
		"behind": {func(l *dialogue) []probe.Segment {
			return []probe.Segment{segment(l.now, 40000, true, probe.RST, l.request-1, 0, nil)}
		}, false},
		"of the server, ahead": {func(l *dialogue) []probe.Segment {
			return []probe.Segment{segment(l.now, 40000, false, probe.RST, l.reply+1, 0, nil)}
		}, false},
		"in place": {func(l *dialogue) []probe.Segment {
			return []probe.Segment{segment(l.now, 40000, true, probe.RST|probe.ACK, l.request, l.reply, nil)}
		}, true},
		"out of place, then in place": {func(l *dialogue) []probe.Segment {
			return []probe.Segment{segment(l.now, 40000, true, probe.RST, l.request+9, 0, nil), segment(l.now, 40000, true, probe.RST, l.request, 0, nil)}
		}, true},
		"behind bytes that are missing": {func(l *dialogue) []probe.Segment {
			return []probe.Segment{segment(l.now-1, 40000, true, probe.ACK, l.request+20, l.reply, []byte("x")),
				segment(l.now, 40000, true, probe.RST|probe.ACK, l.request+21, l.reply, nil)}
		}, true},
		"behind bytes that the server has": {func(l *dialogue) []probe.Segment {
			return []probe.Segment{segment(l.now, 40000, false, probe.ACK, l.reply, l.request+20, nil),
				segment(l.now, 40000, true, probe.RST|probe.ACK, l.request+20, l.reply, nil)}
		}, true},
		"of the FIN's own number": {func(l *dialogue) []probe.Segment {
			return []probe.Segment{segment(l.now, 40000, false, probe.FIN|probe.ACK, l.reply, l.request, nil),
				segment(l.now, 40000, false, probe.RST, l.reply, 0, nil)}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := loggedIn(t, Config{})
			l.batch(l.now, c.segments(l)...)
			l.now += 1_200_000_000
			l.batch(l.now)
			l.now += second
			l.batch(l.now)
			switch {
			case c.believed && l.shard.env.Stats.Gaps > 0:
				l.expect("1 session_end / reset after 1 of id 7 +user_unknown")
				return
			case c.believed:
				l.expect("1 session_end orderapp/login reset after 1 of id 7")
				return
			}
			l.query("select 2")
			l.expect(`1 command 2 "select 2" orderapp/login db=orders`)
			if ignored := l.shard.env.Stats.ResetsIgnored; ignored != 1 {
				t.Errorf("%d RSTs ignored", ignored)
			}
		})
	}
}
