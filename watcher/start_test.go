package watcher

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A new login is to the same start of the same server if its connection ids go on, its
// uptime does, and it has the same name.
func TestStart(t *testing.T) {
	for _, c := range []struct {
		name   string
		id     string // at the second login; at the first it is 7
		host   string // db1 at the first
		up     time.Duration
		before time.Duration // the first login, since the start
		want   uint64
	}{
		{"the connection broke", "8", "db1", 3610 * time.Second, time.Hour, 1},
		{"the uptime is rounded", "8", "db1", 3609 * time.Second, time.Hour, 1},
		{"started anew, the ids go on", "9", "db1", 4 * time.Second, time.Hour, 2},
		{"started anew soon", "9", "db1", 4 * time.Second, 5 * time.Second, 2},
		{"the ids begin anew", "7", "db1", 3610 * time.Second, time.Hour, 2},
		{"another server", "8", "db2", 3610 * time.Second, time.Hour, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				id, host, up := "7", "db1", c.before
				m := healthy()
				m.other = func(q string) (reply, bool) {
					switch {
					case strings.HasPrefix(q, "SELECT CONNECTION_ID"):
						return reply{columns: []string{"id"}, rows: [][]any{{id}}}, true
					case strings.HasPrefix(q, "SHOW GLOBAL VARIABLES"):
						return reply{columns: []string{"n", "v"}, rows: [][]any{{"version", "8.0.36"}, {"hostname", host}, {"port", "3306"}}}, true
					case strings.HasPrefix(q, "SHOW GLOBAL STATUS LIKE 'Uptime'"):
						return reply{columns: []string{"n", "v"}, rows: [][]any{{"Uptime", strconv.Itoa(int(up.Seconds()))}}}, true
					}
					return reply{}, false
				}
				f := &fakeServer{answer: m.answer}
				w := watchFake(t, f, Config{Interval: time.Second})
				time.Sleep(9500 * time.Millisecond)
				if s := w.Snapshot(); s.Start != 1 {
					t.Fatalf("start %d before the second login", s.Start)
				}
				f.set(func() { id, host, up = c.id, c.host, c.up })
				w.server.gate <- struct{}{}
				w.server.drop()
				<-w.server.gate
				time.Sleep(time.Second)
				if s := w.Snapshot(); s.Start != c.want || f.logins != 2 {
					t.Errorf("start %d after %d logins, want %d", s.Start, f.logins, c.want)
				}
				w.Close()
			})
		})
	}
}
