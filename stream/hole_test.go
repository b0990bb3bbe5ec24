package stream

import (
	"fmt"
	"testing"
	"time"

	"sqlwitness/probe"
)

// A stretch is a connection with one command answered, and the clock of its ticks.
type stretch struct {
	t     *testing.T
	conn  *Conn
	env   *Env
	lines *[]string
	now   int64
}

func newStretch(t *testing.T, config Config) *stretch {
	g := &stretch{t: t, now: 1e9}
	g.conn, g.env, g.lines = taken(config)
	g.feed(ask(1), answer(1))
	return g
}

// ask is command n, answer its response: each is the n-th of its direction.
func ask(n uint32) *probe.Segment {
	return textSegment(true, 1000+13*(n-1), 5000+11*(n-1), 0, fmt.Sprintf("\x03select %d", n))
}

// piped is ask of a client that has not waited for an answer since the first.
func piped(n uint32) *probe.Segment {
	s := ask(n)
	s.Ack = 5011
	return s
}

func answer(n uint32) *probe.Segment {
	return textSegment(false, 5000+11*(n-1), 1000+13*n, 1, okReply)
}

// forged is bytes of the client that its server drops: so far ahead they are.
func forged(ahead uint32, payload []byte) *probe.Segment {
	return &probe.Segment{FromClient: true, Flags: probe.ACK, Seq: 1013 + ahead, Ack: 5011, Payload: payload}
}

// feed is a batch.
func (g *stretch) feed(segments ...*probe.Segment) {
	g.now += 1e6
	for _, s := range segments {
		s.TimeNs = g.now
		g.conn.Feed(s)
	}
	g.conn.Settle(g.now)
}

// wait lets time pass, tick by tick.
func (g *stretch) wait(d time.Duration) {
	for range d / (100 * time.Millisecond) {
		g.now += 100e6
		g.conn.Settle(g.now)
	}
}

func (g *stretch) expect(gaps uint64, want ...string) {
	g.t.Helper()
	if got := fmt.Sprint(*g.lines); got != fmt.Sprint(want) || g.env.Stats.Gaps != gaps {
		g.t.Errorf("%s and %d gaps, want %s and %d", got, g.env.Stats.Gaps, want, gaps)
	}
}

func (g *stretch) close() {
	g.conn.Close(EndCapture)
	checkLedger(g.t, g.env)
}

// A segment of the client that the network has lost comes again, however late: what
// the server says meanwhile leaves it open, and so is the hole.
func TestHoleOfNetwork(t *testing.T) {
	for _, mode := range []probe.Mode{probe.ModeFull, probe.ModeStatus} {
		g := newStretch(t, Config{Mode: mode})
		g.feed(piped(3), piped(4))
		g.wait(20 * time.Second)
		g.feed(answer(1)) // a repeat
		g.wait(20 * time.Second)
		g.feed(ask(2))
		g.feed(answer(2), answer(3), answer(4))
		g.feed(ask(5), answer(5))
		g.expect(0, "select 1 ok", "select 2 ok", "select 3 ok", "select 4 ok", "select 5 ok")
		if n := g.env.Stats.RepeatedBytes; mode == probe.ModeFull && n != 11 {
			t.Errorf("%d bytes taken for repeats", n)
		}
		g.close()
	}
}

// What the capture has lost does not come again, and nothing waits for it: the
// server's Ack tells. Neither does anything wait longer than GapWait where nothing
// tells: the server's bytes are not captured, lack some too, or have ended.
func TestHoleOfCapture(t *testing.T) {
	t.Run("acknowledged", func(t *testing.T) {
		g := newStretch(t, Config{})
		g.feed(ask(3), answer(2), answer(3))
		g.wait(100 * time.Millisecond)
		g.expect(1, "select 1 ok", "select 3 ok")
		g.close()
	})
	t.Run("acknowledged in part", func(t *testing.T) {
		g := newStretch(t, Config{})
		last := ask(4)
		last.Ack = 5022
		g.feed(last, answer(2)) // select 3 is of the network
		g.wait(20 * time.Second)
		g.expect(1, "select 1 ok")
		g.feed(ask(3))
		g.feed(answer(3), answer(4))
		g.expect(1, "select 1 ok", "select 3 ok", "select 4 ok")
		g.close()
	})
	waits := func(name string, least, most time.Duration, feed func(g *stretch)) {
		t.Run(name, func(t *testing.T) {
			g := newStretch(t, Config{})
			feed(g)
			before := g.env.Stats.Gaps
			g.wait(least)
			if g.env.Stats.Gaps > before && least > 0 {
				t.Errorf("given up before %v", least)
			}
			g.wait(most - least)
			if len(g.conn.client.held) > 0 {
				t.Errorf("still open after %v", most)
			}
			g.close()
		})
	}
	waits("of whichever", 29*time.Second, 31*time.Second, func(g *stretch) { g.feed(piped(3)) })
	waits("the answers are missing too", 0, 1200*time.Millisecond, func(g *stretch) {
		s := ask(3)
		s.Ack = 5022
		g.feed(s)
	})
	waits("the server has closed", 900*time.Millisecond, 1200*time.Millisecond, func(g *stretch) {
		g.feed(&probe.Segment{Flags: probe.ACK | probe.FIN, Seq: 5011, Ack: 1013})
		g.feed(piped(3))
	})
	waits("the server is not captured any more", 900*time.Millisecond, 1200*time.Millisecond, func(g *stretch) {
		g.feed(piped(3))
		g.wait(31 * time.Second) // tells so
		g.feed(piped(5))
	})
	t.Run("the server was never captured", func(t *testing.T) {
		g := &stretch{t: t, now: 1e9}
		g.conn, g.env, g.lines = taken(Config{})
		g.feed(ask(1))
		g.feed(ask(3))
		g.wait(1200 * time.Millisecond)
		if g.env.Stats.Gaps == 0 || len(g.conn.client.held) > 0 {
			t.Error("still open")
		}
		g.close()
	})
}

// Bytes far ahead, which the server drops, hide nothing of what it takes: neither
// while they wait nor once the hole before them was given up, for whatever reason.
func TestForgedAhead(t *testing.T) {
	lots := func(g *stretch) {
		for n := range uint32(100) {
			g.feed(forged(100_000+1000*n, make([]byte, 999)))
		}
	}
	for name, forge := range map[string]func(g *stretch){
		"soon":      func(g *stretch) { g.feed(forged(100_000, []byte("x"))); g.wait(5 * time.Second) },
		"late":      func(g *stretch) { g.feed(forged(100_000, []byte("x"))); g.wait(40 * time.Second) },
		"a command": func(g *stretch) { g.feed(forged(13_000, ask(9).Payload)); g.wait(40 * time.Second) },
		"two holes": func(g *stretch) {
			g.feed(forged(5_000, []byte("x")), forged(9_000, []byte("y")))
			g.wait(99 * time.Second)
		},
		"what may be held": lots,
		"all that is held": func(g *stretch) { g.feed(forged(100_000, make([]byte, 19_610))); g.wait(2 * time.Second) },
		"memory is short":  func(g *stretch) { g.feed(forged(100_000, []byte("x"))); g.conn.Relieve() },
		"with a FIN":       func(g *stretch) { s := forged(9_000, nil); s.Flags |= probe.FIN; g.feed(s); g.wait(40 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newStretch(t, Config{MaxHeld: 20_000})
			forge(g)
			g.feed(ask(2), answer(2))
			g.feed(ask(3), answer(3))
			g.feed(ask(4), answer(4))
			g.wait(time.Second)
			if gaps := g.env.Stats.Gaps; gaps != 0 && (name == "soon" || name == "all that is held") {
				t.Errorf("%d holes given up", gaps)
			}
			if g.conn.client.closed {
				t.Error("the client is taken for closed")
			}
			g.conn.Close(EndCapture)
			seen := fmt.Sprint(*g.lines)
			for n := 1; n <= 4; n++ {
				if text := fmt.Sprintf("select %d ", n); !contains(*g.lines, text) {
					t.Errorf("%s is missing: %s", text, seen)
				}
			}
			checkLedger(t, g.env)
		})
	}
}

func contains(lines []string, prefix string) bool {
	for _, line := range lines {
		if len(line) >= len(prefix) && line[:len(prefix)] == prefix {
			return true
		}
	}
	return false
}

// Once the server has acknowledged it, a segment behind which the reading has gone is
// a repeat.
func TestRepeatOfGivenUp(t *testing.T) {
	g := newStretch(t, Config{})
	g.feed(piped(3))
	g.wait(40 * time.Second) // given up
	g.feed(answer(2), answer(3))
	g.feed(ask(2)) // of a mirror, say
	g.feed(ask(4), answer(4))
	if contains(*g.lines, "select 2 ") || !contains(*g.lines, "select 4 ok") || g.env.Stats.RepeatedBytes != 13 {
		t.Errorf("%s, %d bytes taken for repeats", *g.lines, g.env.Stats.RepeatedBytes)
	}
	g.close()
}

// A span ends before bytes that the server never had: they may yet come.
func TestSpanBeforeHole(t *testing.T) {
	g := newStretch(t, Config{})
	g.feed(forged(9_000, []byte("x")))
	g.close()
	span := g.conn.Span()
	if !span.Beyond(ask(2)) || span.Beyond(ask(1)) {
		t.Errorf("the span is %+v", span)
	}
}

// Where the capture begins in the middle of a connection, the first segment may be
// forged ahead, or come before one that the network has lost: what lies below it, and is
// still to come, is no repeat.
func TestBeginsAhead(t *testing.T) {
	two, three := []*probe.Segment{ask(2), answer(2), ask(3), answer(3)}, []*probe.Segment{piped(2), answer(2), answer(3)}
	for name, c := range map[string]struct {
		first, then []*probe.Segment
		want        []string
	}{
		"a byte":              {[]*probe.Segment{forged(9_000, []byte("x"))}, two, []string{"select 2 ok", "select 3 ok"}},
		"a command":           {[]*probe.Segment{forged(13_000, ask(9).Payload)}, two, []string{"select 9 unknown", "select 2 ok", "select 3 ok"}},
		"heard":               {[]*probe.Segment{forged(13_000, ask(9).Payload), answer(1)}, two, []string{"select 9 unknown", "select 2 ok", "select 3 ok"}},
		"of the network":      {[]*probe.Segment{piped(3)}, three, []string{"select 3 unknown", "select 2 ok"}},
		"of it, heard":        {[]*probe.Segment{piped(3), answer(1)}, three, []string{"select 3 unknown", "select 2 ok"}},
		"of it, heard before": {[]*probe.Segment{answer(1), piped(3)}, three, []string{"select 2 ok", "select 3 ok"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := &stretch{t: t, now: 1e9}
			g.conn, g.env, g.lines = taken(Config{})
			g.feed(c.first...)
			g.wait(5 * time.Second)
			for _, s := range c.then {
				g.feed(s)
			}
			g.wait(time.Second)
			if got := fmt.Sprint(*g.lines); got != fmt.Sprint(c.want) {
				t.Errorf("%s, want %s", got, c.want)
			}
			g.close()
		})
	}
}

// What the server had before is a repeat there as well.
func TestBeginsBehind(t *testing.T) {
	g := &stretch{t: t, now: 1e9}
	g.conn, g.env, g.lines = taken(Config{})
	g.feed(ask(3), answer(3))
	g.feed(ask(2))
	g.feed(ask(4), answer(4))
	g.expect(0, "select 3 ok", "select 4 ok")
	if n := g.env.Stats.RepeatedBytes; n != 13 {
		t.Errorf("%d bytes taken for repeats", n)
	}
	g.close()
}
