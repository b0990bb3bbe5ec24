package watcher

import (
	"net/netip"
	"sync"
	"time"
)

// maxWants bounds the connections that are asked for at the same time.
const maxWants = 1 << 16

// forgetAfter is how long a connection that nobody asks for any more keeps its
// place in the back-off, and how long Details are kept in the snapshots.
const forgetAfter = time.Minute

// askDelay is the wait for the n-th poll that is made for a connection. Later
// polls come no faster than the last; after patience polls a connection waits
// for those that are made anyway.
var askDelay = [...]time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 10 * time.Second}

const patience = 10

func delay(n int) time.Duration { return askDelay[min(n, len(askDelay)-1)] }

// wants are the connections that somebody needs to know more of.
type wants struct {
	mu       sync.Mutex
	byAddr   map[netip.AddrPort]*want // by the TCP peer
	earliest time.Time                // when the first of them is due; zero = none
	lastPoll time.Time
	// fruitless counts the polls in a row that were made for wants and found
	// none of them: what comes and goes faster than the polls, such as the
	// encrypted connections of a health check, does not hold the fast rate.
	fruitless int
	refused   uint64
	wake      chan struct{} // has a token if earliest was moved forward
}

// A want is one connection. due is zero if nothing is asked for now.
type want struct {
	peer  Peer
	polls int
	asked bool
	due   time.Time
	since time.Time // of the last ask
}

func newWants() *wants {
	return &wants{byAddr: map[netip.AddrPort]*want{}, wake: make(chan struct{}, 1)}
}

// ask wants one poll more for a connection. False: there are too many.
func (w *wants) ask(p Peer, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.byAddr[p.Addr]
	if one == nil || one.peer.ConnectionID != 0 && p.ConnectionID != 0 && one.peer.ConnectionID != p.ConnectionID {
		if one == nil && len(w.byAddr) >= maxWants {
			w.refused++
			return false
		}
		one = &want{}
		w.byAddr[p.Addr] = one
	}
	one.since = now
	if p.ConnectionID == 0 {
		p.ConnectionID = one.peer.ConnectionID
	}
	one.peer = p
	if one.asked {
		return true
	}
	one.asked = true
	if one.polls >= patience {
		return true
	}
	one.due = now.Add(delay(0))
	if one.polls > 0 {
		one.due = later(now, w.lastPoll.Add(delay(one.polls)))
	}
	if w.earliest.IsZero() || one.due.Before(w.earliest) {
		w.earliest = one.due
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	return true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (w *wants) forget(addr netip.AddrPort) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byAddr, addr) // due finds out
}

// due is when the next poll is wanted; zero = none is.
func (w *wants) due() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.schedule()
	if w.fruitless > 0 && !w.earliest.IsZero() {
		return later(w.earliest, w.lastPoll.Add(delay(w.fruitless)))
	}
	return w.earliest
}

// asked appends the connections that are asked for now.
func (w *wants) asked() []Peer {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Peer
	for _, one := range w.byAddr {
		if one.asked {
			out = append(out, one.peer)
		}
	}
	return out
}

// polled tells of a poll that began at now. It answers every ask made before:
// who still wants a connection asks again. found says whether any of them was
// in the list.
func (w *wants) polled(answered []Peer, found bool, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastPoll = now
	switch {
	case found:
		w.fruitless = 0
	case len(answered) > 0:
		w.fruitless++
	}
	for _, k := range answered {
		if one := w.byAddr[k.Addr]; one != nil && one.asked {
			one.asked, one.due = false, time.Time{}
			one.polls++
		}
	}
	for addr, one := range w.byAddr {
		if !one.asked && now.Sub(one.since) > forgetAfter {
			delete(w.byAddr, addr)
		}
	}
}

func (w *wants) schedule() {
	w.earliest = time.Time{}
	for _, one := range w.byAddr {
		if !one.due.IsZero() && (w.earliest.IsZero() || one.due.Before(w.earliest)) {
			w.earliest = one.due
		}
	}
}
