package worker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sqlwitness/probe"
	"sqlwitness/stream"
)

// clocked is a Sink that keeps when sessions ended, and how long what took.
type clocked struct{ lines []string }

func (c *clocked) Put(e *stream.Event) {
	if e.Kind == stream.KindSessionStart {
		return
	}
	text := string(e.SQL)
	if e.Kind == stream.KindSessionEnd {
		text = e.EndReason.String()
	}
	for i, name := range stream.EventFlagNames {
		if e.Flags>>i&1 != 0 && name != "mid_stream" {
			text += " +" + name
		}
	}
	c.lines = append(c.lines, fmt.Sprintf("%d %s at %v took %v", e.Session.Client.Port(), text, time.Duration(e.TimeNs).Round(ms10), time.Duration(e.DurationNs).Round(ms10)))
}
func (c *clocked) Flush() {}

const ms10 = 10 * time.Millisecond

// A step is a clock that is set in the middle of a test.
type step struct {
	*stage
	out      *clocked
	now, set int64
}

// newStep is a stage whose clock shows an hour.
func newStep(t *testing.T, c Config) *step {
	g := &step{stage: newStage(t, c), out: &clocked{}, now: 3600 * second}
	g.shard.sink = g.out
	return g
}

// tick lets time pass, then hands out segments.
func (g *step) tick(ns int64, make func(now int64) []probe.Segment) {
	g.now += ns
	b := &probe.Batch{NowNs: g.now, SetNs: g.set}
	if g.set = 0; make != nil {
		b.Segments = make(g.now)
	}
	g.shard.take(b)
}

// setClock sets the clock. Told says that the source can tell.
func (g *step) setClock(ns int64, told bool) {
	if g.now += ns; told {
		g.set = ns
	}
}

func (g *step) expect(want ...string) {
	g.t.Helper()
	if fmt.Sprint(g.out.lines) != fmt.Sprint(want) {
		g.t.Errorf("events\n%q\nwant\n%q", g.out.lines, want)
	}
	g.out.lines = nil
}

func both(port uint16, n int) func(int64) []probe.Segment {
	return func(now int64) []probe.Segment { return query(now, port, n) }
}

// Behind a clock that was set back, what waits for time does not wait for the length
// of the step: ports that linger, events without a user, resets, holes, and what
// sessions last.
func TestClockSetBack(t *testing.T) {
	for _, told := range []bool{true, false} {
		t.Run(fmt.Sprint("told ", told), func(t *testing.T) {
			g := newStep(t, Config{})
			g.tick(0, func(now int64) []probe.Segment {
				s := append(query(now, 40000, 0), query(now, 40001, 0)...)
				s = append(s, query(now, 40002, 0)...)
				return append(s, segment(now, 40000, true, probe.FIN|probe.ACK, 1013, 5011, nil), segment(now, 40000, false, probe.FIN|probe.ACK, 5011, 1014, nil),
					segment(now, 40002, true, probe.RST, 1013, 0, nil))
			})
			g.tick(second/10, func(now int64) []probe.Segment { // a hole that nobody has acknowledged
				return []probe.Segment{packet(now, 40003, true, 1000, 5000, 0, "\x03select 0"), packet(now, 40003, true, 1113, 5000, 0, "\x03select 9")}
			})
			g.out.lines = nil
			g.setClock(-3590*second, told)
			for range 60 {
				g.tick(second/10, nil)
			}
			if n := len(g.shard.table.closed); n != 0 {
				t.Errorf("%d closed connections are remembered", n)
			}
			if n := g.shard.ids.waiting.len(); n != 0 {
				t.Errorf("%d connections wait for their user", n)
			}
			if g.shard.table.flows.find(&probe.Flow{Client: segment(0, 40002, true, 0, 0, 0, nil).Flow.Client, Server: loggedInFlow.Server}) != nil {
				t.Error("the reset connection is remembered")
			}
			if s := g.shard.env.Stats; s.Gaps != 1 {
				t.Errorf("%d holes given up, want 1", s.Gaps)
			}
		})
	}
}

// Nothing is given up because the clock was set forward, if the source tells, and
// nothing seems to have lasted for the step.
func TestClockSetForward(t *testing.T) {
	g := newStep(t, Config{})
	g.tick(0, func(now int64) []probe.Segment { return append(login(now, 40000), query(now, 40001, 0)...) })
	g.tick(second/10, func(now int64) []probe.Segment {
		return []probe.Segment{packet(now, 40003, true, 1000, 5000, 0, "\x03select 0"), packet(now, 40003, true, 1113, 5000, 0, "\x03select 9")}
	})
	g.out.lines = nil
	day := 24 * 3600 * second
	g.setClock(day, true)
	for range 3 {
		g.tick(second/10, nil)
	}
	g.expect()
	if s := g.shard.env.Stats; s.Gaps != 0 || g.shard.table.open != 3 || g.shard.ids.waiting.len() != 1 {
		t.Errorf("%d holes given up, %d connections open, events of %d wait; want 0, 3 and 1", s.Gaps, g.shard.table.open, g.shard.ids.waiting.len())
	}
	for range 20 {
		g.tick(second/10, nil)
	}
	g.expect(`40001 select 0 +user_unknown at 1h0m0s took 0s`)
	g.shard.closeAll()
	for i, line := range g.out.lines {
		g.out.lines[i] = line[:5] + line[len(line)-len(" took 0s"):]
	}
	g.expect("40000 took 0s", "40001 took 0s", "40003 took 0s", "40003 took 0s", "40003 took 0s")
}

// A command under way, and its session, last as long as they do, and are told in the
// new clock.
func TestClockSetMeanwhile(t *testing.T) {
	for _, by := range []int64{-1800 * second, 1800 * second} {
		t.Run(time.Duration(by).String(), func(t *testing.T) {
			g := newStep(t, Config{})
			g.tick(0, func(now int64) []probe.Segment { return login(now, 40000) })
			g.out.lines = nil
			last := login(0, 40000)[4]
			request, reply := last.Ack, last.Seq+uint32(len(last.Payload))
			g.tick(second, func(now int64) []probe.Segment {
				return []probe.Segment{packet(now, 40000, true, request, reply, 0, "\x03select 2")}
			})
			g.setClock(by, true)
			g.tick(second/2, func(now int64) []probe.Segment {
				return []probe.Segment{packet(now, 40000, false, reply, request+13, 1, okBody)}
			})
			began := time.Duration(3601*second + by)
			g.expect(fmt.Sprintf("40000 select 2 at %v took 500ms", began))
			g.shard.closeAll()
			g.expect(fmt.Sprintf("40000 capture_end at %v took 1.5s", began+500*time.Millisecond))
		})
	}
}

// A process list that was read before the clock was set back tells nothing of what
// came behind, though its time is later.
func TestClockSetBackIdentity(t *testing.T) {
	g := newStep(t, Config{IdentityWait: 10 * time.Second})
	g.tick(0, both(40001, 0))
	g.desk.snap = list(1, g.now+1, g.now+2, map[uint16]string{40005: "ann"})
	g.setClock(-2*second, true)
	g.tick(second/10, both(40005, 0))
	g.tick(3*second, nil) // now the clock is behind its end
	g.expect()
	g.desk.snap = list(2, g.now-second, g.now-second+1, map[uint16]string{40005: "bob", 40001: "joe"})
	g.shard.sink = g.stage.out
	g.tick(second/10, nil)
	g.tick(second/10, both(40005, 1))
	slices.Sort(g.stage.out.lines) // those of several connections are in no order
	g.stage.expect(`command "select 0" bob/processlist db=shop`, `command "select 0" joe/processlist db=shop`, `command "select 1" bob/processlist db=shop`)
}

// A process list that was read in the new clock waits for the capture to get there.
func TestClockSetBackAhead(t *testing.T) {
	g := newStep(t, Config{IdentityWait: 10 * time.Second})
	g.desk.snap = list(1, g.now-2*second, g.now-second, nil)
	g.tick(0, both(40001, 0))
	g.tick(second/10, nil)
	g.desk.snap = list(2, 3000*second, 3000*second+1, map[uint16]string{40001: "ann"})
	g.tick(second/10, nil)
	if at := g.shard.ids.applied; at == nil || at.Serial != 1 {
		t.Errorf("applied %v, want the first", at)
	}
	g.setClock(-600*second, true)
	g.tick(second/10, nil)
	g.desk.snap = list(3, g.now+1, g.now+2, map[uint16]string{40001: "ann"})
	g.shard.sink = g.stage.out
	g.tick(second/10, nil)
	g.stage.expect(`command "select 0" ann/processlist db=shop`)
}

// Nor does a proxy's: what waits for its client goes without one.
func TestClockSetBackProxied(t *testing.T) {
	g, out, proxy := newProxyStage(t, Config{})
	proxy.told(40000, 1, 2)
	g.batch(2500*ms, query(2500*ms, 40000, 0)...)
	out.expect(t, line("session_start", "", "-", peer40000, `"" from `))
	g.shard.take(&probe.Batch{NowNs: 1000 * ms, SetNs: -1500 * ms})
	out.expect(t, line("command", "select 0", "-", peer40000, `"" from `))
	proxy.told(40000, 1.5, 2.6)
	g.batch(2700 * ms)
	out.expect(t)
}
