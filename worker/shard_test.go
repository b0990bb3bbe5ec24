package worker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"sqlwitness/probe"
	"sqlwitness/stream"
)

// script is a Source that hands out prepared batches.
type script struct {
	batches []probe.Batch
	next    int
	held    bool
	err     error
}

func (s *script) Next() (*probe.Batch, error) {
	if s.held {
		return nil, errors.New("Next before Release")
	}
	if s.next == len(s.batches) {
		if s.err == nil {
			s.err = io.EOF
		}
		return nil, s.err
	}
	s.next++
	s.held = true
	return &s.batches[s.next-1], nil
}

// Release clears the payloads: whoever still borrows one shows zeros.
func (s *script) Release() {
	s.held = false
	b := &s.batches[s.next-1]
	for i := range b.Segments {
		clear(b.Segments[i].Payload)
	}
}

// tape is a Sink that keeps what matters of each event.
type tape struct {
	events  []string
	flushes int
}

func (t *tape) Put(e *stream.Event) {
	t.events = append(t.events, fmt.Sprintf("%s %d %s %s %s", e.Kind, e.Session.Client.Port(), e.SQL, e.Status, e.EndReason))
}
func (t *tape) Flush() { t.flushes++ }

const second = int64(time.Second)

// packet is a segment with one MySQL packet.
func packet(ns int64, port uint16, fromClient bool, seq, ack uint32, id byte, body string) probe.Segment {
	p := append([]byte{byte(len(body)), byte(len(body) >> 8), 0, id}, body...)
	return segment(ns, port, fromClient, probe.ACK, seq, ack, p)
}

func segment(ns int64, port uint16, fromClient bool, flags probe.Flags, seq, ack uint32, payload []byte) probe.Segment {
	client := netip.AddrPortFrom(netip.MustParseAddr("10.0.0.2"), port)
	return probe.Segment{TimeNs: ns, FromClient: fromClient, Flags: flags, Seq: seq, Ack: ack, Payload: payload,
		Flow: probe.Flow{Client: client, Server: netip.MustParseAddrPort("10.0.0.1:3306")}}
}

const okBody = "\x00\x00\x00\x02\x00\x00\x00"

// query is one command and its OK, at round n of a connection.
func query(ns int64, port uint16, n int) []probe.Segment {
	request, reply := uint32(1000+13*n), uint32(5000+11*n)
	return []probe.Segment{
		packet(ns, port, true, request, reply, 0, fmt.Sprintf("\x03select %d", n%10)),
		packet(ns+1, port, false, reply, request+13, 1, okBody),
	}
}

func run(t *testing.T, c Config, batches ...[]probe.Segment) (*tape, Stats) {
	t.Helper()
	src := &script{}
	for _, segments := range batches {
		now := int64(0)
		if len(segments) > 0 {
			now = segments[len(segments)-1].TimeNs
		}
		src.batches = append(src.batches, probe.Batch{Segments: segments, NowNs: now})
	}
	out := &tape{}
	s := NewShard(c, src, out)
	if err := s.Run(); err != nil {
		t.Fatal(err)
	}
	checkSums(t, s.Stats())
	return out, s.Stats()
}

func checkSums(t *testing.T, s Stats) {
	t.Helper()
	if s.Segments != s.Fed+s.Strays+s.Late || s.Fed != s.Stream.Segments {
		t.Errorf("segments do not add up: %+v", s)
	}
	if s.Opened != s.Closed+s.Connections || s.Connections != 0 {
		t.Errorf("connections do not add up: %+v", s)
	}
	if s.Stream.Commands != s.Stream.CommandEvents {
		t.Errorf("commands do not add up: %+v", s.Stream)
	}
}

func expect(t *testing.T, got *tape, want ...string) {
	t.Helper()
	for i := 0; i < max(len(got.events), len(want)); i++ {
		g, w := "(none)", "(none)"
		if i < len(got.events) {
			g = got.events[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("event %d: %q, want %q", i, g, w)
		}
	}
}

// A request and its response may come in different batches: what the command
// needs is copied before the first goes back.
func TestAcrossBatches(t *testing.T) {
	q := query(second, 40000, 1)
	got, stats := run(t, Config{}, q[:1], q[1:])
	expect(t, got, "session_start 40000   ", "command 40000 select 1 ok ", "session_end 40000   capture_end")
	if got.flushes != 3 || stats.Batches != 2 {
		t.Errorf("%d flushes of %d batches, want 3 of 2", got.flushes, stats.Batches)
	}
}

// Connections share a batch; each keeps its own order.
func TestManyConnections(t *testing.T) {
	var batch []probe.Segment
	for n := range 3 {
		for port := uint16(40000); port < 40004; port++ {
			batch = append(batch, query(second, port, n)...)
		}
	}
	got, stats := run(t, Config{}, batch)
	next := map[string]int{}
	for _, e := range got.events {
		var port, n int
		if _, err := fmt.Sscanf(e, "command %d select %d ok", &port, &n); err != nil {
			continue
		}
		key := fmt.Sprint(port)
		if n != next[key] {
			t.Errorf("connection %d: command %d, want %d", port, n, next[key])
		}
		next[key]++
	}
	if len(next) != 4 || stats.Stream.CommandEvents != 12 {
		t.Errorf("%d connections with %d commands, want 4 with 12", len(next), stats.Stream.CommandEvents)
	}
}

// Handshakes, resets and scans without payload make no connection.
func TestStrays(t *testing.T) {
	var batch []probe.Segment
	for port := range uint16(1000) {
		batch = append(batch, segment(second, port+1, true, probe.SYN, 1, 0, nil), segment(second, port+1, false, probe.RST|probe.ACK, 0, 2, nil))
	}
	_, stats := run(t, Config{}, batch)
	if stats.Strays != 2000 || stats.Opened != 0 {
		t.Errorf("%d strays, %d connections, want 2000 and 0", stats.Strays, stats.Opened)
	}
}

// The first bytes of a connection may come in the wrong order: its SYN tells where
// it begins. A flood of other SYNs in between is forgotten.
func TestHandshake(t *testing.T) {
	syn := []probe.Segment{segment(second, 40000, true, probe.SYN, 199, 0, nil), segment(second, 40000, false, probe.SYN|probe.ACK, 99, 200, nil)}
	l := login(second+1, 40000)
	greeting := l[0]
	head, tail := greeting, greeting
	head.Payload, tail.Payload = greeting.Payload[:20], greeting.Payload[20:]
	tail.Seq += 20
	flood := make([]probe.Segment, 3000)
	for i := range flood {
		flood[i] = segment(second, uint16(i+1), true, probe.SYN, uint32(i), 0, nil)
	}
	got, stats := run(t, Config{}, syn, flood, []probe.Segment{tail}, append([]probe.Segment{head}, l[1:]...))
	expect(t, got, "session_start 40000  ok ", "command 40000 select 1 ok ", "session_end 40000   capture_end")
	if stats.Opened != 1 {
		t.Errorf("%d connections opened, want 1", stats.Opened)
	}
	var h handshakes
	for i := range 5 * maxHandshakes {
		s := segment(second, uint16(i), false, probe.SYN|probe.ACK, 1, 2, nil)
		s.Flow.Client = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 24), byte(i >> 16), byte(i >> 8)}), uint16(i))
		h.note(&s)
		if len(h.young)+len(h.old) > 2*maxHandshakes {
			t.Fatalf("%d handshakes remembered", len(h.young)+len(h.old))
		}
	}
}

// A client that leaves before the greeting, as health checks do, has left nothing out:
// there is no hole.
func TestHealthCheck(t *testing.T) {
	for _, last := range []probe.Flags{probe.RST, probe.FIN | probe.ACK} {
		greeting := login(second+2, 40000)[0]
		greeting.Ack++
		end := segment(second+3, 40000, true, probe.RST, 201, 0, nil)
		if last != probe.RST {
			end = segment(second+3, 40000, false, last, greeting.Seq+uint32(len(greeting.Payload)), 201, nil)
		}
		got, stats := run(t, Config{}, []probe.Segment{
			segment(second, 40000, true, probe.SYN, 199, 0, nil), segment(second, 40000, false, probe.SYN|probe.ACK, 99, 200, nil),
			segment(second+1, 40000, true, probe.FIN|probe.ACK, 200, 100, nil), greeting, end,
		}, []probe.Segment{segment(4*second, 50000, true, probe.SYN, 1, 0, nil)})
		expect(t, got, "session_start 40000  aborted ", "session_end 40000   no_login")
		if stats.Stream.Gaps != 0 || stats.Opened != 1 || stats.Closed != 1 {
			t.Errorf("end by %d: %d gaps, %d opened, %d closed", last, stats.Stream.Gaps, stats.Opened, stats.Closed)
		}
	}
}

// After the end only repeats come; a new SYN opens the ports again.
func TestPortReuse(t *testing.T) {
	first := query(second, 40000, 0)
	end := []probe.Segment{
		segment(second+2, 40000, true, probe.FIN|probe.ACK, 1013, 5011, nil),
		segment(second+3, 40000, false, probe.FIN|probe.ACK, 5011, 1014, nil),
	}
	repeat := query(second+4, 40000, 0)
	syn := segment(second+5, 40000, true, probe.SYN, 77000, 0, nil)
	again := packet(second+6, 40000, true, 77001, 88001, 0, "\x03select 7")
	reply := packet(second+7, 40000, false, 88001, 77014, 1, okBody)
	got, stats := run(t, Config{}, first, end, repeat, []probe.Segment{syn}, []probe.Segment{again, reply})
	expect(t, got, "session_start 40000   ", "command 40000 select 0 ok ", "session_end 40000   fin",
		"session_start 40000   ", "command 40000 select 7 ok ", "session_end 40000   capture_end")
	if stats.Late != 2 {
		t.Errorf("%d late segments, want 2", stats.Late)
	}
}

// A mirror that lags brings a short connection again when it is over: it is none.
func TestPortReuseByCopy(t *testing.T) {
	copied := append([]probe.Segment{
		segment(second, 40000, true, probe.SYN, 199, 0, nil),
		segment(second, 40000, false, probe.SYN|probe.ACK, 99, 200, nil),
	}, login(second, 40000)...)
	last := copied[len(copied)-1]
	request, reply := last.Ack, last.Seq+uint32(len(last.Payload))
	copied = append(copied, segment(second, 40000, true, probe.FIN|probe.ACK, request, reply, nil),
		segment(second, 40000, false, probe.FIN|probe.ACK, reply, request+1, nil))
	after := func(segs []probe.Segment, ns int64) []probe.Segment {
		segs = slices.Clone(segs)
		for i := range segs {
			segs[i].TimeNs += ns
			segs[i].Payload = bytes.Clone(segs[i].Payload)
		}
		return segs
	}
	again := after(copied, second)
	for _, first := range [][]probe.Segment{copied, copied[:len(copied)-1]} { // in one batch, as from a file
		if _, stats := run(t, Config{}, append(after(first, 0), after(copied, 3600*second)...)); stats.Opened != 2 {
			t.Errorf("%d connections of one that comes again after an hour, want 2", stats.Opened)
		}
	}
	got, stats := run(t, Config{}, copied, again, again[2:]) // and once more without its SYN
	expect(t, got, "session_start 40000  ok ", "command 40000 select 1 ok ", "session_end 40000   fin")
	if want := uint64(2*len(again) - 2); stats.Opened != 1 || stats.Late != want {
		t.Errorf("%d opened and %d late, want 1 and %d", stats.Opened, stats.Late, want)
	}
}

// A SYN with another sequence number ends a connection whose end was not seen.
func TestRestartWithoutEnd(t *testing.T) {
	got, _ := run(t, Config{}, query(second, 40000, 0), []probe.Segment{
		segment(second+5, 40000, true, probe.SYN, 77000, 0, nil),
		packet(second+6, 40000, true, 77001, 88001, 0, "\x03select 7"),
		packet(second+7, 40000, false, 88001, 77014, 1, okBody),
	})
	expect(t, got, "session_start 40000   ", "command 40000 select 0 ok ", "session_end 40000   gone",
		"session_start 40000   ", "command 40000 select 7 ok ", "session_end 40000   capture_end")
}

// The limit of connections evicts the one that was silent longest.
func TestEviction(t *testing.T) {
	var batches [][]probe.Segment
	for i, port := range []uint16{40000, 40001, 40000, 40002} {
		batches = append(batches, query(second+int64(i)*1000, port, i/2))
	}
	got, stats := run(t, Config{Connections: 2}, batches...)
	expect(t, got, "session_start 40000   ", "command 40000 select 0 ok ",
		"session_start 40001   ", "command 40001 select 0 ok ", "command 40000 select 1 ok ",
		"session_end 40001   evicted", "session_start 40002   ", "command 40002 select 1 ok ",
		"session_end 40000   capture_end", "session_end 40002   capture_end")
	if stats.Evicted != 1 {
		t.Errorf("%d evicted, want 1", stats.Evicted)
	}
}

// A silent connection is given up in capture time, also while nothing comes.
func TestIdleTimeout(t *testing.T) {
	src := &script{batches: []probe.Batch{
		{Segments: query(second, 40000, 0), NowNs: second},
		{NowNs: 30 * second}, {NowNs: 62 * second},
	}}
	out := &tape{}
	if err := NewShard(Config{IdleTimeout: time.Minute}, src, out).Run(); err != nil {
		t.Fatal(err)
	}
	expect(t, out, "session_start 40000   ", "command 40000 select 0 ok ", "session_end 40000   timeout")
}

// A response that is captured before its command is read after it, and a hole
// does not keep the connection waiting for ever.
func TestHeldSegments(t *testing.T) {
	q := query(second, 40000, 1)
	got, stats := run(t, Config{}, query(second-10, 40000, 0), []probe.Segment{q[1]}, []probe.Segment{q[0]})
	expect(t, got, "session_start 40000   ", "command 40000 select 0 ok ", "command 40000 select 1 ok ", "session_end 40000   capture_end")
	if stats.Stream.Gaps != 0 {
		t.Errorf("%d gaps, want none", stats.Stream.Gaps)
	}
	got, stats = run(t, Config{}, query(second-10, 40000, 0), []probe.Segment{q[1]}, nil, nil, nil, query(2*second, 40000, 2))
	expect(t, got, "session_start 40000   ", "command 40000 select 0 ok ", "command 40000 select 2 ok ", "session_end 40000   capture_end")
	if stats.Stream.Gaps != 1 || stats.Stream.GapBytes != 13 {
		t.Errorf("%d gaps of %d bytes, want 1 of 13", stats.Stream.Gaps, stats.Stream.GapBytes)
	}
}

// Where both ends are watched ports, the content tells who is the server.
func TestDirection(t *testing.T) {
	q := query(second, 40000, 1)
	for i := range q { // as a decoder would guess, the wrong way round
		q[i].BothWatched = true
		q[i].FromClient = !q[i].FromClient
		q[i].Flow = q[i].Flow.Reverse()
	}
	got, _ := run(t, Config{}, q)
	expect(t, got, "session_start 40000   ", "command 40000 select 1 ok ", "session_end 40000   capture_end")
}

// A source that fails ends the shard with its error, after all events.
func TestSourceError(t *testing.T) {
	broken := errors.New("broken")
	src := &script{batches: []probe.Batch{{Segments: query(second, 40000, 0), NowNs: second}}, err: broken}
	out := &tape{}
	if err := NewShard(Config{}, src, out).Run(); err != broken {
		t.Errorf("Run: %v, want %v", err, broken)
	}
	if len(out.events) != 3 {
		t.Errorf("events %v, want 3", out.events)
	}
}

// counter is a Sink that only counts, and may leave something in the session.
type counter struct{ commands, encoded int }

func (c *counter) Put(e *stream.Event) {
	if c.encoded > 0 && len(e.Session.Encoded) == 0 { // as an encoder does
		e.Session.Encoded = make([]byte, c.encoded)
	}
	if e.Kind == stream.KindCommand {
		c.commands++
	}
}
func (c *counter) Flush() {}

// TestNoGoroutinePerConnection: 10,000 connections are looked after by the
// goroutine that runs the shard.
func TestNoGoroutinePerConnection(t *testing.T) {
	const connections = 10_000
	var batch []probe.Segment
	for port := range uint16(connections) {
		batch = append(batch, query(second, 20000+port, 1)...)
	}
	before := runtime.NumGoroutine()
	out := &counter{}
	s := NewShard(Config{}, &script{}, out)
	s.take(&probe.Batch{Segments: batch, NowNs: second})
	if n := runtime.NumGoroutine(); n > before { // one of an earlier test may have ended
		t.Errorf("%d goroutines with %d connections, %d before", n, connections, before)
	}
	if out.commands != connections || s.table.open != connections {
		t.Errorf("%d commands of %d connections, want %d", out.commands, s.table.open, connections)
	}
}

// TestNoAllocation: batches of known connections allocate nothing.
func TestNoAllocation(t *testing.T) {
	out := &counter{}
	s := NewShard(Config{}, &script{}, out)
	n := 0
	var batch [8]probe.Segment
	payloads := [2][]byte{query(second, 1, 1)[0].Payload, query(second, 1, 1)[1].Payload}
	next := func() {
		for port := range uint16(4) {
			request, reply := uint32(1000+13*n), uint32(5000+11*n)
			batch[2*port] = segment(second, port+1, true, probe.ACK, request, reply, payloads[0])
			batch[2*port+1] = segment(second, port+1, false, probe.ACK, reply, request+13, payloads[1])
		}
		n++
		s.take(&probe.Batch{Segments: batch[:], NowNs: second})
	}
	next()
	if allocs := testing.AllocsPerRun(1000, next); allocs != 0 {
		t.Errorf("%v allocations per batch", allocs)
	}
	if out.commands != 4*n {
		t.Errorf("%d commands, want %d", out.commands, 4*n)
	}
}
