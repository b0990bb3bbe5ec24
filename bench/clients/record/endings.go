//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// killed are an idle connection, a busy one and a statement that another session
// kills, a session that kills itself, a statement that takes too long.
func (s *stage) killed() error {
	killer, err := s.login("ann", "shop", 0)
	if err != nil {
		return err
	}
	idle, err := s.login("bob", "other", 0)
	if err != nil {
		return err
	}
	busy, err := s.login("bob", "other", 0)
	if err != nil {
		return err
	}
	if err := idle.play(line{comQuery, "SELECT 1"}); err != nil {
		return err
	}
	if err := busy.play(line{comQuery, "SELECT SLEEP(30)"}); err != nil {
		return err
	}
	for _, victim := range []*raw{idle, busy} {
		if err := killer.play(line{comQuery, fmt.Sprintf("KILL CONNECTION %d", victim.thread)}); err != nil {
			return err
		}
		// The client finds out when it speaks or listens the next time.
		if _, err := victim.listen(300 * time.Millisecond); err == nil {
			victim.send(comQuery, "SELECT 2")
		}
		victim.conn.Close()
	}
	if err := killer.interrupt(s); err != nil {
		return err
	}
	own := fmt.Sprintf("KILL CONNECTION %d", killer.thread)
	if err := killer.play(line{comQuery, own}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return killer.conn.Close()
}

// interrupt are statements that end early while their connection lives on.
func (r *raw) interrupt(s *stage) error {
	busy, err := s.login("bob", "other", 0)
	if err != nil {
		return err
	}
	err = errors.Join(
		busy.play(line{comQuery, "SELECT SLEEP(30)"}),
		r.play(line{comQuery, fmt.Sprintf("KILL QUERY %d", busy.thread)}),
	)
	if err != nil {
		return err
	}
	if _, err := busy.listen(silence); err != nil {
		return err
	}
	if err := busy.play(line{comQuery, "SET STATEMENT max_statement_time=0.02 FOR SELECT COUNT(*) FROM seq_1_to_100000000 WHERE SQRT(seq) < 0"}); err != nil {
		return err
	}
	return busy.quit()
}

// progress is a statement that takes long enough for the server to report.
func (s *stage) progress() error {
	r, err := s.login("ann", "shop", extProgress)
	if err != nil {
		return err
	}
	err = r.play(line{comQuery, "SET progress_report_time = 1"})
	for _, text := range []string{
		"CREATE TABLE long_one ENGINE=Aria AS SELECT seq, REPEAT('x', 100) AS pad FROM seq_1_to_2000000",
		"ALTER TABLE long_one ADD INDEX (pad), ADD INDEX (seq)",
		"DROP TABLE long_one",
	} {
		if err != nil {
			break
		}
		if err = r.write(0, append([]byte{comQuery}, text...)); err == nil {
			err = r.answer(time.Minute)
		}
	}
	return errors.Join(err, r.quit())
}
