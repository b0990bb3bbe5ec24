package watcher

import (
	"testing"
	"testing/synctest"
	"time"
)

// What an idle row told of a connection's place is kept while a statement runs, when
// the list may show a definer's, but not over a new login: a server that was started
// anew may have given the id to another.
func TestPlaceIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		row := []any{"9", "ann", "192.0.2.7:40000", "shop", "Sleep"}
		m := healthy(row)
		f := &fakeServer{answer: m.answer}
		w := watchFake(t, f, Config{Interval: time.Second})
		found := func(port string) bool {
			s, ok := w.Snapshot().Find(Peer{Addr: addrOf("192.0.2.7:" + port), ConnectionID: 9})
			return ok && s.ConnectionID == 9
		}
		time.Sleep(500 * time.Millisecond)
		if !found("40000") {
			t.Error("not found while idle")
		}
		if info := w.Snapshot().Server; info.Here == nil || info.At.IsValid() {
			t.Errorf("the server is not on this machine: at %v, here %v", info.At, info.Here)
		}
		f.set(func() { m.list = [][]any{{"9", "definer", "localhost:40000", "shop", "Query"}} })
		time.Sleep(time.Second)
		if s, ok := w.Snapshot().Find(Peer{Addr: addrOf("192.0.2.7:40000"), ConnectionID: 9}); !ok || s.UserKnown || s.Host != "192.0.2.7" {
			t.Errorf("while a statement runs: %+v, %v", s, ok)
		}
		if _, ok := w.Snapshot().Find(Peer{Addr: addrOf("192.0.2.8:40000"), ConnectionID: 9}); ok {
			t.Error("another client has the connection")
		}
		w.server.gate <- struct{}{} // the connection breaks, and the next is to a server of a new start
		w.server.drop()
		<-w.server.gate
		time.Sleep(time.Second)
		if s, ok := w.Snapshot().Find(Peer{Addr: addrOf("192.0.2.8:40000"), ConnectionID: 9}); !ok || s.Host != "localhost" {
			t.Errorf("behind a new login: %+v, %v", s, ok)
		}
		w.Close()
	})
}

// Details that nobody has asked for during a minute are dropped.
func TestDropOldDetails(t *testing.T) {
	s := snapshotOf(true, "1 ann 192.0.2.1:40000 Sleep", "2 bob 192.0.2.1:40001 Sleep", "3 cid 192.0.2.1:40002 Sleep")
	s.BeginNs = int64(time.Hour)
	young := &Details{EndNs: s.BeginNs - int64(forgetAfter)}
	s.rows[0].Details, s.rows[1].Details = &Details{BeginNs: s.BeginNs, EndNs: young.EndNs - 1}, young
	s.dropOldDetails()
	if s.rows[0].Details != nil || s.rows[1].Details != young || s.rows[2].Details != nil {
		t.Errorf("%+v", s.rows)
	}
}
