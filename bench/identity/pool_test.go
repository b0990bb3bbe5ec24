//go:build linux

package identity

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sqlwitness/bench/mariadb"
)

const (
	poolSize  = 200
	perMember = 50 // statements of each connection while the agent watches
)

// keptText is where the server's tables cut a prepared text.
const keptText = 1024

// textLengths are those of the texts that each connection prepares: two that the
// server's tables hold whole, one that fills them, one that is cut.
var textLengths = [...]int{60, keptText - 1, keptText, 3000}

// A command is what a client has sent, and as whom.
type command struct {
	word, text string
	user, db   string
}

// A member is a connection of a pool that is older than the agent.
type member struct {
	*client
	number   int
	user, db string
	prepared map[uint32]string
	ids      []uint32
	sent     []command // since the agent captures
}

// busy members run one statement right after the other, half of them in a
// procedure of somebody else's.
func (m *member) busy() bool { return m.number%20 == 7 }

// calming members are busy at first. Behind calmAt they pause, once for long
// enough that a poll finds them idle.
func (m *member) calming() bool { return m.number%20 == 17 }

const (
	calmAt  = 30
	calmFor = 3 * time.Second
)

// moved members have changed their schema before the agent came; movers do so
// under its eyes.
func (m *member) moved() bool { return m.number%10 == 3 }
func (m *member) mover() bool { return m.number%10 == 5 }

func openPool(t *testing.T, srv *mariadb.Server) []*member {
	t.Helper()
	pool := make([]*member, poolSize)
	for i := range pool {
		user := users[i%len(users)]
		m := &member{number: i, user: user, db: schemaOf(user), prepared: map[uint32]string{}}
		pool[i] = m
		var err error
		if m.client, err = dial(t.Context(), srv.Addr("127.0.0.1"), m.user, m.db); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.conn.Close() })
		if m.moved() {
			if _, err := m.command(comInitDB, "stock"); err != nil {
				t.Fatal(err)
			}
			m.db = "stock"
		}
		for _, n := range textLengths {
			text := fmt.Sprintf("SELECT /* statement %d of connection %d */ 1", len(m.ids), i)
			text += strings.Repeat(" ", n-len(text)-2) + "+1"
			id, err := m.prepare(text)
			if err != nil {
				t.Fatal(err)
			}
			m.prepared[id], m.ids = text, append(m.ids, id)
		}
	}
	return pool
}

// work sends what the member has to, over several polls of the watcher: the
// others begin after up to 3 s of silence, and pause.
func (m *member) work(r *rand.Rand) error {
	pause := func(most time.Duration) {
		if !m.busy() {
			time.Sleep(time.Duration(r.Int64N(int64(most))))
		}
	}
	if !m.calming() {
		pause(3 * time.Second)
	}
	for i := range perMember {
		if m.calming() && i == calmAt {
			time.Sleep(calmFor)
		}
		if err := m.step(i, r); err != nil {
			return fmt.Errorf("connection %d, statement %d: %w", m.number, i, err)
		}
		if !m.calming() || i > calmAt {
			pause(100 * time.Millisecond)
		}
	}
	return nil
}

func (m *member) step(i int, r *rand.Rand) error {
	one := command{word: "Query", user: m.user, db: m.db}
	var err error
	switch {
	case m.busy() || m.calming() && i < calmAt:
		one.text = fmt.Sprintf("SELECT SLEEP(0.08) /* %d */", i)
		if m.number%40 < 20 {
			one.text = fmt.Sprintf("CALL stock.nap(0.08) /* %d */", i)
		}
		if i%10 == 5 {
			one.word, one.text = "Execute", m.prepared[m.ids[0]]
			err = m.execute(m.ids[0])
			break
		}
		err = m.query(one.text)
	case m.mover() && i == perMember/2:
		one.word, one.text = "Init DB", "stock"
		_, err = m.command(comInitDB, "stock")
		m.db = "stock"
	case (i+m.number/2)%2 == 0:
		id := m.ids[r.IntN(len(m.ids))]
		one.word, one.text = "Execute", m.prepared[id]
		err = m.execute(id)
	default:
		one.text = fmt.Sprintf("SELECT %d /* of connection %d */", i, m.number)
		err = m.query(one.text)
	}
	m.sent = append(m.sent, one)
	return err
}

// TestPool: connections that are older than the agent have their user and their
// schema on every event, and the texts of what they prepared before.
func TestPool(t *testing.T) {
	for _, c := range []struct {
		name   string
		schema bool // performance_schema
		names  bool // in the process list, for addresses
	}{{"performance_schema", true, false}, {"process list alone", false, false}, {"names", false, true}, {"names and performance_schema", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var o mariadb.Options
			if c.schema {
				o.Args = []string{"--performance-schema=ON"}
			}
			if c.names {
				o.Args = append(o.Args, "--skip-name-resolve=0")
			}
			srv := startServer(t, o)
			pool := openPool(t, srv)
			// How many polls it takes to find a connection idle, and so its schema, is chance.
			a := capture(t, srv, setting{timeout: 30 * time.Second, wait: time.Minute})
			eventually(t, "the watcher", 30*time.Second, func() bool { return len(a.states()) > 0 })
			workAll(t, pool)
			events := a.finish(t)
			judgePool(t, pool, events, c.schema, c.names)
			if got := a.states(); !slices.Equal(got, []string{"up"}) {
				t.Errorf("the log tells of %v", got)
			}
		})
	}
}

func workAll(t *testing.T, pool []*member) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	done := make(chan error, len(pool))
	for _, m := range pool {
		go func() { done <- m.work(rand.New(rand.NewPCG(1, uint64(m.number)))) }()
	}
	for range pool {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
		case <-ctx.Done():
			t.Fatal("the load does not end")
		}
	}
}

// A tally counts what the events lack, of members that are busy and of others.
type tally struct {
	commands, executes, noUser, noDB, noText int
}

func judgePool(t *testing.T, pool []*member, events []event, schema, names bool) {
	t.Helper()
	byPort := map[int][]*event{}
	for i := range events {
		if e := &events[i]; e.Type == "command" {
			byPort[e.ClientPort] = append(byPort[e.ClientPort], e)
		}
	}
	var idle, busy, calmed, moving tally
	faults := faults{t: t}
	for _, m := range pool {
		got := byPort[m.port()]
		if len(got) != len(m.sent) {
			faults.add("connection %d: %d events of %d commands", m.number, len(got), len(m.sent))
			continue
		}
		for i, e := range got {
			n := &idle
			switch {
			case m.busy() || m.calming() && i < calmAt:
				n = &busy
			case m.calming():
				n = &calmed
			case names && m.mover() && i <= perMember/2:
				n = &moving // by names the row is taken at the next answer: it may be that of the change
			}
			n.count(&faults, m, &m.sent[i], e, schema)
		}
	}
	t.Logf("idle between statements: %+v; not: %+v; not any more: %+v; before a change of the schema: %+v", idle, busy, calmed, moving)
	if sum := idle.commands + busy.commands + calmed.commands + moving.commands; sum != poolSize*perMember {
		t.Errorf("%d commands were compared", sum)
	}
	// Of a connection that runs a statement the process list tells the user only
	// with performance_schema, and the schema never.
	if idle.noUser+idle.noDB+calmed.noUser+calmed.noDB+moving.noUser > 0 || schema && busy.noUser > 0 {
		t.Error("events without user or schema")
	}
	executes, noText := idle.executes+busy.executes+calmed.executes+moving.executes, idle.noText+busy.noText+calmed.noText+moving.noText
	if schema && noText > 0 || !schema && noText != executes || executes < poolSize*perMember/4 {
		t.Errorf("%d of %d executes have no text", noText, executes)
	}
}

// count holds an event against the command that it tells of.
func (n *tally) count(f *faults, m *member, want *command, e *event, schema bool) {
	n.commands++
	if e.Command != want.word || e.Status != "ok" {
		f.add("connection %d: %v is not %s", m.number, e, want.word)
	}
	if n.identity(f, e, want.user, want.db); e.User != nil && e.UserSource != "processlist" {
		f.add("connection %d: source of %v", m.number, e)
	}
	if want.word != "Execute" {
		if want.word == "Query" && text(e.SQL) != want.text {
			f.add("connection %d: %v is not %q", m.number, e, want.text)
		}
		return
	}
	n.executes++
	flagged := slices.Contains(e.Flags, "no_statement_text")
	switch {
	case flagged != (e.SQL == nil):
		f.add("connection %d: flag and text of %v", m.number, e)
	case flagged:
		n.noText++
	case *e.SQL != want.text[:min(len(want.text), keptText)]:
		f.add("connection %d: %v is not %.80q", m.number, e, want.text)
	case len(want.text) != keptText && e.SQLTruncated != (len(want.text) > keptText):
		f.add("connection %d: a text of %d bytes has sql_truncated %t", m.number, len(want.text), e.SQLTruncated)
	}
}

// identity counts what is not told, and reports what is wrong.
func (n *tally) identity(f *faults, e *event, user, db string) {
	switch {
	case e.User == nil:
		n.noUser++
		if !slices.Contains(e.Flags, "user_unknown") && !slices.Contains(e.Flags, "user_late") {
			f.add("no flag says why there is no user: %v", e)
		}
	case *e.User != user:
		f.add("a wrong user, not %s: %v", user, e)
	}
	switch {
	case e.DB == nil:
		n.noDB++
	case *e.DB != db:
		f.add("a wrong schema, not %s: %v", db, e)
	}
}

// faults reports the first few of what is wrong, and counts the rest.
type faults struct {
	t *testing.T
	n int
}

func (f *faults) add(format string, args ...any) {
	f.t.Helper()
	if f.n++; f.n <= 8 {
		f.t.Errorf(format, args...)
	} else {
		f.t.Fail()
	}
}
