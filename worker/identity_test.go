package worker

import (
	"fmt"
	"io"
	"net/netip"
	"testing"
	"time"

	"sqlwitness/probe"
	"sqlwitness/stream"
	"sqlwitness/watcher"
)

// desk is a Watcher whose snapshots come when the test says so.
type desk struct {
	snap   *watcher.Snapshot
	wanted map[uint16]int
}

func (d *desk) Snapshot() *watcher.Snapshot { return d.snap }
func (d *desk) Want(p watcher.Peer) bool {
	if d.wanted == nil {
		d.wanted = make(map[uint16]int)
	}
	d.wanted[p.Addr.Port()]++
	return true
}
func (d *desk) Forget(p watcher.Peer) { delete(d.wanted, p.Addr.Port()) }

// list is a snapshot of [begin, end] with a row for each port.
func list(serial uint64, begin, end int64, users map[uint16]string) *watcher.Snapshot {
	var rows []watcher.Session
	for port, user := range users {
		rows = append(rows, watcher.Session{ConnectionID: uint64(port), User: user, UserKnown: true, DB: "shop", DBKnown: true,
			Client: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.2"), port)})
	}
	snap := watcher.NewSnapshot(serial, begin, end, true, rows)
	snap.NoDetails = "performance_schema is off"
	return snap
}

// names is a Sink that keeps who is said to have done what.
type names struct{ lines []string }

func (n *names) Put(e *stream.Event) {
	if e.Kind == stream.KindSessionStart {
		return
	}
	line := fmt.Sprintf("%s %q %s/%s", e.Kind, e.SQL, e.User, e.UserSource)
	if e.DBKnown {
		line += " db=" + e.DB
	}
	for i, name := range stream.EventFlagNames {
		if e.Flags>>i&1 != 0 && name != "mid_stream" {
			line += " +" + name
		}
	}
	n.lines = append(n.lines, line)
}
func (n *names) Flush() {}

// stage is a shard that the test feeds batch by batch.
type stage struct {
	t     *testing.T
	shard *Shard
	desk  *desk
	out   *names
}

func newStage(t *testing.T, c Config) *stage {
	g := &stage{t: t, desk: &desk{}, out: &names{}}
	c.Watcher = g.desk
	g.shard = NewShard(c, &script{}, g.out)
	return g
}

func (g *stage) batch(now int64, segments ...probe.Segment) {
	g.shard.take(&probe.Batch{Segments: segments, NowNs: now})
}

func (g *stage) expect(want ...string) {
	g.t.Helper()
	if fmt.Sprint(g.out.lines) != fmt.Sprint(want) {
		g.t.Errorf("events\n%q\nwant\n%q", g.out.lines, want)
	}
	g.out.lines = nil
}

// Events wait for the snapshot, and have its user when it comes. What comes later
// has it at once.
func TestIdentity(t *testing.T) {
	g := newStage(t, Config{})
	g.batch(second, query(second, 40000, 0)...)
	g.batch(second+10, query(second+10, 40000, 1)...)
	g.expect()
	if g.desk.wanted[40000] == 0 {
		t.Error("nobody asked for the user")
	}
	g.desk.snap = list(1, 2*second, 2*second+100, map[uint16]string{40000: "ann"})
	g.batch(2*second + 50) // the capture is not behind its end
	g.expect()
	g.batch(2*second + 200)
	g.expect(`command "select 0" ann/processlist db=shop`, `command "select 1" ann/processlist db=shop`)
	g.batch(2*second+300, query(2*second+300, 40000, 2)...)
	g.expect(`command "select 2" ann/processlist db=shop`)
	if len(g.desk.wanted) != 0 || g.shard.ids.bytes != 0 || len(g.shard.ids.anonymous) != 0 {
		t.Errorf("left behind: %v wanted, %d bytes", g.desk.wanted, g.shard.ids.bytes)
	}
}

// After the wait they go without; the connection may still be found later.
func TestIdentityWait(t *testing.T) {
	g := newStage(t, Config{IdentityWait: time.Second})
	g.batch(second, query(second, 40000, 0)...)
	g.batch(second + 1_500_000_000)
	g.expect(`command "select 0" / +user_unknown`)
	g.batch(3*second, query(3*second, 40000, 1)...)
	g.expect(`command "select 1" / +user_unknown`)
	g.desk.snap = list(1, 4*second, 4*second+100, map[uint16]string{40000: "ann"})
	g.batch(5 * second)
	g.batch(5*second+1, query(5*second+1, 40000, 2)...)
	g.expect(`command "select 2" ann/processlist db=shop`)
}

// The memory of what waits is bounded: those that wait longest go.
func TestIdentityBytes(t *testing.T) {
	g := newStage(t, Config{IdentityBytes: 100_000})
	for port := range uint16(1000) {
		g.batch(second, query(second, 40000+port, 0)...)
		if g.shard.ids.bytes > 110_000 {
			t.Fatalf("%d bytes wait", g.shard.ids.bytes)
		}
	}
	if n := len(g.out.lines); n < 700 || g.out.lines[0] != `command "select 0" / +user_late` {
		t.Errorf("%d events went on, the first %q", n, g.out.lines[:1])
	}
}

// Right or silent: a snapshot does not speak of a connection that began after it
// did, that changed its user since, or whose ports were used anew.
func TestIdentityIsRight(t *testing.T) {
	users := map[uint16]string{40000: "ann"}
	t.Run("younger", func(t *testing.T) {
		g := newStage(t, Config{IdentityWait: time.Second})
		g.desk.snap = list(1, second-10, second+10, users)
		g.batch(second, query(second, 40000, 0)...)
		g.batch(second + 20)
		g.batch(3 * second)
		g.expect(`command "select 0" / +user_unknown`)
	})
	t.Run("change user", func(t *testing.T) {
		g := newStage(t, Config{})
		g.batch(second, query(second, 40000, 0)...)
		change := packet(2*second+5, 40000, true, 1013, 5011, 0, "\x11bob\x00\x00other\x00\x2d\x00")
		answer := packet(2*second+6, 40000, false, 5011, 1013+uint32(len(change.Payload)), 1, okBody)
		g.batch(2*second+7, change, answer)
		g.desk.snap = list(1, 2*second, 2*second+100, users)
		g.batch(3 * second)
		g.batch(5 * second)
		g.expect(`command "select 0" / +user_unknown`, `command "" / +user_unknown`)
	})
	t.Run("ports used anew", func(t *testing.T) {
		g := newStage(t, Config{})
		g.batch(second, query(second, 40000, 0)...)
		g.batch(2*second+5, segment(2*second+5, 40000, true, probe.SYN, 77000, 0, nil),
			segment(2*second+5, 40000, false, probe.SYN|probe.ACK, 99000, 77001, nil))
		g.desk.snap = list(1, 2*second, 2*second+100, users)
		g.batch(3 * second)
		g.expect(`command "select 0" / +user_unknown`, `session_end "" / +user_unknown`)
	})
	t.Run("ports asked for anew", func(t *testing.T) {
		g := newStage(t, Config{IdentityWait: 10 * time.Second})
		g.batch(second, query(second, 40000, 0)...)
		g.batch(2*second+5, segment(2*second+5, 40000, true, probe.SYN, 77000, 0, nil))
		g.desk.snap = list(1, 2*second, 2*second+100, users)
		g.batch(3 * second)
		g.expect()
		g.batch(4*second, query(4*second, 40000, 1)...) // the server has not heard of it
		g.desk.snap = list(2, 5*second, 5*second+100, map[uint16]string{40000: "bob"})
		g.batch(6 * second)
		g.expect(`command "select 0" bob/processlist db=shop`, `command "select 1" bob/processlist db=shop`)
	})
	t.Run("schema changed since", func(t *testing.T) {
		g := newStage(t, Config{})
		g.batch(second, query(second, 40000, 0)...)
		use := packet(second+5, 40000, true, 1013, 5011, 0, "\x03use other")
		g.batch(second+7, use, packet(second+6, 40000, false, 5011, 1013+14, 1, okBody))
		g.desk.snap = list(1, 2*second, 2*second+100, users)
		g.batch(3 * second)
		g.expect(`command "select 0" ann/processlist`, `command "use other" ann/processlist`)
	})
}

// named is a list whose rows show names instead of addresses, all of one port.
func named(serial uint64, begin, end int64, rows ...watcher.Session) *watcher.Snapshot {
	for i := range rows {
		r := &rows[i]
		r.UserKnown, r.DB, r.DBKnown, r.Port = true, "shop", true, 40000
	}
	snap := watcher.NewSnapshot(serial, begin, end, true, rows)
	snap.NoDetails = "performance_schema is off"
	return snap
}

// Where the list shows names, a row is a connection's by its port alone. It may be that
// of a client on another host, if the end of the connection was lost: its row is only
// taken if the server was heard on it behind the reading.
func TestIdentityByPort(t *testing.T) {
	bob := watcher.Session{ConnectionID: 8, User: "bob", Host: "app2"}
	for _, c := range []struct {
		name string
		then func(g *stage) // behind the reading
		want []string
	}{
		{"silent", func(g *stage) {}, []string{`command "select 0" / +user_unknown`}},
		{"the client alone", func(g *stage) { g.batch(4*second, query(4*second, 40000, 1)[0]) }, []string{`command "select 0" / +user_unknown`}},
		{"answered", func(g *stage) { g.batch(4*second, query(4*second, 40000, 1)...) },
			[]string{`command "select 0" bob/processlist db=shop`, `command "select 1" bob/processlist db=shop`}},
		{"answered before its end", func(g *stage) { g.batch(4*second, query(2*second+50, 40000, 1)...) },
			[]string{`command "select 0" / +user_unknown`, `command "select 1" / +user_unknown`}},
		{"repeated", func(g *stage) { g.batch(4*second, query(4*second, 40000, 0)...) }, []string{`command "select 0" / +user_unknown`}},
		{"others on its ports, behind a hole", func(g *stage) { g.batch(4*second, query(4*second, 40000, 9)...) },
			[]string{`command "select 0" / +user_unknown`, `command "select 9" / +gap_before +user_unknown`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newStage(t, Config{IdentityWait: 10 * time.Second})
			g.batch(second, query(second, 40000, 0)...)
			g.desk.snap = named(1, 2*second, 2*second+100, bob)
			g.batch(3 * second)
			g.expect()
			c.then(g)
			for at := 4*second + second/10; at < 20*second; at += second / 10 {
				g.batch(at)
			}
			g.expect(c.want...)
		})
	}
}

// A connection that the server does not list any more is closed; one that it never
// listed, or that spoke since, is not; nor is any if the list is not complete.
func TestExpiry(t *testing.T) {
	g := newStage(t, Config{})
	g.batch(second, append(query(second, 40000, 0), query(second, 40001, 0)...)...)
	snap := func(serial uint64, complete bool, users map[uint16]string) {
		at := int64(serial) * 10 * second
		g.desk.snap = list(serial, at, at+1, users)
		g.desk.snap.Complete = complete
		g.batch(at + 2)
	}
	both := map[uint16]string{40000: "ann", 40001: "bob"}
	snap(1, true, both)
	snap(2, true, nil)
	g.batch(25*second, query(25*second, 40001, 1)...)
	snap(3, false, nil)
	if g.shard.table.open != 2 {
		t.Fatalf("%d connections open, want 2", g.shard.table.open)
	}
	snap(4, true, nil)
	if g.shard.table.open != 1 || g.shard.stats.Expired != 1 {
		t.Errorf("%d connections open, %d expired, want 1 and 1", g.shard.table.open, g.shard.stats.Expired)
	}
}

// Sessions over the unix socket are reported once, by the shard that is told to.
func TestSockets(t *testing.T) {
	g := newStage(t, Config{Sockets: true})
	row := watcher.Session{ConnectionID: 7, User: "root", UserKnown: true, Transport: watcher.TransportSocket}
	g.desk.snap = watcher.NewSnapshot(1, 1, 2, true, []watcher.Session{row})
	g.batch(second)
	g.desk.snap = watcher.NewSnapshot(2, second+1, second+2, true, []watcher.Session{row})
	g.batch(2 * second)
	if g.shard.stats.Sockets != 1 {
		t.Errorf("%d socket sessions, want 1", g.shard.stats.Sockets)
	}
	g.desk.snap = watcher.NewSnapshot(3, 2*second+1, 2*second+2, true, nil)
	g.batch(3 * second)
	g.expect(`session_end "" root/processlist`)
}

// While a statement of such a session runs, the list may show a procedure's schema:
// it is not told.
func TestSocketSchema(t *testing.T) {
	g := newStage(t, Config{Sockets: true})
	row := watcher.Session{ConnectionID: 7, User: "root", UserKnown: true, DB: "stock", Transport: watcher.TransportSocket}
	starts := &schemas{}
	g.shard.sink = starts
	snap := func(serial uint64, rows ...watcher.Session) {
		at := int64(serial) * second
		g.desk.snap = watcher.NewSnapshot(serial, at, at+1, true, rows)
		g.batch(at + 2)
	}
	snap(1, row)
	idle := row
	idle.DB, idle.DBKnown = "shop", true
	snap(2, idle)
	snap(3, row)
	snap(4)
	idle.ConnectionID, idle.DB = 8, "" // has chosen none
	snap(5, idle)
	snap(6)
	if got, want := fmt.Sprint(*starts), "[session_start ? session_end shop session_start  session_end ]"; got != want {
		t.Errorf("schemas %q, want %q", got, want)
	}
}

// schemas is a Sink that keeps the schema of each event.
type schemas []string

func (n *schemas) Put(e *stream.Event) {
	db := "?"
	if e.DBKnown {
		db = e.DB
	}
	*n = append(*n, e.Kind.String()+" "+db)
}
func (n *schemas) Flush() {}

// With nobody to ask, nothing waits.
func TestNoWatcher(t *testing.T) {
	out := &names{}
	s := NewShard(Config{}, &script{batches: []probe.Batch{{Segments: query(second, 40000, 0), NowNs: second}}, err: io.EOF}, out)
	if err := s.Run(); err != nil {
		t.Fatal(err)
	}
	if len(out.lines) != 2 || out.lines[0] != `command "select 0" /` {
		t.Errorf("events %q", out.lines)
	}
}
