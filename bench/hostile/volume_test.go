package hostile

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"sqlwitness/probe"
	"sqlwitness/stream"
)

var block = []byte(strings.Repeat("x", 64<<10))

// Attacks by sheer volume, each with what it may make the agent say. A unit of work
// that opens a packet, keeps a text or a name, or waits behind a hole is dearer than an
// ordinary one, and where the memory is slow the more so: the limits are half as much
// again as what the slower of the machines in bench/RESULTS.md needs.
var volumes = []struct {
	name    string
	churn   bool // it makes connections: compare with traffic that does
	limit   float64
	attack  attack
	allowed []stream.Command
}{
	{"packets of 16 MiB that never end", false, maxCost, unfinished, []stream.Command{stream.ComQuery}},
	{"packets of 16 MiB of which only a byte comes", true, 14, barelyBegun, []stream.Command{stream.ComQuery}},
	{"a million SYNs", true, maxCost, syns, nil},
	{"a missing segment and 64 KiB behind it", true, maxCost, missing, []stream.Command{stream.ComQuery}},
	{"holes with single bytes behind them", false, 10, crumbs, nil},
	{"a FIN for every number to come", false, 8, fins, nil},
	{"result sets without end", false, maxCost, endlessRows, []stream.Command{stream.ComQuery}},
	{"a million prepares", false, 16, prepares, []stream.Command{stream.ComStmtPrepare}},
	{"many statements on many connections", false, maxCost, preparesEverywhere, []stream.Command{stream.ComStmtPrepare}},
	{"pipelines that are answered", false, 14, pipelines, []stream.Command{stream.ComPing}},
	{"pipelines that nobody answers", false, 12, unanswered, []stream.Command{stream.ComPing}},
	{"schemas with long names in pipelines", false, 60, longSchemas, []stream.Command{stream.ComQuery}},
	{"a file without end", false, maxCost, infile, []stream.Command{stream.ComQuery}},
	{"binlog dumps", false, maxCost, dumps, []stream.Command{stream.ComBinlogDump}},
	{"logins with long names", true, 10, longNames, nil},
	{"logins with attributes that never end", true, 8, longAttributes, nil},
	{"a PROXY header that never ends", true, 8, proxyHeaders, nil},
}

func TestVolume(t *testing.T) {
	for _, v := range volumes {
		t.Run(strings.ReplaceAll(v.name, " ", "_"), func(t *testing.T) {
			checkDear(t, v.churn, v.limit, v.attack).invented(t, v.allowed...)
		})
	}
}

func unfinished(send sendFunc) {
	for n := range 2000 {
		p := attacker(n)
		for _, s := range p.enter(capProtocol, "eve") {
			send(s)
		}
		send(p.ask(declared("\x03select '")))
		for range 8 {
			send(p.ask(block))
		}
	}
}

func barelyBegun(send sendFunc) {
	for n := range 100_000 {
		send(attacker(n).ask(declared("\x03s")))
	}
}

func syns(send sendFunc) {
	for n := range 1_000_000 {
		send(attacker(n).signal(probe.SYN))
	}
}

func missing(send sendFunc) {
	for n := range 100_000 {
		p := attacker(n)
		send(p.ask(query("select 1")))
		p.client += 1460
		send(p.ask(block))
	}
}

// crumbs is 64 connections, each with a hole and then every second byte.
func crumbs(send sendFunc) {
	for n := range 64 {
		p := attacker(n)
		for _, s := range p.enter(capProtocol, "eve") {
			send(s)
		}
		p.client += 100
		for range 5000 {
			send(p.ask(block[:1]))
			p.client++
		}
	}
}

func fins(send sendFunc) {
	for n := range 64 {
		p := attacker(n)
		for _, s := range p.enter(capProtocol, "eve") {
			send(s)
		}
		for range 5000 {
			p.client += 3
			send(p.signal(probe.FIN | probe.ACK))
		}
	}
}

func endlessRows(send sendFunc) {
	for n := range 64 {
		p := attacker(n)
		for _, s := range p.enter(capProtocol, "eve") {
			send(s)
		}
		send(p.ask(query("select a from big")))
		send(p.answer(resultHead()))
		all := manyRows(256, 4) // the ids come round
		for range 2000 {
			send(p.answer(all))
		}
	}
}

// prepared is the answer to a COM_STMT_PREPARE without parameters and columns.
func prepared(id int) []byte {
	return packet(1, "\x00", string(binary.LittleEndian.AppendUint32(nil, uint32(id))), "\x00\x00\x00\x00\x00\x00\x00")
}

func prepares(send sendFunc) {
	p := attacker(0)
	for _, s := range p.enter(capProtocol, "eve") {
		send(s)
	}
	text := strings.Repeat("y", 2<<10)
	for n := range 1_000_000 {
		send(p.ask(packet(0, "\x16select ", fmt.Sprint(n), text)))
		send(p.answer(prepared(n)))
	}
}

func preparesEverywhere(send sendFunc) {
	for n := range 1000 {
		p := attacker(n)
		for _, s := range p.enter(capProtocol, "eve") {
			send(s)
		}
		for id := range 1024 {
			send(p.ask(packet(0, fmt.Sprintf("\x16select %d", n<<10|id))))
			send(p.answer(prepared(id)))
		}
	}
}

// As many COM_PING as a connection may leave unanswered, less one, and their answers.
var pings, pongs = many(packet(0, "\x0e"), 4095), many(packet(1, okBody), 4095)

func many(b []byte, n int) []byte { return []byte(strings.Repeat(string(b), n)) }

func pipelines(send sendFunc) {
	for n := range 64 {
		p := attacker(n)
		for _, s := range p.enter(capProtocol, "eve") {
			send(s)
		}
		for range 4 {
			send(p.ask(pings))
			send(p.answer(pongs))
		}
	}
}

func unanswered(send sendFunc) {
	for n := range 2000 {
		p := attacker(n)
		for _, s := range p.enter(capProtocol, "eve") {
			send(s)
		}
		send(p.ask(pings))
	}
}

func longSchemas(send sendFunc) {
	use := query("use " + strings.Repeat("z", 60<<10))
	for n := range 100 {
		p := attacker(n)
		for _, s := range p.enter(capProtocol, "eve") {
			send(s)
		}
		for range 100 {
			send(p.ask(use))
		}
	}
}

func infile(send sendFunc) {
	p := attacker(0)
	for _, s := range p.enter(capProtocol, "eve") {
		send(s)
	}
	send(p.ask(query("load data local infile '/dev/zero' into table t")))
	send(p.answer(packet(1, "\xfb/dev/zero")))
	for n := range 10_000 {
		send(p.ask(packet(byte(2+n), string(block[:60<<10]))))
	}
}

func dumps(send sendFunc) {
	event := packet(1, "\x00", string(block[:60<<10]))
	for n := range 100 {
		p := attacker(n)
		for _, s := range p.enter(capProtocol, "eve") {
			send(s)
		}
		send(p.ask(packet(0, "\x12\x04\x00\x00\x00\x00\x00\x07\x00\x00\x00binlog.000001")))
		for range 100 {
			send(p.answer(event))
		}
	}
}

// longNames is logins of users that nobody knows, with names as long as a packet
// may be.
func longNames(send sendFunc) {
	for n := range 4000 {
		p := attacker(n)
		send(p.answer(greeting(capProtocol)))
		send(p.ask(login(capProtocol, fmt.Sprint(n)+string(block[:60<<10]), "")))
		send(p.answer(packet(2, "\xff\x15\x04#28000Access denied")))
	}
}

// longAttributes is logins with as many attributes as are kept, which wait for the
// server for ever.
func longAttributes(send sendFunc) {
	for n := range 10_000 {
		p := attacker(n)
		raw := []byte{}
		for i := range 32 {
			value := fmt.Sprintf("%d-%d-", n, i) + string(block[:1000])
			raw = append(raw, fmt.Sprintf("\x04k%03d", i)...)
			raw = append(raw, 0xfc, byte(len(value)), byte(len(value)>>8))
			raw = append(raw, value...)
		}
		length := []byte{0xfc, byte(len(raw)), byte(len(raw) >> 8)}
		send(p.answer(greeting(capProtocol | capAttrs)))
		send(p.ask(login(capProtocol|capAttrs, "eve", string(length)+string(raw))))
	}
}

func proxyHeaders(send sendFunc) {
	head := append([]byte("\r\n\r\n\x00\r\nQUIT\n\x21\x11\xff\xff"), block[:4000]...)
	for n := range 100_000 {
		send(attacker(n).ask(head))
	}
}
