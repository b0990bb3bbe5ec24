//go:build linux

package kafka_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"sqlwitness/bench/load"
	"sqlwitness/bench/mariadb"
)

// A paced load sends numbered statements at a steady rate and notes when.
type paced struct {
	stop func() // returns when the clients have left

	mu    sync.Mutex
	times []sending // by number
}

// A sending is when a client sent a statement, and when it had the answer.
type sending struct{ sent, answered time.Time }

// startPaced sends about perSecond statements over so many connections.
func startPaced(t *testing.T, srv *mariadb.Server, user string, conns, perSecond int) *paced {
	t.Helper()
	p := &paced{}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	p.stop = func() {
		cancel()
		all.Wait()
	}
	t.Cleanup(p.stop)
	pool, err := sql.Open("mysql", user+":"+userPassword+"@tcp("+srv.Addr("127.0.0.1")+")/")
	if err != nil {
		t.Fatal(err)
	}
	for range conns {
		conn, err := pool.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer conn.Close()
			tick := time.NewTicker(time.Duration(conns) * time.Second / time.Duration(perSecond))
			defer tick.Stop()
			for ctx.Err() == nil {
				<-tick.C
				p.one(t, conn)
			}
		})
	}
	return p
}

// one sends a statement, to its end even if the load is being stopped.
func (p *paced) one(t *testing.T, conn *sql.Conn) {
	p.mu.Lock()
	i := len(p.times)
	p.times = append(p.times, sending{sent: time.Now()})
	p.mu.Unlock()
	var value string
	if err := conn.QueryRowContext(context.Background(), load.NumberedText(i)).Scan(&value); err != nil {
		t.Errorf("statement %d: %v", i, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.times[i].answered = time.Now()
}
