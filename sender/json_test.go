package sender

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"sqlwitness/stream"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// lines puts events through a Sender and returns what arrives.
func lines(t *testing.T, cfg Config, events ...*stream.Event) []string {
	t.Helper()
	out := &capture{}
	cfg.Wait = true
	s := New(cfg, out)
	l := s.Lane(0)
	for _, e := range events {
		l.Put(e)
	}
	l.Flush()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := s.Stats().Written; n != uint64(len(events)) {
		t.Fatalf("%d of %d events written", n, len(events))
	}
	return strings.SplitAfter(strings.TrimSuffix(out.b.String(), "\n"), "\n")
}

// decode is a line as a reader sees it.
func decode(t *testing.T, line string) map[string]any {
	t.Helper()
	if !utf8.ValidString(line) {
		t.Fatalf("no UTF-8: %q", line)
	}
	m := map[string]any{}
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return m
}

var goldenConfig = Config{Agent: "db1", Boot: "t3k9x1", Host: "db1.example.com", Labels: []Label{{"cluster", "shop"}, {"env", "prod"}}, Mask: true}

// goldenEvents are one event of each kind, full and bare.
func goldenEvents() []*stream.Event {
	full := benchEvent("select * from t where a='x'; create user 'u'@'%' identified by 'pw'")
	full.Session.MultiStmts = stream.Yes
	full.Session.Proxy = netip.MustParseAddrPort("10.0.0.5:6033")
	full.Status, full.ErrorCode, full.SQLState, full.ErrorText = stream.StatusError, 1062, [5]byte([]byte("23000")), []byte("Duplicate entry 'x' for key 'PRIMARY'")
	full.Results, full.StmtID, full.AffectedRows, full.Warnings, full.ServerStatus = 2, 7, 3, 1, 0x2831
	full.Known = math.MaxUint16
	full.Flags = stream.FlagMidStream | stream.FlagTablesGuessed
	bare := &stream.Event{Kind: stream.KindCommand, Session: &stream.Session{ID: 2}, Command: stream.ComQuit}
	unseen := benchEvent("select 1")
	unseen.Status, unseen.Results, unseen.Known = stream.StatusUnknown, 0, 0
	start := &stream.Event{Kind: stream.KindSessionStart, Session: &stream.Session{ID: 3, Server: full.Session.Server, Client: netip.MustParseAddrPort("[2001:db8::1]:5"),
		ConnectionID: 9, ServerVersion: "10.11.19-MariaDB", AuthPlugin: "mysql_native_password", Compression: "zstd", TLSVersion: "TLSv1.3",
		TLSCipher: "TLS_AES_128_GCM_SHA256", Visibility: stream.VisibilityTLS,
		Attrs: []stream.Attr{{Key: "_os", Value: "Linux"}, {Key: "secret", Value: "hidden"}, {Key: "_runtime_version", Value: "21"}, {Key: "_os", Value: "twice"}}},
		TimeNs: 1e18, User: "", UserSource: stream.UserLogin, DBKnown: true, Status: stream.StatusOK}
	failed := &stream.Event{Kind: stream.KindLoginFailed, Session: &stream.Session{ID: 4}, User: "bob", UserSource: stream.UserLogin, Status: stream.StatusError,
		ErrorCode: 1045, SQLState: [5]byte([]byte("28000")), ErrorText: []byte("Access denied for user 'bob'@'10.0.0.9' (using password: YES)")}
	end := &stream.Event{Kind: stream.KindSessionEnd, Session: &stream.Session{ID: 5, Visibility: stream.VisibilityFull}, Commands: 5, Errors: 1,
		EndReason: stream.EndQuit, DurationNs: 5e9, RequestBytes: 10, ResponseBytes: 20, Rows: 3, DB: "d", DBKnown: true,
		Known: stream.KnownDuration | stream.KnownRequestBytes | stream.KnownResponseBytes | stream.KnownRows}
	initDB := benchEvent("shop-2026")
	initDB.Command = stream.ComInitDB
	return []*stream.Event{full, bare, unseen, start, failed, end, initDB}
}

func TestJSONGolden(t *testing.T) {
	golden(t, "events.jsonl", lines(t, goldenConfig, goldenEvents()...))
}

// golden compares lines with a file of testdata.
func golden(t *testing.T, name string, got []string) {
	t.Helper()
	path, text := filepath.Join("testdata", name), strings.Join(got, "")+"\n"
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s differs; got\n%s", path, text)
	}
}

func TestJSONFields(t *testing.T) {
	got := lines(t, goldenConfig, goldenEvents()...)
	full, bare, unseen, start := decode(t, got[0]), decode(t, got[1]), decode(t, got[2]), decode(t, got[3])
	for key, want := range map[string]any{
		"v": 1.0, "type": "command", "time": "2026-11-30T00:53:20.123456Z", "sql_command": "create_user", "statements": 2.0, "results": 2.0, "stmt_id": 7.0,
		"sql": "select * from t where a=?; create user 'u'@'%' identified by ?", "status": "error", "error": "Duplicate entry '?' for key 'PRIMARY'",
		"error_class": "constraint", "sql_state": "23000", "first_byte_us": 90.0, "duration_us": 95.0, "proxy_port": 6033.0, "lane": 0.0, "seq": 1.0, "session_seq": 12.0,
	} {
		if full[key] != want {
			t.Errorf("%s = %v, want %v", key, full[key], want)
		}
	}
	for key, want := range map[string]string{"sql_commands": "[select create_user]", "accounts": "[u@%]", "flags": "[mid_stream tables_guessed]",
		"server_status": "[in_transaction no_autocommit no_index no_good_index slow read_only_transaction]", "labels": "map[cluster:shop env:prod]"} {
		if s := fmt.Sprint(full[key]); s != want {
			t.Errorf("%s = %s, want %s", key, s, want)
		}
	}
	if n := len(bare); n != 11 { // v type time command seq session agent boot lane host labels
		t.Errorf("a bare event has %d fields: %v", n, bare)
	}
	if unseen["results"] != 0.0 || unseen["status"] != "unknown" || unseen["rows"] != nil || unseen["duration_us"] != nil {
		t.Errorf("response not seen: %v", unseen)
	}
	if start["user"] != "" || start["db"] != "" || start["visibility"] != "tls" {
		t.Errorf("known empty strings: %v", start)
	}
	if s := fmt.Sprint(start["client_attrs"]); s != "map[_os:Linux _runtime_version:21 secret:?]" {
		t.Errorf("client_attrs = %s", s)
	}
	if !strings.HasSuffix(full["session"].(string), "-0-25") { // 77 in base 36
		t.Errorf("session = %v", full["session"])
	}
}

// Any bytes in any text field give one valid object on one line.
func TestJSONIsValid(t *testing.T) {
	var all []byte
	for c := range 256 {
		all = append(all, byte(c))
	}
	for _, text := range []string{string(all), "\xf0\x9f\x98\x80 \u2028\u2029\u009b31m\u0085", "\xed\xa0\x80\xc0\x80\xff", strings.Repeat("\x00", 3000), strings.Repeat("é", 3000)} {
		e := benchEvent("select `" + strings.ReplaceAll(text, "`", "") + "`")
		e.User, e.DB, e.ErrorCode, e.ErrorText = text, text, 5000, []byte(text)
		e.Session.Program = text
		start := &stream.Event{Kind: stream.KindSessionStart, Session: &stream.Session{ServerVersion: text, Attrs: []stream.Attr{{Key: text, Value: text}, {Key: "_os", Value: text}}}}
		for _, line := range lines(t, goldenConfig, e, start) {
			decode(t, line)
			for i := range len(line) {
				if c := line[i]; c < ' ' && i != len(line)-1 || c == 0x7f || c == 0xc2 && i+1 < len(line) && line[i+1] < 0xa0 {
					t.Fatalf("control character %#x at %d in %q", c, i, line)
				}
			}
		}
	}
	m := decode(t, lines(t, goldenConfig, benchEvent("select \xff"))[0])
	if m["sql"] != "select \ufffd" || fmt.Sprint(m["flags"]) != "[charset_guessed]" {
		t.Errorf("invalid byte: sql %q, flags %v", m["sql"], m["flags"])
	}
}

func TestJSONCutsOnRuneBorders(t *testing.T) {
	name := "select a" + strings.Repeat("é日😀", 50)
	for limit := 1; limit < 100; limit++ {
		cfg := goldenConfig
		cfg.MaxEventSQLBytes = limit
		m := decode(t, lines(t, cfg, benchEvent(name))[0])
		sql := m["sql"].(string)
		if len(sql) > limit || len(sql) < limit-3 || !strings.HasPrefix(name, sql) || m["sql_truncated"] != true || m["flags"] != nil {
			t.Fatalf("limit %d: %q, truncated %v, flags %v", limit, sql, m["sql_truncated"], m["flags"])
		}
	}
	exact := goldenConfig
	exact.MaxEventSQLBytes = len("select abc")
	if m := decode(t, lines(t, exact, benchEvent("select abc"))[0]); m["sql_truncated"] != nil || m["sql"] != "select abc" {
		t.Errorf("a text that fits is cut: %v", m)
	}
	wire := benchEvent("select abé")
	wire.SQL, wire.SQLTruncated, wire.SQLBytes = wire.SQL[:len(wire.SQL)-1], true, 5_000_000
	if m := decode(t, lines(t, goldenConfig, wire)[0]); m["sql"] != "select ab" || m["sql_truncated"] != true || m["sql_bytes"] != 5e6 || fmt.Sprint(m["flags"]) != "[tables_cut traits_cut]" {
		t.Errorf("cut on the wire: %v", m)
	}
}

// An event is never longer than MaxEventBytes and never dropped: parts go in a
// fixed order.
func TestJSONMaxEventBytes(t *testing.T) {
	cfg := goldenConfig
	cfg.MaxEventBytes, cfg.MaxEventSQLBytes = MinMaxEventBytes, 1<<20
	ctl := strings.Repeat("\x01", 5000)
	sql := benchEvent("select `" + strings.Repeat("n", 100_000) + "`")
	both := benchEvent("select `" + ctl + "`")
	both.User, both.DB, both.ErrorCode, both.ErrorText = ctl, ctl, 1105, []byte(ctl)
	both.Session.Program = ctl
	attrs := &stream.Event{Kind: stream.KindSessionStart, Session: &stream.Session{}}
	for i := range 200 {
		attrs.Session.Attrs = append(attrs.Session.Attrs, stream.Attr{Key: fmt.Sprint("program", i), Value: ctl}, stream.Attr{Key: fmt.Sprint("_runtime_", i), Value: ctl})
	}
	names := strings.Repeat("'"+strings.Repeat("\x01", 200)+"'@'h',", 40)
	accounts := benchEvent("drop user " + names[:len(names)-1])
	out := &capture{}
	s := New(cfg, out)
	l := s.Lane(0)
	for _, e := range []*stream.Event{sql, both, attrs, accounts, benchEvent("select 1")} {
		l.Put(e)
	}
	l.Flush()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	got := strings.SplitAfter(strings.TrimSuffix(out.b.String(), "\n"), "\n")
	if len(got) != 5 || s.Stats().Oversize != 4 || s.Stats().Written != 5 {
		t.Fatalf("%d lines, %+v", len(got), s.Stats())
	}
	for i, line := range got {
		m := decode(t, line)
		if len(line) > MinMaxEventBytes || m["session"] == nil || m["seq"] != float64(i+1) {
			t.Errorf("line %d has %d bytes: %.200s", i, len(line), line)
		}
	}
	if m := decode(t, got[0]); len(got[0]) < MinMaxEventBytes-30 || m["sql_truncated"] != true || m["labels"] == nil {
		t.Errorf("more than the statement was cut: %d bytes", len(got[0]))
	}
	if m := decode(t, got[2]); m["client_attrs"] != nil || m["visibility"] != "full" {
		t.Errorf("attributes: %.200s", got[2])
	}
}

// Where the constant part alone is too large, it is shortened as well.
func TestJSONLongLabels(t *testing.T) {
	cfg := goldenConfig
	cfg.MaxEventBytes, cfg.Labels = MinMaxEventBytes, nil
	for i := range 8 {
		cfg.Labels = append(cfg.Labels, Label{fmt.Sprint("l", i), strings.Repeat("\x01", 1000)})
	}
	line := lines(t, cfg, benchEvent("select 1"))[0]
	if m := decode(t, line); len(line) > MinMaxEventBytes || m["labels"] != nil || m["agent"] != "db1" {
		t.Errorf("%d bytes: %.300s", len(line), line)
	}
}

func TestJSONClampsNumbers(t *testing.T) {
	e := benchEvent("select 1")
	e.Rows, e.FirstByteNs, e.DurationNs, e.TimeNs = math.MaxUint64, -5, math.MinInt64, -1
	line := lines(t, goldenConfig, e)[0]
	for _, want := range []string{`"rows":9223372036854775807,`, `"first_byte_us":0,`, `"duration_us":0,`, `"time":"1969-12-31T23:59:59.999999Z"`} {
		if !strings.Contains(line, want) {
			t.Errorf("no %s in %s", want, line)
		}
	}
}

// The constant part is encoded once, and again when the connection empties it.
func TestSessionIsEncodedOnce(t *testing.T) {
	s := New(goldenConfig, discard{})
	defer s.Close()
	l, e := s.Lane(0), benchEvent("select 1")
	l.Put(e)
	if len(e.Session.Encoded) == 0 {
		t.Fatal("nothing kept")
	}
	e.Session.Program = "other"
	l.Put(e)
	if strings.Contains(string(l.chunk.b), "other") {
		t.Error("encoded again")
	}
	e.Session.Encoded = e.Session.Encoded[:0]
	l.Put(e)
	if !strings.Contains(string(l.chunk.b), `"program":"other"`) {
		t.Error("not encoded again")
	}
}

// Sessions have other names in other lanes, agents and runs.
func TestSessionNames(t *testing.T) {
	seen := map[string]bool{}
	for _, cfg := range []Config{{Agent: "a", Boot: "b"}, {Agent: "a", Boot: "c"}, {Agent: "ab", Boot: ""}, {Agent: "b", Boot: "b"}} {
		cfg.Lanes = 3
		s := New(cfg, discard{})
		for i := range 3 {
			for id := uint64(1); id < 3; id++ {
				e := benchEvent("select 1")
				e.Session.ID = id
				l := s.Lane(i)
				l.examine(e)
				name := fmt.Sprint(decode(t, string(l.appendJSON(nil, e)))["session"])
				if seen[name] {
					t.Errorf("%s twice", name)
				}
				seen[name] = true
			}
		}
		s.Close()
	}
}

func TestErrorClass(t *testing.T) {
	for code, want := range map[uint16]string{0: "", 1045: "auth", 1698: "auth", 1142: "privilege", 1227: "privilege", 1064: "syntax", 1146: "missing_object", 1054: "missing_object",
		1062: "constraint", 1452: "constraint", 1213: "lock", 1205: "lock", 1040: "connection", 1927: "connection", 1317: "resource", 1203: "resource", 9999: "other"} {
		if got := errorClass(code); got != want {
			t.Errorf("%d: %q, want %q", code, got, want)
		}
	}
}
