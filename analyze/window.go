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
	// event by more, and a window, was noted before a clock was set back.
	maxSkew = time.Hour
)

// A window is what a rule remembers of one key. The key's events may be in several
// partitions: what each has counted goes where it goes, see move.go.
type window struct {
	Marks []mark `json:"marks,omitempty"` // within the rule's window; those of a partition oldest first
	Quiet int64  `json:"quiet,omitempty"` // no alert before this time, nanoseconds
	Parts []int  `json:"partitions"`      // of the events that have counted
}

// A mark is one event that counts, or several of one slot of time.
type mark struct {
	At    int64   `json:"at"` // nanoseconds since the Unix epoch
	Value float64 `json:"n,omitempty"`
	Text  string  `json:"s,omitempty"` // of a rule that counts distinct values
	Part  int     `json:"p,omitempty"` // the event's partition
}

// UnmarshalJSON implements json.Unmarshaler. In an earlier form a window has one
// partition, that of its latest event.
func (w *window) UnmarshalJSON(text []byte) error {
	type plain window
	in := struct {
		*plain
		Partition *int `json:"partition"`
	}{plain: (*plain)(w)}
	if err := json.Unmarshal(text, &in); err != nil || in.Partition == nil {
		return err
	}
	w.Parts = []int{*in.Partition}
	for i := range w.Marks {
		w.Marks[i].Part = *in.Partition
	}
	return nil
}

// note remembers that an event of a partition counts.
func (w *window) note(partition int) {
	if !slices.Contains(w.Parts, partition) {
		w.Parts = append(w.Parts, partition)
	}
}

// of is how many marks a partition has, and the first and the last of them.
func (w *window) of(partition int) (n, first, last int) {
	if len(w.Parts) == 1 {
		return len(w.Marks), 0, len(w.Marks) - 1
	}
	for i, m := range w.Marks {
		if m.Part != partition {
			continue
		}
		if n == 0 {
			first = i
		}
		n, last = n+1, i
	}
	return n, first, last
}

// add counts an event. The bounds are for each partition: what one has counted must
// not depend on the others, which may move away.
func (w *window) add(r *Rule, m mark) {
	switch {
	case r.Distinct != "":
		same := func(have mark) bool { return have.Text == m.Text && have.Part == m.Part }
		if i := slices.IndexFunc(w.Marks, same); i >= 0 {
			w.Marks = slices.Delete(w.Marks, i, i+1)
		}
		if n, _, _ := w.of(m.Part); n < maxMarks {
			w.Marks = append(w.Marks, m)
		}
	case r.Sum != "":
		if n, _, last := w.of(m.Part); n > 0 && m.At-w.Marks[last].At < int64(r.window)/slots {
			w.Marks[last].Value += m.Value
		} else {
			w.Marks = append(w.Marks, m)
		}
	default:
		if n, first, _ := w.of(m.Part); n >= min(int(r.Count), maxMarks) {
			w.Marks = slices.Delete(w.Marks, first, first+1)
		}
		w.Marks = append(w.Marks, m)
	}
}

// total is what the window holds, all partitions together.
func (w *window) total(r *Rule) float64 {
	switch {
	case r.Sum != "":
		sum := 0.0
		for _, m := range w.Marks {
			sum += m.Value
		}
		return sum
	case r.Distinct != "" && len(w.Parts) > 1:
		texts := make(map[string]bool, len(w.Marks))
		for _, m := range w.Marks {
			texts[m.Text] = true
		}
		return float64(len(texts))
	}
	return float64(len(w.Marks))
}

// renew remembers the latest event of a rule for first ones, and tells whether there
// was none before.
func (w *window) renew(m mark) (fresh bool) {
	fresh = len(w.Marks) == 0
	if n, first, _ := w.of(m.Part); n > 0 {
		w.Marks = slices.Delete(w.Marks, first, first+1)
	}
	w.Marks = append(w.Marks, m)
	return fresh
}

// expire forgets what is out of the rule's window at the time of an event.
func (w *window) expire(r *Rule, at time.Time) {
	before, behind := at.Add(-r.window).UnixNano(), at.Add(r.window+maxSkew).UnixNano()
	w.Marks = slices.DeleteFunc(w.Marks, func(m mark) bool { return m.At < before || m.At > behind })
	if w.Quiet > at.Add(r.window+r.cooldown+maxSkew).UnixNano() {
		w.Quiet = 0
	}
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

// sweep forgets keys that have been quiet for longer than the window. It looks at
// all, so it is not for every event.
func (ws *windows) sweep(r *Rule, at time.Time) {
	ws.swept = at
	now := at.UnixNano()
	for key, w := range ws.byKey {
		if w.expire(r, at); len(w.Marks) == 0 && w.Quiet < now {
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
	w.expire(r, e.at)
	m := mark{At: e.at.UnixNano(), Part: e.partition}
	if r.First {
		return 1, w.renew(m)
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
	if e.learned && len(w.Parts) > 1 && m.At <= w.Quiet-int64(r.cooldown) {
		return 0, false // an alert has counted it, which other partitions know of
	}
	w.add(r, m)
	if m.At < w.Quiet {
		return 0, false
	}
	if n = w.total(r); n < r.Count {
		return n, false
	}
	w.Quiet = e.at.Add(r.cooldown).UnixNano()
	w.Marks = w.Marks[:0]
	return n, true
}
