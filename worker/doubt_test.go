package worker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sqlwitness/probe"
	"sqlwitness/stream"
	"sqlwitness/watcher"
)

// A dialogue is one connection as both ends number it.
type dialogue struct {
	*stage
	now            int64
	request, reply uint32 // next sequence numbers
}

// loggedIn is a connection of orderapp with the id 7, whose login was seen.
func loggedIn(t *testing.T, c Config) *dialogue {
	l := &dialogue{stage: newStage(t, c), now: second}
	if c.Watcher == nil {
		l.shard.sink = l
	}
	first := login(l.now, 40000)
	l.batch(l.now, first...)
	last := first[len(first)-1]
	l.request, l.reply = last.Ack, last.Seq+uint32(len(last.Payload))
	l.expect("1 session_start orderapp/login", `1 command 1 "select 1" orderapp/login db=orders`)
	return l
}

// Put makes a line of an event, with its session and its number there.
func (l *dialogue) Put(e *stream.Event) {
	text := fmt.Sprintf("%d %s", e.Session.ID, e.Kind)
	if e.Kind == stream.KindCommand {
		text += fmt.Sprintf(" %d %q", e.SessionSeq, e.SQL)
	} else if e.SessionSeq != 0 {
		text += fmt.Sprintf(" %d", e.SessionSeq)
	}
	if text += " " + e.User + "/" + e.UserSource.String(); e.DBKnown && e.Kind == stream.KindCommand {
		text += " db=" + e.DB
	}
	if e.Kind == stream.KindSessionEnd {
		text += fmt.Sprintf(" %s after %d of id %d", e.EndReason, e.Commands, e.Session.ConnectionID)
	}
	for i, name := range stream.EventFlagNames {
		if e.Flags>>i&1 != 0 {
			text += " +" + name
		}
	}
	l.out.lines = append(l.out.lines, text)
}

func (l *dialogue) Flush() {}

// lose passes over bytes of both ends that the capture lacks.
func (l *dialogue) lose(client, server uint32) {
	l.request += client
	l.reply += server
}

// query is a command and its answer, and time for a hole before it to be given up.
func (l *dialogue) query(text string) {
	l.now += second / 10
	ask := packet(l.now, 40000, true, l.request, l.reply, 0, "\x03"+text)
	l.request += uint32(len(ask.Payload))
	answer := packet(l.now+1, 40000, false, l.reply, l.request, 1, okBody)
	l.reply += uint32(len(answer.Payload))
	l.batch(l.now, ask, answer)
	for range 4 {
		l.now += second / 50
		l.batch(l.now)
	}
}

// changeUser is a COM_CHANGE_USER and its answer. Without a user it is cut.
func (l *dialogue) changeUser(user, answer string) {
	l.now += second / 10
	body := "\x11" + user + "\x00\x00stock\x00\x2d\x00"
	if user == "" {
		body = "\x11"
	}
	ask := packet(l.now, 40000, true, l.request, l.reply, 0, body)
	l.request += uint32(len(ask.Payload))
	reply := packet(l.now+1, 40000, false, l.reply, l.request, 1, answer)
	l.reply += uint32(len(reply.Payload))
	l.batch(l.now+1, ask, reply)
}

// poll applies a process list that was read now, with a row for the ports.
func (l *dialogue) poll(serial uint64, id uint64, user string) {
	l.now += second / 10
	row := watcher.Session{ConnectionID: id, User: user, UserKnown: user != "", DB: "shop", DBKnown: user != "",
		Client: loggedInFlow.Client, Idle: user != ""}
	l.desk.snap = watcher.NewSnapshot(serial, l.now, l.now+10, true, []watcher.Session{row})
	l.desk.snap.NoDetails = "performance_schema is off"
	l.now += second / 10
	l.batch(l.now)
}

var loggedInFlow = segment(0, 40000, true, 0, 0, 0, nil).Flow

// A hole that may hide a change of the user keeps the events behind it until the
// process list tells who it is now.
func TestDoubt(t *testing.T) {
	for _, c := range []struct{ name, user, want string }{
		{"the same", "orderapp", `1 command 2 "select 2" orderapp/login db=shop +gap_before`},
		{"another", "bob", `1 command 2 "select 2" bob/processlist db=shop +gap_before`},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := loggedIn(t, Config{})
			l.lose(40, 11)
			l.query("select 2")
			l.expect()
			if l.desk.wanted[40000] == 0 {
				t.Error("nobody asked for the user")
			}
			l.poll(1, 7, c.user)
			l.expect(c.want)
			l.query("select 3")
			source, mid := "login", ""
			if c.user == "bob" {
				source, mid = "processlist", " +mid_stream"
			}
			l.expect(fmt.Sprintf(`1 command 3 "select 3" %s/%s db=shop%s`, c.user, source, mid))
			if len(l.desk.wanted) != 0 || l.shard.ids.bytes != 0 || len(l.shard.ids.anonymous) != 0 || l.shard.ids.waiting.len() != 0 {
				t.Errorf("left behind: %v wanted, %d bytes, %v", l.desk.wanted, l.shard.ids.bytes, l.shard.ids.anonymous)
			}
		})
	}
}

// What is not confirmed in time goes without a user; it is not lost for good.
func TestDoubtWait(t *testing.T) {
	l := loggedIn(t, Config{IdentityWait: time.Second})
	l.lose(40, 11)
	l.query("select 2")
	l.poll(1, 7, "") // a statement runs: the row may show a definer
	l.expect()
	l.now += 2 * second
	l.batch(l.now)
	l.expect(`1 command 2 "select 2" / +gap_before +user_unknown`)
	l.query("select 3")
	l.expect(`1 command 3 "select 3" / +user_unknown`)
	l.poll(2, 7, "orderapp")
	l.query("select 4")
	l.expect(`1 command 4 "select 4" orderapp/login db=shop`)
}

// A doubt that a COM_CHANGE_USER settles in the batch that it came up in is no reason
// to wait: nobody is asked, and the next one begins anew.
func TestDoubtSettledAtOnce(t *testing.T) {
	l := loggedIn(t, Config{})
	l.lose(40, 11)
	var segs []probe.Segment
	exchange := func(body string) {
		ask := packet(l.now+1, 40000, true, l.request, l.reply, 0, body)
		l.request += uint32(len(ask.Payload))
		answer := packet(l.now+2, 40000, false, l.reply, l.request, 1, okBody)
		l.reply += uint32(len(answer.Payload))
		segs = append(segs, ask, answer)
	}
	exchange("\x03select 2")
	exchange("\x11bob\x00\x00stock\x00\x2d\x00")
	exchange("\x03select 3")
	l.now += 3
	l.batch(l.now, segs...)
	for range 4 {
		l.now += second / 50
		l.batch(l.now)
	}
	l.expect(`1 command 2 "select 2" / +gap_before +user_unknown`, `1 command 3 "" / +user_unknown`, `1 command 4 "select 3" bob/change_user db=stock`)
	if l.shard.ids.bytes != 0 || l.shard.ids.waiting.len() != 0 {
		t.Errorf("left behind: %d bytes, %d wait", l.shard.ids.bytes, l.shard.ids.waiting.len())
	}
	l.now += 3 * second
	l.batch(l.now)
	l.lose(40, 11)
	l.query("select 9")
	l.expect()
	l.poll(1, 7, "bob")
	l.expect(`1 command 5 "select 9" bob/change_user db=shop +gap_before`)
}

// Nor may a doubt wait for the connection's next segment until somebody is asked: it
// comes up when a hole is given up to free memory too.
func TestDoubtOfRelieved(t *testing.T) {
	l := loggedIn(t, Config{})
	l.lose(40, 11)
	l.now += second / 10
	ask := packet(l.now, 40000, true, l.request, l.reply, 0, "\x03select 2")
	l.request += uint32(len(ask.Payload))
	l.shard.config.KeptBytes = 1
	l.batch(l.now, ask, packet(l.now+1, 40000, false, l.reply, l.request, 1, okBody))
	l.reply += uint32(len(okBody) + 4)
	l.expect()
	if l.desk.wanted[40000] == 0 {
		t.Error("nobody asked for the user")
	}
	l.poll(1, 7, "bob")
	l.expect(`1 command 2 "select 2" bob/processlist db=shop +gap_before`)
}

// A list that was read behind the last of two holes says nothing of what lies
// between them.
func TestDoubtTwice(t *testing.T) {
	l := loggedIn(t, Config{})
	l.lose(40, 11)
	l.query("select 2")
	l.lose(40, 11)
	l.query("select 3")
	l.poll(1, 7, "orderapp")
	l.expect(`1 command 2 "select 2" / +gap_before +user_unknown`, `1 command 3 "select 3" orderapp/login db=shop +gap_before`)
}

// Nor does one that was read before the hole, or of a connection that changes its
// user at the moment.
func TestDoubtIsRight(t *testing.T) {
	l := loggedIn(t, Config{IdentityWait: time.Second})
	l.now += second
	l.lose(40, 11)
	begin := l.now
	l.query("select 2")
	l.desk.snap = list(1, begin, l.now-1, map[uint16]string{40000: "bob"})
	l.batch(l.now)
	l.expect()
	l.poll(2, 8, "bob") // and now it is another's
	l.expect("1 session_end orderapp/login gone after 1 of id 7", "2 session_start bob/processlist +mid_stream",
		`2 command 1 "select 2" bob/processlist db=shop +mid_stream +gap_before`)
}

// An unseen end and an unseen new login on the same ports: another connection id.
func TestReplacedBehindHole(t *testing.T) {
	l := loggedIn(t, Config{})
	l.query("select 2")
	l.expect(`1 command 2 "select 2" orderapp/login db=orders`)
	l.lose(1<<20, 1<<20)
	l.query("select 3")
	l.query("select 4")
	l.expect()
	l.poll(1, 8, "bob")
	l.expect("1 session_end orderapp/login gone after 2 of id 7", "2 session_start bob/processlist +mid_stream",
		`2 command 1 "select 3" bob/processlist db=shop +mid_stream +gap_before`, `2 command 2 "select 4" bob/processlist db=shop +mid_stream`)
	l.query("select 5")
	l.expect(`2 command 3 "select 5" bob/processlist db=shop +mid_stream`)
	if s := l.shard.stats; s.Replaced != 1 || l.shard.ids.bytes != 0 || l.shard.ids.waiting.len() != 0 {
		t.Errorf("%d replaced, %d bytes wait, want 1 and 0", s.Replaced, l.shard.ids.bytes)
	}
	l.shard.closeAll()
	l.expect("2 session_end bob/processlist capture_end after 3 of id 8 +mid_stream")
}

// Who the other asked to be, and was refused, is not who it is: MariaDB keeps the
// connection.
func TestReplacedAndRefused(t *testing.T) {
	l := loggedIn(t, Config{})
	l.lose(1<<20, 1<<20)
	l.query("select 2")
	l.changeUser("mallory", "\xff\x15\x04#28000Access denied")
	l.query("select 3")
	l.expect()
	l.poll(1, 8, "bob")
	l.expect("1 session_end orderapp/login gone after 1 of id 7", "2 session_start bob/processlist +mid_stream",
		`2 command 1 "select 2" bob/processlist db=shop +mid_stream +gap_before`, `2 command 2 "" bob/processlist db=shop +mid_stream`,
		"2 login_failed mallory/change_user +mid_stream", `2 command 3 "select 3" bob/processlist db=shop +mid_stream`)
}

// Nor is it where the name was lost: nobody is better than the wrong one.
func TestRefusedWithoutName(t *testing.T) {
	for name, id := range map[string]uint64{"the same": 7, "another": 8} {
		t.Run(name, func(t *testing.T) {
			l := loggedIn(t, Config{})
			l.lose(1<<20, 1<<20)
			l.query("select 2")
			l.changeUser("", "\xff\x15\x04#28000Access denied")
			l.poll(1, id, "orderapp")
			last := l.out.lines[len(l.out.lines)-1]
			if !strings.Contains(last, "login_failed /") || !strings.HasSuffix(last, "+user_unknown") {
				t.Errorf("%q", l.out.lines)
			}
		})
	}
}

// Nor is the schema of the new session less certain where a command came after the
// reading.
func TestReplacedWhileActive(t *testing.T) {
	l := loggedIn(t, Config{})
	l.lose(1<<20, 1<<20)
	l.query("select 2")
	l.now += second / 10
	snap := list(1, l.now, l.now+10, map[uint16]string{40000: "bob"})
	l.query("select 3")
	l.desk.snap = snap
	l.now += second / 10
	l.batch(l.now)
	l.expect("1 session_end orderapp/login gone after 1 of id 7", "2 session_start bob/processlist +mid_stream",
		`2 command 1 "select 2" bob/processlist db=shop +mid_stream +gap_before`, `2 command 2 "select 3" bob/processlist db=shop +mid_stream`)
}

// A schema that the new session has set for itself is not that of the commands before.
func TestReplacedSchema(t *testing.T) {
	l := loggedIn(t, Config{})
	l.lose(1<<20, 1<<20)
	l.query("select 2")
	l.query("use other")
	l.query("select 3")
	l.poll(1, 8, "bob")
	l.expect("1 session_end orderapp/login gone after 1 of id 7", "2 session_start bob/processlist +mid_stream",
		`2 command 1 "select 2" bob/processlist +mid_stream +gap_before`, `2 command 2 "use other" bob/processlist +mid_stream`,
		`2 command 3 "select 3" bob/processlist db=other +mid_stream`)
	l.query("select 4")
	l.expect(`2 command 4 "select 4" bob/processlist db=other +mid_stream`)
}

// The numbers of the new connection lie far away: the user is forgotten at once, and
// the session ends when the list shows another id.
func TestReplacedBehindJump(t *testing.T) {
	l := loggedIn(t, Config{})
	l.lose(1<<30, 1<<30)
	l.query("select 2")
	l.poll(1, 8, "bob")
	l.expect("1 session_end orderapp/login gone after 1 of id 7", "2 session_start bob/processlist +mid_stream",
		`2 command 1 "select 2" bob/processlist db=shop +mid_stream +gap_before`)
}

// A jump of the same connection keeps its session.
func TestJumpIsTheSame(t *testing.T) {
	l := loggedIn(t, Config{})
	l.lose(1<<30, 1<<30)
	l.query("select 2")
	l.poll(1, 7, "orderapp")
	l.expect(`1 command 2 "select 2" orderapp/processlist db=shop +mid_stream +gap_before`)
}

// Where not even the connection id was known, any row is as good as on a connection
// that was joined in the middle.
func TestJumpOfUnknown(t *testing.T) {
	l := &dialogue{stage: newStage(t, Config{}), now: second, request: 1000, reply: 5000}
	l.shard.sink = l
	l.query("select 0")
	change := packet(l.now, 40000, true, l.request, l.reply, 0, "\x11bob\x00\x00stock\x00\x2d\x00")
	l.request += uint32(len(change.Payload))
	answer := packet(l.now+1, 40000, false, l.reply, l.request, 1, okBody)
	l.reply += uint32(len(answer.Payload))
	l.batch(l.now+1, change, answer)
	l.out.lines = nil
	l.lose(1<<30, 1<<30)
	l.query("select 2")
	l.expect()
	l.poll(1, 8, "ann")
	l.expect(`1 command 3 "select 2" ann/processlist db=shop +mid_stream +gap_before`)
	l.query("select 3")
	l.expect(`1 command 4 "select 3" ann/processlist db=shop +mid_stream`)
}

// The numbers of the new connection lie before the old ones: what it sends looks
// like repeats. It is not for longer than copies take.
func TestNoRepeats(t *testing.T) {
	l := loggedIn(t, Config{})
	back := uint32(1 << 20)
	l.lose(-back, -back)
	l.query("select 2") // too early to tell
	l.expect()
	l.now += second
	l.query("select 3")
	l.poll(1, 8, "bob")
	l.expect("1 session_end orderapp/login gone after 1 of id 7", "2 session_start bob/processlist +mid_stream",
		`2 command 1 "select 3" bob/processlist db=shop +mid_stream +gap_before`)
}

// Where the list shows names, another row of the port is who came behind the hole only
// if the server answers behind the reading too.
func TestReplacedByPort(t *testing.T) {
	l := loggedIn(t, Config{})
	l.lose(40, 11)
	l.query("select 2")
	l.desk.snap = named(1, l.now, l.now+10, watcher.Session{ConnectionID: 8, User: "bob", Host: "app2"})
	l.now += second / 10
	l.batch(l.now)
	l.expect()
	l.query("select 3")
	l.expect("1 session_end orderapp/login gone after 1 of id 7", "2 session_start bob/processlist +mid_stream",
		`2 command 1 "select 2" bob/processlist db=shop +mid_stream +gap_before`, `2 command 2 "select 3" bob/processlist db=shop +mid_stream`)
}

// And without anything that looks odd, the list says so.
func TestReplacedUnseen(t *testing.T) {
	l := loggedIn(t, Config{})
	l.poll(1, 7, "orderapp")
	l.expect()
	l.poll(2, 8, "bob")
	l.expect("1 session_end orderapp/login gone after 1 of id 7")
	l.lose(1<<20, 1<<20)
	l.query("select 2")
	l.poll(3, 8, "bob")
	l.expect("2 session_start bob/processlist +mid_stream", `2 command 1 "select 2" bob/processlist db=shop +mid_stream`)
}

// The list may be of another server, or not tell all; the greeting's id has 32 bits.
func TestNotReplaced(t *testing.T) {
	l := loggedIn(t, Config{})
	l.now++
	l.desk.snap = list(9, second, second, map[uint16]string{40000: "bob"}) // of before the login
	l.batch(l.now)
	l.poll(1, 7+1<<32, "orderapp")
	l.desk.snap = list(2, l.now, l.now+1, map[uint16]string{40000: "bob"})
	l.desk.snap.Server.Port = 3307
	l.now += 2
	l.batch(l.now)
	row := watcher.Session{ConnectionID: 7, User: "bob", UserKnown: true, Client: segment(0, 40001, true, 0, 0, 0, nil).Flow.Client}
	other := watcher.Session{ConnectionID: 9, User: "bob", UserKnown: true, Client: loggedInFlow.Client}
	l.desk.snap = watcher.NewSnapshot(3, l.now, l.now+1, true, []watcher.Session{row, other})
	l.now += 2
	l.batch(l.now)
	l.expect()
	if l.shard.table.open != 1 {
		t.Error("the connection was closed")
	}
}

// Before the user of an older connection is known, a hole may hide a change as well.
func TestDoubtOfAnonymous(t *testing.T) {
	g := newStage(t, Config{})
	g.batch(second, query(second, 40000, 0)...)
	g.batch(second+10, query(second+10, 40000, 3)...)
	for i := range int64(4) {
		g.batch(second + 20 + i*second/50)
	}
	g.expect()
	g.desk.snap = list(1, 2*second, 2*second+100, map[uint16]string{40000: "ann"})
	g.batch(2*second + 200)
	g.expect(`command "select 0" / +user_unknown`, `command "select 3" ann/processlist db=shop +gap_before`)
}

// With nobody to ask, the user stays and says that it is not confirmed.
func TestDoubtAlone(t *testing.T) {
	out := &names{}
	s := NewShard(Config{}, &script{}, out)
	first := login(second, 40000)
	s.take(&probe.Batch{Segments: first, NowNs: second})
	last := first[len(first)-1]
	ask := packet(second+5, 40000, true, last.Ack+40, last.Seq+22, 0, "\x03select 2")
	s.take(&probe.Batch{Segments: []probe.Segment{ask}, NowNs: second + 5})
	s.closeAll()
	want := fmt.Sprint([]string{`command "select 1" orderapp/login db=orders`,
		`command "select 2" orderapp/login db=orders +gap_before +response_not_captured +unconfirmed`, `session_end "" orderapp/login db=orders +unconfirmed`})
	if fmt.Sprint(out.lines) != want {
		t.Errorf("events\n%q\nwant\n%s", out.lines, want)
	}
}

// While a command that may change the schema is under way, or the schema was told by
// the wire behind the hole, the list does not say which it is.
func TestDoubtOfSchema(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"told by the wire", "use other", `1 command 3 "select 3" orderapp/login db=other`},
		{"told by the list", "select 2", `1 command 3 "select 3" orderapp/login db=shop`},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := loggedIn(t, Config{})
			l.lose(40, 11)
			l.query(c.text)
			l.poll(1, 7, "orderapp")
			l.out.lines = nil
			l.query("select 3")
			l.expect(c.want)
		})
	}
}
