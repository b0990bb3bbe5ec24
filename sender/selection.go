package sender

import (
	"sync/atomic"

	"sqlwitness/stream"
)

// A selection is the part of a Sender that knows which events are kept, and what
// their statements are.
type selection struct {
	rules  atomic.Pointer[Rules]
	labels map[string]string
	shapes *shapeCache
	worker *shapeWorker // nil with Config.Wait: the lanes study shapes themselves
}

// startSelection starts what decides which events are kept and what is known of
// their shapes.
func (s *Sender) startSelection() {
	s.labels = make(map[string]string)
	for _, l := range s.cfg.Labels {
		s.labels[l.Key] = l.Value
	}
	s.shapes = newShapeCache(shapeSets, shapeBytes)
	if !s.cfg.Wait {
		s.worker = newShapeWorker(s.shapes, workShare, workBurst)
	}
	s.SetRules(s.cfg.Rules)
}

// stopSelection ends the goroutine that startSelection has started.
func (s *Sender) stopSelection() {
	if s.worker != nil {
		s.worker.close()
	}
}

// SetRules replaces the rules; nil means that all events are kept. Each lane goes
// by the new ones from its next event on. It may be called by any goroutine.
func (s *Sender) SetRules(r *Rules) {
	if r == nil {
		r, _ = CompileRules(nil)
	}
	s.rules.Store(r)
}

// Rules are the rules in use.
func (s *Sender) Rules() *Rules { return s.rules.Load() }

// A ShapeStats counts what was done to find out about statements.
type ShapeStats struct {
	Misses    uint64 // statements of a shape that was not known
	Evicted   uint64 // shapes given up to keep the bounds
	Studied   uint64 // shapes that were parsed
	Postponed uint64 // times that a shape was to be parsed and too much waited
}

// ShapeStats may be called by any goroutine.
func (s *Sender) ShapeStats() ShapeStats {
	c := &s.shapes.stats
	return ShapeStats{Misses: c.misses.Load(), Evicted: c.evicted.Load(), Studied: c.studied.Load(), Postponed: c.postponed.Load()}
}

// findShape finds what is known of the shape of e's statement, which was read.
func (l *Lane) findShape(e *stream.Event, multi bool) {
	f, c := &l.facts, l.s.shapes
	f.form = appendForm(f.form[:0], e.SQL, l.masker.spans)
	f.shapeKey = shapeOf(c.seed, f.form, e.Lex.Collation, multi, l.masker.best.found)
	f.shape = c.find(f.shapeKey)
	if f.shape == nil {
		l.newShape(e)
	} else if !f.shape.parsed() && !f.shape.asked.Load() {
		l.offerShape(e)
	}
	if cap(f.form) > 4*chunkBytes {
		f.form = nil
	}
}

// newShape takes a first look at the shape at hand, or studies it at once with
// Config.Wait.
func (l *Lane) newShape(e *stream.Event) {
	f, c := &l.facts, l.s.shapes
	c.stats.misses.Add(1)
	if r := l.s.rules.Load(); r.classes&classFirstSeen != 0 && c.first(f.shapeKey) && r.firstSeen.admit(e.TimeNs) {
		f.firstSeen = classFirstSeen
	}
	form := l.utf8.UTF8(f.form, e.Lex.Collation)
	if l.s.worker == nil {
		f.shape = l.analyst.study(f.shapeKey, form, l.masker.best.found)
		c.stats.studied.Add(1)
		c.put(f.shape)
		return
	}
	f.shape = l.analyst.look(f.shapeKey, form, l.masker.best.found)
	c.put(f.shape)
	l.offerShape(e)
}

// offerShape asks the worker to study the shape at hand.
func (l *Lane) offerShape(e *stream.Event) {
	f := &l.facts
	if l.s.worker.offer(f.shapeKey, l.utf8.UTF8(f.form, e.Lex.Collation), l.masker.best.found) {
		f.shape.asked.Store(true)
	}
}
