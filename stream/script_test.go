package stream

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sqlwitness/probe"
)

var update = flag.Bool("update", false, "rewrite the expected events in testdata/*.txt; commit only what you understand")

// TestScripts runs the conversations in testdata. Above the line "---" stands
// what the ends say, below it the events.
//
//	c SEQ FIELD…   a packet of the client: hex bytes, "text", 'nul-terminated text'
//	s SEQ FIELD…   a packet of the server
//	c+ s+          the same, in one segment with the packet before
//	packet N (the answer's sequence id is N + 1)
//	syn | fin | rst c|s | gap c|s N | tick | port N (a new connection on other ports)
//	greeting [V]   the server's greeting of version V, MariaDB 10.11 without one
//	login USER DB [FLAG…]   the client's login: eof deprecates EOF, track, attrs, ssl, multi, compress, progress
//	ok [AFFECTED [STATUS]] | err CODE TEXT | eof [STATUS] | cols N | rows N    packets of the server
//	prepared ID PARAMS COLUMNS | raw c|s FIELD…    the answer to a Prepare; bytes that are no packet
//	query TEXT | com BYTE [FIELD…]    a command of the client
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			script, want, _ := strings.Cut(string(text), "---\n")
			got := runScript(t, script)
			if *update {
				if err := os.WriteFile(file, []byte(script+"---\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("events:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func runScript(t *testing.T, script string) string {
	t.Helper()
	return runScriptWith(t, Config{Params: true}, script)
}

func runScriptWith(t *testing.T, config Config, script string) string {
	t.Helper()
	var out strings.Builder
	talk := newTalk(func(e *Event) { out.WriteString(eventText(e)) })
	talk.env = NewEnv(config, talk.env.emit)
	talk.open(40000)
	for n, line := range strings.Split(script, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if err := talk.line(line); err != nil {
			t.Fatalf("line %d: %v", n+1, err)
		}
	}
	talk.close()
	checkLedger(t, talk.env)
	return out.String()
}

// checkLedger holds the counters against the sums that Stats promises, and the tallies
// of servers against both, for connections that are all closed.
func checkLedger(t *testing.T, env *Env) {
	t.Helper()
	s := &env.Stats
	var all Tally
	for i := range env.Tallies() {
		all.Add(&env.Tallies()[i])
	}
	begun := uint64(0)
	for _, n := range all.Commands {
		begun += n
	}
	if begun != s.Commands || all.Commands != s.ByCommand || all.Held != 0 || all.Running != 0 || all.Unsure > all.More {
		t.Errorf("%d commands, tallied %+v, by their events %v", s.Commands, all, s.ByCommand)
	}
	if all.LoginsFailed != s.LoginsFailed || all.TLSSessions != s.TLSSessions {
		t.Errorf("%d logins failed, %d TLS sessions, tallied %+v", s.LoginsFailed, s.TLSSessions, all)
	}
	if sum := s.ParsedBytes + s.RepeatedBytes + s.SkippedBytes + s.OpaqueBytes + s.DiscardedBytes + s.HeldBytes; sum != s.Bytes {
		t.Errorf("bytes: %d fed, %d in classes: %+v", s.Bytes, sum, *s)
	}
	if s.Commands != s.CommandEvents+s.PendingCommands {
		t.Errorf("commands: %d begun, %d reported, %d pending", s.Commands, s.CommandEvents, s.PendingCommands)
	}
	if s.HeldBytes != 0 || s.PendingCommands != 0 {
		t.Errorf("left behind: %d bytes held, %d commands pending", s.HeldBytes, s.PendingCommands)
	}
	if s.SessionEnds > s.SessionStarts+s.LoginsFailed || s.SessionStarts > s.SessionEnds {
		t.Errorf("%d sessions started, %d logins failed, %d ended", s.SessionStarts, s.LoginsFailed, s.SessionEnds)
	}
}

// A talk is a conversation under way: it makes segments and feeds them.
type talk struct {
	env    *Env
	conn   *Conn
	flow   probe.Flow
	clock  int64
	seq    [2]uint32      // next sequence number of client and server
	packet byte           // sequence id of the last packet
	last   *probe.Segment // not yet fed: more packets may join it
	feed   func(*probe.Segment)
}

func newTalk(emit func(*Event)) *talk {
	talk := &talk{env: NewEnv(Config{Params: true}, emit), clock: 1_700_000_000e9}
	talk.feed = func(s *probe.Segment) {
		talk.conn.Feed(s)
		talk.conn.Settle(s.TimeNs)
		clear(s.Payload) // borrowed no longer
	}
	talk.open(40000)
	return talk
}

func (k *talk) open(port uint16) {
	k.flow = probe.Flow{Client: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.2"), port), Server: netip.MustParseAddrPort("10.0.0.1:3306")}
	k.seq = [2]uint32{0xffffff00, 5000}
	k.conn = NewConn(k.env, k.flow)
}

func (k *talk) flush() {
	if k.last != nil {
		k.feed(k.last)
		k.last = nil
	}
}

func (k *talk) close() {
	k.flush()
	reason := EndCapture
	if k.conn.Done() {
		reason = k.conn.Reason()
	}
	k.conn.Close(reason)
}

// segment makes a segment of one direction, 0 the client's.
func (k *talk) segment(dir int, flags probe.Flags, payload []byte) {
	k.flush()
	k.clock += 1000_000
	k.last = &probe.Segment{TimeNs: k.clock, Flow: k.flow, FromClient: dir == 0, Flags: flags | probe.ACK,
		Seq: k.seq[dir], Ack: k.seq[1-dir], Payload: payload}
	k.seq[dir] += uint32(len(payload))
	if flags&(probe.SYN|probe.FIN) != 0 {
		k.seq[dir]++
	}
}

func (k *talk) send(dir int, seq byte, body []byte, join bool) {
	k.packet = seq
	p := append([]byte{byte(len(body)), byte(len(body) >> 8), byte(len(body) >> 16), seq}, body...)
	if join && k.last != nil {
		k.last.Payload = append(k.last.Payload, p...)
		k.seq[dir] += uint32(len(p))
		return
	}
	k.segment(dir, 0, p)
}

func (k *talk) reply(body []byte) { k.send(1, k.packet+1, body, k.last != nil && !k.last.FromClient) }

func (k *talk) line(line string) error {
	words := split(line)
	args := words[1:]
	number := func(i, or int) int {
		if i < len(args) {
			n, _ := strconv.ParseInt(args[i], 0, 64)
			return int(n)
		}
		return or
	}
	switch words[0] {
	case "c", "s", "c+", "s+":
		body, err := fields(args[1:])
		dir := strings.IndexByte("cs", words[0][0])
		k.send(dir, byte(number(0, 0)), body, len(words[0]) == 2)
		return err
	case "syn":
		k.flush()
		k.feed(&probe.Segment{TimeNs: k.clock, Flow: k.flow, FromClient: true, Flags: probe.SYN, Seq: k.seq[0]})
		k.seq[0]++
		k.segment(1, probe.SYN, nil)
	case "fin":
		k.segment(0, probe.FIN, nil)
		k.segment(1, probe.FIN, nil)
	case "rst":
		k.segment(strings.Index("cs", args[0]), probe.RST, nil)
	case "gap":
		k.flush()
		k.seq[strings.Index("cs", args[0])] += uint32(number(1, 0))
	case "tick":
		k.flush()
		k.clock += 2e9
		k.conn.Settle(k.clock)
	case "packet": // the sequence id of the packet before the next
		k.packet = byte(number(0, 0))
	case "port":
		k.close()
		k.open(uint16(number(0, 0)))
	case "greeting":
		version := "5.5.5-10.11.6-MariaDB"
		if len(args) > 0 {
			version = args[0]
		}
		k.send(1, 0, greetingBytes(version), false)
	case "login":
		k.send(0, 1, loginBytes(args), false)
	case "ok":
		n, status := number(0, 0), number(1, 2)
		k.reply([]byte{0, byte(n), 0, byte(status), byte(status >> 8), 0, 0})
	case "err":
		code := number(0, 0)
		k.reply(append([]byte{0xff, byte(code), byte(code >> 8), '#'}, "42000"+args[1]...))
	case "eof":
		status := number(0, 2)
		k.reply([]byte{0xfe, 0, 0, byte(status), byte(status >> 8)})
	case "cols":
		k.reply([]byte{byte(number(0, 1))})
		for range number(0, 1) {
			k.reply([]byte("\x03def\x00\x00\x00\x01a\x00\x0c\x3f\x00\x0b\x00\x00\x00\x03\x00\x00\x00\x00\x00"))
		}
	case "rows":
		for range number(0, 1) {
			k.reply([]byte("\x01x"))
		}
	case "query":
		k.send(0, 0, append([]byte{3}, args[0]...), false)
	case "prepared": // ID PARAMS COLUMNS, with EOFs
		k.reply([]byte{0, byte(number(0, 1)), 0, 0, 0, byte(number(2, 0)), 0, byte(number(1, 0)), 0, 0, 0, 0})
		for _, n := range []int{number(1, 0), number(2, 0)} {
			for range n {
				k.reply([]byte("\x03def\x00\x00\x00\x01a\x00\x0c\x3f\x00\x0b\x00\x00\x00\x03\x00\x00\x00\x00\x00"))
			}
			if n > 0 {
				k.reply([]byte{0xfe, 0, 0, 2, 0})
			}
		}
	case "raw": // c|s FIELD…: bytes that are no packet
		body, err := fields(args[1:])
		k.segment(strings.Index("cs", args[0]), 0, body)
		return err
	case "com":
		body, err := fields(args[1:])
		k.send(0, 0, append([]byte{byte(number(0, 0))}, body...), false)
		return err
	default:
		return fmt.Errorf("no such word: %s", words[0])
	}
	return nil
}

func greetingBytes(version string) []byte {
	caps := uint32(0xffffffff)
	if strings.Contains(version, "MariaDB") {
		caps &^= 1 | uint32(clientQueryAttributes|clientOptionalMetadata)
	}
	b := append([]byte{10}, version...)
	b = append(b, 0, 7, 0, 0, 0)
	b = append(b, "12345678\x00"...)
	b = append(b, byte(caps), byte(caps>>8), 45, 2, 0, byte(caps>>16), byte(caps>>24), 21)
	b = append(b, make([]byte, 10)...)
	return append(b, "123456789012\x00mysql_native_password\x00"...)
}

func loginBytes(args []string) []byte {
	caps := clientMySQL | clientProtocol41 | clientSecureConnection | clientPluginAuth | clientConnectWithDB | clientConnectAttrs
	for _, flag := range args[2:] {
		caps |= map[string]capability{"eof": clientDeprecateEOF, "track": clientSessionTrack, "attrs": clientQueryAttributes,
			"ssl": clientSSL, "progress": clientProgress, "multi": clientMultiStatements, "compress": clientCompress}[flag]
	}
	b := []byte{byte(caps), byte(caps >> 8), byte(caps >> 16), byte(caps >> 24), 0, 0, 0, 1, 45}
	b = append(b, make([]byte, 23)...)
	if caps&clientSSL != 0 {
		return b
	}
	b = append(b, args[0]...)
	b = append(b, 0, 3, 'p', 'w', 'd')
	b = append(b, args[1]...)
	return append(b, "\x00mysql_native_password\x00\x12\x0cprogram_name\x04shop"...)
}

// split cuts a line into words; quotes keep blanks and go on "as is" to fields.
func split(line string) []string {
	var words []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		end := strings.IndexByte(line, ' ')
		if line[0] == '"' || line[0] == '\'' {
			if end = strings.IndexByte(line[1:], line[0]) + 1; line[0] == '"' {
				if prefix, err := strconv.QuotedPrefix(line); err == nil {
					word, _ := strconv.Unquote(prefix)
					words = append(words, word)
					line = line[len(prefix):]
					continue
				}
			}
			words = append(words, line[1:end]+"\x00")
			line = line[end+1:]
			continue
		}
		if end < 0 {
			end = len(line)
		}
		words = append(words, line[:end])
		line = line[end:]
	}
	return words
}

// fields joins hex bytes and texts.
func fields(words []string) ([]byte, error) {
	var b []byte
	for _, w := range words {
		if p, err := hex.DecodeString(w); err == nil && len(w) == 2 {
			b = append(b, p...)
		} else {
			b = append(b, w...)
		}
	}
	return b, nil
}

// eventText prints what is set of an event.
func eventText(e *Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", e.Kind)
	if e.SessionSeq != 0 {
		fmt.Fprintf(&b, " %d %s", e.SessionSeq, e.Command)
	}
	if e.UserSource != UserUnknown {
		fmt.Fprintf(&b, " user=%s/%s", e.User, e.UserSource)
	}
	if e.DBKnown {
		fmt.Fprintf(&b, " db=%s", e.DB)
	}
	if e.SQLBytes > 0 {
		fmt.Fprintf(&b, " sql=%q", bytes.TrimRight(e.SQL[:min(len(e.SQL), 60)], "\x00"))
		if e.SQLTruncated || len(e.SQL) > 60 {
			fmt.Fprintf(&b, "/%d", e.SQLBytes)
		}
	}
	if e.Status != StatusNone {
		fmt.Fprintf(&b, " %s", e.Status)
	}
	if e.ErrorCode != 0 {
		fmt.Fprintf(&b, " %d %s %q", e.ErrorCode, bytes.Trim(e.SQLState[:], "\x00"), e.ErrorText)
	}
	for _, f := range []struct {
		known Known
		name  string
		value any
	}{{KnownRows, "rows", e.Rows}, {KnownAffectedRows, "affected", e.AffectedRows}, {KnownWarnings, "warnings", e.Warnings},
		{KnownStmtID, "stmt", e.StmtID}, {KnownRequestBytes, "in", e.RequestBytes}, {KnownResponseBytes, "out", e.ResponseBytes},
		{KnownFirstByte, "first", e.FirstByteNs / 1000}, {KnownDuration, "took", e.DurationNs / 1000}} {
		if e.Known&f.known != 0 {
			fmt.Fprintf(&b, " %s=%v", f.name, f.value)
		}
	}
	for _, p := range e.Params {
		if p.Null {
			b.WriteString(" NULL")
		} else {
			fmt.Fprintf(&b, " %q", p.Text)
		}
	}
	if e.Results > 1 {
		fmt.Fprintf(&b, " results=%d", e.Results)
	}
	if e.Known&KnownServerStatus != 0 && e.ServerStatus != 2 {
		fmt.Fprintf(&b, " status=%#x", e.ServerStatus)
	}
	if e.Kind == KindSessionStart {
		s := e.Session
		fmt.Fprintf(&b, " id=%d thread=%d version=%s plugin=%s program=%s visibility=%s compression=%s tls=%s/%s", s.ID, s.ConnectionID, s.ServerVersion, s.AuthPlugin, s.Program, s.Visibility, s.Compression, s.TLSVersion, s.TLSCipher)
		fmt.Fprintf(&b, " client=%v proxy=%v", s.Client, s.Proxy)
	}
	if e.Kind == KindSessionEnd {
		fmt.Fprintf(&b, " commands=%d errors=%d reason=%s", e.Commands, e.Errors, e.EndReason)
	}
	if e.Kind == KindCommand && e.SQLBytes > 0 && (e.Lex.NoBackslashEscapes != No || e.Lex.ANSIQuotes == Yes) {
		fmt.Fprintf(&b, " escapes=%d ansi=%d", e.Lex.NoBackslashEscapes, e.Lex.ANSIQuotes)
	}
	for i, name := range EventFlagNames {
		if e.Flags>>i&1 != 0 {
			fmt.Fprintf(&b, " +%s", name)
		}
	}
	return b.String() + "\n"
}
