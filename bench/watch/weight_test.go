//go:build linux

package watch

import (
	"encoding/binary"
	"testing"

	"sqlwitness/watcher"
)

// Each command raises the server's Questions by its weight. The loss rate rests
// on this.
func TestQuestionWeights(t *testing.T) {
	srv, err := bare()
	use(t, srv, err)
	w := watch(t, account(t, srv, "watch"), nil)
	next(t, w)
	meter := func() uint64 { c := counters(t, w); return c.Questions - c.OwnQuestions }
	r := dialRaw(t, srv.Addr("127.0.0.1"), "raw", "shop")
	prepared := r.command(0x16, []byte("SELECT a FROM t WHERE a > ?")...)
	id := prepared[1:5]
	le := binary.LittleEndian
	execute := append(append([]byte{}, id...), 0, 1, 0, 0, 0, 0, 1, 3, 0, 0, 0, 0, 0)
	cursor := append(append([]byte{}, id...), 1, 1, 0, 0, 0, 0, 1, 3, 0, 0, 0, 0, 0)
	bulk := append(append([]byte{}, id...), 128, 0, 3, 0, 0, 0, 0, 0, 0)
	for _, c := range []struct {
		name    string // as QuestionWeight knows it
		of      string
		code    byte
		payload []byte
		times   int // statements executed
	}{
		{"Query", "one", 0x03, []byte("SELECT 1"), 1},
		{"Query", "empty", 0x03, nil, 1},
		{"Query", "comment", 0x03, []byte("/* nothing */"), 1},
		{"Query", "syntax error", 0x03, []byte("SELEC 1"), 1},
		{"Query", "three", 0x03, []byte("SELECT 1; SELECT 2; SELECT 3"), 3},
		{"Query", "second fails", 0x03, []byte("SELECT 1; SELEC 2; SELECT 3"), 2},
		{"Query", "trailing", 0x03, []byte("SELECT 1; "), 1},
		{"Query", "PREPARE", 0x03, []byte("PREPARE p FROM 'SELECT 1'"), 1},
		{"Query", "EXECUTE", 0x03, []byte("EXECUTE p"), 1},
		{"Query", "USE", 0x03, []byte("USE shop"), 1},
		{"Init DB", "", 0x02, []byte("shop"), 1},
		{"Init DB", "refused", 0x02, []byte("no_such"), 1},
		{"Field List", "", 0x04, []byte("t\x00"), 1},
		{"Ping", "", 0x0e, nil, 1},
		{"Statistics", "", 0x09, nil, 1},
		{"Processlist", "", 0x0a, nil, 1},
		{"Debug", "", 0x0d, nil, 1},
		{"Refresh", "", 0x07, []byte{1}, 1},
		{"Kill", "", 0x0c, []byte{0xff, 0xff, 0xff, 0x7f}, 1},
		{"Create DB", "", 0x05, []byte("made"), 1},
		{"Drop DB", "", 0x06, []byte("made"), 1},
		{"Set option", "", 0x1b, []byte{0, 0}, 1},
		{"Prepare", "", 0x16, []byte("SELECT 1"), 1},
		{"Prepare", "refused", 0x16, []byte("SELEC 1"), 1},
		{"Execute", "", 0x17, execute, 1},
		{"Execute", "unknown id", 0x17, append([]byte{99, 0, 0, 0}, execute[4:]...), 1},
		{"Execute", "with a cursor", 0x17, cursor, 1},
		{"Fetch", "", 0x1c, le.AppendUint32(append([]byte{}, id...), 2), 1},
		{"Long Data", "", 0x18, append(append([]byte{}, id...), 0, 0, 'x'), 1},
		{"Reset stmt", "", 0x1a, id, 1},
		{"Bulk_execute", "", 0xfa, bulk, 1},
		{"Close stmt", "", 0x19, id, 1},
		{"Reset connection", "", 0x1f, nil, 1},
		{"Sleep", "", 0x00, nil, 1},
		{"Connect", "", 0x0b, nil, 1},
		{"Time", "", 0x0f, nil, 1},
		{"Delayed insert", "", 0x10, nil, 1},
		{"Table Dump", "", 0x13, []byte("\x04shop\x01t"), 1},
		{"Connect Out", "", 0x14, nil, 1},
		{"Daemon", "", 0x1d, nil, 1},
		{"Clone", "", 0x20, nil, 1},
		{"Subscribe Group Replication", "", 0x21, nil, 1},
		{"Unknown", "0x22", 0x22, nil, 1},
		{"Unknown", "0xfb", 0xfb, nil, 1},
		{"Unknown", "0xfc", 0xfc, nil, 1},
		{"Unknown", "0xfd", 0xfd, nil, 1},
		{"Unknown", "0xfe", 0xfe, nil, 1},
		{"Unknown", "0x60", 0x60, nil, 1},
		{"Unknown", "0xff", 0xff, nil, 1},
		{"Register Slave", "", 0x15, []byte{7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 1},
		{"Binlog Dump", "", 0x12, append(make([]byte, 10), "none"...), 1}, // ends the connection
	} {
		weight, known := watcher.QuestionWeight(c.name, watcher.MariaDB)
		if !known {
			t.Errorf("%s has no weight", c.name)
		}
		before := meter()
		r.command(c.code, c.payload...)
		if got := meter() - before; got != uint64(weight*c.times) {
			t.Errorf("%s %s raises Questions by %d, not %d × %d", c.name, c.of, got, c.times, weight)
		}
	}
	checkSessionWeights(t, meter, srv.Addr("127.0.0.1"))
}

// checkSessionWeights measures what changes the session itself.
func checkSessionWeights(t *testing.T, meter func() uint64, address string) {
	t.Helper()
	before := meter()
	r := dialRaw(t, address, "raw", "shop")
	if got := meter() - before; got != 0 {
		t.Errorf("a login raises Questions by %d", got)
	}
	before = meter()
	r.changeUser("raw", "shop")
	changed := meter()
	r.command(0x01)
	left := meter()
	for name, got := range map[string]uint64{"Change user": changed - before, "Quit": left - changed} {
		if weight, ok := watcher.QuestionWeight(name, watcher.MariaDB); !ok || got != uint64(weight) {
			t.Errorf("%s raises Questions by %d, not %d", name, got, weight)
		}
	}
}
