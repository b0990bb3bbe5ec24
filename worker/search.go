package worker

import "sqlwitness/stream"

// A search is what waits for a connection's user.
type search struct {
	pending []*stream.Clone   // events
	sinceNs int64             // when the first of them came; valid iff there is one
	partial bool              // the user is known, the schema or the texts of prepared statements are not
	byPort  bool              // its row in the last snapshot is its own by the port alone, and was not taken
	gaveUp  stream.EventFlags // why its events do not wait any more; 0 = they may

	entry         *entry // whose it is; nil: not in searches
	before, after *search
}

// searches are those whose events wait, in the order in which they began to.
type searches struct{ oldest, newest *search }

// add puts a search of e at the end. It is not in the list.
func (l *searches) add(f *search, e *entry) {
	f.entry, f.before = e, l.newest
	if l.newest != nil {
		l.newest.after = f
	} else {
		l.oldest = f
	}
	l.newest = f
}

// remove takes a search out, if it is in.
func (l *searches) remove(f *search) {
	if f.entry == nil {
		return
	}
	if f.before != nil {
		f.before.after = f.after
	} else {
		l.oldest = f.after
	}
	if f.after != nil {
		f.after.before = f.before
	} else {
		l.newest = f.before
	}
	f.entry, f.before, f.after = nil, nil, nil
}

// len counts them, for tests.
func (l *searches) len() (n int) {
	for f := l.oldest; f != nil; f = f.after {
		n++
	}
	return n
}
