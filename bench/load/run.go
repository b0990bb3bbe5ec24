// Package load sends statements to a MariaDB server with real clients and
// records what each connection sent and received, to the byte.
//
// Run is the mixed load that the truth tests compare with; Numbered is a plain
// load whose statements count themselves; CLI and Sysbench run other people's
// clients, which only the server's log can speak for.
package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"sqlwitness/bench/truth"
)

// A Target is the server to load.
type Target struct {
	Addr     string // IP address and port
	Users    []string
	Password string // of all of them
	Dial     Dialer // nil = net.Dialer
}

// A Mix says how much of the mixed load to send. A field that is 0 has the
// value in brackets.
type Mix struct {
	Conns      int // [8]
	Statements int // over all connections [20000]
	Seed       uint64
	BigBytes   int // of the one very long statement; 0 = none
}

// Run sends the mixed load and returns one session for each connection. The
// schemas and tables it works on are made by a connection of its own, which is
// the first session.
func Run(ctx context.Context, t Target, m Mix) ([]truth.Session, error) {
	if m.Conns == 0 {
		m.Conns = 8
	}
	if m.Statements == 0 {
		m.Statements = 20000
	}
	sessions := make([]truth.Session, m.Conns+1)
	first, err := setUp(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("set up the load: %w", err)
	}
	sessions[0] = first
	errs := make([]error, m.Conns)
	var wg sync.WaitGroup
	for i := range m.Conns {
		wg.Go(func() {
			big := 0
			if i == 0 {
				big = m.BigBytes
			}
			sessions[i+1], errs[i] = runOne(ctx, t, i, share(m.Statements, m.Conns, i), big, m.Seed)
		})
	}
	wg.Wait()
	return sessions, errors.Join(errs...)
}

// share is the part of total that falls to the i-th of n.
func share(total, n, i int) int { return total*(i+1)/n - total*i/n }

func runOne(ctx context.Context, t Target, i, statements, bigBytes int, seed uint64) (truth.Session, error) {
	c, err := connect(ctx, t, t.Users[i%len(t.Users)], schemas[i%len(schemas)])
	if err != nil {
		return truth.Session{}, err
	}
	m := mixer{client: c, rng: rand.New(rand.NewPCG(seed, uint64(i))), conn: i}
	for len(c.rec.Commands) < statements && err == nil {
		if bigBytes > 0 && len(c.rec.Commands) >= statements/2 {
			err = m.big(ctx, bigBytes)
			bigBytes = 0
			continue
		}
		err = m.next(ctx)
	}
	return c.rec, errors.Join(err, m.finish(ctx))
}

// schemas are those of the load; one needs quotes.
var schemas = []string{"shop", "odd-name"}

// setUp makes the tables. Tables that statements write have one copy for each
// schema; each connection writes rows of its own, so that counts are certain.
func setUp(ctx context.Context, t Target) (truth.Session, error) {
	c, err := connect(ctx, t, t.Users[0], "")
	if err != nil {
		return truth.Session{}, err
	}
	statements := []string{
		"CREATE OR REPLACE PROCEDURE mysql.two_results(n INT) BEGIN SELECT n; SELECT 1 UNION SELECT 2; END",
	}
	for _, s := range schemas {
		q := "`" + s + "`."
		statements = append(statements, "DROP DATABASE IF EXISTS `"+s+"`", "CREATE DATABASE `"+s+"` CHARACTER SET utf8mb4",
			"CREATE TABLE "+q+"thousand (n INT PRIMARY KEY, s VARCHAR(64))",
			"INSERT INTO "+q+"thousand SELECT seq, REPEAT('x', seq % 60) FROM mysql.seq_1_to_1000",
			"CREATE TABLE "+q+"note (conn INT, n INT, body LONGBLOB, extra VARCHAR(255), PRIMARY KEY (conn, n))",
			"CREATE TABLE "+q+"stock (conn INT, item INT, left_over INT, PRIMARY KEY (conn, item))",
			"INSERT INTO "+q+"stock SELECT a.seq, b.seq, 0 FROM mysql.seq_0_to_31 a, mysql.seq_1_to_10 b")
	}
	for _, text := range statements {
		if err := c.exec(ctx, text); err != nil {
			return c.rec, errors.Join(err, c.close())
		}
		if code := c.last().ErrorCode; code != 0 {
			return c.rec, errors.Join(fmt.Errorf("error %d from %s", code, text), c.close())
		}
	}
	return c.rec, c.close()
}
