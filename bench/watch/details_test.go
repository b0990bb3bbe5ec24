//go:build linux

package watch

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"sqlwitness/watcher"
)

// Statements that were prepared before anybody watched have their texts: whole
// up to what the server keeps, else cut and said to be cut.
func TestPreparedTexts(t *testing.T) {
	t.Parallel()
	srv, err := schema()
	use(t, srv, err)
	r := dialRaw(t, srv.Addr("127.0.0.1"), "raw", "shop")
	pad := func(n int, with string) string {
		head, tail := "SELECT ?, '", "'"
		return head + strings.Repeat(with, (n-len(head)-len(tail))/len(with)) + tail
	}
	texts := map[uint32]string{}
	for _, text := range []string{"SELECT ? + a FROM t", pad(1020, "x"), pad(1023, "x"), pad(1024, "x"), pad(1025, "x"), pad(3000, "x"), pad(3000, "é"), pad(3000, "€")} {
		p := r.command(0x16, []byte(text)...)
		if len(p) < 5 || p[0] != 0 {
			t.Fatalf("prepare %.30s: %q", text, p)
		}
		texts[binary.LittleEndian.Uint32(p[1:])] = text
	}
	r.command(0x03, []byte("SET NAMES latin1")...)
	latin := r.command(0x16, []byte("SELECT '\xe9'")...)
	texts[binary.LittleEndian.Uint32(latin[1:])] = "SELECT '?'" // all that the server shows
	r.command(0x03, []byte("PREPARE by_name FROM 'SELECT 4711'")...)
	bystander := open(t, srv, "127.0.0.1", "bob", "")
	w := watch(t, account(t, srv, "watch"), nil)
	client := r.conn.LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort()
	s := next(t, w)
	w.Want(watcher.Peer{Addr: client})
	var d *watcher.Details
	eventually(t, "the details", func() bool {
		s = w.Snapshot()
		one, ok := s.Find(watcher.Peer{Addr: client})
		if ok {
			d = one.Details
		}
		return d != nil
	})
	if d.BeginNs < s.BeginNs || d.EndNs > s.EndNs || d.EndNs < d.BeginNs || d.Cut || d.User != "raw" {
		t.Errorf("details %+v of %d to %d", d, s.BeginNs, s.EndNs)
	}
	for id, text := range texts {
		got := d.Statements[id]
		whole := len(text) < 1024
		if whole && (got.Text != text || got.Truncated) {
			t.Errorf("%d bytes: got %d, cut %t: %.40q", len(text), len(got.Text), got.Truncated, got.Text)
		}
		if !whole && (!got.Truncated || len(got.Text) != 1024 || !strings.HasPrefix(text, strings.TrimRight(got.Text, "?"))) {
			t.Errorf("%d bytes: got %d, cut %t, …%q", len(text), len(got.Text), got.Truncated, got.Text[max(len(got.Text)-9, 0):])
		}
	}
	if len(d.Statements) != len(texts) {
		t.Errorf("%d statements, want %d: %s", len(d.Statements), len(texts), fmt.Sprint(d.Statements)[:80])
	}
	if one, _ := s.Find(watcher.Peer{Addr: bystander.client}); one == nil || one.Details != nil {
		t.Error("a connection that nobody asked for has details")
	}
	again := next(t, w)
	if one, _ := again.Find(watcher.Peer{Addr: client}); one == nil || one.Details != d {
		t.Error("the next snapshot has lost the details")
	}
}

// The attributes of a login that nobody saw, and the transport.
func TestAttributes(t *testing.T) {
	t.Parallel()
	srv, err := schema()
	use(t, srv, err)
	ann := open(t, srv, "127.0.0.1", "ann", "")
	w := watch(t, account(t, srv, "watch"), nil)
	w.Want(watcher.Peer{Addr: ann.client, ConnectionID: ann.id})
	var one *watcher.Session
	eventually(t, "the details", func() bool {
		one, _ = w.Snapshot().Find(watcher.Peer{Addr: ann.client, ConnectionID: ann.id})
		return one != nil && one.Details != nil
	})
	if one.Details.Program != "the ann app" || len(one.Details.Attrs) < 3 || one.Transport != watcher.TransportTCP {
		t.Errorf("%+v %+v", one, one.Details)
	}
}

// An account that may see all sessions but not performance_schema: the list is
// there, and why there is no more.
func TestDetailsRefused(t *testing.T) {
	t.Parallel()
	srv, err := schema()
	use(t, srv, err)
	ann := open(t, srv, "127.0.0.1", "ann", "")
	w := watch(t, account(t, srv, "plain"), nil)
	w.Want(watcher.Peer{Addr: ann.client})
	next(t, w)
	s := next(t, w)
	if !strings.Contains(s.NoDetails, "performance_schema") || !strings.Contains(s.NoDetails, "denied") || !w.State().Up {
		t.Errorf("no details because %q, %v", s.NoDetails, w.State())
	}
	if one := expect(t, s, ann, "ann", ""); one.Details != nil {
		t.Errorf("details %+v", one.Details)
	}
	if c := counters(t, w); c.Socket.Known || !strings.Contains(c.Socket.Reason, "denied") {
		t.Errorf("%+v", c.Socket)
	}
}
