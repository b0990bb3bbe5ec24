package generator

import (
	"bytes"
	"slices"
	"testing"
)

// Responses end where they end, however they are cut.
func TestReplyReader(t *testing.T) {
	var all []byte
	for _, b := range [][]byte{okPacket(1), resultSet(0, 0, false), resultSet(300, 7, true), resultSet(2, 70000, false), okPacket(1)} {
		all = append(all, b...)
	}
	for _, size := range []int{1, 2, 3, 5, 7, 100, 4096, len(all)} {
		var r replyReader
		ended := 0
		for piece := range slices.Chunk(all, size) {
			n, err := r.feed(piece)
			if err != nil {
				t.Fatalf("pieces of %d: %v", size, err)
			}
			ended += n
		}
		if ended != 5 || r != (replyReader{}) {
			t.Errorf("pieces of %d: %d responses, want 5, and %+v", size, ended, r)
		}
	}
	for _, b := range [][]byte{appendPacket(nil, 1, errByte, 0, 0), appendPacket(nil, 1)} {
		if _, err := new(replyReader).feed(append(b, 0)); err == nil {
			t.Errorf("% x was accepted", b)
		}
	}
}

func TestTexts(t *testing.T) {
	for _, c := range []struct {
		got, want string
	}{
		{Text(12, 0), "SELECT c FROM sbtest1 WHERE id=12"},
		{Text(12, 51), "SELECT c FROM sbtest1 WHERE id=12 AND pad<>'xxxx'"},
		{MaskedText(0), "SELECT c FROM sbtest1 WHERE id=?"},
		{MaskedText(51), "SELECT c FROM sbtest1 WHERE id=? AND pad<>?"},
		{PreparedText(1, 0), "SELECT c FROM sbtest2 WHERE id=?"},
		{MaskedPreparedText(1, 51), "SELECT c FROM sbtest2 WHERE id=? AND pad<>?"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	for _, size := range []int{200, 100_000} {
		if n := len(Text(1234, size)); n != size {
			t.Errorf("a statement of %d bytes has %d", size, n)
		}
	}
	if n := number([]byte(Text(1_000_017, 200))); n != 1_000_017 {
		t.Errorf("number %d", n)
	}
	if n := number([]byte("SELECT 17")); n != 0 {
		t.Errorf("number %d of a foreign text", n)
	}
}

func TestNextPacket(t *testing.T) {
	two := appendPacket(appendPacket(nil, 0, []byte("one")...), 1, []byte("two")...)
	body, rest := nextPacket(two)
	if string(body) != "one" || len(rest) != 7 {
		t.Errorf("got %q and %q", body, rest)
	}
	if body, rest := nextPacket(two[:6]); body != nil || !bytes.Equal(rest, two[:6]) {
		t.Errorf("got %q and %q of a cut packet", body, rest)
	}
}
