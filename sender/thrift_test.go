package sender

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"sqlwitness/sender/gen-go/audit"
	"sqlwitness/stream"
)

// asMap is an object as a reader sees it, numbers as they are written.
func asMap(t *testing.T, line []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	m := map[string]any{}
	if err := d.Decode(&m); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return m
}

// Our table of fields and the IDL's generated code are the same.
func TestThriftFields(t *testing.T) {
	generated := map[string]thriftField{}
	for i, event := 0, reflect.TypeFor[audit.Event](); i < event.NumField(); i++ {
		f := event.Field(i)
		name, id, _ := strings.Cut(f.Tag.Get("thrift"), ",")
		n, _ := strconv.Atoi(id)
		code := map[string]byte{"*string": thriftString, "*int32": thriftI32, "*int64": thriftI64, "*bool": thriftBool, "bool": thriftBool, "*float64": thriftDouble,
			"[]string": thriftList, "map[string]string": thriftMap, "[]*audit.Param": thriftParams}[f.Type.String()]
		if code == 0 {
			t.Errorf("%s has type %s", name, f.Type)
		}
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag != name {
			t.Errorf("%s is %s in JSON", name, tag)
		}
		generated[name] = thriftField{uint16(n), code}
	}
	if !maps.Equal(generated, thriftFields) {
		t.Errorf("generated %v\nours %v", generated, thriftFields)
	}
}

// What the encoder writes is, for the generated reader, the event of the JSON
// form, and comes back as the same JSON.
func TestThriftRoundTrip(t *testing.T) {
	cfg := goldenConfig
	cfg.Mask = false
	withParams := benchEvent("select ?")
	withParams.Command = stream.ComStmtExecute
	withParams.Params = []stream.Param{{Text: []byte("a\"\n\u65e5\\")}, {Null: true}, {}}
	all := append(lines(t, goldenConfig, goldenEvents()...), lines(t, cfg, withParams)...)
	all = append(all, `{}`, `{"v":1,"type":"agent_report","lane":3,"seq":9223372036854775807,"report":{"a":[1,{"b":"}"}],"c":"\""},"up":true,"cpu":0.25}`,
		`{"sample_probability":0.125,"tables":["a.b","c.d"],"rules":[],"rows":-1,"user":"","sql":"\u00e9\ud83d\ude00\u0001\b\f\r\t\/\u2028 <&>"}`,
		`{"lane":5000000000,"rows":1.5,"seq":99999999999999999999,"params":[1],"labels":{"a":1},"tables":"t","sql_truncated":false,"extra":"x","user":null}`)
	for _, line := range all {
		value := appendThriftEvent(nil, []byte(line))
		back, err := DecodeThrift(value)
		if err != nil {
			t.Errorf("%v: %s", err, line)
			continue
		}
		want := asMap(t, []byte(line))
		if len(want) > 0 && fmt.Sprint(want["rules"]) == "[]" {
			delete(want, "rules") // empty is absent
		}
		if got := asMap(t, back); !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ncame back as\n%s", line, back)
		}
	}
	e := audit.NewEvent()
	if err := thriftRead(appendThriftEvent(nil, []byte(all[0])), e); err != nil {
		t.Fatal(err)
	}
	if e.GetSeq() != 1 || e.GetErrorCode() != 1062 || !slices.Equal(e.GetSqlCommands(), []string{"select", "create_user"}) || e.GetLabels()["env"] != "prod" || e.Extra != nil {
		t.Errorf("%v", e)
	}
}

func thriftRead(b []byte, into thrift.TStruct) error {
	return into.Read(context.Background(), thrift.NewTBinaryProtocolConf(&thrift.TMemoryBuffer{Buffer: bytes.NewBuffer(b)}, nil))
}

// Any bytes: no panic, and what is an object becomes a readable struct.
func FuzzThriftEvent(f *testing.F) {
	f.Add([]byte(`{"v":1,"sql":"a\u00e9","labels":{"a":"b"},"params":[null,"x"],"other":[1,{"a":2}]}`))
	f.Add([]byte(`{"sql":"\ud83d\ude00\ud83d","lane":-5,"tables":[`))
	f.Fuzz(func(t *testing.T, line []byte) {
		appendStub(nil, line)
		value := appendThriftEvent(nil, line)
		if err := thriftRead(value, audit.NewEvent()); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
	})
}

func TestThriftDoesNotAllocate(t *testing.T) {
	line := []byte(lines(t, goldenConfig, goldenEvents()...)[0])
	dst := appendStub(appendThriftEvent(nil, line), line)
	if n := allocations(func() { dst = appendStub(appendThriftEvent(dst[:0], line), line) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestStub(t *testing.T) {
	for line, want := range map[string]string{
		`{"v":1,"sql":"a,\"}b","params":["x",null],"seq":2}`: `{"v":1,"seq":2,"sql_truncated":true}`,
		`{"sql":"x","sql_truncated":true}`:                   `{"sql_truncated":true}`,
		`{"v":1}`:                                            `{"v":1}`,
		`{}`:                                                 `{}`,
		`{"a":{"sql":"kept"},"sql":"x"}`:                     `{"a":{"sql":"kept"},"sql_truncated":true}`,
	} {
		if got := string(appendStub(nil, []byte(line))); got != want {
			t.Errorf("%s became %s, want %s", line, got, want)
		}
	}
}

// collect starts a collector, which ends with the test.
func collect(t *testing.T, cfg CollectorConfig) (*Collector, context.CancelFunc) {
	t.Helper()
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	c, err := NewCollector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop := func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		ended <- nil
	}
	t.Cleanup(stop)
	return c, stop
}

func thriftSink(t *testing.T, cfg ThriftConfig, collectors ...*Collector) *ThriftSink {
	t.Helper()
	for _, c := range collectors {
		cfg.Collectors = append(cfg.Collectors, c.Addr().String())
	}
	s, err := NewThriftSink(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// memSink is a Sink in memory.
type memSink struct {
	mu     sync.Mutex
	b      bytes.Buffer
	events int
	err    error
}

func (m *memSink) Write(p []byte, events int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	m.b.Write(p)
	m.events += events
	return nil
}

func (m *memSink) Close() error { return nil }

func (m *memSink) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

// The collector's file has the same events as the agent's own would have, also
// behind TLS with certificates of both sides.
func TestThriftToCollector(t *testing.T) {
	p := newPKI(t)
	serverCert, serverKey := p.valid(t, "collector")
	clientCert, clientKey := p.valid(t, "agent")
	for _, secure := range []bool{false, true} {
		out, local := &memSink{}, &memSink{}
		var cc CollectorConfig
		var tc ThriftConfig
		if secure {
			cc.TLS = TLSConfig{Enabled: true, CAFile: p.caFile, CertFile: serverCert, KeyFile: serverKey}
			tc.TLS = TLSConfig{Enabled: true, CAFile: p.caFile, CertFile: clientCert, KeyFile: clientKey}
		}
		cc.Outputs = []Output{{Name: "file", Sink: out}}
		c, stop := collect(t, cc)
		s := NewTo(goldenConfig, Output{Name: "thrift", Records: thriftSink(t, tc, c)}, Output{Name: "file", Sink: local})
		l := s.Lane(0)
		for range 100 {
			for _, e := range goldenEvents() {
				l.Put(e)
			}
			l.Flush()
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		stop()
		balanced(t, s.Stats())
		if st := c.Stats(); st.Received != 700 || st.Delivered != 700 || st.Failed+st.Broken+st.Turned != 0 || s.Stats().Written != 700 {
			t.Errorf("%+v, %+v", st, s.Stats())
		}
		got, want := strings.Split(strings.TrimSpace(out.b.String()), "\n"), strings.Split(strings.TrimSpace(local.b.String()), "\n")
		if len(got) != 700 || len(want) != 700 {
			t.Fatalf("%d and %d lines", len(got), len(want))
		}
		for i := range got {
			if g, w := asMap(t, []byte(got[i])), asMap(t, []byte(want[i])); !reflect.DeepEqual(g, w) {
				t.Fatalf("line %d is\n%s\nwant\n%s", i, got[i], want[i])
			}
		}
		if secure { // a client without a certificate is turned away
			plain := thriftSink(t, ThriftConfig{TLS: TLSConfig{Enabled: true, CAFile: p.caFile}}, c)
			if err := plain.Deliver(t.Context(), &Batch{}); err == nil {
				t.Error("no certificate was asked for")
			}
		}
	}
}

// A collector hands records on to Kafka with the key, time and type they had.
func TestCollectorToKafka(t *testing.T) {
	cluster := fakeKafka(t)
	c, _ := collect(t, CollectorConfig{Outputs: []Output{{Name: "kafka", Records: kafkaSink(t, cluster, nil)}}})
	s := NewTo(Config{Agent: "db7", Lanes: 2, Mask: true}, Output{Name: "thrift", Records: thriftSink(t, ThriftConfig{}, c)})
	putAll(s, 2, 300)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ms := readTopic(t, cluster.ListenAddrs(), 600)
	if n := inOrder(t, ms); n != 0 {
		t.Errorf("%d repeated", n)
	}
	for _, m := range ms {
		want := time.Unix(0, 1796000000123456789)
		if m.event.Type == "command" {
			want = want.Add(25 * time.Millisecond)
		}
		if string(m.Key) != fmt.Sprint("db7/", m.event.Lane) || string(m.Headers[1].Value) != m.event.Type || !m.Time.Equal(want.Truncate(time.Millisecond)) {
			t.Fatalf("key %q, headers %v, time %v of %.200s", m.Key, m.Headers, m.Time, m.Value)
		}
	}
}

// A collector that leaves, or whose sink fails, is followed by the next; nothing
// is lost.
func TestThriftFailover(t *testing.T) {
	var outs [3]memSink
	var cs []*Collector
	var stops []context.CancelFunc
	for i := range outs {
		c, stop := collect(t, CollectorConfig{Outputs: []Output{{Name: "file", Sink: &outs[i]}}})
		cs, stops = append(cs, c), append(stops, stop)
	}
	s := NewTo(Config{Mask: true}, Output{Name: "thrift", Records: thriftSink(t, ThriftConfig{}, cs...), Retry: 10 * time.Millisecond, Linger: time.Millisecond})
	putEvents(s, 500)
	eventually(t, "the first", func() bool { return s.Stats().Written == 500 })
	stops[0]()
	putEvents(s, 500)
	eventually(t, "the second", func() bool { return s.Stats().Written == 1000 })
	outs[1].fail(io.ErrShortWrite)
	putEvents(s, 500)
	eventually(t, "the third", func() bool { return s.Stats().Written == 1500 })
	outs[2].fail(io.ErrShortWrite)
	putEvents(s, 500)
	eventually(t, "a try of all", func() bool { return s.Stats().Retries > 0 })
	err := s.Down(0)
	for _, want := range []string{cs[0].Addr().String() + ": dial", "unavailable: file: short write"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	outs[1].fail(nil)
	eventually(t, "the second again", func() bool { return s.Stats().Written == 2000 })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	var got []uint64
	for i := range outs {
		got = append(got, seqs(t, outs[i].b.Bytes())...)
	}
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, counting(1, 2001)) {
		t.Errorf("%d events", len(got))
	}
	if st := cs[1].Stats(); st.Failed == 0 || st.Received != st.Delivered+st.Failed {
		t.Errorf("%+v", st)
	}
}

// A client of the generated code, with the library's own transport, is served;
// anything else on the port is turned away and hurts nobody.
func TestCollectorClients(t *testing.T) {
	out := &memSink{}
	c, _ := collect(t, CollectorConfig{Connections: 2, Outputs: []Output{{Name: "file", Sink: out}}})
	socket := thrift.NewTSocketConf(c.Addr().String(), nil)
	if err := socket.Open(); err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	transport := thrift.NewTFramedTransportConf(socket, nil)
	client := audit.NewCollectorClientFactory(transport, thrift.NewTBinaryProtocolFactoryConf(nil))
	sql, extra, bad, seq := "select 1", `{"x":[1, 2]}`, "no object", thrift.Int64Ptr(5)
	ack, err := client.Put(t.Context(), &audit.Batch{Events: []*audit.Event{{Seq: seq, Sql: &sql, Params: []*audit.Param{{Value: &sql}, {}}, Extra: &extra}, {Seq: seq}}})
	if err != nil || ack.GetEvents() != 2 {
		t.Fatalf("%v, %v", ack, err)
	}
	if got := out.b.String(); got != `{"seq":5,"sql":"select 1","params":["select 1",null],"x":[1,2]}`+"\n"+`{"seq":5}`+"\n" {
		t.Errorf("%s", got)
	}
	_, err = client.Put(t.Context(), &audit.Batch{Events: []*audit.Event{{Seq: seq, Extra: &bad}}})
	if x := (*audit.Unavailable)(nil); !errors.As(err, &x) || !strings.Contains(x.GetReason(), "extra is no object") {
		t.Errorf("%v", err)
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for i := range 200 {
		conn, err := net.Dial("tcp", c.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		junk := make([]byte, 4+rnd.IntN(200))
		for k := range junk {
			junk[k] = byte(rnd.Uint32())
		}
		switch i % 4 {
		case 1:
			copy(junk, []byte{0, 0, 0, byte(len(junk) - 4), 0x80, 1, 0, 1, 0, 0, 0, 3, 'p', 'u', 't'})
		case 2:
			junk = []byte("GET / HTTP/1.1\r\n\r\n")
		case 3:
			junk = appendThriftPut(nil, 1, &Batch{chunk: *numbered(1, 2, 3)})
			junk[30+rnd.IntN(len(junk)-30)] ^= 0xff
		}
		conn.Write(junk)
		conn.(*net.TCPConn).CloseWrite()
		conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		io.Copy(io.Discard, conn)
		conn.Close()
	}
	if _, err := client.Put(t.Context(), &audit.Batch{}); err != nil {
		t.Errorf("after the noise: %v", err)
	}
	if st := c.Stats(); st.Broken < 50 {
		t.Errorf("%+v", st)
	}
	for range 4 { // two at a time, one is taken
		conn, err := net.Dial("tcp", c.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	eventually(t, "some are turned away", func() bool { return c.Stats().Turned >= 3 })
}

// forgetful is a service that does not acknowledge everything.
type forgetful struct{}

func (forgetful) Put(_ context.Context, b *audit.Batch) (*audit.Ack, error) {
	return &audit.Ack{Events: thrift.Int64Ptr(int64(len(b.GetEvents()) - 1))}, nil
}

// Less than everything acknowledged is nothing acknowledged, and an answer of
// something else is no answer.
func TestThriftAcknowledgement(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	answers := make(chan []byte, 1)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			select {
			case answer := <-answers:
				io.ReadFull(conn, make([]byte, len(appendThriftPut(nil, 1, &Batch{chunk: *numbered(1, 2, 3)}))))
				conn.Write(answer)
			default:
				p := thrift.NewTBinaryProtocolConf(thrift.NewTFramedTransportConf(thrift.NewTSocketFromConnConf(conn, nil), nil), nil)
				audit.NewCollectorProcessor(forgetful{}).Process(context.Background(), p, p)
			}
			conn.Close()
		}
	}()
	for answer, want := range map[string]string{
		"":                                 "2 events acknowledged, 3 sent",
		"HTTP/1.1 400 Bad Request\r\n\r\n": "no collector?",
		"\x00\x00\x00\x10\x80\x01\x00\x02\x00\x00\x00\x03put\x00\x00\x00\x09\x00": `the answer is to "put" 9, not to "put" 1`,
		"\x00\x00\x00\x10\x80\x01\x00\x02\x00\x00\x00\x03put\x00\x00\x00\x01\x00": "the answer is empty",
		"\x00\x00\x00\x03abc": "EOF",
		"\x00\x00\x00\x10":    "EOF",
	} {
		if answer != "" {
			answers <- []byte(answer)
		}
		s := thriftSink(t, ThriftConfig{Collectors: []string{l.Addr().String()}})
		if err := s.Deliver(t.Context(), &Batch{chunk: *numbered(1, 2, 3)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", answer, err, want)
		}
		s.Close()
	}
}

func TestThriftConfig(t *testing.T) {
	for want, cfg := range map[string]ThriftConfig{"no collectors": {}, "missing port": {Collectors: []string{"h"}}, "tls": {Collectors: []string{"h:1"}, TLS: TLSConfig{Enabled: true, CAFile: "/nowhere"}}} {
		if _, err := NewThriftSink(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for want, cfg := range map[string]CollectorConfig{"no sinks": {}, "missing port": {Listen: "h", Outputs: []Output{{}}}, "tls certificate": {TLS: TLSConfig{Enabled: true}, Outputs: []Output{{}}}} {
		if _, err := NewCollector(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	s := thriftSink(t, ThriftConfig{Collectors: []string{"127.0.0.1:1"}})
	if err := s.Check(t.Context()); err == nil || !errors.Is(err, os.ErrDeadlineExceeded) && !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("%v", err)
	}
}

// BenchmarkThriftEvent is what the Thrift form costs above the JSON form;
// BenchmarkThriftDecode what the collector pays.
func BenchmarkThriftEvent(b *testing.B) {
	line, dst := benchLine(), []byte(nil)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		dst = appendThriftEvent(dst[:0], line)
	}
	b.ReportMetric(float64(len(dst)), "B/event")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkThriftDecode(b *testing.B) {
	value := appendThriftEvent(nil, benchLine())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeThrift(value); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func benchLine() []byte {
	s := New(Config{Agent: "db1", Boot: "t0", Mask: true}, discard{})
	defer s.Close()
	l := s.Lane(0)
	l.Put(benchEvent(strings.TrimSuffix(point60, " /*")))
	return bytes.Clone(l.chunk.line(0))
}
