package questions

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
)

// User is the account of the mixed load, Schema its schema.
const (
	User   = "asker"
	Schema = "questions"
)

// The account of the agent.
const (
	watchUser     = "watch"
	watchPassword = "pw-Zq8mN4tV"
)

// Init are the statements that a server needs before the load, one per line.
const Init = "CREATE USER " + watchUser + "@'%' IDENTIFIED BY '" + watchPassword + "';\nGRANT PROCESS ON *.* TO " + watchUser + "@'%';\n" +
	"GRANT SELECT ON performance_schema.* TO " + watchUser + "@'%';\n" + "CREATE USER " + User + "@'%';\nGRANT ALL ON *.* TO " + User + "@'%';\nCREATE DATABASE " + Schema + ";\n" +
	"CREATE TABLE " + Schema + ".t (a INT) ENGINE=MEMORY;\n" +
	"CREATE DEFINER=" + User + "@'%' PROCEDURE " + Schema + ".two() BEGIN SELECT 1; SELECT 2; END;\n" +
	"CREATE DEFINER=" + User + "@'%' PROCEDURE " + Schema + ".fails() BEGIN SELECT 1; SIGNAL SQLSTATE '45000'; END;\n"

// A Session is a connection of the mixed load. What it sends over TCP goes into the
// Truth; a session of a unix socket counts for itself.
type Session struct {
	*Client
	truth *Truth
	port  int // 0 = a unix socket
	Sent  int // questions
}

// Open begins a session.
func Open(ctx context.Context, network, addr string, truth *Truth) (*Session, error) {
	c, err := Dial(ctx, network, addr, User, Schema)
	if err != nil {
		return nil, err
	}
	s := &Session{Client: c, truth: truth}
	if tcp, ok := c.conn.LocalAddr().(*net.TCPAddr); ok {
		s.port = tcp.Port
	}
	return s, nil
}

// note counts a command without a number.
func (s *Session) note(command string) {
	s.Sent++
	if s.port != 0 {
		s.truth.count(s.port, command)
	}
}

// query sends texts as one command; those that are numbered are questions.
func (s *Session) query(numbered []string, rest string) error {
	text := ""
	for _, one := range numbered {
		s.Sent++
		if s.port != 0 {
			one = s.truth.number(one)
		}
		text += one + ";"
	}
	return s.Query(text[:len(text)-1] + rest)
}

// Plain sends n statements that succeed.
func (s *Session) Plain(n int) error {
	for range n {
		if err := s.query([]string{"SELECT 1"}, ""); err != nil {
			return err
		}
	}
	return nil
}

// refused wants the server's error.
func refused(what string, err error) error {
	var answer ServerError
	if errors.As(err, &answer) {
		return nil
	}
	return fmt.Errorf("%s: the server was to refuse it, and said %v", what, err)
}

// Round sends one of each kind of command, and single statements between.
func (s *Session) Round(singles int) error {
	return errors.Join(s.Plain(singles), s.texts(), s.Plain(singles), s.prepared(), s.Plain(singles), s.states())
}

// texts are Query commands of all forms.
func (s *Session) texts() error {
	one := func(text string) error { return s.query([]string{text}, "") }
	s.note("Query")
	return errors.Join(
		refused("empty text", s.Query("")),
		refused("syntax", one("SELEC 1")),
		one("SELECT 1; \n"),
		s.query([]string{"SELECT 1", "DO 2", "SELECT ';', `a` FROM t WHERE 'x' = \";\""}, ""),
		refused("second statement", s.query([]string{"SELECT 1", "SELEC 2"}, ";SELECT 3")),
		refused("second table", s.query([]string{"SELECT 1", "SELECT * FROM nowhere"}, ";SELECT 3")),
		one("CALL two()"),
		s.query([]string{"SELECT 0", "CALL two()", "SELECT 9"}, ""),
		refused("procedure", one("CALL fails()")),
		one("BEGIN NOT ATOMIC SELECT 1; SELECT 2; END"),
		one("PREPARE p FROM 'SELECT ?'"), one("EXECUTE p USING 1"), one("DEALLOCATE PREPARE p"),
		one("LOAD DATA LOCAL INFILE 'x' INTO TABLE t"),
		one("USE "+Schema),
	)
}

// prepared are the commands of prepared statements.
func (s *Session) prepared() error {
	plain, err1 := s.prepare("SELECT 1")
	call, err2 := s.prepare("CALL two()")
	param, err3 := s.prepare("SELECT a FROM t WHERE a > ?")
	insert, err4 := s.prepare("INSERT INTO t VALUES (?)")
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	once := string([]byte{0, 1, 0, 0, 0}) // no cursor, one iteration
	value := "\x00\x01\x03\x00" + string(binary.LittleEndian.AppendUint32(nil, 7))
	for range 2 {
		s.note("Execute")
		if err := s.command(comExecute, plain+once); err != nil {
			return err
		}
	}
	for range 4 {
		s.note("Execute")
	}
	s.note("Long Data")
	s.note("Fetch")
	s.note("Bulk_execute")
	_, fails := s.prepare("SELEC 1")
	return errors.Join(
		s.command(comExecute, call+once),
		s.command(comExecute, param+once+value),
		s.send(comLongData, param+"\x00\x007"),
		s.command(comResetStmt, param),
		s.command(comExecute, param+"\x01"+once[1:]+value), s.fetch(param, 1000),
		refused("execute", s.command(comExecute, "\xff\xff\xff\x00"+once)),
		s.command(comBulkExecute, insert+"\x80\x00\x03\x00"+"\x00\x01\x00\x00\x00"+"\x00\x02\x00\x00\x00"),
		refused("prepare", fails),
		s.send(comClose, plain), s.send(comClose, call), s.send(comClose, param), s.send(comClose, insert),
	)
}

// states are commands that change the session, or ask about it.
func (s *Session) states() error {
	for _, command := range []string{"Init DB", "Init DB", "Init DB", "Change user", "Reset connection"} {
		s.note(command)
	}
	return errors.Join(
		s.command(comPing, ""),
		s.command(comInitDB, Schema), refused("schema", s.command(comInitDB, "nowhere")),
		s.changeUser(User, Schema), s.command(comResetConn, ""),
		s.command(comInitDB, Schema))
}

// Quit ends the session.
func (s *Session) Quit() error {
	s.note("Quit")
	return s.Client.Quit()
}

// Drop ends the session without a word.
func (s *Session) Drop() error { return s.conn.Close() }
