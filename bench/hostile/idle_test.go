package hostile

import (
	"fmt"
	"io"
	"runtime/debug"
	"testing"
	"time"

	"sqlwitness/probe"
	"sqlwitness/stream"
	"sqlwitness/worker"
)

// A lull is a worker.Source: many sessions that log in, prepare a statement, are
// silent for an hour, and then all speak at once.
type lull struct {
	peers  []*peer
	step   int
	now    int64
	batch  probe.Batch
	before uint64 // heap in use before the first login, and in the idle hour
	idle   uint64
	burst  time.Duration // what each round of the bursts took
	handed time.Time
}

const (
	idleMinutes = 60
	idleBursts  = 20
)

// Next implements worker.Source. Step 0 logs in, then minutes pass, then bursts come
// 10 ms apart.
func (l *lull) Next() (*probe.Batch, error) {
	l.batch.Segments = l.batch.Segments[:0]
	switch step := l.step; {
	case step == 0:
		debug.FreeOSMemory() // and pools
		debug.FreeOSMemory()
		l.before = liveHeap()
		for _, p := range l.peers {
			l.add(p.enter(capProtocol|capDB, "carol")...)
			l.add(p.ask(packet(0, "\x16select ?")), p.answer(prepared(7)))
		}
	case step <= idleMinutes:
		l.now += int64(time.Minute)
		l.batch.Segments = nil
		l.idle = liveHeap()
	case step <= idleMinutes+idleBursts:
		l.now += int64(10 * time.Millisecond)
		for i, p := range l.peers {
			l.add(p.ask(query(fmt.Sprintf("select %d, %d", i, step))), p.answer(oneRow))
			l.add(p.ask(packet(0, "\x17\x07\x00\x00\x00\x00\x01\x00\x00\x00")), p.answer(oneRow))
		}
	default:
		return nil, io.EOF
	}
	l.step++
	l.batch.NowNs = l.now
	l.handed = time.Now()
	return &l.batch, nil
}

func (l *lull) add(segments ...probe.Segment) {
	for _, s := range segments {
		s.TimeNs = l.now
		l.batch.Segments = append(l.batch.Segments, s)
	}
}

// Release implements worker.Source.
func (l *lull) Release() {
	if l.step > idleMinutes+1 {
		l.burst += time.Since(l.handed)
	}
}

// A lullSink checks what comes after the lull.
type lullSink struct {
	t       *testing.T
	faults  int
	rounds  map[uint64]int // commands of each session
	started int
}

func (k *lullSink) Flush() {}

func (k *lullSink) Put(e *stream.Event) {
	if e.Kind == stream.KindSessionStart {
		k.started++
	}
	if e.Kind != stream.KindCommand {
		return
	}
	n := k.rounds[e.Session.ID]
	k.rounds[e.Session.ID]++
	index := int(e.Session.Client.Port()) - 10_000
	want := fmt.Sprintf("select %d, %d", index, idleMinutes+1+(n-1)/2)
	if n%2 == 0 {
		want = "select ?" // prepared or executed
	}
	if string(e.SQL) != want || e.Status != stream.StatusOK || e.User != "carol" || e.Flags != 0 || e.SessionSeq != uint64(n+1) {
		if k.faults++; k.faults < 5 {
			k.t.Errorf("session %d, command %d: %q, want %q; %s, user %q, flags %b", e.Session.ID, n, e.SQL, want, e.Status, e.User, e.Flags)
		}
	}
}

// Sessions that were silent for an hour have cost little, and when they all speak at
// once every command is told with its user, its text, and its number.
func TestIdleHour(t *testing.T) {
	const sessions, perSession = 5000, 2 << 10
	l := &lull{now: int64(time.Hour)}
	for n := range sessions {
		l.peers = append(l.peers, attacker(n))
	}
	k := &lullSink{t: t, rounds: map[uint64]int{}}
	shard := worker.NewShard(worker.Config{}, l, k)
	if err := shard.Run(); err != nil {
		t.Fatal(err)
	}
	checkLedger(t, shard.Stats())
	if want := sessions * (1 + 2*idleBursts); k.started != sessions || int(shard.Stats().Stream.CommandEvents) != want {
		t.Errorf("%d sessions, %d commands, want %d and %d", k.started, shard.Stats().Stream.CommandEvents, sessions, want)
	}
	each := (l.idle - l.before) / sessions
	t.Logf("%d bytes for each idle session; %v for each command of the bursts", each, l.burst/(2*idleBursts*sessions))
	if each > perSession || each < 500 { // less than a session takes was not measured
		t.Errorf("%d bytes for each idle session, at most %d are allowed", each, perSession)
	}
}
