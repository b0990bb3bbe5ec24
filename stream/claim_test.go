package stream

import (
	"fmt"
	"testing"

	"sqlwitness/probe"
)

// claiming is a connection with one command, which goes on at 1013 and 5011.
func claiming(config Config) (*Conn, *Env, *[]string) {
	c, env, lines := taken(config)
	c.Feed(textSegment(true, 1000, 5000, 0, "\x03select 1"))
	c.Feed(textSegment(false, 5000, 1013, 1, okReply))
	c.Settle(1e9)
	return c, env, lines
}

func synSegment(seq uint32) *probe.Segment {
	return &probe.Segment{TimeNs: 1e9, FromClient: true, Flags: probe.SYN, Seq: seq}
}

// TestClaimNear: while a SYN is not answered, what comes out of order may be of either
// connection. It is of this one as soon as the server goes on here. Beside what lies far
// away it is of this one in any case.
func TestClaimNear(t *testing.T) {
	for name, run := range map[string]struct {
		mode  probe.Mode
		claim *probe.Segment
	}{
		"SYN":                  {probe.ModeFull, synSegment(1017)},
		"SYN, status":          {probe.ModeStatus, synSegment(1017)},
		"just too far":         {probe.ModeFull, textSegment(true, 1013+maxWindow+3, 5011, 0, "\x03select 0")},
		"just too far, status": {probe.ModeStatus, textSegment(true, 1013+maxWindow+3, 5011, 0, "\x03select 0")},
	} {
		t.Run(name, func(t *testing.T) {
			c, env, lines := claiming(Config{Mode: run.mode})
			c.Feed(run.claim)
			ask := textSegment(true, 1013, 5011, 0, "\x03select 2")
			head, tail := *ask, *ask
			head.Payload, tail.Payload, tail.Seq = ask.Payload[:7], ask.Payload[7:], ask.Seq+7
			for _, s := range []*probe.Segment{&tail, &head, textSegment(false, 5011, 1026, 1, okReply)} {
				if c.Restarts(s) {
					t.Fatalf("the segment at %d restarts the connection", s.Seq)
				}
				c.Feed(s)
				c.Settle(1e9)
				clear(s.Payload)
				if s == &head && len(run.claim.Payload) > 0 && env.Stats.PendingCommands != 1 {
					t.Error("what is in its place waits for the server")
				}
			}
			c.Close(EndCapture)
			if got := fmt.Sprint(*lines); got != "[select 1 ok select 2 ok]" || env.Stats.Gaps != 0 {
				t.Errorf("%s, %d gaps", got, env.Stats.Gaps)
			}
			checkLedger(t, env)
		})
	}
}

// TestClaimBelieved: the server's acknowledgement, or its silence for long, has what
// waited at the claimed numbers be read, in whatever order it came.
func TestClaimBelieved(t *testing.T) {
	const far = 1 << 30
	ask := func() []*probe.Segment {
		s := textSegment(true, 1013+far, 5011, 0, "\x03select 2")
		head, tail := *s, *s
		head.Payload, tail.Payload, tail.Seq = s.Payload[:7], s.Payload[7:], s.Seq+7
		return []*probe.Segment{&head, &tail}
	}
	for name, c := range map[string]struct {
		config Config
		order  []int
		after  func(c *Conn)
		want   string
	}{
		"answered":       {Config{}, []int{0, 1}, nil, "[select 1 ok select 2 ok]"},
		"status":         {Config{Mode: probe.ModeStatus}, []int{0, 1}, nil, "[select 1 ok select 2 ok]"},
		"out of order":   {Config{}, []int{1, 0}, nil, "[select 1 ok select 2 ok]"},
		"repeated":       {Config{}, []int{0, 1, 0, 1}, nil, "[select 1 ok select 2 ok]"},
		"silence":        {Config{}, []int{0, 1}, func(c *Conn) { c.Settle(1e9 + int64(silentWait) + 1) }, "[select 1 ok select 2 ok]"},
		"too soon":       {Config{}, []int{0, 1}, func(c *Conn) { c.Settle(1e9 + int64(silentWait)); c.Close(EndCapture) }, "[select 1 ok]"},
		"little memory":  {Config{}, []int{0, 1}, func(c *Conn) { c.Relieve(); c.Close(EndCapture) }, "[select 1 ok]"},
		"clock set back": {Config{}, []int{0, 1}, func(c *Conn) { c.SetClock(Step{ByNs: -9e8, NowNs: 1e8}); c.Settle(2e8 + int64(silentWait)) }, "[select 1 ok select 2 ok]"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, env, lines := claiming(c.config)
			for _, i := range c.order {
				s := ask()[i]
				conn.Feed(s)
				conn.Settle(1e9)
				clear(s.Payload)
			}
			if got := fmt.Sprint(*lines); got != "[select 1 ok]" || !conn.Waits() || env.Stats.KeptBytes == 0 {
				t.Errorf("before the server's word: %s, waits %t", got, conn.Waits())
			}
			if c.after != nil {
				c.after(conn)
			}
			if c.want != "[select 1 ok]" {
				conn.Feed(textSegment(false, 5011, 1026+far, 1, okReply))
				conn.Settle(1e9 + int64(silentWait) + 2)
				conn.Close(EndCapture)
			}
			if got := fmt.Sprint(*lines); got != c.want || env.Stats.KeptBytes != 0 {
				t.Errorf("%s, %d bytes kept", got, env.Stats.KeptBytes)
			}
			checkLedger(t, env)
		})
	}
}

// TestClaimBounded: what waits keeps within the limit of what may be held.
func TestClaimBounded(t *testing.T) {
	const limit = 10_000
	for name, syn := range map[string]bool{"SYN": true, "jump": false} {
		t.Run(name, func(t *testing.T) {
			c, env, _ := claiming(Config{MaxHeld: limit})
			if syn {
				c.Feed(synSegment(1012 + 1<<30))
			}
			for i := range uint32(100) {
				c.Feed(&probe.Segment{TimeNs: 1e9, FromClient: true, Flags: probe.ACK, Seq: 1013 + 1<<30 + 500*i, Ack: 5011, Payload: make([]byte, 500)})
				c.Settle(1e9)
				if kept := c.claim.keeps() + c.client.keeps(); kept > limit {
					t.Fatalf("%d bytes kept behind %d segments", kept, i+1)
				}
			}
			c.Close(EndCapture)
			checkLedger(t, env)
		})
	}
}

// TestClaimUnheard: where nothing of the server can tell, its client's SYN is enough.
func TestClaimUnheard(t *testing.T) {
	c, _, _ := claiming(Config{Mode: probe.ModeNone})
	if !c.Restarts(synSegment(9000)) {
		t.Error("not with responses: none")
	}
	c, _, _ = taken(Config{})
	c.Feed(textSegment(true, 1000, 5000, 0, "\x03select 1"))
	if !c.Restarts(synSegment(9000)) {
		t.Error("not where the server was never captured")
	}
	c, _, _ = claiming(Config{})
	if c.Restarts(synSegment(9000)) {
		t.Error("where the server is captured")
	}
}

// TestClaimGranted: which segments of the server answer a SYN of the client.
func TestClaimGranted(t *testing.T) {
	const seq = 9001
	for _, mode := range []probe.Mode{probe.ModeFull, probe.ModeStatus} {
		for name, c := range map[string]struct {
			flags    probe.Flags
			seq, ack uint32
			want     bool
		}{
			"SYN-ACK":              {probe.SYN | probe.ACK, 7000, seq, true},
			"first byte":           {probe.ACK, 7001, seq, true},
			"behind a command":     {probe.ACK, 7070, seq + 100, true},
			"before the SYN":       {probe.ACK, 7070, seq - 1, false},
			"goes on":              {probe.ACK, 5011, 1013, false},
			"goes on behind holes": {probe.ACK, 5090, 1013, false},
			"RST":                  {probe.RST | probe.ACK, 0, seq, false},
			"no ACK":               {0, 7001, seq, false},
		} {
			conn, _, _ := claiming(Config{Mode: mode})
			conn.Feed(synSegment(seq - 1))
			s := &probe.Segment{TimeNs: 1e9, Flags: c.flags, Seq: c.seq, Ack: c.ack, Payload: []byte{7, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0}}
			if got := conn.Restarts(s); got != c.want {
				t.Errorf("%v, %s: %t", mode, name, got)
			}
		}
	}
	conn, _, _ := claiming(Config{}) // the server goes on, and has what the capture lacks
	conn.Feed(synSegment(seq - 1))
	if conn.Restarts(&probe.Segment{TimeNs: 1e9, Flags: probe.ACK, Seq: 5011, Ack: seq + 100, Payload: []byte{1}}) {
		t.Error("the next segment of the connection restarts it")
	}
}
