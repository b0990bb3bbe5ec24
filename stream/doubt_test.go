package stream

import (
	"fmt"
	"strings"
	"testing"

	"sqlwitness/probe"
)

// whose is a connection of ann, whose login was seen, with the user and the text of
// each command as it is told. The next sequence numbers are 1000 and 5000.
func whose(t *testing.T) (*Conn, *[]string) {
	t.Helper()
	var lines []string
	env := NewEnv(Config{}, func(e *Event) {
		if e.Kind == KindCommand {
			line := fmt.Sprintf("%s %q", e.User, e.SQL)
			if e.Doubtful {
				line += "?"
			}
			lines = append(lines, line)
		}
	})
	c := NewConn(env, probe.Flow{})
	feedLogin(c)
	c.Feed(textSegment(false, 4989, 1000, 2, okReply))
	return c, &lines
}

// feedLogin feeds a greeting and a login that end at 4989 and 1000.
func feedLogin(c *Conn) {
	greeting, login := greetingBytes("5.5.5-10.11.6-MariaDB"), loginBytes([]string{"ann", "shop"})
	from, to := uint32(1000-4-len(login)), uint32(4989-4-len(greeting))
	c.Feed(textSegment(false, to, from, 0, string(greeting)))
	c.Feed(textSegment(true, from, 4989, 1, string(login)))
}

func expectLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("events\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Bytes of the client that are passed over in search of a command may be a change of
// the user.
func TestDoubtOfSkipped(t *testing.T) {
	c, lines := whose(t)
	c.Feed(textSegment(false, 5000, 1000, 1, okReply)) // an answer to nothing
	change := textSegment(true, 1000, 5000, 0, "\x11bob\x00\x00stock\x00\x2d\x00")
	c.Feed(change) // sent before the client had read that
	next := 1000 + uint32(len(change.Payload))
	c.Feed(textSegment(false, 5011, next, 1, okReply))
	c.Feed(textSegment(true, next, 5022, 0, "\x03select 1"))
	c.Feed(textSegment(false, 5022, next+13, 1, okReply))
	expectLines(t, *lines, `ann "select 1"?`)
	if c.env.Stats.Doubts != 1 {
		t.Errorf("%d doubts", c.env.Stats.Doubts)
	}
}

// A login that was not answered is not believed behind a jump.
func TestJumpInLogin(t *testing.T) {
	var users []string
	env := NewEnv(Config{}, func(e *Event) { users = append(users, e.Kind.String()+" "+e.User) })
	c := NewConn(env, probe.Flow{})
	feedLogin(c)
	const far = 1 << 30
	c.Feed(textSegment(true, 1000+far, 5000+far, 0, "\x03select 1"))
	c.Feed(textSegment(false, 5000+far, 1013+far, 1, okReply))
	expectLines(t, users, "session_start ", "command ")
}

// What was prepared before another user came is not there any more.
func TestConfirmDropsStatements(t *testing.T) {
	c, lines := whose(t)
	c.Feed(textSegment(true, 1000, 5000, 0, "\x16select 1"))
	c.Feed(textSegment(false, 5000, 1013, 1, "\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	execute := "\x17\x05\x00\x00\x00\x00\x01\x00\x00\x00"
	c.Feed(textSegment(true, 1013, 5016, 0, execute))
	c.Feed(textSegment(false, 5016, 1027, 1, okReply))
	c.Feed(textSegment(true, 1127, 5027, 0, "\x03select 2")) // behind a hole
	c.Feed(textSegment(false, 5027, 1140, 1, okReply))
	for i := range int64(4) {
		c.Settle(1e9 + i*20e6)
	}
	if f := c.Confirm(&Identity{User: "bob", UserKnown: true, ConnectionID: 7}, 2e9); f != FoundUser {
		t.Fatalf("found %d", f)
	}
	// Nor does an earlier reading bring it back.
	c.Identify(&Identity{User: "bob", UserKnown: true, ConnectionID: 7, Statements: map[uint32]KnownStatement{5: {Text: "select 9"}}}, 2e9)
	c.Feed(textSegment(true, 1140, 5038, 0, execute))
	c.Feed(textSegment(false, 5038, 1154, 1, okReply))
	expectLines(t, *lines, `ann "select 1"`, `ann "select 1"`, `ann "select 2"?`, `bob ""`)
}

// A command that began before the hole keeps its user, also where its answer comes
// when another has been found: it is not found before.
func TestConfirmWaits(t *testing.T) {
	c, lines := whose(t)
	c.Feed(textSegment(true, 1000, 5000, 0, "\x03select 1"))
	head := textSegment(false, 5000, 1113, 1, okReply)
	tail := *head
	head.Payload, tail.Payload, tail.Seq = head.Payload[:5], head.Payload[5:], tail.Seq+5
	c.Feed(head) // acknowledges bytes that were not seen
	for i := range int64(4) {
		c.Settle(1e9 + i*20e6)
	}
	c.lost(&c.client, 100, 1e9, 0)
	c.client.next += 100
	bob := &Identity{User: "bob", UserKnown: true, ConnectionID: 7}
	if f := c.Confirm(bob, 2e9); f != FoundNothing || !c.Doubtful() {
		t.Errorf("found %d with a command under way", f)
	}
	c.Feed(&tail)
	if f := c.Confirm(bob, 2e9); f != FoundUser {
		t.Errorf("found %d", f)
	}
	expectLines(t, *lines, `ann "select 1"`)
}
