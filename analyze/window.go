package analyze

import (
	"math"
	"slices"
	"strings"
	"time"
)

const (
	// maxKeys bounds the keys that a rule watches at a time.
	maxKeys = 100_000
	// maxMarks bounds what is remembered of one key.
	maxMarks = 4096
	// slots is into how many parts a window is divided where values are summed.
	slots = 60
	// maxSkew is by how much the clocks of agents may differ. What is later than an
	// event by more, and a window, was noted before a clock was set back.
	maxSkew = time.Hour
)

// A window is what a rule remembers of one key.
type window struct {
	Marks []mark `json:"marks,omitempty"` // within the rule's window, oldest first
	Quiet int64  `json:"quiet,omitempty"` // no alert before this time, nanoseconds
	Part  int    `json:"partition"`       // of the event that counted last
}

// A mark is one event that counts, or several of one slot of time.
type mark struct {
	At    int64   `json:"at"` // nanoseconds since the Unix epoch
	Value float64 `json:"n,omitempty"`
	Text  string  `json:"s,omitempty"` // of a rule that counts distinct values
}

// add counts an event and returns what the window now holds.
func (w *window) add(r *Rule, at time.Time, value float64, text string) float64 {
	now := at.UnixNano()
	switch {
	case r.Distinct != "":
		w.addDistinct(now, text)
		return float64(len(w.Marks))
	case r.Sum != "":
		if n := len(w.Marks); n > 0 && now-w.Marks[n-1].At < int64(r.window)/slots {
			w.Marks[n-1].Value += value
		} else {
			w.Marks = append(w.Marks, mark{At: now, Value: value})
		}
		sum := 0.0
		for _, m := range w.Marks {
			sum += m.Value
		}
		return sum
	}
	w.Marks = append(w.Marks, mark{At: now})
	if most := min(int(r.Count), maxMarks); len(w.Marks) > most {
		w.Marks = slices.Delete(w.Marks, 0, len(w.Marks)-most)
	}
	return float64(len(w.Marks))
}

func (w *window) addDistinct(now int64, text string) {
	i := slices.IndexFunc(w.Marks, func(m mark) bool { return m.Text == text })
	if i >= 0 {
		w.Marks = slices.Delete(w.Marks, i, i+1)
	}
	if len(w.Marks) < maxMarks {
		w.Marks = append(w.Marks, mark{At: now, Text: text})
	}
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
	w.Part = e.partition
	w.expire(r, e.at)
	if r.First {
		fresh := len(w.Marks) == 0
		w.Marks = append(w.Marks[:0], mark{At: e.at.UnixNano()})
		return 1, fresh
	}
	value := 0.0
	if r.Sum != "" {
		if value = r.number(e); math.IsNaN(value) {
			return 0, false
		}
	}
	text := ""
	if r.Distinct != "" {
		if text = r.text(e, r.Distinct); text == unknown {
			return 0, false
		}
	}
	n = w.add(r, e.at, value, text)
	if n < r.Count || e.at.UnixNano() < w.Quiet {
		return n, false
	}
	w.Quiet = e.at.Add(r.cooldown).UnixNano()
	w.Marks = w.Marks[:0]
	return n, true
}
