package sender

import (
	"bytes"
	"strconv"
	"sync"
)

// A bootRange are the seq [from, to] of a lane of an earlier run.
type bootRange struct {
	boot string
	lane uint16
	seqRange
}

// earlier is what is lost of what earlier runs left in the spool. Its files do not
// say which seq they hold, so a loss has a name only between two records of the same
// run and lane that were read: what came between them was in the spool or was refused,
// for nothing passes a spool that is not empty. Any goroutine may ask; one notes.
type earlier struct {
	mu     sync.Mutex
	holes  []bootRange // at most maxHoles
	events uint64      // lost, as far as their number is known
	named  uint64      // seq in holes
	places uint64      // where it is not known how many there were

	lanes map[uint16]*lastRead
}

// lastRead is the latest record that was read of a lane.
type lastRead struct {
	boot string
	seq  uint64
	lost bool // something behind it was
}

// lose notes that n events, or some of which the number is unknown, were where the
// spool is now read.
func (e *earlier) lose(n int, unknown bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events += uint64(n)
	if unknown {
		e.places++
	}
	e.doubt()
}

// skip notes that a file is not there, which may never have had an event.
func (e *earlier) skip() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.doubt()
}

func (e *earlier) doubt() {
	for _, l := range e.lanes {
		l.lost = true
	}
}

// take notes the records of c from the given one on, which were read.
func (e *earlier) take(c *chunk, from int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := from; i < len(c.recs); i++ {
		r := &c.recs[i]
		l := e.lanes[r.lane]
		if l == nil {
			if e.lanes == nil {
				e.lanes = make(map[uint16]*lastRead)
			}
			l = &lastRead{}
			e.lanes[r.lane] = l
		}
		boot := bootOf(c.line(i))
		if string(boot) != l.boot {
			*l = lastRead{boot: string(boot)}
		}
		if l.lost && l.boot != "" && r.seq > l.seq+1 && len(e.holes) < maxHoles {
			e.holes = append(e.holes, bootRange{l.boot, r.lane, seqRange{l.seq + 1, r.seq - 1}})
			e.named += r.seq - 1 - l.seq
		}
		l.seq, l.lost = max(l.seq, r.seq), false
	}
}

// refuse notes an event that was read, and that the other side refused for itself.
func (e *earlier) refuse(boot string, lane uint16, seq uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events++
	if n := len(e.holes); n > 0 && e.holes[n-1].boot == boot && e.holes[n-1].lane == lane && e.holes[n-1].to+1 == seq {
		e.holes[n-1].to = seq
	} else if n < maxHoles {
		e.holes = append(e.holes, bootRange{boot, lane, seqRange{seq, seq}})
	} else {
		return
	}
	e.named++
}

// bootOf is the boot of a line, borrowed; nil if it has none. No value of a member is
// taken for it: within a string a quote is escaped, and labels and attributes are
// strings, the lane is not.
func bootOf(line []byte) []byte {
	const member, lane = `,"boot":"`, `","lane":`
	for {
		_, rest, ok := bytes.Cut(line, []byte(member))
		if !ok {
			return nil
		}
		n := bytes.IndexByte(rest, '"')
		if n >= 0 && bytes.HasPrefix(rest[n:], []byte(lane)) {
			if after := rest[n+len(lane):]; len(after) > 0 && after[0] >= '0' && after[0] <= '9' {
				return rest[:n]
			}
		}
		line = rest
	}
}

// appendEarlier appends what the spools have lost of earlier runs: the ranges that the
// lane speaks for, its own and in the first lane those of lanes that this run has not
// got; and in the first lane how much it was.
func (l *Lane) appendEarlier(dst []byte) []byte {
	sep := `,"earlier_holes":[`
	var counts []byte
	for i, o := range l.s.outlets {
		if o == nil || o.Spool == nil {
			continue
		}
		e, name := &o.Spool.earlier, l.s.outputs[i].Name
		e.mu.Lock()
		for _, h := range e.holes {
			if n := int(h.lane); n == l.index || l.index == 0 && n >= len(l.s.lanes) {
				dst = appendEarlierHole(append(dst, sep...), name, h)
				sep = ","
			}
		}
		if l.index == 0 && e.events+e.places > 0 {
			counts = append(counts, [...]string{`,"earlier_damage":{`, `,`}[min(len(counts), 1)]...)
			counts, _ = appendJSONString(counts, name)
			counts = appendUintField(counts, `:{"events":`, e.events)
			counts = appendUintField(counts, `,"named":`, e.named)
			counts = append(appendUintField(counts, `,"places":`, e.places), '}')
		}
		e.mu.Unlock()
	}
	if sep == "," {
		dst = append(dst, ']')
	}
	if len(counts) > 0 {
		dst = append(append(dst, counts...), '}')
	}
	return dst
}

func appendEarlierHole(dst []byte, sink string, h bootRange) []byte {
	dst, _ = appendJSONString(append(dst, `{"sink":`...), sink)
	dst, _ = appendJSONString(append(dst, `,"boot":`...), h.boot)
	dst = strconv.AppendUint(append(dst, `,"lane":`...), uint64(h.lane), 10)
	dst = strconv.AppendUint(append(dst, `,"from":`...), h.from, 10)
	return append(strconv.AppendUint(append(dst, `,"to":`...), h.to, 10), '}')
}
