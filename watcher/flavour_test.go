package watcher

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A likeMySQL answers as a server whose tables it holds; from knowledge of MySQL
// 8, not from a live one.
type likeMySQL struct {
	schema  string // value of performance_schema
	names   bool   // skip_name_resolve is off
	version string
	list    [][]any // Id, User, Host, db, Command
	lost    string  // threads without a place in performance_schema
	process bool
	innodb  bool
	grants  []string
	tables  uint16                              // the error of performance_schema's tables
	other   func(question string) (reply, bool) // looked at first
}

func (m *likeMySQL) answer(q string) reply {
	if m.other != nil {
		if r, ok := m.other(q); ok {
			return r
		}
	}
	listColumns := []string{"Id", "User", "Host", "db", "Command"}
	switch {
	case strings.HasPrefix(q, "SELECT CONNECTION_ID"):
		return reply{columns: []string{"id"}, rows: [][]any{{"7"}}}
	case strings.HasPrefix(q, "SHOW GLOBAL VARIABLES"):
		return reply{columns: []string{"Variable_name", "Value"}, rows: [][]any{{"version", m.version},
			{"performance_schema", m.schema}, {"skip_name_resolve", map[bool]string{true: "OFF", false: "ON"}[m.names]}, {"hostname", "db1"}, {"port", "3306"}}}
	case strings.HasPrefix(q, "SHOW GLOBAL STATUS LIKE"):
		return reply{columns: []string{"Variable_name", "Value"}, rows: [][]any{{"x", m.lost}}}
	case strings.Contains(q, "INNODB_CMP") && !m.innodb:
		return reply{code: 1109, text: "Unknown table"}
	case strings.Contains(q, "INNODB_CMP") && !m.process:
		return reply{code: 1227, text: "Access denied"}
	case strings.Contains(q, "INNODB_CMP"):
		return reply{columns: []string{"n"}, rows: [][]any{{"1024"}}}
	case q == "SHOW GRANTS":
		r := reply{columns: []string{"Grants"}}
		for _, g := range m.grants {
			r.rows = append(r.rows, []any{g})
		}
		return r
	case q == fromShow:
		r := reply{columns: append(listColumns, "Time", "State", "Info")}
		for _, row := range m.list {
			r.rows = append(r.rows, append(row[:5:5], "0", nil, "SELECT 'secret'"))
		}
		return r
	case strings.Contains(q, "performance_schema.") && m.tables != 0:
		return reply{code: m.tables, text: "denied"}
	case q == fromPerformanceSchema:
		return reply{columns: listColumns, rows: m.list}
	}
	return reply{columns: []string{"a", "b", "c", "d"}}
}

func TestFlavours(t *testing.T) {
	busy := [][]any{{"9", "ann", "192.0.2.7:40000", "shop", "Query"}, {"5", "event_scheduler", "localhost", nil, "Daemon"},
		{"6", "system user", "connecting host", nil, "Connect"}, {"8", "mysql.session", "localhost", nil, "Sleep"}, {"10", "root", "localhost", nil, "Daemon"},
		{"11", "unauthenticated user", "192.0.2.7:41000", nil, "Connect"}}
	for _, c := range []struct {
		name      string
		m         likeMySQL
		question  string // that the list comes from
		userKnown bool
		complete  bool
		flavour   Flavour
	}{
		{"MySQL 8", likeMySQL{schema: "ON", version: "8.0.36", lost: "0", process: true, innodb: true}, fromPerformanceSchema, true, true, MySQL},
		{"threads lost", likeMySQL{schema: "ON", version: "8.0.36", lost: "3", process: true, innodb: true}, fromShow, false, true, MySQL},
		{"MySQL 5.7", likeMySQL{schema: "ON", version: "5.7.44", tables: 1146, process: true, innodb: true}, fromShow, false, true, MySQL},
		{"schema off", likeMySQL{schema: "OFF", version: "8.4.0", process: true, innodb: true}, fromShow, false, true, MySQL},
		{"MariaDB", likeMySQL{schema: "ON", version: "5.5.5-10.11.6-MariaDB", process: true, innodb: true}, fromShow, false, true, MariaDB},
		{"no PROCESS", likeMySQL{schema: "ON", version: "8.0.36", lost: "0", innodb: true, grants: []string{"GRANT PROCESS ON *.* TO `u`@`%`"}}, fromPerformanceSchema, true, false, MySQL},
		{"granted, no InnoDB", likeMySQL{version: "8.0.36", grants: []string{"GRANT SELECT, PROCESS ON *.* TO `u`@`%`"}}, fromShow, false, true, MySQL},
		{"all granted", likeMySQL{version: "8.0.36", grants: []string{"GRANT `r`@`%` TO `u`@`%`", "GRANT ALL PRIVILEGES ON *.* TO `u`@`%`"}}, fromShow, false, true, MySQL},
		{"not granted", likeMySQL{version: "8.0.36", grants: []string{"GRANT USAGE ON *.* TO `u`@`%`", "GRANT PROCESS ON `x`.* TO `u`@`%`"}}, fromShow, false, false, MySQL},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.m.list = busy
				f := &fakeServer{answer: c.m.answer}
				w := watchFake(t, f, Config{})
				synctest.Wait()
				s := w.Snapshot()
				if s == nil {
					t.Fatalf("no snapshot: %v", w.State())
				}
				if s.Complete != c.complete || w.State().Up != c.complete || s.Server.Flavour != c.flavour || strings.HasPrefix(s.Server.Version, "5.5.5-") {
					t.Errorf("complete %t, %v, %+v", s.Complete, w.State(), s.Server)
				}
				one, ok := s.Find(Peer{Addr: addrOf("192.0.2.7:40000"), ConnectionID: 9})
				if r, ok := s.Find(Peer{Addr: addrOf("192.0.2.7:41000")}); ok || !s.Present(Peer{Addr: addrOf("192.0.2.7:41000")}) {
					t.Errorf("a login under way is %+v", r)
				}
				if !ok || one.User != "ann" || one.UserKnown != c.userKnown || one.DBKnown || s.Len() != 1 {
					t.Errorf("%t %+v of %d", ok, one, s.Len())
				}
				lists := append(f.times(fromShow, time.Now()), f.times(fromPerformanceSchema, time.Now())...)
				if asked := f.times(c.question, time.Now()); len(asked) != 1 || len(lists) > 2 {
					t.Errorf("%q was asked %d times of %d", c.question, len(asked), len(lists))
				}
				w.Close()
			})
		})
	}
}

// A server whose list shows the watcher itself as not logged in, or shows the
// account's host in place of the client's, is not believed.
func TestListUnusable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := healthy()
		m.list = [][]any{{"7", "unauthenticated user", "192.0.2.1:40000", nil, "Query"}, {"9", "ann", "192.0.2.7:41000", "shop", "Sleep"},
			{"10", "root", "localhost", "shop", "Sleep"}}
		w := watchFake(t, &fakeServer{answer: m.answer}, Config{})
		synctest.Wait()
		s := w.Snapshot()
		if r, ok := s.Find(Peer{Addr: addrOf("192.0.2.7:41000"), ConnectionID: 9}); ok || s.Complete || w.State().Cause != CauseList {
			t.Errorf("found %+v, complete %t, %v", r, s.Complete, w.State())
		}
		w.Close()
	})
}

// What came over sockets is told by account, where no accounts were lost; where the
// server shows names TCP over the loopback looks the same.
func TestSocketQuestions(t *testing.T) {
	for _, c := range []struct {
		name  string
		names bool
		lost  string
		want  SocketQuestions // without Reason
	}{
		{"addresses", false, "0", SocketQuestions{Known: true, Local: 12, All: 40}},
		{"names", true, "0", SocketQuestions{Known: true, Local: 12, All: 40, Names: true}},
		{"accounts lost", false, "1", SocketQuestions{}},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := healthy()
			m.schema, m.names = "ON", c.names
			m.other = func(q string) (reply, bool) {
				switch {
				case strings.Contains(q, "status_by_account"):
					return reply{columns: []string{"local", "all"}, rows: [][]any{{"12", "40"}}}, true
				case strings.HasPrefix(q, "SHOW GLOBAL STATUS WHERE"):
					return reply{columns: []string{"n", "v"}, rows: [][]any{{"Questions", "99"}, {"Performance_schema_accounts_lost", c.lost}}}, true
				}
				return reply{}, false
			}
			w := watchFake(t, &fakeServer{answer: m.answer}, Config{})
			synctest.Wait()
			got, err := w.Counters(t.Context())
			if (got.Socket.Reason == "") != c.want.Known {
				t.Errorf("%s: reason %q", c.name, got.Socket.Reason)
			}
			got.Socket.Reason = ""
			if err != nil || got.Socket != c.want || got.Questions != 99 {
				t.Errorf("%s: %+v, %v", c.name, got, err)
			}
			w.Close()
		})
	}
}
