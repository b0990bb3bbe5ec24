package watcher

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func healthy(list ...[]any) *likeMySQL {
	return &likeMySQL{schema: "OFF", version: "10.11.6-MariaDB", process: true, innodb: true, list: list}
}

// polls are the seconds at which the list was asked for, rounded down.
func polls(f *fakeServer, start time.Time) []int {
	var out []int
	for _, d := range f.times(fromShow, start) {
		out = append(out, int(d/time.Second))
	}
	return out
}

// A connection that stays unknown is asked for after 1, 2, 4, 10 s and then with
// the regular polls; whoever asks again after each snapshot makes no others.
func TestBackOff(t *testing.T) {
	client := addrOf("192.0.2.7:40000")
	for _, c := range []struct {
		name string
		list [][]any
		want []int
	}{
		// The regular polls come 10 s after the last one, whoever wanted it.
		{"found, and still wanted", [][]any{{"9", "ann", "192.0.2.7:40000", "shop", "Query"}}, []int{0, 3, 5, 9, 19, 29, 39}},
		{"never found", nil, []int{0, 3, 5, 9, 19, 29, 39}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeServer{answer: healthy(c.list...).answer}
				start := time.Now()
				w := watchFake(t, f, Config{})
				time.Sleep(2 * time.Second)
				for last := uint64(1); time.Since(start) < 45*time.Second; time.Sleep(10 * time.Millisecond) {
					if s := w.Snapshot(); s.Serial > last || last == 1 {
						last = s.Serial
						w.Want(Peer{Addr: client})
					}
				}
				if got := polls(f, start); !slices.Equal(got, c.want) {
					t.Errorf("polls at %v, want %v", got, c.want)
				}
				w.Close()
			})
		})
	}
}

// Without any want the rate is the regular one; one want makes one poll more,
// and a want that is taken back makes none.
func TestRegular(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{answer: healthy().answer}
		start := time.Now()
		w := watchFake(t, f, Config{})
		time.Sleep(32 * time.Second)
		w.Want(Peer{Addr: addrOf("192.0.2.7:40000")}) // at 32: polled at 33, then at 43
		time.Sleep(16 * time.Second)
		w.Want(Peer{Addr: addrOf("192.0.2.8:40000")}) // at 48
		w.Forget(Peer{Addr: addrOf("192.0.2.8:40000")})
		time.Sleep(12 * time.Second)
		if got, want := polls(f, start), []int{0, 10, 20, 30, 33, 43, 53}; !slices.Equal(got, want) {
			t.Errorf("polls at %v, want %v", got, want)
		}
		w.Close()
	})
}

// A health check that opens an encrypted connection each second and is gone
// before the poll holds the fast rate neither if its end is told nor if not. A
// connection that stays is found in time all the same.
func TestHealthChecks(t *testing.T) {
	for _, told := range []bool{true, false} {
		t.Run(fmt.Sprintf("told=%t", told), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeServer{answer: healthy().answer}
				w := watchFake(t, f, Config{})
				start := time.Now()
				for i := range 120 {
					client := netip.AddrPortFrom(addrOf("192.0.2.7:1").Addr(), uint16(30000+i))
					w.Want(Peer{Addr: client, ConnectionID: uint64(100 + i)})
					time.Sleep(10 * time.Millisecond)
					if told {
						w.Forget(Peer{Addr: client})
					}
					time.Sleep(990 * time.Millisecond)
				}
				if n := len(polls(f, start)); n < 12 || n > 16 {
					t.Errorf("%d polls in 120 s: %v", n, polls(f, start))
				}
				w.Close()
			})
		})
	}
}

// Wants are bounded, and refused ones are counted; a connection is one want.
func TestWantsBounded(t *testing.T) {
	w := newWants()
	now := time.Unix(1000, 0)
	ask := func(i int) bool {
		return w.ask(Peer{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 16), 1}), uint16(i))}, now)
	}
	for i := range maxWants {
		if first, again := ask(i), ask(i); !first || !again {
			t.Fatalf("want %d is refused", i)
		}
	}
	if ask(maxWants) || w.refused != 1 {
		t.Errorf("the bound does not hold: %d refused", w.refused)
	}
	if n := len(w.asked()); n != maxWants {
		t.Errorf("%d wants of %d", n, maxWants)
	}
	w.polled(w.asked(), true, now.Add(time.Second))
	w.polled(nil, false, now.Add(time.Second+2*forgetAfter))
	if len(w.byAddr) != 0 || !w.due().IsZero() {
		t.Errorf("%d wants are never forgotten", len(w.byAddr))
	}
}

// After ten polls a connection waits for those that are made anyway.
func TestPatience(t *testing.T) {
	w, client := newWants(), addrOf("192.0.2.7:40000")
	now := time.Unix(1000, 0)
	for n := range patience {
		w.ask(Peer{Addr: client}, now)
		if w.due().IsZero() {
			t.Fatalf("ask %d makes no poll", n)
		}
		now = w.due()
		w.polled(w.asked(), true, now)
	}
	w.ask(Peer{Addr: client}, now)
	if !w.due().IsZero() || len(w.asked()) != 1 {
		t.Errorf("due %v, asked %v", w.due(), w.asked())
	}
	w.ask(Peer{Addr: client, ConnectionID: 77}, now) // the same, its id was learnt
	if !w.due().IsZero() {
		t.Error("a learnt id starts over")
	}
	w.ask(Peer{Addr: client, ConnectionID: 78}, now) // another connection from the same port
	if w.due().Sub(now) != time.Second {
		t.Errorf("a new connection is due %v", w.due())
	}
}
