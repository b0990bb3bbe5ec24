package sender

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A Notice is an event about the agent itself. It goes out in every lane, with the
// lane's own place in the order and, in a report, the lane's holes, also of earlier
// runs.
type Notice struct {
	Type   RecordType // TypeAgentStart, TypeAgentStop, TypeAgentChange or TypeAgentReport
	TimeNs int64
	Fields []byte // further members of the JSON object, each with a comma in front; not changed afterwards
	Text   string // the same for people, one line without a control character; empty: not shown to people
}

// maxNotices bounds the notices that lanes have not taken yet. Lanes take them
// several times a second.
const maxNotices = 64

// notices are on their way to the lanes.
type notices struct {
	total atomic.Uint64 // given to Announce
	mu    sync.Mutex
	last  []Notice // the youngest, at most maxNotices
}

// Announce sends a notice. Every lane adds it before its next event, or when it is
// flushed next. Any goroutine may call it.
func (s *Sender) Announce(n Notice) {
	s.notices.mu.Lock()
	defer s.notices.mu.Unlock()
	s.notices.last = append(s.notices.last, n)
	if len(s.notices.last) > maxNotices {
		s.notices.last = s.notices.last[1:]
	}
	s.notices.total.Add(1)
}

// since returns the notices behind the first n, and how many there are in all.
func (x *notices) since(n uint64) ([]Notice, uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	total := x.total.Load()
	fresh := int(min(total-n, uint64(len(x.last))))
	return append([]Notice(nil), x.last[len(x.last)-fresh:]...), total
}

// takeNotices adds the notices that the lane has not seen to its chunk.
func (l *Lane) takeNotices() {
	fresh, total := l.s.notices.since(l.noticed)
	for _, n := range fresh {
		l.seq++
		l.tally.Put++
		l.tally.Notices++
		if l.s.cfg.Format == FormatText {
			l.chunk.b = l.appendNoticeText(l.chunk.b, &n)
		} else {
			l.chunk.b = l.appendNotice(l.chunk.b, &n)
		}
		l.chunk.endRecord(record{lane: uint16(l.index), kind: n.Type, seq: l.seq, timeNs: n.TimeNs})
	}
	l.noticed = total
}

// LastSeqs returns the seq that each lane has given last, as of its last Flush. Any
// goroutine may call it.
func (s *Sender) LastSeqs() []uint64 {
	seqs := make([]uint64, len(s.lanes))
	for i, l := range s.lanes {
		seqs[i] = l.flushed.Load()
	}
	return seqs
}

func (l *Lane) appendNotice(dst []byte, n *Notice) []byte {
	cfg := &l.s.cfg
	dst = append(append(append(dst, `{"v":1,"type":"`...), n.Type.String()...), `","time":"`...)
	dst = append(l.clock.appendTime(dst, n.TimeNs), '"')
	dst = append(dst, n.Fields...)
	if n.Type == TypeAgentReport {
		dst = l.appendEarlier(l.appendHoles(dst))
	}
	dst = appendUintField(dst, `,"seq":`, l.seq)
	dst = appendTextField(dst, `,"agent":`, cfg.Agent, maxTextBytes)
	dst = appendTextField(dst, `,"boot":`, cfg.Boot, maxTextBytes)
	dst = appendUintField(dst, `,"lane":`, uint64(l.index))
	dst = appendTextField(dst, `,"host":`, cfg.Host, maxTextBytes)
	sep := `,"labels":{`
	for _, label := range cfg.Labels {
		dst, _ = appendJSONString(append(dst, sep...), label.Key)
		dst = appendTextField(dst, ":", label.Value, maxTextBytes)
		sep = ","
	}
	if len(cfg.Labels) > 0 {
		dst = append(dst, '}')
	}
	return append(dst, '}', '\n')
}

// appendHoles appends which seq of the lane there are, and which of them the queue
// to each output or its other side has refused, or its spool given up: whoever reads that output misses
// those. Of the first output they are called holes.
func (l *Lane) appendHoles(dst []byte) []byte {
	dst = appendUintField(dst, `,"seq_from":`, 1)
	dst = appendUintField(dst, `,"seq_to":`, l.seq-1)
	others := 0
	for i, q := range l.s.queue.all {
		holes := q.holes.of(uint16(l.index))
		if o := l.s.outlets[i]; o != nil && o.Spool != nil {
			holes = append(holes, o.Spool.holes.of(uint16(l.index))...)
		}
		switch {
		case len(holes) == 0:
			continue
		case i == 0:
			dst = append(dst, `,"holes":`...)
		default:
			dst = append(dst, [...]string{`,"sink_holes":{`, `,`}[min(others, 1)]...)
			dst, _ = appendJSONString(dst, l.s.outputs[i].Name)
			dst = append(dst, ':')
			others++
		}
		dst = appendRanges(dst, holes)
	}
	if others > 0 {
		dst = append(dst, '}')
	}
	return dst
}

func appendRanges(dst []byte, ranges []seqRange) []byte {
	for i, h := range ranges {
		dst = append(dst, [...]string{`[[`, `,[`}[min(i, 1)]...)
		dst = strconv.AppendUint(dst, h.from, 10)
		dst = strconv.AppendUint(append(dst, ','), h.to, 10)
		dst = append(dst, ']')
	}
	return append(dst, ']')
}

func (l *Lane) appendNoticeText(dst []byte, n *Notice) []byte {
	if n.Text == "" || l.index > 0 {
		return dst
	}
	dst = time.Unix(0, n.TimeNs).AppendFormat(dst, "15:04:05.000")
	return append(append(append(dst, " -- "...), n.Text...), '\n')
}
