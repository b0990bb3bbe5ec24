//go:build linux

package questions

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"sqlwitness/bench/mariadb"
)

// A caseBench is where the cases of TestCases run.
type caseBench struct {
	t    *testing.T
	srv  *mariadb.Server
	root *Client // over the socket: what it asks is not audited, and not in a case
}

// open logs in over TCP.
func (b *caseBench) open() *Session {
	b.t.Helper()
	s, err := Open(b.t.Context(), "tcp", b.srv.Addr("127.0.0.1"), new(Truth))
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// id is the server's id of a session.
func (b *caseBench) id(s *Session) string {
	b.t.Helper()
	if err := s.send(comQuery, "SELECT CONNECTION_ID()"); err != nil {
		b.t.Fatal(err)
	}
	return b.value(s.Client)
}

// value reads a result of one column and one row.
func (b *caseBench) value(c *Client) (text string) {
	b.t.Helper()
	for ends := 0; ends < 2; {
		p, err := c.read()
		if err != nil {
			b.t.Fatal(err)
		}
		if p[0] == 0xfe && len(p) == 5 {
			ends++
		} else if ends == 1 {
			text = string(p[1:])
		}
	}
	return text
}

// asleep waits until the session with an id runs its SLEEP.
func (b *caseBench) asleep(id string) {
	b.t.Helper()
	eventually(b.t, "the SLEEP of session "+id, func() bool {
		return b.sessions("STATE = 'User sleep' AND ID = "+id) == "1"
	})
}

// sessions is how many there are of a kind.
func (b *caseBench) sessions(kind string) string {
	b.t.Helper()
	text := "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE " + kind
	if err := b.root.write(0, append([]byte{comQuery}, text...)); err != nil {
		b.t.Fatal(err)
	}
	return b.value(b.root)
}

// TestCases: commands whose count is not plain, one kind at a time: the server's
// count grows by what was audited.
func TestCases(t *testing.T) {
	t.Parallel()
	srv := startServer(t, mariadb.Options{Args: schemaOn})
	a := capture(t, srv, setting{watch: "socket: " + srv.Socket})
	b := &caseBench{t: t, srv: srv}
	var err error
	if b.root, err = Dial(t.Context(), "unix", srv.Socket, "root", ""); err != nil {
		t.Fatal(err)
	}
	before := b.settled(a)
	for _, c := range []struct {
		name   string
		do     func(*Session) error // with a session of its own
		unsure float64              // statements that may not have been executed
	}{
		{"failed texts of several statements", func(s *Session) error {
			return errors.Join(refused("1", s.Query("SELEC 1; SELECT 2")), refused("2", s.Query("SELECT 1; SELEC 2; SELECT 3")),
				refused("3", s.Query("SELECT 1; SELECT nowhere; SELECT 3; SELECT 4")), refused("4", s.Query("DO 1; DO 2; SIGNAL SQLSTATE '45000'; DO 4")))
		}, 0},
		{"empty statements", func(s *Session) error {
			for _, text := range []string{"", " ", ";", "-- x", "/* x */", "SELECT 1;", "SELECT 1; ", "SELECT 1; -- end", "SELECT 1;;", "SELECT 1;;SELECT 2", "SELECT 1; /* x */", "SELECT 1; # x\n"} {
				if err := s.Query(text); err != nil && refused(text, err) != nil {
					return err
				}
			}
			return nil
		}, 0},
		{"procedures", func(s *Session) error {
			return errors.Join(s.Query("CALL two()"), s.Query("CALL two(); CALL two()"), s.Query("/* x */ CALL two();SELECT 1"),
				refused("fails", s.Query("SELECT 1; CALL fails(); SELECT 2")), s.Query("EXECUTE IMMEDIATE 'CALL two()'"))
		}, 1},
		{"compound statements", func(s *Session) error {
			return errors.Join(s.Query("BEGIN NOT ATOMIC SELECT 1; SELECT 2; END"), s.Query("IF 1 THEN SELECT 1; SELECT 2; END IF"),
				s.Query("SELECT 1; BEGIN NOT ATOMIC SELECT 1; SELECT 2; SELECT 3; END"),
				s.Query("CREATE OR REPLACE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END; SELECT 3"))
		}, 0},
		{"statements as text", func(s *Session) error {
			return errors.Join(s.Query("PREPARE p FROM 'SELECT ?'"), s.Query("EXECUTE p USING 1"), s.Query("EXECUTE p USING 1; EXECUTE p USING 2; DEALLOCATE PREPARE p"),
				refused("prepare", s.Query("PREPARE p FROM 'SELEC'")))
		}, 0},
		{"all of the binary protocol", (*Session).prepared, 0},
		{"all that changes the session", (*Session).states, 0},
		{"files", func(s *Session) error {
			return errors.Join(s.Query("LOAD DATA LOCAL INFILE 'x' INTO TABLE t"), s.Query("LOAD DATA LOCAL INFILE 'x' INTO TABLE t; SELECT 1"),
				refused("no table", s.Query("LOAD DATA LOCAL INFILE 'x' INTO TABLE nowhere")), refused("no file", s.Query("LOAD DATA INFILE '/nowhere' INTO TABLE t")))
		}, 0},
		{"no multi-statements", func(s *Session) error {
			return errors.Join(s.option("\x01"), refused("off", s.Query("SELECT 1; SELECT 2")), s.option("\x00"), s.Query("SELECT 1; SELECT 2"))
		}, 0},
		{"unknown commands", func(s *Session) error {
			return errors.Join(refused("sleep", s.command(0, "")), refused("0x60", s.command(0x60, "x")), refused("0xff", s.command(0xff, "")))
		}, 0},
		{"a replica that is refused", func(s *Session) error {
			return errors.Join(s.command(0x15, strings.Repeat("\x00", 18)), refused("dump", s.command(0x12, strings.Repeat("\x00", 10)+"none")))
		}, 0},
		{"a refused change of the user", func(s *Session) error { return refused("nobody", s.changeUser("nobody", "")) }, 0},
		{"commands in one segment", func(s *Session) error {
			one := "\x09\x00\x00\x00\x03SELECT 1"
			if _, err := s.conn.Write([]byte(one + one + "\x01\x00\x00\x00\x0e" + one)); err != nil {
				return err
			}
			return errors.Join(s.response(), s.response(), s.response(), s.response())
		}, 0},
		{"a client that does not wait", func(s *Session) error {
			err := s.send(comQuery, "SELECT SLEEP(0.2); SELECT 2")
			return errors.Join(err, s.conn.Close())
		}, 1},
		{"a client that resets", func(s *Session) error {
			id := b.id(s)
			err := s.send(comQuery, "SELECT SLEEP(1)")
			b.asleep(id)
			return errors.Join(err, s.conn.(*net.TCPConn).SetLinger(0), s.conn.Close())
		}, 0},
		{"an idle session that is killed", func(s *Session) error { return b.root.Query("KILL " + b.id(s)) }, 0},
		{"a running one", func(s *Session) error {
			id := b.id(s)
			err := s.send(comQuery, "SELECT SLEEP(20); SELECT 2")
			b.asleep(id)
			return errors.Join(err, b.root.Query("KILL "+id), refusedOrGone(s.response()))
		}, 1},
		{"a query that is killed", func(s *Session) error {
			id := b.id(s)
			err := s.send(comQuery, "SELECT 1; SELECT SLEEP(20) FROM t; SELECT 3")
			b.asleep(id)
			return errors.Join(err, b.root.Query("KILL QUERY "+id), refusedOrGone(s.response()), s.Query("SELECT 1"))
		}, 0},
		{"a command that is too long", func(s *Session) error {
			if err := s.Query("SELECT 1"); err != nil {
				return err
			}
			return refusedOrGone(errors.Join(b.root.Query("SET GLOBAL max_allowed_packet=1048576"), b.open().Query("SELECT '"+strings.Repeat("x", 2<<20)+"'")))
		}, 0},
		{"results larger than a packet", func(s *Session) error { return s.Query("SELECT REPEAT('x', 1000000) FROM t LIMIT 3; SELECT 1") }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.t = t
			const times = 4
			for range times {
				s := b.open()
				if err := c.do(s); err != nil {
					t.Fatal(err)
				}
				s.Drop()
			}
			after := b.settled(a)
			defer func() { before = after }()
			each := func(a, b uint64) float64 { return float64(a-b) / times }
			asked, audited := each(after.Questions-after.SocketMin, before.Questions-before.SocketMin), each(after.Audited, before.Audited)
			unsure := each(after.Uncertain, before.Uncertain)
			if asked > audited || asked < audited-unsure || unsure > c.unsure || asked < 1 {
				t.Errorf("the server counts %.1f for each, audited are %.1f, at most %.1f less", asked, audited, unsure)
			}
		})
	}
}

// refusedOrGone wants an error of the server, or the end of the connection.
func refusedOrGone(err error) error {
	if err == nil {
		return errors.New("a command was to fail")
	}
	return nil
}

// settled is a report of a time when all sessions are over, those too whose statement
// runs on behind their end.
func (b *caseBench) settled(a *run) *Report {
	b.t.Helper()
	eventually(b.t, "the end of all sessions", func() bool { return b.sessions("USER = '"+User+"'") == "0" })
	return a.settled(b.t)
}

// settled is a report of a time when what was done before is in the events.
func (r *run) settled(t *testing.T) *Report {
	t.Helper()
	then, last := time.Now().Add(1200*time.Millisecond), (*Report)(nil)
	eventually(t, "a report", func() bool {
		all := r.reports(t)
		last = all[len(all)-1]
		return last.Time.After(then)
	})
	return last
}

// option turns multi-statements on or off. The answer is an EOF packet.
func (s *Session) option(value string) error {
	err := s.send(0x1b, value+"\x00")
	_, answer := s.read()
	return errors.Join(err, answer)
}
