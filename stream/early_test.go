package stream

import (
	"strings"
	"testing"

	"sqlwitness/probe"
)

// TestEarlyCommands: commands that come before the login is answered are the session's
// only if the server lets the client in, in every mode, and where the answer is lost.
func TestEarlyCommands(t *testing.T) {
	const (
		login    = "syn\ngreeting\nlogin eve shop\nc+ 0 03 \"drop table t\"\n"
		zipLogin = "syn\ngreeting\nlogin eve shop compress\nraw c 05 00 00 00 00 00 00 01 00 00 00 0e\n"
		switched = "syn\ngreeting\nlogin eve shop\ns 2 fe 'mysql_native_password' \"12345678901234567890\" 00\nc 3 \"scramble\"\nc+ 0 03 \"drop table t\"\n"
		denied   = "ff 15 04 \"#28000denied\"\nfin\n"
		ok       = "00 00 00 02 00 00 00\n"
	)
	for _, c := range []struct {
		name   string
		mode   probe.Mode
		script string
		want   []string // begins of the events
	}{
		{"status, refused", probe.ModeStatus, login + "s 2 " + denied,
			[]string{"login_failed user=eve/login db=shop error 1045", "session_end"}},
		{"status, accepted", probe.ModeStatus, login + "s 2 " + ok + "s 1 " + ok + "query \"select 2\"\nok",
			[]string{"session_start user=eve/login db=shop ok", "command 1 Query user=eve/login db=shop sql=\"drop table t\" ok", "command 2 Query user=eve/login db=shop sql=\"select 2\" ok", "session_end"}},
		{"status, in one segment", probe.ModeStatus, login + "query \"select 2\"\ns 2 " + ok + "s+ 1 " + ok + "s+ 1 ff 28 04 \"#42000no\"\ncom 1\nfin",
			[]string{"session_start user=eve/login db=shop ok", "command 1 Query user=eve/login db=shop sql=\"drop table t\" ok", "command 2 Query user=eve/login db=shop sql=\"select 2\" error 1064", "command 3 Quit", "session_end"}},
		{"status, switched, refused", probe.ModeStatus, switched + "s 4 " + denied,
			[]string{"login_failed user=eve/login db=shop error 1045", "session_end"}},
		{"status, switched, accepted", probe.ModeStatus, switched + "s 4 " + ok + "s+ 1 " + ok,
			[]string{"session_start user=eve/login db=shop ok", "command 1 Query user=eve/login db=shop sql=\"drop table t\" ok", "session_end"}},
		{"status, compressed, refused", probe.ModeStatus, zipLogin + "s 2 " + denied,
			[]string{"login_failed user=eve/login db=shop error 1045", "session_end"}},
		{"status, compressed, accepted", probe.ModeStatus, zipLogin + "s 2 " + ok + "raw s 0b 00 00 01 00 00 00 07 00 00 01 00 00 00 02 00 00 00",
			[]string{"session_start user=eve/login db=shop ok", "command 1 Ping user=eve/login db=shop ok", "session_end"}},
		{"status, OK lost", probe.ModeStatus, login + "gap s 11\ns 1 ff 28 04 \"#42000no\"\nquery \"select 2\"\nok",
			[]string{"session_start user=eve/login db=shop unknown", "command 1 Query user=eve/login db=shop sql=\"drop table t\" error 1064", "command 2 Query user=eve/login db=shop sql=\"select 2\" ok", "session_end"}},
		{"status, OK and reply lost", probe.ModeStatus, login + "gap s 22\nquery \"select 2\"\nok",
			[]string{"session_start user=eve/login db=shop unknown", "command 1 Query user=eve/login db=shop sql=\"drop table t\" unknown", "command 2 Query user=eve/login db=shop sql=\"select 2\" ok", "session_end"}},
		{"status, OK lost, not early", probe.ModeStatus, "syn\ngreeting\nlogin eve shop\ngap s 11\nquery \"select 2\"\nok",
			[]string{"session_start user=eve/login db=shop unknown", "command 1 Query user=eve/login db=shop sql=\"select 2\" ok", "session_end"}},
		{"full, OK lost", probe.ModeFull, login + "gap s 11\ns 1 ff 28 04 \"#42000no\"\ntick\ntick\nquery \"select 2\"\nok",
			[]string{"session_start user=eve/login db=shop unknown", "command 1 Query user=eve/login db=shop sql=\"drop table t\" error 1064", "command 2 Query user=eve/login db=shop sql=\"select 2\" ok", "session_end"}},
		{"full, compressed, OK lost", probe.ModeFull, zipLogin + "gap s 11\nraw s 0b 00 00 01 00 00 00 07 00 00 01 00 00 00 02 00 00 00",
			[]string{"session_start user=eve/login db=shop unknown", "command 1 Ping user=eve/login db=shop ok", "session_end"}},
		{"full, OK and reply lost", probe.ModeFull, login + "gap s 22\nquery \"select 2\"\ntick\ntick\nok",
			[]string{"session_start user=eve/login db=shop unknown", "command 1 Query user=eve/login db=shop sql=\"drop table t\" unknown", "command 2 Query user=eve/login db=shop sql=\"select 2\" ok", "session_end"}},
		{"full, ERR lost", probe.ModeFull, login + "gap s 17\nfin",
			[]string{"session_start user=eve/login db=shop unknown", "session_end"}},
		{"full, no answer", probe.ModeFull, login,
			[]string{"session_start user=eve/login db=shop aborted", "session_end"}},
		{"none", probe.ModeNone, login + "gap s 17\nfin", // the answer is never seen
			[]string{"session_start user=eve/login db=shop id=", "command 1 Query user=eve/login db=shop sql=\"drop table t\"", "session_end"}},
		{"none, behind what is no command", probe.ModeNone, "syn\ngreeting\nlogin eve shop\nc+ 0\nc+ 0 50\nc+ 0 03 \"drop table t\"\nc+ 0 50\n",
			[]string{"session_start user=eve/login db=shop id=", "command 1 Query user=eve/login db=shop sql=\"drop table t\"", "session_end"}},
		{"none, compressed", probe.ModeNone, zipLogin + "gap s 17\nfin",
			[]string{"session_start user=eve/login db=shop id=", "command 1 Ping user=eve/login db=shop", "session_end"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := runScriptWith(t, Config{Mode: c.mode}, c.script)
			lines := strings.Split(strings.TrimSpace(got), "\n")
			if len(lines) != len(c.want) {
				t.Fatalf("%d events, want %d:\n%s", len(lines), len(c.want), got)
			}
			for i, want := range c.want {
				if !strings.HasPrefix(lines[i], want) {
					t.Errorf("event %d: %s\nwant %s", i, lines[i], want)
				}
				if unsure := strings.Contains(lines[i], "+unconfirmed"); unsure != (c.mode == probe.ModeNone) {
					t.Errorf("event %d: %s", i, lines[i])
				}
			}
		})
	}
}

// TestEarlyLimit: of what comes behind a login no more is kept than a connection may
// hold, and nothing if memory is short. Neither lets a client in that the server refuses.
func TestEarlyLimit(t *testing.T) {
	const maxHeld = 8 << 10
	for _, relieve := range []bool{false, true} {
		for _, answer := range []string{"s 2 ff 15 04 \"#28000denied\"", "s 2 00 00 00 02 00 00 00"} {
			var out strings.Builder
			k := newTalk(func(e *Event) { out.WriteString(eventText(e)) })
			k.env = NewEnv(Config{MaxHeld: maxHeld}, k.env.emit)
			k.open(40000)
			say := func(line string) {
				if err := k.line(line); err != nil {
					t.Fatal(err)
				}
				k.flush()
			}
			say("syn")
			say("greeting")
			say("login eve shop")
			for range 100 {
				say("query \"select 1\"")
				if n := k.conn.opening.size(); n > maxHeld || uint64(k.conn.Keeps()) != k.env.Stats.KeptBytes || k.conn.Keeps() < n {
					t.Fatalf("%d bytes are kept, %d accounted, %d of the shard", n, k.conn.Keeps(), k.env.Stats.KeptBytes)
				}
			}
			if relieve {
				k.conn.Relieve()
				if k.conn.Keeps() != 0 || k.env.Stats.HeldBytes != 0 {
					t.Errorf("%d bytes are kept, %d held", k.conn.Keeps(), k.env.Stats.HeldBytes)
				}
			}
			say(answer)
			say("query \"select 2\"")
			say("ok")
			k.close()
			checkLedger(t, k.env)
			got := out.String()
			if strings.Contains(answer, "denied") {
				if strings.Count(got, "\n") != 2 || !strings.HasPrefix(got, "login_failed user=eve/login") {
					t.Errorf("refused, relieved %v:\n%s", relieve, got)
				}
				continue
			}
			if !strings.HasPrefix(got, "session_start user=eve/login db=shop ok") || !strings.Contains(got, "sql=\"select 2\"") || !strings.Contains(got, "+gap_before") {
				t.Errorf("accepted, relieved %v:\n%s", relieve, got)
			}
			if n := strings.Count(got, "select 1"); (n > 0) == relieve || n == 100 {
				t.Errorf("relieved %v: %d early commands", relieve, n)
			}
		}
	}
}
