package analyze

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"
)

const (
	// maxKeys bounds the keys that a rule watches at a time.
	maxKeys = 100_000
	// maxMarks bounds what is remembered of one key in one partition.
	maxMarks = 4096
	// slots is into how many parts a window is divided where values are summed.
	slots = 60
	// maxSkew is by how much the clocks of agents may differ. What is later than an
	// event of the same lane by more, and a window, was noted before a clock was set back.
	maxSkew = time.Hour
	// maxLanes bounds the lanes of which one partition's marks are kept apart.
	maxLanes = 64
)

// A window is what a rule remembers of one key. The key's events may be in several
// partitions: what each has counted goes where it goes, see move.go. Its lanes need not
// be read at the same pace: hours may lie between an event and the next one that is read.
// So what is out of date is decided for each lane of each partition, and an event counts
// with the marks of all that lie within the rule's window of it.
type window struct {
	Marks  []mark `json:"marks,omitempty"`  // those of a lane oldest first
	Quiets []mark `json:"quiets,omitempty"` // until when there is no alert, by the lane that raised one
	Parts  []int  `json:"partitions"`       // of the events that have counted
}

// A mark is one event that counts, or several of one slot of time.
type mark struct {
	At    int64   `json:"at"` // nanoseconds since the Unix epoch
	Value float64 `json:"n,omitempty"`
	Text  string  `json:"s,omitempty"` // of a rule that counts distinct values
	Part  int     `json:"p,omitempty"` // the event's partition
	Lane  int     `json:"l,omitempty"` // and the number of its lane, modulo maxLanes
}

// kin tells whether two marks are of the same lane of the same partition. Of agents that
// share a partition those lanes are one that have one number.
func (m mark) kin(of mark) bool { return m.Part == of.Part && m.Lane == of.Lane }

// UnmarshalJSON implements json.Unmarshaler. In earlier forms a window has one
// partition, that of its latest event, or is quiet whatever the lane.
func (w *window) UnmarshalJSON(text []byte) error {
	type plain window
	in := struct {
		*plain
		Partition *int  `json:"partition"`
		Quiet     int64 `json:"quiet"`
	}{plain: (*plain)(w)}
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	if in.Partition != nil {
		w.Parts = []int{*in.Partition}
		for i := range w.Marks {
			w.Marks[i].Part = *in.Partition
		}
	}
	if in.Quiet > 0 && len(w.Parts) > 0 {
		w.Quiets = []mark{{At: in.Quiet, Part: w.Parts[0]}}
	}
	return nil
}

// note remembers that an event of a partition counts.
func (w *window) note(partition int) {
	if !slices.Contains(w.Parts, partition) {
		w.Parts = append(w.Parts, partition)
	}
}

// of is how many marks a mark's lane has, and the first and the last of them.
func (w *window) of(lane mark) (n, first, last int) {
	for i, m := range w.Marks {
		if !m.kin(lane) {
			continue
		}
		if n == 0 {
			first = i
		}
		n, last = n+1, i
	}
	return n, first, last
}

// add counts an event. The bounds are for each lane of each partition: what one has
// counted must not depend on the others, which may move away or be read hours apart.
func (w *window) add(r *Rule, m mark) {
	switch {
	case r.Distinct != "":
		same := func(have mark) bool { return have.Text == m.Text && have.kin(m) }
		if i := slices.IndexFunc(w.Marks, same); i >= 0 {
			w.Marks = slices.Delete(w.Marks, i, i+1)
		}
		if n, _, _ := w.of(m); n < maxMarks {
			w.Marks = append(w.Marks, m)
		}
	case r.Sum != "":
		if n, _, last := w.of(m); n > 0 && m.At-w.Marks[last].At < int64(r.window)/slots {
			w.Marks[last].Value += m.Value
		} else {
			w.Marks = append(w.Marks, m)
		}
	default:
		if n, first, _ := w.of(m); n >= min(int(r.Count), maxMarks) {
			w.Marks = slices.Delete(w.Marks, first, first+1)
		}
		w.Marks = append(w.Marks, m)
	}
}

// near tells whether two marks are so near in time that they count together.
func (r *Rule) near(a, b mark) bool {
	return a.At-b.At <= int64(r.window) && b.At-a.At <= int64(r.window)
}

// total is what the window holds around an event, all lanes together.
func (w *window) total(r *Rule, at mark) float64 {
	var texts map[string]bool
	if r.Distinct != "" {
		texts = make(map[string]bool, len(w.Marks))
	}
	n, sum := 0, 0.0
	for _, m := range w.Marks {
		if !r.near(m, at) {
			continue
		}
		n, sum = n+1, sum+m.Value
		if texts != nil {
			texts[m.Text] = true
		}
	}
	switch {
	case r.Sum != "":
		return sum
	case r.Distinct != "":
		return float64(len(texts))
	}
	return float64(n)
}

// renew remembers the latest event of a rule for first ones, and tells whether there
// was none before.
func (w *window) renew(r *Rule, m mark) (fresh bool) {
	fresh = !slices.ContainsFunc(w.Marks, func(have mark) bool { return r.near(have, m) })
	if n, first, _ := w.of(m); n > 0 {
		w.Marks = slices.Delete(w.Marks, first, first+1)
	}
	w.Marks = append(w.Marks, m)
	return fresh
}

// expire forgets what is out of the rule's window at an event: what its lane has noted,
// or all lanes.
func (w *window) expire(r *Rule, at mark, all bool) {
	before, behind := at.At-int64(r.window), at.At+int64(r.window+maxSkew)
	w.Marks = slices.DeleteFunc(w.Marks, func(m mark) bool { return (all || m.kin(at)) && (m.At < before || m.At > behind) })
	behind += int64(r.cooldown)
	w.Quiets = slices.DeleteFunc(w.Quiets, func(q mark) bool { return (all || q.kin(at)) && (q.At <= at.At || q.At > behind) })
}

// quiet tells whether an alert has made the key quiet at an event: one before it, one of
// another lane that is near, or one of its own lane, unless a clock was set back.
func (w *window) quiet(r *Rule, at mark) bool {
	return slices.ContainsFunc(w.Quiets, func(q mark) bool {
		return at.At < q.At && (q.kin(at) || at.At >= q.At-int64(r.cooldown+r.window))
	})
}

// counted tells whether an alert has counted an event, which other partitions know of.
func (w *window) counted(r *Rule, at mark) bool {
	return slices.ContainsFunc(w.Quiets, func(q mark) bool {
		raised := q.At - int64(r.cooldown)
		return at.At <= raised && at.At >= raised-int64(r.window)
	})
}

// raise makes the key quiet behind an event, with which what it counted is done.
func (w *window) raise(r *Rule, at mark) {
	w.Marks = slices.DeleteFunc(w.Marks, func(m mark) bool { return r.near(m, at) })
	w.Quiets = slices.DeleteFunc(w.Quiets, func(q mark) bool { return q.kin(at) })
	w.Quiets = append(w.Quiets, mark{At: at.At + int64(r.cooldown), Part: at.Part, Lane: at.Lane})
}

// windows are those of one rule, by the values of its `by` fields.
type windows struct {
	byKey    map[string]*window
	overflow uint64    // events of keys for which there was no room
	swept    time.Time // of the event at which keys were forgotten last
}

// get is the window of a key, or nil if there are too many.
func (ws *windows) get(r *Rule, key string, at time.Time) *window {
	if w := ws.byKey[key]; w != nil {
		return w
	}
	if len(ws.byKey) >= maxKeys && at.Sub(ws.swept).Abs() >= r.window/slots {
		ws.sweep(r, at)
	}
	if len(ws.byKey) >= maxKeys {
		ws.overflow++
		return nil
	}
	w := &window{}
	ws.byKey[strings.Clone(key)] = w
	return w
}

// sweep forgets keys that have been quiet for longer than the window, by the time of an
// event: there is no room any more to wait for lanes that are read behind. It looks at
// all, so it is not for every event.
func (ws *windows) sweep(r *Rule, at time.Time) {
	ws.swept = at
	for key, w := range ws.byKey {
		w.expire(r, mark{At: at.UnixNano()}, true)
		if len(w.Marks)+len(w.Quiets) == 0 {
			delete(ws.byKey, key)
		}
	}
}

// observe counts an event that the rule's expression is true of, and tells
// whether it raises an alert, with the number that did.
func (ws *windows) observe(r *Rule, e *Event) (n float64, raised bool) {
	w := ws.get(r, r.key(e), e.at)
	if w == nil {
		return 0, false
	}
	w.note(e.partition)
	m := mark{At: e.at.UnixNano(), Part: e.partition, Lane: max(e.Lane, 0) % maxLanes}
	w.expire(r, m, false)
	if r.First {
		return 1, w.renew(r, m)
	}
	if r.Sum != "" {
		if m.Value = r.number(e); math.IsNaN(m.Value) {
			return 0, false
		}
	}
	if r.Distinct != "" {
		if m.Text = r.text(e, r.Distinct); m.Text == unknown {
			return 0, false
		}
	}
	if e.learned && len(w.Parts) > 1 && w.counted(r, m) {
		return 0, false
	}
	w.add(r, m)
	if w.quiet(r, m) {
		return 0, false
	}
	if n = w.total(r, m); n < r.Count {
		return n, false
	}
	w.raise(r, m)
	return n, true
}
