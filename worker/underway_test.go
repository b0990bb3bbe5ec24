package worker

import (
	"testing"
	"time"

	"sqlwitness/probe"
	"sqlwitness/watcher"
)

// A command under way that may change the user, or the schema, has the list say
// nothing of them: it may have been read on either side of it.
func TestListWhileUserChanges(t *testing.T) {
	users := map[uint16]string{40000: "ann"}
	change := packet(second+5, 40000, true, 1013, 5011, 0, "\x11bob\x00\x00other\x00\x2d\x00")
	end := 1013 + uint32(len(change.Payload))
	for _, c := range []struct {
		name   string
		answer string
		want   []string
	}{
		{"it goes well", okBody, []string{`command "select 0" / +user_unknown`, `command "" / +user_unknown`, `command "select 1" bob/change_user db=other`}},
		{"it is refused", "\xff\x15\x04#28000Access denied", []string{`command "select 0" / +user_unknown`, `command "" / +user_unknown`, `login_failed "" bob/change_user db=other`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newStage(t, Config{IdentityWait: 10 * time.Second})
			g.batch(second, query(second, 40000, 0)...)
			g.batch(second+6, change)
			g.desk.snap = list(1, 2*second, 2*second+100, users)
			g.batch(3 * second)
			g.expect()
			g.batch(4*second, packet(4*second, 40000, false, 5011, end, 1, c.answer))
			if c.answer == okBody {
				g.batch(5*second, packet(5*second, 40000, true, end, 5022, 0, "\x03select 1"), packet(5*second+1, 40000, false, 5022, end+13, 1, okBody))
			}
			g.batch(20 * second)
			g.expect(c.want...)
		})
	}
	t.Run("use", func(t *testing.T) {
		g := newStage(t, Config{IdentityWait: 10 * time.Second})
		g.batch(second, query(second, 40000, 0)...)
		g.batch(second+6, packet(second+5, 40000, true, 1013, 5011, 0, "\x03use other"))
		g.desk.snap = list(1, 2*second, 2*second+100, users)
		g.batch(3 * second)
		g.batch(4*second, packet(4*second, 40000, false, 5011, 1013+14, 1, okBody))
		g.batch(20 * second)
		g.expect(`command "select 0" ann/processlist`, `command "use other" ann/processlist`)
	})
}

// An Execute that waits has the text that the server's tables tell, and the user
// does not come before it while it may still come.
func TestTextsOfOlderStatements(t *testing.T) {
	const execute = "\x17\x05\x00\x00\x00\x00\x01\x00\x00\x00"
	for _, c := range []struct {
		name    string
		schema  string // why there are no Details
		details *watcher.Details
		want    []string
	}{
		{"told", "", &watcher.Details{Statements: map[uint32]watcher.Statement{5: {Text: "select 42"}}}, []string{`command "select 42" ann/processlist db=shop`}},
		{"of another id", "", &watcher.Details{Statements: map[uint32]watcher.Statement{6: {Text: "select 42"}}}, []string{`command "" ann/processlist db=shop +no_statement_text`}},
		{"not told", "performance_schema is off", nil, []string{`command "" ann/processlist db=shop +no_statement_text`}},
		{"not told yet", "", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newStage(t, Config{IdentityWait: 10 * time.Second})
			ask := packet(second, 40000, true, 1000, 5000, 0, execute)
			end := 1000 + uint32(len(ask.Payload))
			g.batch(second, ask, packet(second+1, 40000, false, 5000, end, 1, okBody))
			row := watcher.Session{ConnectionID: 7, User: "ann", UserKnown: true, DB: "shop", DBKnown: true, Client: loggedInFlow.Client, Details: c.details}
			g.desk.snap = watcher.NewSnapshot(1, 2*second, 2*second+1, true, []watcher.Session{row})
			g.desk.snap.NoDetails = c.schema
			g.batch(3 * second)
			g.expect(c.want...)
			if c.want == nil {
				row.Details = &watcher.Details{Statements: map[uint32]watcher.Statement{5: {Text: "select 42"}}}
				g.desk.snap = watcher.NewSnapshot(2, 4*second, 4*second+1, true, []watcher.Session{row})
				g.batch(5 * second)
				g.expect(`command "select 42" ann/processlist db=shop`)
			}
		})
	}
}

// While the schema and the texts may still come, the user is known and events wait
// for them.
func TestRestOfWhatIsKnown(t *testing.T) {
	execute := func(ns int64, n uint32) []probe.Segment {
		ask := packet(ns, 40000, true, 1000+14*n, 5000+11*n, 0, "\x17\x05\x00\x00\x00\x00\x01\x00\x00\x00")
		return []probe.Segment{ask, packet(ns+1, 40000, false, 5000+11*n, 1014+14*n, 1, okBody)}
	}
	row := watcher.Session{ConnectionID: 7, User: "ann", UserKnown: true, DB: "shop", DBKnown: true, Client: loggedInFlow.Client}
	told := &watcher.Details{Statements: map[uint32]watcher.Statement{5: {Text: "select 42"}}}
	for _, c := range []struct {
		name        string
		first, then func(r *watcher.Session)
	}{
		{"the text", func(*watcher.Session) {}, func(r *watcher.Session) { r.Details = told }},
		{"the schema", func(r *watcher.Session) { r.Details, r.DBKnown = told, false }, func(r *watcher.Session) { r.Details = told }},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newStage(t, Config{IdentityWait: 10 * time.Second})
			g.batch(second, execute(second, 0)...)
			first, then := row, row
			c.first(&first)
			c.then(&then)
			g.desk.snap = watcher.NewSnapshot(1, 2*second, 2*second+1, true, []watcher.Session{first})
			g.batch(3 * second)
			g.batch(3*second+5, execute(3*second+5, 1)...)
			g.expect()
			g.desk.snap = watcher.NewSnapshot(2, 4*second, 4*second+1, true, []watcher.Session{then})
			g.batch(5 * second)
			g.expect(`command "select 42" ann/processlist db=shop`, `command "select 42" ann/processlist db=shop`)
		})
	}
}

// The user of a row that may be a definer's, of a procedure that runs, is nobody's.
func TestDefinerIsNobody(t *testing.T) {
	g := newStage(t, Config{IdentityWait: 10 * time.Second})
	g.batch(second, query(second, 40000, 0)...)
	row := watcher.Session{ConnectionID: 7, User: "definer", DB: "shop", DBKnown: true, Client: loggedInFlow.Client}
	read := func(serial uint64) {
		at := int64(2+serial) * second
		g.desk.snap = watcher.NewSnapshot(serial, at, at+1, true, []watcher.Session{row})
		g.desk.snap.NoDetails = "performance_schema is off"
		g.batch(at + 2)
	}
	read(1)
	g.expect()
	row = watcher.Session{ConnectionID: 7, User: "ann", UserKnown: true, DB: "shop", DBKnown: true, Client: loggedInFlow.Client}
	read(2)
	g.expect(`command "select 0" ann/processlist db=shop`)
	row = watcher.Session{ConnectionID: 7, User: "definer", DB: "stock", Client: loggedInFlow.Client}
	read(3)
	g.batch(8*second, query(8*second, 40000, 1)...)
	g.expect(`command "select 1" ann/processlist db=shop`)
}
