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
	w.expire(now - int64(r.window))
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

func (w *window) expire(before int64) {
	n := 0
	for n < len(w.Marks) && w.Marks[n].At < before {
		n++
	}
	w.Marks = slices.Delete(w.Marks, 0, n)
}

// windows are those of one rule, by the values of its `by` fields.
type windows struct {
	byKey    map[string]*window
	overflow uint64 // events of keys for which there was no room
}

// get is the window of a key, or nil if there are too many.
func (ws *windows) get(r *Rule, key string, at time.Time) *window {
	if w := ws.byKey[key]; w != nil {
		return w
	}
	if len(ws.byKey) >= maxKeys {
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

// sweep forgets keys that have been quiet for longer than the window.
func (ws *windows) sweep(r *Rule, at time.Time) {
	now := at.UnixNano()
	for key, w := range ws.byKey {
		if w.expire(now - int64(r.window)); len(w.Marks) == 0 && w.Quiet < now {
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
