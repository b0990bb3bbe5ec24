package stream

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"math/rand"
	"strings"
	"testing"
)

// TestJoinedAtHeader: the first command that is seen of a connection is one whose header
// might begin a TLS record.
func TestJoinedAtHeader(t *testing.T) {
	for _, n := range []int{787, 788, 790, 791, 792, 1 << 16, 66323, 66324, 66327, 131860} {
		for _, cut := range []int{1448, 1 << 20} {
			var out strings.Builder
			k := newTalk(func(e *Event) { out.WriteString(eventText(e)) })
			first := mysqlPacket("\x03select '" + strings.Repeat("x", n-10) + "'")
			for len(first) > cut {
				k.segment(0, 0, first[:cut:cut])
				first = first[cut:]
			}
			k.segment(0, 0, first)
			k.packet = 0
			for _, line := range []string{"ok", "query \"drop table t\"", "ok", "com 1"} {
				if err := k.line(line); err != nil {
					t.Fatal(err)
				}
			}
			k.close()
			checkLedger(t, k.env)
			if got := out.String(); strings.Count(got, "\ncommand ") != 3 || strings.Count(got, " ok ") != 2 || strings.Contains(got, "visibility=tls") {
				t.Errorf("payload of %d bytes in segments of %d:\n%s", n, cut, got)
			}
		}
	}
}

// TestFindsBack: a client has its first bytes taken for TLS; its commands are read all the
// same from the next that stands in a segment of its own. Ciphertext stays what it is.
func TestFindsBack(t *testing.T) {
	const forged = "raw c 17 03 03 00 03 \"/**\" 17 03 03 00 20 \"the text goes on as a record\"\n"
	out := runScript(t, forged+"raw c \"and on */ select 1\"\npacket 0\nok\nquery \"drop table t\"\nok\nquery \"select 2\"\nok\ncom 1\nfin\n")
	if !strings.HasPrefix(out, "session_start id=1") || strings.Count(out, "\ncommand ") != 3 || strings.Count(out, " ok ") != 2 || !strings.Contains(out, "sql=\"drop table t\" ok") {
		t.Errorf("commands behind forged records:\n%s", out)
	}
	for _, lookalike := range []string{"00 08 00 00 03 \"select\"", "01 00 00 01 0e", "02 00 00 00 0e"} {
		out = runScript(t, "raw c 17 03 03 00 04 01 02 03 04\nraw s 17 03 03 00 01 01\nraw c "+lookalike+"\nraw s 17 03 03 00 01 01\n")
		if strings.Contains(out, "command") && !strings.Contains(out, "commands=0") {
			t.Errorf("%s within TLS:\n%s", lookalike, out)
		}
	}
}

// TestJoinedAtTail: the last bytes of an answer are the first that is seen of the server.
// They are no part of what follows.
func TestJoinedAtTail(t *testing.T) {
	for _, tail := range []string{"00", "00 00", "02 00 00", "02 00 00 00", "ff ff", "00 00 05 00", "02 00 00 00 00", "00 00 00 00"} {
		script := "raw s " + tail + "\n"
		for i := range 40 {
			script += fmt.Sprintf("query \"select %d from t\"\ncols 1\neof\nrows 5\neof\n", i)
		}
		out := runScript(t, script)
		if n, ok := strings.Count(out, "\ncommand "), strings.Count(out, " ok rows=5"); n != 40 || ok != 40 {
			t.Errorf("tail %s: %d commands, %d with their rows, of 40:\n%.1000s", tail, n, ok, out)
		}
		// Its command was sent before the capture began: the answer comes unasked.
		out = runScript(t, "raw s "+tail+"\ns 1 00 00 00 02 00 00 00\nquery \"select 1\"\nok\nquery \"select 2\"\nok\n")
		if strings.Count(out, "\ncommand ") != 2 || strings.Count(out, " ok ") != 2 {
			t.Errorf("tail %s and an answer:\n%s", tail, out)
		}
	}
}

// TestJoinedCompressed: a compressed connection is joined at a statement, whatever its
// length, where the first segment holds enough of it to give a text.
func TestJoinedCompressed(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	text := make([]byte, 24<<10)
	for i := range text {
		text[i] = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ ,"[random.Intn(64)]
	}
	for _, base := range []int{2048, 8192} { // 0x20 as the second byte may begin a text
		for size := base; size < base+256; size++ {
			for _, cut := range []int{200, 1448} {
				var out strings.Builder
				k := newTalk(func(e *Event) { out.WriteString(eventText(e)) })
				z := zippedPacket(mysqlPacket("\x03insert t values ('" + string(text[:size-25]) + "')"))
				for len(z) > cut {
					k.segment(0, 0, z[:cut:cut])
					z = z[cut:]
				}
				k.segment(0, 0, z)
				answer := []byte{11, 0, 0, 1, 0, 0, 0, 7, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0}
				k.segment(1, 0, bytes.Clone(answer))
				k.segment(0, 0, zippedPacket(mysqlPacket("\x03select 'of another length, and compressed as well'")))
				k.segment(1, 0, answer)
				k.close()
				checkLedger(t, k.env)
				if got := out.String(); strings.Count(got, "\ncommand ") != 2 || strings.Count(got, " Query sql=") != 2 || strings.Count(got, " ok ") != 2 || !strings.Contains(got, "compression=zlib") {
					t.Fatalf("%d bytes in segments of %d:\n%s", size, cut, got)
				}
			}
		}
	}
}

// mysqlPacket is a packet that begins a command.
func mysqlPacket(body string) []byte {
	return append([]byte{byte(len(body)), byte(len(body) >> 8), byte(len(body) >> 16), 0}, body...)
}

// zippedPacket is the compressed packet that holds plain.
func zippedPacket(plain []byte) []byte {
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	w.Write(plain)
	w.Close()
	n, m := z.Len(), len(plain)
	return append([]byte{byte(n), byte(n >> 8), byte(n >> 16), 0, byte(m), byte(m >> 8), byte(m >> 16)}, z.Bytes()...)
}

// TestPlausibleCommand: commands that are rarely seen are told by their layout, also if
// their end is in another segment.
func TestPlausibleCommand(t *testing.T) {
	register := "\x15\x02\x00\x00\x00\x03db2\x04repl\x00\xea\x0c\x00\x00\x00\x00\x00\x00\x00\x00"
	gtid := "\x1e\x04\x00\x02\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	for _, c := range []struct {
		body string
		want bool
	}{
		{"\x11bob\x00\x00shop\x00\x2d\x00mysql_native_password\x00", true},
		{"\x11bob\x00\x14" + strings.Repeat("\x01", 20) + "shop\x00\x2d\x00", true},
		{"\x11\x00\x00\x00", true},
		{"\x11bob\x00secret\x00shop\x00", true}, // before 4.1
		{"\x11\x10\x00\x78\x9c\xab\x56\x4a\x00", false},
		{"\x11bob\x00", false},
		{"\x11bob\x00\x00sh\x01p\x00\x2d\x00", false},
		{"\x12\x04\x00\x00\x00\x00\x00\x01\x00\x00\x00binlog.000001", true},
		{"\x12\x04\x00\x00\x00\x02\x00\x01\x00\x00\x00", true},
		{"\x12\x10\x00\x78\x9c\xab\x56\x4a\xcc\x01\x02\x03\x04", false},
		{"\x12\x04\x00\x00\x00\x00\x00\x01", false},
		{"\x13\x04shop\x05items", true},
		{"\x13\x10\x00\x78\x9c\xab\x56", false},
		{"\x13\x04shop\x05items!", false},
		{register, true},
		{register + "x", false},
		{gtid, true},
		{gtid + "x", false},
		{"\x20", true},
		{"\x20\x10\x00\x78\x9c\xab", false},
	} {
		if got := looksLikeCommand(mysqlPacket(c.body)); got != c.want {
			t.Errorf("%q: %v", c.body, got)
		}
		for n := 6; c.want && n < len(c.body)+headerLen; n++ {
			if !looksLikeCommand(mysqlPacket(c.body)[:n]) {
				t.Errorf("the first %d bytes of %q are taken for none", n, c.body)
			}
		}
	}
}
