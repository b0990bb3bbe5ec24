package worker

import (
	"fmt"
	"runtime"
	"testing"

	"sqlwitness/probe"
)

// login is a connection from its greeting to one command, as a server and a
// client with attributes have it.
func login(ns int64, port uint16) []probe.Segment {
	greeting := "\x0a5.5.5-10.11.6-MariaDB\x00\x07\x00\x00\x00" + "12345678\x00" + "\xfe\xf7\x2d\x02\x00\xff\x81\x15" +
		"\x00\x00\x00\x00\x00\x00\x1d\x00\x00\x00" + "123456789012\x00mysql_native_password\x00"
	attrs := "\x0c_client_name\x0alibmariadb\x04_pid\x05" + fmt.Sprint(port%10000+10000) + "\x0cprogram_name\x08orderapi"
	answer := "\x8d\xa2\x1a\x00\x00\x00\x00\x40\x2d" + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		"orderapp\x00\x14" + "12345678901234567890" + "orders\x00mysql_native_password\x00" + string(rune(len(attrs))) + attrs
	s := []probe.Segment{packet(ns, port, false, 100, 200, 0, greeting)}
	request, reply := uint32(200), 100+uint32(len(s[0].Payload))
	s = append(s, packet(ns, port, true, request, reply, 1, answer))
	request += uint32(len(s[1].Payload))
	s = append(s, packet(ns, port, false, reply, request, 2, okBody))
	reply += uint32(len(s[2].Payload))
	s = append(s, packet(ns, port, true, request, reply, 0, "\x03select 1"), packet(ns, port, false, reply, request+13, 1, okBody))
	return s
}

// TestIdleMemory: an idle connection costs at most 1.5 KiB, all in all.
func TestIdleMemory(t *testing.T) {
	const connections, limit = 50_000, 1536
	out := &counter{encoded: 300}
	s := NewShard(Config{}, &script{}, out)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for port := range connections {
		s.take(&probe.Batch{Segments: login(second, uint16(port+1000)), NowNs: second})
	}
	s.take(&probe.Batch{NowNs: 20 * second})
	s.sweep(20 * second)
	s.env.Stats.Segments++ // the shard lives until here
	runtime.GC()
	runtime.ReadMemStats(&after)
	if s.table.open != connections || out.commands != connections || s.env.Stats.SessionStarts != connections {
		t.Fatalf("%d connections, %d commands, %d sessions", s.table.open, out.commands, s.env.Stats.SessionStarts)
	}
	each := (after.HeapAlloc - before.HeapAlloc) / connections
	t.Logf("%d bytes for each idle connection", each)
	if each > limit {
		t.Errorf("%d bytes for each idle connection, at most %d are allowed", each, limit)
	}
	runtime.KeepAlive(s)
}

// TestKeptBytes: requests that never end, and holes that never close, keep no
// more than the limit, and each connection goes on.
func TestKeptBytes(t *testing.T) {
	const connections, limit = 2000, 8 << 20
	out := &counter{}
	s := NewShard(Config{KeptBytes: limit}, &script{}, out)
	big := make([]byte, 60_000)
	copy(big, "\x00\x00\x10\x00\x03select '")
	for port := range uint16(connections) {
		held := query(second, port+1, 3)[1:] // answers what was not seen
		held[0].Payload = append(held[0].Payload, make([]byte, 20_000)...)
		s.take(&probe.Batch{Segments: append(query(second, port+1, 0), held...), NowNs: second})
		s.take(&probe.Batch{Segments: []probe.Segment{segment(second, port+30001, true, probe.ACK, 1, 1, big)}, NowNs: second})
		if kept := s.env.Stats.KeptBytes; kept > limit+200_000 {
			t.Fatalf("%d bytes kept after %d connections, at most %d are allowed", kept, port+1, limit)
		}
	}
	if s.env.Stats.Relieved == 0 || s.table.open != 2*connections {
		t.Errorf("%d times relieved, %d connections open", s.env.Stats.Relieved, s.table.open)
	}
	s.closeAll()
	if s.env.Stats.KeptBytes != 0 {
		t.Errorf("%d bytes kept of closed connections", s.env.Stats.KeptBytes)
	}
	s.publish()
	checkSums(t, s.Stats())
}
