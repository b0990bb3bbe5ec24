package sender

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"sqlwitness/stream"
)

// discard is a sink that takes everything.
type discard struct{}

func (discard) Write([]byte, int) error { return nil }
func (discard) Close() error            { return nil }

const (
	point60   = "SELECT c, pad FROM sbtest1 WHERE id=5021 AND k='abcdefgh' /*"
	select200 = "SELECT o.id, o.total, c.name FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.created_at > '2026-01-01 00:00:00' AND o.state IN (1, 2, 3, 4) AND c.email = 'someone@example.com' LIMIT 100"
)

// benchEvent is the event of a usual command.
func benchEvent(sql string) *stream.Event {
	s := &stream.Session{ID: 77, Server: netip.MustParseAddrPort("10.0.0.1:3306"), Client: netip.MustParseAddrPort("10.0.0.9:40512"),
		ConnectionID: 4711, Program: "shop", MultiStmts: stream.No}
	return &stream.Event{Kind: stream.KindCommand, Session: s, TimeNs: 1796000000123456789, User: "app", UserSource: stream.UserLogin,
		DB: "shop", DBKnown: true, SessionSeq: 12, Command: stream.ComQuery, SQL: []byte(sql), SQLBytes: len(sql), Lex: known,
		Status: stream.StatusOK, Results: 1, Rows: 1, ServerStatus: 2, RequestBytes: 66, ResponseBytes: 300, FirstByteNs: 90000, DurationNs: 95000,
		Known: stream.KnownRows | stream.KnownRequestBytes | stream.KnownResponseBytes | stream.KnownFirstByte | stream.KnownDuration | stream.KnownServerStatus}
}

func BenchmarkMask(b *testing.B) {
	point := strings.TrimSuffix(point60, " /*")
	unknownQuotes := known
	unknownQuotes.ANSIQuotes = stream.Unknown
	for _, c := range []struct {
		name string
		sql  string
		mode stream.LexMode
	}{
		{"point", point, known},
		{"select", select200, known},
		{"point-unknown", point, stream.LexMode{}},
		{"quotes-unknown", strings.ReplaceAll(select200, "'", `"`), unknownQuotes},
		{"blob", "insert into t values (1, '" + strings.Repeat("x", 60000) + "')", known},
		{"grant", "grant select on db.* to 'u'@'h' identified by 'x'", known},
	} {
		b.Run(fmt.Sprintf("text=%s/bytes=%d", c.name, len(c.sql)), func(b *testing.B) {
			var m Masker
			sql, dst := []byte(c.sql), []byte(nil)
			b.SetBytes(int64(len(sql)))
			b.ReportAllocs()
			for b.Loop() {
				dst = m.Mask(dst[:0], sql, c.mode, Options{})
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "statements/s")
		})
	}
}

// BenchmarkJSON encodes an event whose statement is masked already.
func BenchmarkJSON(b *testing.B) {
	s := New(Config{Agent: "db1", Boot: "t0", Host: "db1.example.com", Labels: []Label{{"env", "prod"}}, Mask: true}, discard{})
	defer s.Close()
	l := s.Lane(0)
	e := benchEvent(select200)
	l.examine(e)
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = l.appendBounded(dst[:0], e)
	}
	b.ReportMetric(float64(len(dst)), "B/event")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkPut(b *testing.B) {
	for _, f := range []struct {
		name   string
		format Format
	}{{"json", FormatJSON}, {"text", FormatText}} {
		b.Run("format="+f.name, func(b *testing.B) {
			s := New(Config{Agent: "db1", Boot: "t0", Mask: true, Format: f.format, Wait: true}, discard{})
			defer s.Close()
			l := s.Lane(0)
			e := benchEvent(strings.TrimSuffix(point60, " /*"))
			b.ReportAllocs()
			for b.Loop() {
				l.Put(e)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkShape reads a statement, masks it and finds its shape, which is known.
func BenchmarkShape(b *testing.B) {
	for _, c := range []struct{ name, sql string }{{"point", strings.TrimSuffix(point60, " /*")}, {"select", select200}} {
		b.Run(fmt.Sprintf("text=%s/bytes=%d", c.name, len(c.sql)), func(b *testing.B) {
			s := New(Config{Mask: true, Wait: true}, discard{})
			defer s.Close()
			l, e := s.Lane(0), benchEvent(c.sql)
			l.examine(e)
			b.ReportAllocs()
			for b.Loop() {
				l.begin(e)
				l.read(e)
				l.mask(e)
				l.facts.sql = l.facts.sql[:0]
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "statements/s")
		})
	}
}
