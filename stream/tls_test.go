package stream

import (
	"strings"
	"testing"

	"sqlwitness/probe"
)

// TestTLSBehindJump: ciphertext behind a jump of the sequence numbers is no command,
// whatever it looks like; another connection on the same ports is read.
func TestTLSBehindJump(t *testing.T) {
	const (
		begin  = "syn\ngreeting\nlogin bob shop ssl\nraw s 16 03 03 00 04 02 00 00 00\n"
		far    = "gap c 1073741824\n"
		record = "raw c 17 03 03 00 16 \"abcdefghijklmnopqrstuv\"\n"
		// The middle of a record that looks like a long COM_QUERY, and the next record.
		middle = "raw c 00 08 00 00 03 \"select from the middle of a record\"\n"
		start  = "session_start id=1 thread=7 version=10.11.6-MariaDB plugin=mysql_native_password program= visibility=tls"
	)
	modes := []probe.Mode{probe.ModeFull, probe.ModeStatus, probe.ModeNone}
	for _, c := range []struct {
		name   string
		modes  []probe.Mode
		script string
		opaque uint64 // bytes at least
		want   []string
	}{
		{"client's record", modes, begin + far + record + "raw s 17 03 03 00 02 01 02\ntick\ntick\n" + record, 9 + 2*27, []string{start, "session_end"}},
		{"long record", modes, begin + far + record + strings.Repeat(record, 8000) + "tick\ntick\n", 8001 * 27, []string{start, "session_end"}},
		{"middle of a record", modes, begin + far + middle + "tick\ntick\n" + record + middle + "tick\n", 9 + 27, []string{start, "session_end"}},
		{"both", modes, begin + far + "gap s 1073741824\n" + record + record, 9 + 2*27, []string{start, "session_end"}},
		{"server's first", modes[:1], begin + "gap s 1073741824\nraw s 17 03 03 00 02 01 02\n" + record + "raw s 17 03 03 00 02 01 02\n", 9 + 27 + 7, []string{start, "session_end"}},
		{"before ServerHello", modes, "syn\ngreeting\nlogin bob shop ssl\n" + far + record + "tick\ntick\n", 27, []string{start[:len("session_start id=1")], "session_end"}},
		{"joined late", modes, record + far + middle + record + "tick\ntick\n", 2 * 27, []string{"session_start id=1 thread=0 version= plugin= program= visibility=tls", "session_end"}},
		{"another connection", modes[:2], begin + far + "gap s 1073741824\nquery \"select 1\"\nok\nquery \"select 2\"\nok\n", 9,
			[]string{start, "command 1 Query sql=\"select 1\" ok", "command 2 Query sql=\"select 2\" ok", "session_end"}},
	} {
		for _, mode := range c.modes {
			t.Run(c.name+", "+mode.String(), func(t *testing.T) {
				var out strings.Builder
				k := newTalk(func(e *Event) {
					out.WriteString(eventText(e))
					if e.Kind == KindCommand && e.Session.Visibility != VisibilityFull {
						t.Errorf("command of a session with visibility %s", e.Session.Visibility)
					}
				})
				k.env = NewEnv(Config{Mode: mode}, k.env.emit)
				k.open(40000)
				for _, line := range strings.Split(strings.TrimSpace(c.script), "\n") {
					if err := k.line(line); err != nil {
						t.Fatal(err)
					}
				}
				k.close()
				checkLedger(t, k.env)
				lines := strings.Split(strings.TrimSpace(out.String()), "\n")
				if len(lines) != len(c.want) {
					t.Fatalf("%d events, want %d:\n%.2000s", len(lines), len(c.want), out.String())
				}
				for i, want := range c.want {
					if !strings.HasPrefix(lines[i], want) {
						t.Errorf("event %d: %s\nwant %s", i, lines[i], want)
					}
				}
				if k.env.Stats.OpaqueBytes < c.opaque {
					t.Errorf("%d opaque bytes, want at least %d", k.env.Stats.OpaqueBytes, c.opaque)
				}
			})
		}
	}
}

// TestRelievedHello: a TLS session whose ServerHello is given up to free memory is
// reported all the same, without what the rest would have told.
func TestRelievedHello(t *testing.T) {
	for _, mode := range []probe.Mode{probe.ModeFull, probe.ModeStatus} {
		var out strings.Builder
		k := newTalk(func(e *Event) { out.WriteString(eventText(e)) })
		k.env = NewEnv(Config{Mode: mode}, k.env.emit)
		k.open(40000)
		for _, line := range []string{"syn", "greeting", "login bob shop ssl", "raw s 16 03 03 00 31 02 00 00 2d 03",
			"relieve", "raw s 03 \"01234567890123456789012345678901\" 00 13 01 00 00 05 00 2b 00 02 03 04", "fin"} {
			if line == "relieve" {
				k.flush()
				k.conn.Relieve()
				if k.conn.Keeps() != 0 || k.env.Stats.KeptBytes != 0 {
					t.Errorf("%d bytes are kept", k.conn.Keeps())
				}
			} else if err := k.line(line); err != nil {
				t.Fatal(err)
			}
		}
		k.close()
		checkLedger(t, k.env)
		got := out.String()
		if strings.Count(got, "\n") != 2 || !strings.HasPrefix(got, "session_start id=1 thread=7") || !strings.Contains(got, "visibility=tls") || !strings.Contains(got, "\nsession_end") {
			t.Errorf("mode %s:\n%s", mode, got)
		}
		if s := &k.env.Stats; s.TLSSessions != 1 || s.Unrecognized != 0 {
			t.Errorf("mode %s: %d TLS sessions, %d connections not recognized", mode, s.TLSSessions, s.Unrecognized)
		}
	}
}
