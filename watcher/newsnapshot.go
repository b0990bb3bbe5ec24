package watcher

// NewSnapshot makes a snapshot of rows, which it takes over: for the tests of those
// who read snapshots. A row with a valid Client is found by it.
func NewSnapshot(serial uint64, beginNs, endNs int64, complete bool, rows []Session) *Snapshot {
	s := &Snapshot{BeginNs: beginNs, EndNs: endNs, Serial: serial, Complete: complete, rows: rows}
	for i := range s.rows {
		r := &s.rows[i]
		r.trusted = r.Client.IsValid()
		if r.trusted {
			r.Port = r.Client.Port()
		}
	}
	s.index()
	return s
}
