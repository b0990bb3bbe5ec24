package peers

import (
	"io"
	"reflect"
	"strings"
	"testing"

	"sqlwitness/bench/generator"
)

// The lines of tools that are not at hand are made by their documentation, those of
// the others are theirs; TestToolsLive holds the latter against running tools.
func TestScan(t *testing.T) {
	text := generator.Text(17, 0)
	for _, c := range []struct {
		name string
		scan func(io.Reader, wire, func(Statement)) error
		in   string
		want []Statement
	}{
		{"sqlwitness", scanEvents, `{"v":1,"type":"session_start","connection_id":3,"user":"bench"}
{"v":1,"type":"command","user":"bench","command":"Query","sql":"` + generator.MaskedText(0) + `","status":"ok","rows":1,"warnings":17,"connection_id":3}
{"v":1,"type":"command","user":"bench","command":"Query","sql":"` + text + `","status":"ok","rows":1,"warnings":18,"connection_id":3}
{"v":1,"type":"command","user":"bench","command":"Query","sql":"` + generator.MaskedText(0) + `","status":"unknown","warnings":19,"connection_id":3}
{"v":1,"type":"command","command":"Quit","connection_id":3}
`, []Statement{{3, 17, true, "bench"}, {3, 18, false, "bench"}, {3, 19, false, "bench"}}},
		{"tshark", scanShark, "0\tbench\t\n1\tother\t\n0\t\t" + text + "\n1\t\t" + text + ";\n2\t\t" + text + "\n0\t\tSELECT 1\n",
			[]Statement{{0, 17, true, "bench"}, {0, 17, false, "other"}, {0, 17, true, ""}}},
		{"slow log", scanSlowLog, `# Time: 261130 14:26:22.880063
# User@Host: bench[bench] @ 127.0.0.1 []
# Client: 127.0.0.1:56428
# Query_time: 0.000324  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
use sbtest;
# administrator command: Connect;
# User@Host: [] @ 127.0.0.1 []
use sbtest;
` + text + ";\n", []Statement{{0, 17, true, ""}}},
		{"mysql-sniffer", scanTabs, "2026-11-30 11:17:06\t bench\t 127.0.0.1\t NULL\t          0ms\t          1\t " + text + "\nerror\t" + text + "\n",
			[]Statement{{0, 17, true, "bench"}}},
		{"sniffer-agent", scanJSON, `{"cip":"127.0.0.1","cport":63888,"sip":"127.0.0.1","sport":3306,"user":"bench","db":"","sql":"` + text + `","cpr":1.0,"bt":1566545734147,"cms":15}
2026/11/30 some log line
`, []Statement{{0, 17, true, "bench"}}},
		{"tcpdp", scanJSON, `{"ts":"2026-11-30T11:17:06.839Z","src_addr":"127.0.0.1:1","query":"` + text + `","seq_num":0,"command_id":3,"username":"bench","conn_id":"x"}
`, []Statement{{0, 17, true, "bench"}}},
		{"half a line", scanJSON, `{"user":"bench","sql":"` + text + `"}`, nil},
	} {
		var got []Statement
		err := c.scan(strings.NewReader(c.in), wire{port: 3306}, func(s Statement) { got = append(got, s) })
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, %v, want %v", c.name, got, err, c.want)
		}
	}
	if err := scanEvents(strings.NewReader(`{"type":"command","command":"Query",`+"\n"), wire{}, func(Statement) {}); err == nil {
		t.Error("a broken event was accepted")
	}
}

// Packets stand one behind the other in a segment; one that is cut does not count.
func TestPackets(t *testing.T) {
	packet := func(command byte, text string) string {
		return string([]byte{byte(len(text) + 1), 0, 0, 0, command}) + text
	}
	all := packet(3, generator.Text(5, 0)) + packet(14, "") + packet(3, "SELECT 1") + packet(3, generator.Text(123456, 0))
	for cut, want := range map[int]int{0: 2, 1: 1, len(packet(3, generator.Text(123456, 0))): 1} {
		var got []Statement
		packets([]byte(all[:len(all)-cut]), func(s Statement) { got = append(got, s) })
		if len(got) != want || got[0] != (Statement{Number: 5, Text: true}) {
			t.Errorf("cut by %d: %v", cut, got)
		}
	}
}
